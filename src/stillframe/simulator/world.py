"""Worlds as values, and the steps that lead from one to the next.

A world is a few small numbers: which transactions have happened, what travels on each channel, the
warehouse's state, the views seen so far. States, messages and histories are interned, so two worlds are equal
exactly when their contents are, and a protocol's step is computed once for each (state, event) it ever meets.

Channels are ordered, one each way between the warehouse and each source, unless the scenario says otherwise.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Generic, NamedTuple, TypeVar

from stillframe.algebra import Bag, Moment, Scan
from stillframe.consistency import Judge
from stillframe.protocol import Protocol, join_view, make
from stillframe.protocol.events import (
    Action,
    Answered,
    Ask,
    AskPosition,
    Event,
    Install,
    Notified,
    Place,
    Positioned,
    Tick,
)
from stillframe.protocol.terms import question_plan
from stillframe.simulator.bags import Bags
from stillframe.simulator.history import Sources
from stillframe.simulator.scenario import Scenario

T = TypeVar("T")
Queue = tuple[int, ...]
Reflected = str | Place  # an update by its id, or a transaction by its place


class World(NamedTuple):
    """`done` has a bit for each transaction that has happened. `up` and `down` are the channels, by source.
    `views` numbers the history of views. `rest` holds what only faulty worlds have."""

    done: int
    up: tuple[Queue, ...]
    down: tuple[Queue, ...]
    state: int
    views: int
    rest: Any = None


class Step(NamedTuple):
    """One step: what happened, the world after it, and what was sent: messages and bytes, reports of
    transactions not counted."""

    label: str
    world: World
    messages: int
    bytes: int


class Table(Generic[T]):
    """Values by number; equal values have one."""

    def __init__(self) -> None:
        self._numbers: dict[T, int] = {}
        self._values: list[T] = []

    def number(self, value: T) -> int:
        found = self._numbers.get(value)
        if found is None:
            found = self._numbers[value] = len(self._values)
            self._values.append(value)
        return found

    def __getitem__(self, number: int) -> T:
        return self._values[number]

    def __len__(self) -> int:
        return len(self._values)


class Reaction(NamedTuple):
    """What the warehouse did on one event."""

    state: int
    sends: tuple[tuple[int, int], ...]  # (source, message)
    shows: tuple[tuple[int, frozenset[Reflected]], ...]  # (bag, what it newly reflects)

    @property
    def reflects(self) -> frozenset[Reflected]:
        return frozenset[Reflected]().union(*(newly for _, newly in self.shows))


class Simulation:
    """One scenario, one of its views, one algorithm."""

    def __init__(self, scenario: Scenario, algorithm: str, view: str | None = None) -> None:
        self.scenario = scenario
        self.view = join_view(scenario.plan(view or scenario.views[0][0]), scenario.source_of)
        self.protocol: Protocol[Any] = make(algorithm, self.view, scenario.params.get(algorithm, {}))
        self.bags = Bags()
        self.sources = Sources(scenario, self.bags)
        self.states: Table[Any] = Table()
        self.messages: Table[Any] = Table()
        self.histories: Table[tuple[int, int]] = Table()  # (history before, bag)
        self.judge = Judge(self.sources.course, self._content)
        self._reactions: dict[tuple[int, int], Reaction] = {}
        self._answers: dict[tuple[int, int], tuple[int, int]] = {}
        self._reports = [
            tuple((source, self.messages.number(event)) for source, event in self.sources.reports(entry))
            for entry in range(len(self.sources.entries))
        ]
        self._tick = self.messages.number(Tick())

    def _content(self, cut: tuple[int, ...]) -> int:
        bag = self.bags.value(self.view.plan, lambda scan: self.sources.at(cut, scan))
        return self.bags.number(bag, self.view.schema.types)

    def start(self) -> World:
        nothing = tuple(0 for _ in self.sources.names)
        state = self.bags.settle(self.protocol.start(), lambda scan: self.sources.at(nothing, scan))
        shown = self.bags.number_of(self.bags.settled(self.protocol.shown(state)))
        empty = tuple(() for _ in self.sources.names)
        return World(0, empty, empty, self.states.number(state), self.histories.number((-1, shown)))

    def views(self, world: World) -> tuple[int, ...]:
        """The bags readers have seen, in order; the same bag twice in a row counts once."""
        shown, at = list[int](), world.views
        while at >= 0:
            at, bag = self.histories[at]
            shown.append(bag)
        return tuple(reversed(shown))

    # Steps.

    def steps(self, world: World) -> list[Step]:
        return [*self._happen(world), *self._answer(world), *self._receive(world), *self._tick_of(world)]

    def _happen(self, world: World) -> Iterator[Step]:
        if self.scenario.centralised and self._busy(world):
            return
        for entry in self._next_entries(world.done):
            up = list(world.up)
            for source, message in self._reports[entry]:
                up[source] = (*up[source], message)
            label = self._entry_label(entry)
            yield Step(label, world._replace(done=world.done | 1 << entry, up=tuple(up)), 0, 0)

    def _entry_label(self, entry: int) -> str:
        made = self.sources.entries[entry]
        places = ", ".join(source for source, _ in made.places)
        return f"{places}: {made.id} {'; '.join(str(u) for u in made.transaction.updates)}"

    def _next_entries(self, done: int) -> Iterator[int]:
        """In the order written; or any whose sources have nothing earlier to do."""
        for entry, touched in enumerate(self.sources.entry_sources):
            if done >> entry & 1:
                continue
            if self.scenario.order == "written":
                yield entry
                return
            if all(self._next_at(source, done) == entry for source in touched):
                yield entry

    def _next_at(self, source: int, done: int) -> int | None:
        return next((e for e in self.sources.at_source[source] if not done >> e & 1), None)

    def count(self, source: int, done: int) -> int:
        return sum(done >> entry & 1 for entry in self.sources.at_source[source])

    def _answer(self, world: World) -> Iterator[Step]:
        for source, queue in enumerate(world.down):
            if queue:
                ask = queue[0]
                answer, size = self.answer(ask, source, self.count(source, world.done))
                up, down = list(world.up), list(world.down)
                up[source], down[source] = (*up[source], answer), queue[1:]
                label = f"{self.sources.names[source]}: answers {self.messages[ask].id}"
                yield Step(label, world._replace(up=tuple(up), down=tuple(down)), 1, size)

    def _receive(self, world: World) -> Iterator[Step]:
        for source, queue in enumerate(world.up):
            if queue:
                up = list(world.up)
                up[source] = queue[1:]
                yield self.delivered(world._replace(up=tuple(up)), source, queue[0])

    def delivered(self, world: World, source: int, message: int) -> Step:
        label = f"warehouse: receives {_name(self.messages[message])} from {self.sources.names[source]}"
        after, sent = self.react(world, message)
        return Step(label, after, sent, 0)

    def _tick_of(self, world: World) -> Iterator[Step]:
        if self._busy(world) or any(True for _ in self._next_entries(world.done)):
            return
        if self.protocol.unfinished(self.states[world.state]):
            after, sent = self.react(world, self._tick)
            yield Step("warehouse: time passes", after, sent, 0)

    def _busy(self, world: World) -> bool:
        return any(world.up) or any(world.down)

    # The warehouse.

    def react(self, world: World, message: int) -> tuple[World, int]:
        """The world after the warehouse has taken in an event, and how many messages it sent."""
        reaction = self.reaction(world.state, message)
        down = world.down
        if reaction.sends:
            queues = list(down)
            for source, ask in reaction.sends:
                queues[source] = (*queues[source], ask)
            down = tuple(queues)
        views = world.views
        for bag, _ in reaction.shows:
            if self.histories[views][1] != bag:
                views = self.histories.number((views, bag))
        return world._replace(down=down, state=reaction.state, views=views), len(reaction.sends)

    def reaction(self, state: int, message: int) -> Reaction:
        known = self._reactions.get((state, message))
        if known is None:
            known = self._reactions[state, message] = self._react(state, self.messages[message])
        return known

    def _react(self, number: int, event: Event) -> Reaction:
        state, actions = self.step(self.states[number], event)
        sends, shows = [], []
        for action in actions:
            match action:
                case Install(view, updates, places):
                    shows.append((self.bags.number_of(view), frozenset[Reflected]([*updates, *places])))
                case Ask(_, source) | AskPosition(_, source):
                    sends.append((self.sources.numbers[source], self.messages.number(action)))
        return Reaction(self.states.number(state), tuple(sends), tuple(shows))

    def step(self, state: Any, event: Event) -> tuple[Any, list[Action]]:
        """One step of the protocol with everything evaluated. A question about no rows is answered here."""
        state, actions = self.bags.settle(self.protocol.step(state, event))
        done = list[Action]()
        waiting = list(actions)
        while waiting:
            action = waiting.pop(0)
            if isinstance(action, Ask) and self._about_nothing(action):
                answer = Answered(action.id, tuple(self._nothing(q) for q in action.questions))
                state, more = self.bags.settle(self.protocol.step(state, answer))
                waiting += more
            else:
                done.append(action)
        return state, done

    def _about_nothing(self, ask: Ask) -> bool:
        return all(
            any(not self.bags.content(part.rows) for part in term.parts)
            for question in ask.questions
            for term in question.terms
        )

    def _nothing(self, question: Any) -> Scan:
        return self.bags.scan(Bag(), question_plan(self.protocol.asked_view, question).schema.types)

    # The sources.

    def answer(self, message: int, source: int, count: int) -> tuple[int, int]:
        """What a source replies when it has executed so many transactions, and the reply's bytes."""
        known = self._answers.get((message, count))
        if known is None:
            known = self._answers[message, count] = self._reply(self.messages[message], source, count)
        return known

    def _reply(self, ask: Ask | AskPosition, source: int, count: int) -> tuple[int, int]:
        if isinstance(ask, AskPosition):
            return self.messages.number(Positioned(ask.id, ask.source, count)), 0

        if ask.side:
            assert ask.since is not None
            log = self.sources.updates_between(source, ask.since, count)
            present = lambda scan: self.sources.contents[scan.relation][count]  # noqa: E731
            return self.answered(ask, self.sources.logged(ask, present, log), count)

        def read(scan: Scan) -> Bag:
            states = self.sources.contents[scan.relation]
            if ask.since is None or ask.until is None:
                return states[count]
            match scan.at:
                case Moment.BEFORE:
                    return states[ask.since]
                case Moment.AFTER:
                    return states[ask.until]
            return states[ask.until] - states[ask.since]

        return self.answered(ask, read, count)

    def answered(self, ask: Ask, read: Any, count: int) -> tuple[int, int]:
        plans = [question_plan(self.protocol.asked_view, question) for question in ask.questions]
        bags = [self.bags.value(plan, read) for plan in plans]
        size = sum(b.size * len(p.schema) for b, p in zip(bags, plans, strict=True)) * self.scenario.width
        scans = tuple(self.bags.scan(b, p.schema.types) for b, p in zip(bags, plans, strict=True))
        seen = count if self.protocol.numbered_answers else None
        return self.messages.number(Answered(ask.id, scans, seen)), size


def _name(message: Any) -> str:
    match message:
        case Notified(transaction):
            return str(transaction.id)
        case Answered(id) | Positioned(id):
            return f"the answer to {id}"
    return type(message).__name__.lower()
