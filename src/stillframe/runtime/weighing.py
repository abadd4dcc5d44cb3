"""A session's views weighed: what either way of maintaining them would cost, what it did cost, and what is
learned of that for the sessions after it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING

from stillframe.errors import StillframeError
from stillframe.lake.frame import ViewState
from stillframe.runtime.config import DRIVER
from stillframe.runtime.deciding import FULL, INCREMENTAL, Deciding
from stillframe.runtime.definitions import COPIES, View
from stillframe.runtime.estimating import Estimator, Sized, Sizes, relation_size, view_size
from stillframe.runtime.evaluating import MOST_ROWS
from stillframe.runtime.fixing import positions_of
from stillframe.runtime.learning import Learning
from stillframe.runtime.outcome import Outcome
from stillframe.runtime.prices import prices
from stillframe.runtime.sharing import Going
from stillframe.runtime.statistics import Statistics, write_statistics

if TYPE_CHECKING:
    from stillframe.runtime.work import Work


# Which way an outcome's mode shows to have been taken: changes of which nothing comes were gone through, too.
_TAKEN = {FULL: FULL, INCREMENTAL: INCREMENTAL, "unchanged": INCREMENTAL}


class Weighing:
    """All views are weighed when the first that is no copy of a relation is asked about: what changed is
    known then, and nothing of it computed yet."""

    def __init__(self, work: Work) -> None:
        means = work.means
        self._work = work
        self.learning = Learning(means.statistics)
        here = MOST_ROWS if means.small_changes == DRIVER else 0
        self.estimator = Estimator(
            prices(means.kind, means.lake.path), means.settle_rows, here, means.trees, means.room
        )
        self._deciding = Deciding(work.views, self._sizes, self._rows, self.estimator, means.statistics)
        self._is_done = False

    def is_cheaper_anew(self, view: View) -> bool:
        if not self._is_done and view.owner != COPIES:
            self._is_done = True
            self._deciding.decide(self._able())
            self._spend()
        decision = self._deciding.decisions.get(view.name)
        return decision is not None and decision.mode == FULL

    def _spend(self) -> None:
        """Law: what a trial costs is spent before it begins. One that takes the engine or the process with
        it would come again in every session."""
        means, decided = self._work.means, self._deciding
        if any(each.trial for each in decided.decisions.values()):
            means.statistics = means.statistics.with_set_aside(decided.set_aside)
            with suppress(OSError):
                write_statistics(means.lake.path, means.kind, means.statistics)

    def why(self, view: View) -> str:
        return self._deciding.decisions[view.name].why

    def measured(self, view: View, outcome: Outcome, took: float) -> Outcome:
        """The outcome with what it was estimated to take, and took; which is learned."""
        decision = self._deciding.decisions.get(view.name)
        model = None if decision is None else decision.model
        if model is None and outcome.mode == FULL:
            with suppress(StillframeError):
                model = self._deciding.model(view, {})
        tried = None if decision is None else decision.trial
        trial = tried is not None and tried == _TAKEN.get(outcome.mode)
        self.learning.maintained(view, model, outcome, took, trial=trial)
        if decision is not None and trial:
            outcome = replace(outcome, detail=f"{decision.why}; tried, to see if it is so")
        if decision is None or outcome.mode not in (FULL, INCREMENTAL):
            return outcome
        cost = {**decision.to_json(), "measured": round(took, 4)}
        state = self._work.standing.states[view.name]
        self._work.standing.states[view.name] = replace(state, session={**state.session, "cost": cost})
        return replace(outcome, cost=cost)

    def going(self, frame: object) -> Going:
        """The views that are yet to be brought forward from a frame."""
        decided, former = self._deciding.decisions, self._work.standing.former
        names = [name for name in self._able() if name not in decided or decided[name].mode != FULL]
        from_there = {
            name: self._work.views[name].plan
            for name in names
            if (at := former(name)) and at.session.get("frame") == frame
        }
        return Going(from_there, self._sizes_to_come, self.estimator)

    def learned(self, states: dict[str, ViewState]) -> Statistics:
        """The session has published these states."""
        changes = self._work.standing.changes
        self.learning.statistics = self.learning.statistics.with_set_aside(self._deciding.set_aside)
        found = self.learning.done(
            tuple(self._work.views.values()),
            states.get,
            lambda name: changes[name].rows if name in changes else 0,
            self._work.reads.known,
            self._work.means.lake.path,
        )
        known = self._work.means.definitions.views
        return found.only({*known, *(name for view in known.values() for name in view.relations)})

    def _able(self) -> list[str]:
        """The views that can go forward, as can all they read."""
        work, able = self._work, dict[str, View]()
        for view in work.views.values():
            former = work.standing.former(view.name)
            if view.name in work.standing.outcomes or former is None or view.conducted or view.served:
                continue
            ahead = [name for name in view.upstream if name not in work.standing.outcomes]
            if work.must_be_full(view, former) is None and all(name in able for name in ahead):
                able[view.name] = view
        return list(able)

    def _rows(self, name: str) -> float | None:
        state = self._work.standing.states.get(name) or self._work.standing.former(name)
        return None if state is None else float(max(0, state.rows))

    def _sizes_to_come(self, name: str) -> Sizes:
        """Of what a view reads, with the views that are yet to be maintained as they were estimated."""
        known, to_come = cache(self._sizes(self._work.views[name])), self._deciding.decisions

        def size(read: str) -> Sized:
            if read in to_come and read not in self._work.standing.outcomes:
                rows, changed = self._rows(read) or 0.0, to_come[read].estimate.rows_out
                return view_size(self.learning.statistics.of(read), rows, changed)
            return known(read)

        return size

    def _sizes(self, view: View) -> Sizes:
        """Of what a view reads: relations, and views that are done. No log is read for a view that has to be
        computed anew."""
        work = self._work
        former = work.standing.former(view.name)
        goes_on = former is not None and work.must_be_full(view, former) is None
        after = positions_of(former) if former is not None and goes_on else {}
        known = self.learning.statistics

        def size(name: str) -> Sized:
            if name in view.relations:
                source = name.split(".", 1)[0]
                reached = source in after and source in work.vector  # one that is away is told of elsewhere
                change = work.reads.change(name, after[source]).rows if reached else 0
                return relation_size(known.of(name), change)
            rows = self._rows(name) or 0.0
            changed = float(work.standing.changes[name].rows) if name in work.standing.changes else 0.0
            if work.standing.former(name) is None or (
                name in work.standing.outcomes and work.standing.outcomes[name].mode == FULL
            ):
                changed = rows
            return view_size(known.of(name), rows, changed)

        return size
