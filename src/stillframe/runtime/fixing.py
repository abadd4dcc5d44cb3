"""The vector of a session: one state of each source that its views read, fixed before anything is computed.

Three things can keep it from being the newest: a live protocol leads its sources on until it comes to rest, a
view that shows every transaction goes one step at a time, and a global transaction that is not whole is left
out with whatever builds on it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stillframe.change.propagation import Tree
from stillframe.engine import Engine, Room
from stillframe.errors import GAPS, RELOADS, CaptureGap, StillframeError
from stillframe.lake.frame import RECORDS, Frame, ViewState
from stillframe.lake.storage import Storage
from stillframe.runtime.ahead import Ahead
from stillframe.runtime.begun import Begun
from stillframe.runtime.conducting import PATIENCE_SECONDS, Conducting
from stillframe.runtime.config import SettleBound
from stillframe.runtime.definitions import Definitions, View, by_source
from stillframe.runtime.metrics import Metrics
from stillframe.runtime.outcome import Observer, Step, unobserved
from stillframe.runtime.statistics import Statistics
from stillframe.runtime.touched import touched_rows
from stillframe.runtime.whole import Interval, left_out, shown_in_part
from stillframe.sources.base import Position, Source

TOLD = 20  # names of waiting global transactions that a frame keeps
UNTRUSTED = ("none", "convergent")  # a content at such a level may be wrong for now


@dataclass
class Means:
    """All a session works with; `engine` starts an engine only when there is something to compute."""

    lake: Storage
    engine: Callable[[], Engine]
    sources: Mapping[str, Source]
    definitions: Definitions
    consumer: str
    metrics: Metrics = field(default_factory=Metrics)
    observe: Observer = unobserved
    patience: float = PATIENCE_SECONDS
    kind: str = "spark"  # of engine
    small_changes: str = "driver"  # who computes them
    room: Room = field(default_factory=Room)  # of the driver
    settle_rows: float = SettleBound.rows
    trees: dict[tuple[object, ...], Tree] = field(default_factory=dict)  # of joins, for sizes met before
    statistics: Statistics = field(default_factory=Statistics)  # what former sessions have learned
    ahead: Ahead | None = None
    root: Path = field(default_factory=Path)  # of the project


class Fixing:
    """`vector` is what the session's frame shows of each source, `broken` the sources that cannot be used.
    `reloads` and `gaps` say of views what their sources' logs lack; `cut` are sources whose newest state is
    not what the frame shows; `groups` and `waiting` go into the frame."""

    def __init__(
        self,
        means: Means,
        previous: Frame | None,
        views: Mapping[str, View],
        full: frozenset[str],
        fixed: Mapping[str, Position],
        staging: Path,
    ) -> None:
        self.means = means
        self.previous = previous
        self.views = views
        self.full = full
        self.fixed = fixed
        self.vector: dict[str, Position] = {}
        self.broken: dict[str, StillframeError] = {}
        self.reloads: dict[str, str] = {}
        self.gaps: dict[str, StillframeError] = {}
        self.cut = set(fixed)
        self.groups = previous.groups if previous else {}
        self.waiting: tuple[str, ...] = ()
        self.began: dict[str, tuple[Position, list[str]]] = {}
        self.conducting = Conducting(
            means.lake, means.engine, means.sources, means.consumer, staging, means.patience
        )
        self._fix()

    def _former(self, name: str) -> ViewState | None:
        return self.previous.views.get(name) if self.previous else None

    def _fix(self) -> None:
        """One state for each source that any of the views reads. Capture is installed where a view begins
        anew; a view that goes on must find it as it was."""
        beginning: dict[str, set[str]] = {}
        whole = self._whole_logs()
        for view in self.views.values():
            self._look_for_gaps(view, whole)
            if self.begins(view):
                for relation in view.relations:
                    source, table = relation.split(".", 1)
                    beginning.setdefault(source, set()).add(table)
        needed = sorted({source for view in self.views.values() for source in view.sources})
        for name in needed:
            try:
                if name in beginning:
                    began = self.means.sources[name].attach(self.means.consumer, sorted(beginning[name]))
                    began = Begun(self.means.lake.path).note(name, began)
                    self.began[name] = (began, sorted(beginning[name]))
                now = self.means.sources[name].position(self.means.consumer, ())
                self.vector[name] = self.fixed.get(name, now)
            except StillframeError as error:
                self.broken[name] = error
        self._conduct()
        self.means.observe(Step.FIXED, "")

    def _conduct(self) -> None:
        """Live protocols go as far as their sources lead them; all other views go there too."""
        going = {}
        for view in self.views.values():
            former = self._former(view.name)
            whole = self.broken.keys().isdisjoint(view.sources)
            if view.conducted and whole and not self.begins(view) and former is not None:
                going[view.name] = (view, former)
        stood = self._stood()
        if going:
            self.conducting.run(going, stood, self.groups)
            self.vector.update(self.conducting.reached)
        self._leave_out(stood)

    def _stood(self) -> dict[str, tuple[Position, list[str]]]:
        """For each source of the session, the oldest state of it that the last frame shows of any view, also
        of one that begins anew; else where capture began: all up to there is shown. And the tables read."""
        tables: dict[str, set[str]] = {}
        for view in self.views.values():
            for source, names in by_source(view.relations).items():
                if source not in self.broken:
                    tables.setdefault(source, set()).update(names)
        shown = [positions_of(state) for state in (self.previous.views.values() if self.previous else ())]
        found = {}
        for source, read in tables.items():
            known = [positions[source] for positions in shown if source in positions]
            if known:
                found[source] = (min(known, key=lambda position: position.sequence), sorted(read))
            elif source in self.began:
                found[source] = (self.began[source][0], sorted(read))
        return found

    def _leave_out(self, stood: Mapping[str, tuple[Position, list[str]]]) -> None:
        """Cut the vector so that it splits no global transaction, and remember those of which a part was
        shown before: by a frame of other sources, or by the state a view began with."""
        if len(self.means.sources) < 2:
            return
        intervals: dict[str, Interval] = {}
        for source, (since, tables) in stood.items():
            if source in self.broken:
                continue
            try:
                at = self.means.sources[source]
                committed = at.transactions(tables, since, self.vector[source])
                touched = partial(touched_rows, at, committed, since, self.vector[source])
                intervals[source] = Interval(committed, touched)
            except StillframeError as error:
                if error.code not in GAPS:  # a gap is said of the views concerned, when they are computed
                    self.broken[source] = error
        out = left_out(intervals, self.groups)
        for source, numbers in out.items():
            if numbers:
                since = stood[source][0]
                try:
                    cut = self.means.sources[source].without(since, self.vector[source], numbers)
                    self.vector[source] = cut
                    self.cut.add(source)
                except StillframeError as error:
                    self.broken[source] = error
        self.groups = shown_in_part(intervals, out, self.groups)
        lacking = {
            one.group
            for source, interval in intervals.items()
            for one in interval.committed
            if one.group and one.number in out[source]
        }
        self.waiting = tuple(sorted(lacking)[:TOLD])

    def _whole_logs(self) -> set[tuple[str, Position]]:
        """The states of sources since which all that views standing there read is captured. They are checked
        together, because a check may read a log through."""
        read: dict[tuple[str, Position], set[str]] = {}
        for view in self.views.values():
            former = self._former(view.name)
            if former is not None and not begins(view, former):
                after = positions_of(former)
                for source, tables in by_source(view.relations).items():
                    read.setdefault((source, after[source]), set()).update(tables)
        found = set()
        for (source, at), names in read.items():
            with suppress(StillframeError):  # said of the views concerned
                self.means.sources[source].check(at, sorted(names))
                found.add((source, at))
        return found

    def _look_for_gaps(self, view: View, whole: Collection[tuple[str, Position]]) -> None:
        """A table that was emptied behind its triggers' back, or has other columns, is read again."""
        former = self._former(view.name)
        if former is None or begins(view, former):
            return
        after = positions_of(former)
        for source, tables in by_source(view.relations).items():
            if (source, after[source]) in whole:
                continue
            try:
                self.means.sources[source].check(after[source], tables)
            except StillframeError as error:
                if error.code in RELOADS:
                    self.reloads[view.name] = error.code
                else:
                    self.gaps[view.name] = error

    def begins(self, view: View) -> bool:
        """Whether a view is computed anew in this session."""
        asked = view.name in self.full or view.name in self.reloads
        return asked or begins(view, self._former(view.name))

    def is_past(self, view: View, shown: Mapping[str, Position]) -> bool:
        """Whether something is shown that the vector does not have."""
        for source, tables in by_source(self._base_relations(view)).items():
            at, vector = shown.get(source), self.vector.get(source)
            if source in self.cut and at is not None and vector is not None and at != vector:
                with suppress(CaptureGap):  # said when the view is computed
                    if self.means.sources[source].transactions(tables, vector, at):
                        return True
        return False

    def _base_relations(self, view: View) -> tuple[str, ...]:
        return self.means.definitions.base_relations(view.name)


def begins(view: View, former: ViewState | None) -> bool:
    """Whether a view is computed anew, whatever it was."""
    return (
        former is None
        or former.vector is None
        or former.definition != view.text.select
        or former.schema != view.schema
        or view.policy == "full"
        or (former.algorithm == RECORDS) != (view.served is not None)
        or (former.level in UNTRUSTED and view.level not in UNTRUSTED)
    )


def positions_of(state: ViewState) -> dict[str, Position]:
    """What a view shows of each source."""
    return {name: Position.from_json(p) for name, p in (state.vector or {}).items()}
