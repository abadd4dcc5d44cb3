"""Whether a view goes forward by its changes or is computed anew, by what either would cost.

A view and the parts it was split into are decided on together: one part computed anew takes all that read it
with it. So do the views above: what they would cost then belongs to the choice.

In doubt a view goes forward. Over few rows either way is one job, and the change is of use to whoever reads
the view; and an estimate may be off by more than the two differ.

A way that is thought dear is not taken, so nothing would ever show that it is not. Where only what was
learned speaks against it, it is tried when enough was set aside for that (the law of doubt of
`statistics.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from stillframe.errors import StillframeError
from stillframe.runtime.definitions import COPIES, View
from stillframe.runtime.estimating import JOBS, Estimate, Estimator, Sized, Sizes, view_size
from stillframe.runtime.statistics import GROWTH, Statistics

FEW_ROWS = 100_000  # over so few rows nothing is gained by computing anew
CLEARLY = 1.15  # by what computing anew has to be cheaper
FOR_TRIALS = 0.1  # of what is spent
AUTO = "auto"
INCREMENTAL, FULL = "incremental", "full"


@dataclass(frozen=True)
class Decision:
    """Of one unit of maintenance: the seconds either way would take, and which is taken. `model` is the
    estimate before it is corrected by what was measured. `trial` is the mode that is tried, if one is."""

    estimate: Estimate
    model: Estimate
    mode: str
    why: str
    trial: str | None = None

    def to_json(self) -> dict[str, Any]:
        each = self.estimate
        return {
            "estimated": round(each.full if self.mode == FULL else each.incremental, 4),
            "incremental": round(each.incremental, 4),
            "full": round(each.full, 4),
            "settling": round(each.settling, 4),
            "way": f"by {JOBS}" if self.mode == FULL else each.way,
            "why": self.why,
        }


@dataclass
class Deciding:
    """`sizes` knows the relations, and the views that are done; of views that are yet to be maintained,
    `rows` those they have. The views come upstream first. `set_aside` are seconds for trials, of those views
    that are in doubt."""

    views: Mapping[str, View]
    sizes: Callable[[View], Sizes]
    rows: Callable[[str], float | None]
    estimator: Estimator
    statistics: Statistics
    decisions: dict[str, Decision] = field(default_factory=dict)
    set_aside: dict[str, float] = field(default_factory=dict)

    def decide(self, names: Iterable[str]) -> None:
        """These views, each of which could go forward as well as be computed anew."""
        found: dict[str, Estimate] = {}
        models: dict[str, Estimate] = {}
        unlearned: dict[str, Estimate] = {}
        for name in names:
            with suppress(StillframeError):  # of what cannot be read: told when it is needed
                view = self.views[name]
                model = self.model(view, found)
                plain = self.model(view, unlearned, learned=False)
                if model is not None and plain is not None:
                    models[name], unlearned[name] = model, plain
                    found[name] = corrected(model, name, self.statistics)
        groups: dict[str, list[str]] = {}
        for name in found:
            groups.setdefault(self.views[name].owner or name, []).append(name)
        anew, tried = set[str](), dict[str, str]()
        for owner, members in groups.items():
            above = self._above(members, found)
            if not anew.isdisjoint(u for name in members for u in self.views[name].upstream):
                continue  # taken along: told as such
            if not tried.keys().isdisjoint(members):
                continue  # one trial for all that were weighed together
            is_anew = self._is_cheaper_anew(members, above, found)
            is_doubtful = is_anew != self._is_cheaper_anew(members, above, unlearned)
            own, others = ([found[name] for name in names] for names in (members, above))
            if is_doubtful and self._is_to_be_tried(owner, own, others, is_anew):
                is_anew = not is_anew
                tried |= dict.fromkeys((*members, *above), FULL if is_anew else INCREMENTAL)
            if is_anew:
                anew.update(members)
        for name, estimate in found.items():
            mode, why = told(name in anew, estimate)
            self.decisions[name] = Decision(estimate, models[name], mode, why, tried.get(name))

    def model(self, view: View, found: Mapping[str, Estimate], *, learned: bool = True) -> Estimate | None:
        """What prices and sizes say of a view, given the estimates of those it reads that are yet to come;
        and, if that was `learned`, how many rows its changes make."""
        rows = self.rows(view.name)
        if rows is None:
            return None
        sizes = self.sizes(view)

        def size(name: str) -> Sized:
            if name in found:
                return view_size(self.statistics.of(name), self.rows(name) or 0.0, found[name].rows_out)
            return sizes(name)

        more = growth(view.name, self.statistics) if learned else None
        return self.estimator.estimate(view.plan, size, rows, more)

    def _above(self, members: Iterable[str], found: Mapping[str, Estimate]) -> list[str]:
        """Units of other views that read these, directly or not."""
        reached = set(members)
        above = []
        for name in found:
            if name not in reached and not reached.isdisjoint(self.views[name].upstream):
                reached.add(name)
                above.append(name)
        return above

    def _is_cheaper_anew(self, members: list[str], above: list[str], found: Mapping[str, Estimate]) -> bool:
        if any(self.views[name].policy != AUTO for name in (*members, *above)):
            return False
        if any(self.views[name].owner == COPIES for name in members):
            return False  # a relation is not asked for again because much of it changed
        if not any(found[name].rows_in for name in members):
            return False
        inside = set(members)
        read = sum(found[name].rows_read for name in members if inside.isdisjoint(self.views[name].upstream))
        return is_clearly_cheaper_anew(read, [found[name] for name in (*members, *above)])

    def _is_to_be_tried(self, owner: str, own: list[Estimate], above: list[Estimate], anew: bool) -> bool:
        """Whether what was set aside pays for the way not taken; else more is set aside. Views above set
        aside for themselves, if they do not have to be computed anew with these. What seems to cost nothing
        is not tried in every session either."""
        by_change, full = totals([*own, *above])
        taken, other = (full, by_change) if anew else (by_change, full)
        saved = self.statistics.set_aside.get(owner, 0.0)
        saved += FOR_TRIALS * (taken if anew else totals(own)[0])
        is_enough = saved >= max(other - taken, taken)
        self.set_aside[owner] = 0.0 if is_enough else saved
        return is_enough


def growth(view: str, known: Statistics) -> Callable[[float], float]:
    """Of so many changed rows: how many more come out than the model says."""
    return lambda rows: known.factor(view, GROWTH, rows)


def corrected(model: Estimate, view: str, known: Statistics) -> Estimate:
    """By how far such estimates were off for the view."""
    return model.corrected(
        known.factor(view, model.way, model.rows_in), known.factor(view, FULL, model.rows_read)
    )


def is_clearly_cheaper_anew(read: float, every: Sequence[Estimate]) -> bool:
    """Of units that are computed anew together, which read so many rows."""
    by_change, full = totals(every)
    return read >= FEW_ROWS and CLEARLY * full < by_change


def totals(every: Iterable[Estimate]) -> tuple[float, float]:
    """What units cost together by their changes, and anew."""
    by_change = full = 0.0
    for each in every:
        by_change += each.incremental + each.settling
        full += each.full
    return by_change, full


def told(anew: bool, estimate: Estimate) -> tuple[str, str]:
    by_change = f"by its changes about {seconds(estimate.incremental)}"
    if estimate.settling >= 0.05:
        by_change += f" and {seconds(estimate.settling)} to fold them in"
    computing = f"anew about {seconds(estimate.full)}"
    return (FULL, f"{computing}; {by_change}") if anew else (INCREMENTAL, f"{by_change}; {computing}")


def seconds(value: float) -> str:
    return f"{value:.2g} s" if value < 10 else f"{value:.0f} s"
