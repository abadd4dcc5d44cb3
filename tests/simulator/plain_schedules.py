"""A second simulator, for comparison: walks every schedule one by one, depth first.

Nothing is merged, numbered or remembered: a bag gets a name that was never used before, a protocol's step is
computed each time it is taken, and its expressions are left as they are until someone reads them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from itertools import count
from typing import Any, NamedTuple

from stillframe.algebra import Bag, Column, Moment, Plan, Scan, Schema, evaluate
from stillframe.consistency import Judge, Verdict
from stillframe.protocol import join_view, make
from stillframe.protocol.events import Answered, Ask, AskPosition, Install, Positioned, Tick
from stillframe.protocol.terms import question_plan
from stillframe.simulator import Scenario
from stillframe.simulator.bags import Bags
from stillframe.simulator.history import Sources


class Now(NamedTuple):
    """Transactions that have happened, messages on their way by source, the warehouse, views, costs."""

    done: tuple[int, ...]
    up: dict[str, tuple[Any, ...]]
    down: dict[str, tuple[Any, ...]]
    state: Any
    shown: tuple[Bag, ...]
    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Findings:
    schedules: int
    histories: frozenset[tuple[Bag, ...]]
    messages: tuple[int, int]
    bytes: tuple[int, int]
    verdict: Verdict


class Plain:
    def __init__(self, scenario: Scenario, algorithm: str) -> None:
        self.scenario = scenario
        self.view = join_view(scenario.plan(scenario.views[0][0]), scenario.source_of)
        self.protocol = make(algorithm, self.view, scenario.params.get(algorithm, {}))
        self.contents: dict[str, Bag] = {}
        self.names = count()
        self.reported = Bags()
        self.sources = Sources(scenario, self.reported)

    def findings(self) -> Findings:
        ends = list(self.ends(self.start()))
        judge = Judge(self.sources.course, lambda cut: self.computed(self.view.plan, cut))
        histories = frozenset(end.shown for end in ends)
        overall = Verdict(True, True, True, True, True)
        for shown in histories:
            overall &= judge.judge(shown)
        return Findings(
            len(ends),
            histories,
            (min(end.messages for end in ends), max(end.messages for end in ends)),
            (min(end.bytes for end in ends), max(end.bytes for end in ends)),
            overall,
        )

    def ends(self, now: Now) -> Iterator[Now]:
        following = list(self.following(now))
        if not following:
            yield now
        for each in following:
            yield from self.ends(each)

    def following(self, now: Now) -> Iterator[Now]:
        quiet = not any(now.up.values()) and not any(now.down.values())
        entries = self.next_entries(now.done)
        for entry in [] if self.scenario.centralised and not quiet else entries:
            up = dict(now.up)
            for source, report in self.sources.reports(entry):
                name = self.sources.names[source]
                up[name] = (*up[name], report)
            yield now._replace(done=(*now.done, entry), up=up)
        for name, queue in now.down.items():
            if queue:
                answer, size = self.answer(queue[0], now.done)
                yield now._replace(
                    down=now.down | {name: queue[1:]},
                    up=now.up | {name: (*now.up[name], answer)},
                    messages=now.messages + 1,
                    bytes=now.bytes + size,
                )
        for name, queue in now.up.items():
            if queue:
                yield self.told(now._replace(up=now.up | {name: queue[1:]}), queue[0])
        if quiet and not entries and self.protocol.unfinished(now.state):
            yield self.told(now, Tick())

    # The sources.

    def next_entries(self, done: tuple[int, ...]) -> list[int]:
        left = [n for n in range(len(self.sources.entries)) if n not in done]
        if self.scenario.order == "written":
            return left[:1]
        return [
            n
            for n in left
            if not any(
                earlier < n and dict(self.sources.entries[earlier].places).keys() & dict(entry.places).keys()
                for earlier in left
                for entry in [self.sources.entries[n]]
            )
        ]

    def executed(self, source: str, done: tuple[int, ...]) -> int:
        return sum(source in dict(self.sources.entries[n].places) for n in done)

    def relation(self, name: str, transactions: int) -> Bag:
        """A relation after so many transactions of its source, from its first rows on."""
        source = self.scenario.source_of(name)
        rows = self.scenario.initial()[name]
        mine = [e.transaction for e in self.sources.entries if source in dict(e.places)]
        for transaction in mine[:transactions]:
            for update in transaction.updates:
                if update.relation == name:
                    rows += Bag({update.row: 1 if update.insert else -1})
        return rows

    def computed(self, plan: Plan, cut: tuple[int, ...]) -> Bag:
        taken = dict(zip(self.sources.names, cut, strict=True))
        return self.value(
            plan, lambda s: self.relation(s.relation, taken[self.scenario.source_of(s.relation)])
        )

    def answer(self, ask: Any, done: tuple[int, ...]) -> tuple[Any, int]:
        here = self.executed(ask.source, done)
        if isinstance(ask, AskPosition):
            return Positioned(ask.id, ask.source, here), 0

        def read(scan: Scan) -> Bag:
            if ask.since is None:
                return self.relation(scan.relation, here)
            before, after = (self.relation(scan.relation, mark) for mark in (ask.since, ask.until))
            return {Moment.BEFORE: before, Moment.AFTER: after}.get(scan.at, after - before)

        plans = [question_plan(self.protocol.asked_view, question) for question in ask.questions]
        bags = [self.value(plan, read) for plan in plans]
        size = sum(
            sum(map(abs, bag.values())) * len(plan.schema) for bag, plan in zip(bags, plans, strict=True)
        )
        answers = tuple(self.kept(bag, plan) for bag, plan in zip(bags, plans, strict=True))
        seen = here if self.protocol.numbered_answers else None
        return Answered(ask.id, answers, seen), size * self.scenario.width

    # The warehouse.

    def start(self) -> Now:
        empty = (0,) * len(self.sources.names)
        state = self.held(self.protocol.start(), empty)
        shown = self.computed(self.protocol.shown(state), empty)
        channels: dict[str, tuple[Any, ...]] = dict.fromkeys(self.sources.names, ())
        return Now((), channels, channels, state, (shown,))

    def told(self, now: Now, event: Any) -> Now:
        state, actions = self.protocol.step(now.state, event)
        waiting = list(actions)
        now = now._replace(state=state)
        while waiting:
            match waiting.pop(0):
                case Install(view, _):
                    shown = self.value(view)
                    if shown != now.shown[-1]:
                        now = now._replace(shown=(*now.shown, shown))
                case Ask() as ask if self.about_nothing(ask):
                    plans = [question_plan(self.protocol.asked_view, q) for q in ask.questions]
                    nothing = Answered(ask.id, tuple(self.kept(Bag(), plan) for plan in plans))
                    state, more = self.protocol.step(now.state, nothing)
                    waiting = [*more, *waiting]
                    now = now._replace(state=state)
                case ask:
                    queue = (*now.down[ask.source], ask)
                    now = now._replace(down=now.down | {ask.source: queue}, messages=now.messages + 1)
        return now

    def about_nothing(self, ask: Ask) -> bool:
        terms = [term for question in ask.questions for term in question.terms]
        return all(any(not self.value(part.rows) for part in term.parts) for term in terms)

    # Bags.

    def kept(self, bag: Bag, plan: Plan) -> Scan:
        name = f"bag {next(self.names)}"
        self.contents[name] = bag
        return Scan(name, Schema(tuple(Column(f"c{n}", type_) for n, type_ in enumerate(plan.schema.types))))

    def held(self, value: Any, cut: tuple[int, ...]) -> Any:
        """A state whose plans read relations, with each of them evaluated on a cut."""
        match value:
            case Plan():
                return self.kept(self.computed(value, cut), value)
            case tuple():
                return tuple(self.held(item, cut) for item in value)
        if is_dataclass(value):
            return replace(value, **{f.name: self.held(getattr(value, f.name), cut) for f in fields(value)})
        return value

    def value(self, plan: Plan, relations: Any = None) -> Bag:
        def read(scan: Scan) -> Bag:
            if scan.relation.startswith("#"):
                return self.reported.content(scan)
            return self.contents[scan.relation] if scan.relation in self.contents else relations(scan)

        return evaluate(plan, read)
