"""Live protocols: one loop turns what sources report and answer into events, and does what protocols ask.

Law: a protocol hears each source's transactions and answers in the order they happened at that source, each
exactly once. Sources are read through their logs, so nothing depends on notifications that may be lost,
late or repeated; a session that is given up leaves nothing behind, and the next one reports everything
that the last frame does not show again.

Sources that never keep still would keep most protocols from ever installing. So after a while nothing new is
taken in: what is still asked is answered on the states that were reported last, which the logs give back, and
the session comes to rest.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import Any

from stillframe.algebra import Bag, Plan, Scan
from stillframe.algebra.plan import map_scans
from stillframe.errors import StillframeError
from stillframe.protocol import Protocol, Setting
from stillframe.protocol.events import (
    Action,
    Answered,
    Ask,
    Event,
    Install,
    Notified,
    Place,
    Tick,
    Transaction,
    Update,
)
from stillframe.protocol.terms import question_plan
from stillframe.runtime.channel import Channel, Report
from stillframe.runtime.holding import Holding
from stillframe.runtime.recorder import Asked, Entry, Installed, Reported, Told
from stillframe.sources.base import Position

POLL_SECONDS = 0.05
MOVING_SECONDS = 2.0


class NotQuiet(StillframeError):
    """A protocol did not come to rest in the time it had."""

    code = "NOT_QUIET"


@dataclass(frozen=True)
class Shown:
    """A state of a view, and for each source the last report that it reflects; none where it reflects nothing
    newer than the last frame."""

    content: Plan
    reflects: Mapping[str, Report]
    whole: bool = True  # it reflects no global transaction in part


@dataclass
class Conducted:
    """One view under a protocol. `before` is its content in the last frame, `heard` what it was told of each
    source; at first, what that frame shows."""

    name: str
    protocol: Protocol[Any]
    before: Scan
    heard: dict[str, Position]
    state: Any = None
    numbers: dict[str, int] = field(default_factory=dict)
    owed: set[str] = field(default_factory=set)  # updates reported that no installed state reflects
    told: dict[str, tuple[int, str, Report]] = field(default_factory=dict)  # the report each update is of
    reflects: dict[str, Report] = field(default_factory=dict)
    parts_heard: set[tuple[str, str]] = field(default_factory=set)
    parts: dict[str, int] = field(default_factory=dict)  # of global transactions, those not reflected yet
    shown: list[Shown] = field(default_factory=list)
    rows: int = 0
    compensated: int = 0
    asked: int = 0
    error: StillframeError | None = None

    @property
    def relations(self) -> frozenset[str]:
        return frozenset(slot.relation for slot in self.protocol.view.slots)

    @property
    def content(self) -> Plan:
        return self.shown[-1].content if self.shown else self.before

    def transaction(self, source: str, report: Report) -> Transaction:
        """A report as this view hears it, the next one from its source. A global transaction counts its own
        parts as they come: its name stands for one more source."""
        number = self._next(source)
        name = f"{source}:{number}"
        places: tuple[Place, ...] = ((source, number),)
        parts: tuple[Place, ...] = ()
        if report.group and self.first_here(report.group, source):
            group = f"?{report.group}"
            places = (*places, (group, self._next(group)))
            parts = tuple((group, part) for part in range(1, report.parts + 1))
        updates = tuple(
            Update(f"{name}.{relation}{'+' if insert else '-'}", relation, insert, rows)
            for relation, insert, rows in report.sides
            if relation in self.relations
        )
        self.told |= {update.id: (number, source, report) for update in updates}
        return Transaction(name, updates, places, parts)

    def first_here(self, group: str, source: str) -> bool:
        """A source has one part of a global transaction, however often it is marked."""
        known = (group, source) in self.parts_heard
        self.parts_heard.add((group, source))
        return not known

    def part_elsewhere(self, report: Report) -> Transaction:
        """A part of a global transaction at a source that the view does not read."""
        group = f"?{report.group}"
        place = (group, self._next(group))
        parts = tuple((group, part) for part in range(1, report.parts + 1))
        return Transaction(f"{group}:{place[1]}", (), (place,), parts)

    def install(self, content: Plan, updates: tuple[str, ...]) -> None:
        """Updates are reflected in the order of their source: a later one brings the earlier ones along."""
        self.owed -= set(updates)
        newly = sorted(
            (self.told.pop(update) for update in updates if update in self.told), key=lambda told: told[0]
        )
        self.reflects |= {source: report for _, source, report in newly}
        for report in dict.fromkeys(report for _, _, report in newly):
            if report.group:
                self.parts[report.group] = self.parts.get(report.group, report.parts) - 1
        whole = all(missing <= 0 for missing in self.parts.values())
        self.shown.append(Shown(content, dict(self.reflects), whole))

    def _next(self, counted: str) -> int:
        self.numbers[counted] = self.numbers.get(counted, 0) + 1
        return self.numbers[counted]


class Conductor:
    def __init__(
        self,
        holding: Holding,
        channels: Mapping[str, Channel],
        position: Callable[[str], Position],
        patience: float,
        since: Mapping[str, Position],
        shown_parts: Mapping[str, Collection[str]],
    ) -> None:
        self.holding = holding
        self.channels = channels
        self.position = position
        self.patience = patience
        self.shown_parts = shown_parts  # of global transactions, the sources whose parts a frame shows
        self.since = dict(since)  # where each source stood when the session began
        self.views: list[Conducted] = []
        self.reached: dict[str, Position] = {}
        self.history: list[Entry] = []
        self.at_rest = False  # whether nothing new is taken in
        self._asks: deque[tuple[Conducted, Ask]] = deque()

    def add(self, view: Conducted) -> None:
        """Begin with what the last frame shows. What a protocol keeps beside it is read again from the
        sources, as it was then."""
        plan = view.protocol.view.plan

        def begun(value: Plan) -> Plan:
            return view.before if value == plan else self._as_heard(view, value)

        view.state = self.holding.settle(_replaced(view.protocol.start(), begun))
        self.views.append(view)

    def _as_heard(self, view: Conducted, plan: Plan) -> Plan:
        def leaf(scan: Scan, place: int | None) -> Plan:
            source = scan.relation.split(".", 1)[0]
            return self.channels[source].state(scan.relation, view.heard[source])

        return map_scans(plan, leaf)

    def run(self) -> dict[str, Position]:
        """Report all there is, and go on until every view shows it. Returns what was reported."""
        begun = time.monotonic()
        for source in self.channels:
            self._report(source)
        while waiting := [view for view in self.views if view.error is None and self._waits(view)]:
            self.at_rest = time.monotonic() > begun + MOVING_SECONDS
            if self._asks:
                self._answer(*self._asks.popleft())
            elif not self._tick(waiting):
                if time.monotonic() > begun + self.patience:
                    for view in waiting:
                        view.error = self._not_quiet(view)
                    break
                self._wait()
        return self.reached

    def _wait(self) -> None:
        """For parts of global transactions that are not there yet."""
        time.sleep(POLL_SECONDS)
        self.at_rest = False
        for source in self.channels:
            self._report(source)

    def _waits(self, view: Conducted) -> bool:
        asked = any(asker is view for asker, _ in self._asks)
        return asked or bool(view.owed) or view.protocol.unfinished(view.state) or self._splits(view)

    def _splits(self, view: Conducted) -> bool:
        """Whether what was reported holds a global transaction in part. A protocol that promises nothing does
        not wait for the rest."""
        if view.protocol.claims(Setting.LOCAL_TRANSACTIONS) == "none":
            return False
        parts = dict[str, set[str]]()
        wanted = dict[str, int]()
        for source, channel in self.channels.items():
            for group, size in channel.marks.values():
                parts.setdefault(group, set(self.shown_parts.get(group, ()))).add(source)
                wanted[group] = size
        return any(len(parts[group]) < size for group, size in wanted.items())

    def _not_quiet(self, view: Conducted) -> NotQuiet:
        return NotQuiet(
            f"{view.protocol.name} did not bring view {view.name} to rest in {self.patience:g} seconds",
            detail=f"{len(view.owed)} changes are not shown yet, after {view.asked} questions to the sources",
            hint="a global transaction lacks a part; the view stays as it was and is tried again;"
            " algorithm = 'tid' shows what does not depend on it",
        )

    def _tick(self, waiting: list[Conducted]) -> bool:
        ticked = False
        for view in waiting:
            if view.protocol.unfinished(view.state):
                self._tell(view, Tick())
                ticked = True
        return ticked

    def _report(self, source: str, upto: Position | None = None) -> None:
        """Everything a source committed up to a state, to every view that reads it."""
        upto = upto or self._position(source)
        if upto is None:
            return
        self.reached[source] = upto
        since, self.since[source] = self.since.get(source), upto
        for view in self.views:
            if source in view.heard and view.error is None:
                after, view.heard[source] = view.heard[source], upto
                reports = self._reports(view, source, after, upto)
                self.history.append(Reported(view.name, source, upto, len(reports)))
                for report in reports:
                    self._notify(view, view.transaction(source, report))
            elif since is not None and view.error is None:
                for report in self._reports(view, source, since, upto):
                    counted = view.protocol.numbered_answers and report.group
                    if counted and view.first_here(report.group, source):
                        self._tell(view, Notified(view.part_elsewhere(report)))

    def _position(self, source: str) -> Position | None:
        """Where a source stands. One that cannot say stops the views that hear it."""
        if self.at_rest:
            return self.reached.get(source)
        try:
            return self.position(source)
        except StillframeError as error:
            for view in self.views:
                if source in view.heard:
                    view.error = view.error or error
            return None

    def _reports(self, view: Conducted, source: str, after: Position, upto: Position) -> tuple[Report, ...]:
        try:
            return self.channels[source].reports(after, upto)
        except StillframeError as error:
            if source in view.heard:
                view.error = error
            return ()

    def _notify(self, view: Conducted, transaction: Transaction) -> None:
        if transaction.updates or view.protocol.numbered_answers:
            view.owed |= {update.id for update in transaction.updates}
            view.rows += sum(self.holding.count(update.rows) for update in transaction.updates)
            self._tell(view, Notified(transaction))

    def _answer(self, view: Conducted, ask: Ask) -> None:
        """On the newest state there is, until nothing new is taken in. What came since the question was sent
        is told first."""
        if view.error is not None:
            return
        channel = self.channels[ask.source]
        at = self._position(ask.source)
        if at is None:
            return
        try:
            answers = tuple(channel.answer(view.protocol.asked_view, q, at) for q in ask.questions)
        except StillframeError as error:
            view.error = error
            return
        before = view.numbers.get(ask.source, 0)
        self._report(ask.source, at)
        view.asked += 1
        seen = view.numbers.get(ask.source, 0)
        view.compensated += seen > before
        self.history.append(Told(view.name, ask.source, ask.id, at, seen - before))
        self._tell(view, Answered(ask.id, answers, seen if view.protocol.numbered_answers else None))

    def _tell(self, view: Conducted, event: Event) -> None:
        try:
            state, actions = self.holding.settle(view.protocol.step(view.state, event))
            view.state = state
            for action in actions:
                self._do(view, action)
        except StillframeError as error:
            view.error = error

    def _do(self, view: Conducted, action: Action) -> None:
        match action:
            case Install(content, updates):
                view.install(content, updates)
                self.history.append(Installed(view.name, dict(view.heard)))
            case Ask() if self._about_nothing(action):
                asked = view.protocol.asked_view
                nothing = [self.holding.hold(Bag(), question_plan(asked, q).schema) for q in action.questions]
                self._tell(view, Answered(action.id, tuple(nothing)))
            case Ask():
                self.history.append(Asked(view.name, action.source, action.id))
                self._asks.append((view, action))

    def _about_nothing(self, ask: Ask) -> bool:
        return all(
            any(self.holding.empty(part.rows) for part in term.parts)
            for question in ask.questions
            for term in question.terms
        )


def _replaced(value: Any, change: Callable[[Plan], Plan]) -> Any:
    """A state with every plan in it changed."""
    if isinstance(value, Plan):
        return change(value)
    if isinstance(value, tuple):
        return tuple(_replaced(item, change) for item in value)
    if is_dataclass(value) and not isinstance(value, type):
        return replace(value, **{f.name: _replaced(getattr(value, f.name), change) for f in fields(value)})
    return value
