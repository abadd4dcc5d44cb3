"""One maintenance session: the sources' states are fixed first, then everything is computed for exactly
these states although the sources go on, and published as one frame.

    fix a vector → read changes → compute every view's change → write files → publish one commit
    → acknowledge (the sources may trim) → settle

From the vector on, what the sources log may be read for the next session meanwhile (`ahead.py`).

A crash before the commit leaves nothing but files no frame names; a crash after it leaves a published
frame whose acknowledgement and settling the next session repeats. So each change is applied once.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

from stillframe.errors import GAPS, SourceError, StillframeError
from stillframe.lake.frame import STOPPED, Frame
from stillframe.lake.warm import WARM
from stillframe.runtime.ahead import taking
from stillframe.runtime.choosing import TOP
from stillframe.runtime.definitions import by_source
from stillframe.runtime.fixing import Means, begins
from stillframe.runtime.loading import Loaded
from stillframe.runtime.outcome import Result, Step
from stillframe.runtime.statistics import write_statistics
from stillframe.runtime.whole import steps
from stillframe.runtime.work import Work
from stillframe.sources.base import Committed, Position


class Session(Means):
    """Run under the lake's exclusive lock, after `recover`."""

    def run(
        self,
        names: Iterable[str] | None = None,
        *,
        full: bool = False,
        loaded: Mapping[str, Loaded] | None = None,
        kept: Iterable[tuple[str, Position]] = (),
        failed: Mapping[str, StillframeError] | None = None,
        if_new: bool = False,
    ) -> Result:
        """Maintain the named views (all by default) and what they read, as one frame. `loaded` are relations
        of new views that were read already, `failed` those that could not be; the logs are `kept` for loads
        that still run."""
        started = time.perf_counter()
        self.observe(Step.STARTED, "")
        previous = self.lake.newest()
        self._keep_warm(previous)
        asked = tuple(self.definitions.views) if names is None else tuple(names)
        targets = self.definitions.closure(asked)
        reached: dict[str, Position] = {}
        if not full:
            previous, reached = self._show_each_transaction(previous, targets)
        anew = self.definitions.with_parts(asked) if full else frozenset[str]()
        with taking(self.ahead) as taken:
            work = Work(self, previous, targets, anew, reached, loaded, failed, taken)
            if self.ahead is not None:
                self.ahead.follow(work.next_reads())
            frame = work.publish(if_new=if_new)
        if self.ahead is not None:
            self.ahead.saw(work.rows_changed)
        self.acknowledge(frame, work.vector, kept)
        for view in frame.views.values():
            if view.settled == frame.number and view.vector is not None:
                self.lake.settle(view)
                self.observe(Step.SETTLED, view.table)
        with suppress(OSError):
            write_statistics(self.lake.path, self.kind, self.statistics)
        self._keep_warm(frame)
        WARM.lasting = True  # a process that comes to a second session is likely to come to a third
        self.metrics.observe("stillframe_refresh_seconds", time.perf_counter() - started)
        outcomes = work.standing.shown_outcomes()
        for name, outcome in outcomes.items():
            self.metrics.count("stillframe_compensations_total", outcome.compensated, view=name)
            self.metrics.count(
                "stillframe_refresh_total", 1, view=name, mode=outcome.mode, reason=outcome.reason
            )
        parts = {name: outcome for name, outcome in work.standing.outcomes.items() if name not in outcomes}
        return Result(frame, work.vector, outcomes, work.conducting.history, parts)

    def _keep_warm(self, frame: Frame | None) -> None:
        """Only of the frame's files columns stay in memory: what was settled since the last session gives way
        before other files are read in its place."""
        views = frame.views.values() if frame else ()
        files = (each for view in views for each in (view.base, view.changes))
        WARM.keep(self.lake.path, {self.lake.path / file.path for some in files for file in some})

    def _show_each_transaction(
        self, previous: Frame | None, targets: tuple[str, ...]
    ) -> tuple[Frame | None, dict[str, Position]]:
        """Frames in which the views that show every transaction go forward by one; the others are held
        until the session's last frame."""
        every = [self.definitions.views[name] for name in targets]
        top = [view for view in every if view.level == TOP and not view.conducted]
        going = [view for view in top if previous and not begins(view, previous.views.get(view.name))]
        if previous is None or not going:
            return previous, {}
        since: dict[str, Position] = {}
        for view in going:
            for source, document in (previous.views[view.name].vector or {}).items():
                position = Position.from_json(document)
                since[source] = min(since.get(source, position), position, key=lambda p: p.sequence)
        upto, broken = self._positions(since)
        going = [view for view in going if broken.isdisjoint(view.sources)]
        since = {source: at for source, at in since.items() if any(source in v.sources for v in going)}
        names = self.definitions.closure([view.name for view in going])
        tables: dict[str, set[str]] = {source: set() for source in since}
        for name in names:
            for source, read in by_source(self.definitions.views[name].relations).items():
                tables.setdefault(source, set()).update(read)
        committed = {}
        for source, after in since.items():
            try:
                done = self.sources[source].transactions(sorted(tables[source]), after, upto[source])
            except StillframeError:  # told of the views concerned, when they are computed
                return previous, {}
            committed[source] = done
        counts = [dict.fromkeys(committed, 0), *steps(committed)]
        for shown in counts[1:-1]:
            vector = {
                source: self._after(source, since[source], upto[source], done[: shown[source]], done)
                for source, done in committed.items()
            }
            previous = Work(self, previous, names, frozenset(), vector).publish()
        return previous, {
            source: self._after(source, since[source], upto[source], done[: counts[-1][source]], done)
            for source, done in committed.items()
        }

    def _positions(self, sources: Iterable[str]) -> tuple[dict[str, Position], frozenset[str]]:
        """Where sources stand, and those that do not say."""
        found: dict[str, Position] = {}
        for source in sources:
            with suppress(StillframeError):
                found[source] = self.sources[source].position(self.consumer, ())
        return found, frozenset(sources) - found.keys()

    def _after(
        self,
        source: str,
        since: Position,
        upto: Position,
        shown: tuple[Committed, ...],
        every: tuple[Committed, ...],
    ) -> Position:
        """The state after some transactions, the first of an interval."""
        if not shown and every:
            return since
        later = [one.number for one in every[len(shown) :]]
        return self.sources[source].without(since, upto, later) if later else upto

    def recover(self) -> None:
        """Finish what a killed session left."""
        self.lake.repair()

    def acknowledge(
        self, frame: Frame, fixed: Mapping[str, Position], kept: Iterable[tuple[str, Position]] = ()
    ) -> None:
        """Each source may trim what every view of a durable frame has passed. A view that lost its place
        for good (CAPTURE_GAP) holds nothing back, nor does one that reads it. The frame stands whether or
        not a source hears of it: the next session says it again."""
        lost, kept = self._lost(frame), tuple(kept)

        def tell(name: str) -> None:
            positions = [
                Position.from_json(view.vector[name])
                for view_name, view in frame.views.items()
                if view.vector and name in view.vector and view_name not in lost
            ]
            positions += [position for source, position in kept if source == name]
            same = {position for position in positions if position.source == fixed[name].source}
            if same:
                with suppress(SourceError):
                    oldest = min(same, key=lambda p: p.sequence)
                    if self._in_all(name, oldest, same):
                        self.sources[name].acknowledge(self.consumer, oldest)

        with ThreadPoolExecutor(max(len(fixed), 1)) as together:  # they mostly wait
            list(together.map(tell, fixed))
        self.observe(Step.ACKNOWLEDGED, "")

    def _in_all(self, source: str, one: Position, others: set[Position]) -> bool:
        """Whether all that a state has is in the others, too. Two states may each have what the other lacks:
        then nothing is forgotten for now."""
        tables = sorted(
            {
                table
                for view in self.definitions.views.values()
                for table in by_source(view.relations).get(source, ())
            }
        )
        return all(not self.sources[source].transactions(tables, other, one) for other in others - {one})

    def _lost(self, frame: Frame) -> set[str]:
        stopped = {name: view.reason or {} for name, view in frame.views.items() if view.state == STOPPED}
        lost = {name for name, reason in stopped.items() if reason.get("code") in GAPS}
        for view in self.definitions.views.values():  # upstream first
            if view.name in stopped and not lost.isdisjoint(view.upstream):
                lost.add(view.name)
        return lost
