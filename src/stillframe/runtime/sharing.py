"""The change of a join, or of a part of one, that several views of a session have in common, computed once
and read by all of them.

A core has no rows of its own in the lake: its change is staged, like that of a relation, and gone with the
session. Views that stand at different states have different changes of one core; each of these is computed
once. To read a part of a join from a core fixes the tree above it, so it is done where it pays:

    what its views save by it  >  what the core costs, written and read once
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache

from stillframe.algebra import Moment, Plan, relations
from stillframe.change import Chosen, Core, Cores, Use, at
from stillframe.engine import EngineError, Staged
from stillframe.errors import StillframeError
from stillframe.lake.frame import ViewState
from stillframe.runtime.binding import Binder
from stillframe.runtime.definitions import View
from stillframe.runtime.estimating import Estimator, Sized, Sizes, as_read, joined_size
from stillframe.runtime.reads import Reads

Bring = Callable[[Core, Binder, frozenset[str], ViewState], Staged]
CORE = "#core"


@lru_cache(maxsize=16)
def _cores(plans: tuple[tuple[str, Plan], ...]) -> Cores:
    return Cores(dict(plans))


@dataclass(frozen=True)
class Going:
    """Plans of views that go forward from one frame, and the sizes of what each of them reads."""

    plans: Mapping[str, Plan]
    sizes: Callable[[str], Sizes]
    estimator: Estimator

    def worth(self, core: Core, uses: Sequence[Use], anyway: bool) -> Sequence[Use]:
        """Every use is judged by itself; where the join costs more over the core, that is not read."""
        saved = dict[int, float]()
        for i, use in enumerate(uses):
            with suppress(StillframeError):  # of what cannot be read: told when it is needed
                saved[i] = self._saved(core, use)
        gaining = {i: seconds for i, seconds in saved.items() if seconds > 0}
        own = 0.0 if anyway or not gaining else self._own(core, uses[min(gaining)])
        return [uses[i] for i in gaining] if sum(gaining.values()) > own else ()

    def _own(self, core: Core, use: Use) -> float:
        sizes = as_read(core.plan, self.sizes(use.plan))
        return self.estimator.by_change(core.plan, sizes, kept=True)

    def _saved(self, core: Core, use: Use) -> float:
        sizes, join = as_read(self.plans[use.plan], self.sizes(use.plan)), use.block.join
        if not any(sizes(name).change for name in relations(core.join)):
            return 0.0
        staged = joined_size(core.plan, sizes, self.estimator.changed_rows(core.join, sizes))

        def with_core(name: str) -> Sized:
            return staged if name == CORE else sizes(name)

        over = use.over(core, CORE)
        return self.estimator.by_change(join, sizes) - self.estimator.by_change(over, with_core)


class Sharing:
    """The cores of one session's views. `reads` are those that all its views share. `going` tells of a frame
    which views go forward from it."""

    def __init__(
        self, views: Iterable[View], reads: Reads, bring: Bring, going: Callable[[object], Going]
    ) -> None:
        self.reads = reads
        self._bring, self._going = bring, going
        able = [v for v in views if not v.conducted and v.policy != "full" and v.served is None]
        self._cores = _cores(tuple((view.name, view.plan) for view in able))
        self._chosen: dict[object, Chosen] = {}
        self._changes: dict[tuple[object, ...], Staged | None] = {}

    def over(
        self, plan: Plan, binder: Binder, changed: frozenset[str], former: ViewState
    ) -> tuple[Plan, frozenset[str]]:
        """A plan with the same change, and what of all it reads has changed."""
        names, more = dict[Core, str](), set[str]()
        chosen = self._from(former.session.get("frame"))
        for number, core in enumerate(chosen.of(plan)):
            if changed.isdisjoint(relations(core.join)):
                continue
            found = self._change(core, binder, changed, former)
            if found is not None:
                name = names[core] = f"{CORE}{number}"
                binder.staged[name] = found
                binder.blocks[name] = {
                    moment: at(core.plan, moment, changed) for moment in (Moment.BEFORE, Moment.AFTER)
                }
                more |= {name} if found.rows else set()
        return (chosen.over(plan, names), changed | more) if names else (plan, changed)

    def forget(self) -> None:
        self._changes.clear()

    def _from(self, frame: object) -> Chosen:
        if not self._cores:
            return Chosen({})
        if frame not in self._chosen:
            going = self._going(frame)
            self._chosen[frame] = self._cores.chosen(frozenset(going.plans), going.worth)
        return self._chosen[frame]

    def _change(
        self, core: Core, binder: Binder, changed: frozenset[str], former: ViewState
    ) -> Staged | None:
        """None where the engine fails on it: it may do so on rows that only other views want."""
        read = relations(core.join)
        key = (core, former.session.get("frame"), *(_stood(name, binder) for name in read))
        if key not in self._changes:
            own = Binder(binder.reads, binder.tables, binder.root, binder.after, binder.upstream)
            try:
                self._changes[key] = self._bring(core, own, changed.intersection(read), former)
            except StillframeError as error:
                if error.code != EngineError.code:
                    raise
                self._changes[key] = None
        return self._changes[key]


def _stood(name: str, binder: Binder) -> object:
    """The state of a relation or view that a change begins with."""
    if name in binder.upstream:
        before = binder.upstream[name].before
        return (name, before.base, before.changes)
    return (name, binder.after[name.split(".", 1)[0]])
