"""Worlds of records: base records that change, view managers that work at once, and a store between them.

One step is one thing that happens at once: a change of the base, one request of one program, a manager that
begins with the next entries of its streams, or one that dies. A manager that dies forgets what it was at, and
is driven again, from the entry it was at or from the oldest of its log. Base changes happen in the order
written; managers see an entry once it has happened, and a base that is asked answers as it is then.

Whether a record is shown right is judged for every record by itself, base records being the sources of its
course: a cut takes a prefix of each base record's life (section 1.2 of the paper).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, TypeVar

from stillframe.algebra import Bag, Plan, Row, evaluate
from stillframe.consistency import Course, Cut, Judge, Verdict
from stillframe.records.entry import Entry, Image, Position, Touch, touches
from stillframe.records.program import Done, Program
from stillframe.records.requests import Ask, Held, Put, Read, Request, State, Tagged
from stillframe.records.store import Key
from stillframe.records.view import Served, aggregated_images
from stillframe.simulator.scenario import Scenario
from stillframe.simulator.validity import ScenarioError

T = TypeVar("T")
BaseRecord = tuple[str, Row]  # relation and key


class Life(NamedTuple):
    """One step of a base record."""

    record: BaseRecord
    before: Row | None
    after: Row | None


class Working(NamedTuple):
    """A manager: how many of its entries are done, how many it is at, and the programs of these."""

    done: int = 0
    at: int = 0
    programs: tuple[Program, ...] = ()


class RecordWorld(NamedTuple):
    """`store` is in the order of its keys; `gone` has the last versions of records that were deleted, and
    `shown` the history of every view record."""

    base: int
    managers: tuple[Working, ...]
    store: tuple[tuple[Key, Held], ...]
    gone: tuple[tuple[Key, int], ...]
    shown: tuple[tuple[Key, tuple[Row | None, ...]], ...]
    crashes: int


class RecordStep(NamedTuple):
    label: str
    world: RecordWorld
    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Managing:
    """Who does what: base records by stream, in the order they first change, and streams by manager; two
    managers of one stream are one that is thought dead and the one in its place. Where nothing is said,
    every base record has a stream, and every stream a manager. `dealt` gives entries to managers one by one
    instead, without flow control. `combine` lets a manager take several entries at once; `crashes` is how
    many managers die at most."""

    streams: tuple[tuple[int, ...], ...] = ()
    managers: tuple[tuple[int, ...], ...] = ()
    dealt: tuple[tuple[int, ...], ...] = ()
    combine: bool = False
    crashes: int = 0


@dataclass
class RecordSimulation:
    scenario: Scenario
    plan: Plan
    served: Served
    managing: Managing = field(default_factory=Managing)

    def __post_init__(self) -> None:
        self.lives = tuple(_lives(self.scenario))
        self.records = tuple(dict.fromkeys(life.record for life in self.lives))
        numbers = range(len(self.lives))
        if self.managing.dealt:
            self.queues = self.managing.dealt
            streams = [next(m for m, queue in enumerate(self.queues) if n in queue) for n in numbers]
        else:
            of = self.managing.streams or tuple((i,) for i in range(len(self.records)))
            places = {record: stream for stream, records in enumerate(of) for record in records}
            streams = [places[self.records.index(life.record)] for life in self.lives]
            managers = self.managing.managers or tuple((i,) for i in range(len(of)))
            self.queues = tuple(tuple(n for n in numbers if streams[n] in taken) for taken in managers)
        self.entries = tuple(
            tuple(self._entries(life, streams[number], Position(1, number)))
            for number, life in enumerate(self.lives)
        )
        self._judges: dict[Key, Judge] = {}

    # Worlds

    def start(self) -> RecordWorld:
        """The view of the first state, as loading leaves it: each row an entry of a session before."""
        world = RecordWorld(0, (), (), (), (), 0)
        number = 0
        for side in self.served.sides:
            for row in self.scenario.relation(side.relation).rows:
                life = Life((side.relation, self.key_of(side.relation, row)), None, row)
                number += 1
                for program in self.programs(self._entries(life, 0, Position(0, number))):
                    world = self._finished(world, program)
        shown = tuple((key, history[-1:]) for key, history in world.shown)
        managers = tuple(Working() for _ in self.queues)
        return world._replace(managers=managers, shown=shown, crashes=self.managing.crashes)

    def _finished(self, world: RecordWorld, program: Program | Done) -> RecordWorld:
        while not isinstance(program, Done):
            answer, world = self.serve(world, program.request)
            program = program.advance(answer)
        for following in program.then:
            world = self._finished(world, following)
        return world

    def steps(self, world: RecordWorld) -> Iterator[RecordStep]:
        if world.base < len(self.lives):
            yield RecordStep(f"base: {_told(self.lives[world.base])}", world._replace(base=world.base + 1))
        for number, manager in enumerate(world.managers):
            yield from self._of_manager(world, number, manager)

    def _of_manager(self, world: RecordWorld, number: int, manager: Working) -> Iterator[RecordStep]:
        def with_manager(world: RecordWorld, manager: Working) -> RecordWorld:
            managers = (*world.managers[:number], manager, *world.managers[number + 1 :])
            return world._replace(managers=managers)

        name = f"manager {number + 1}"
        queue = self.queues[number]
        if not manager.programs:
            waiting = [entry for entry in queue[manager.done :] if entry < world.base]
            for at in range(1, (len(waiting) if self.managing.combine else min(len(waiting), 1)) + 1):
                entries = [entry for place in waiting[:at] for entry in self.entries[place]]
                programs = tuple(self.programs(entries))
                begun = Working(manager.done, at, programs) if programs else Working(manager.done + at)
                label = f"{name}: takes {', '.join(f'U{place + 1}' for place in waiting[:at])}"
                yield RecordStep(label, with_manager(world, begun))
        for at, program in enumerate(manager.programs):
            answer, after = self.serve(world, program.request)
            following = program.advance(answer)
            rest = (*manager.programs[:at], *following_programs(following), *manager.programs[at + 1 :])
            working = Working(manager.done, manager.at, rest) if rest else Working(manager.done + manager.at)
            label = f"{name}: {told_request(program.request, answer)}"
            yield RecordStep(label, with_manager(after, working))
        if world.crashes and (manager.programs or manager.done):
            less = world._replace(crashes=world.crashes - 1)
            for back in sorted({0, manager.done}):
                if manager.programs or back < manager.done:
                    label = (
                        f"{name}: dies, and is driven again from its {'oldest' if not back else 'last'} entry"
                    )
                    yield RecordStep(label, with_manager(less, Working(back)))

    def programs(self, entries: Any) -> Iterator[Program]:
        """One for each record that the entries touch."""
        by_record: dict[Key, list[Touch]] = {}
        for entry in entries:
            for touch in touches(entry):
                by_record.setdefault(self.served.view.record(touch), []).append(touch)
        for key, of in by_record.items():
            yield self.served.view.program(key, tuple(of))

    def serve(self, world: RecordWorld, request: Request) -> tuple[Any, RecordWorld]:
        store = dict(world.store)
        match request:
            case Read(key):
                return store.get(key, Held()), world
            case Ask(question):
                return self._asked(world.base, question), world
            case Tagged(link):
                return tuple(k for k, held in store.items() if held.state and held.state.link == link), world
            case Put(key, expected, state, version):
                if store.get(key, Held()).version != expected:
                    return False, world
                gone = dict(world.gone)
                if state is None:
                    gone.update({key: expected} if store.pop(key, None) else {})
                else:
                    fresh = max(expected, gone.get(key, 0)) + 1
                    store[key] = Held(fresh if version is None else version, state)
                after = world._replace(
                    store=_in_order(store), gone=_in_order(gone), shown=self._shown(world, key, state)
                )
                return True, after

    def _shown(
        self, world: RecordWorld, key: Key, state: State | None
    ) -> tuple[tuple[Key, tuple[Row | None, ...]], ...]:
        if key.kind:
            return world.shown
        histories = dict(world.shown)
        row = self.served.shown(key.values, state)
        before = histories.get(key, (None,))
        if before[-1] != row:
            histories[key] = (*before, row)
        return _in_order(histories)

    def _asked(self, done: int, question: Any) -> Any:
        """What the base says after so many of its changes."""
        state = self.base(done)
        if self.served.called == "join":  # the printed program reads the partner there
            side = self.served.sides[1]
            found = [image for row in state[side.relation].rows() if (image := side.image(row)) is not None]
            return next((image.values for image in found if image.key == question), None)
        if self.served.measures:
            (side,) = self.served.sides
            images = [i for row in state[side.relation].rows() if (i := side.image(row)) is not None]
            of_group = [image for image in images if image.key == question]
            return aggregated_images(self.served.measures, of_group, always=self.served.is_one)
        return tuple(
            sum(1 for row in state[side.relation].rows() if _has(side.image(row), question))
            for side in self.served.sides
        )

    def base(self, done: int) -> dict[str, Bag]:
        """The relations after so many changes."""
        state = self.scenario.initial()
        for life in self.lives[:done]:
            state[life.record[0]] += _change(life)
        return state

    def _entries(self, life: Life, stream: int, position: Position) -> Iterator[Entry]:
        for number, side in enumerate(self.served.sides):
            if side.relation == life.record[0]:
                yield Entry(stream, position, side.image(life.before), side.image(life.after), number)

    def key_of(self, relation: str, row: Row) -> Row:
        return _key_of(self.scenario, relation, row)

    # Verdicts

    def verdict(self, world: RecordWorld) -> Verdict:
        """Of the records' histories in a world where nothing can happen any more."""
        found = [self.judge(key).judge(history) for key, history in world.shown]
        verdict = Verdict(True, True, True, True, True)
        for one in found:
            verdict &= one
        missing = [key for key in self._finals if key not in dict(world.shown)]
        return verdict & Verdict(False, True, False, False, False) if missing else verdict

    @cached_property
    def _finals(self) -> set[Key]:
        return {Key(self._view_key(row)) for row in self._view(self.course.full)}

    @cached_property
    def course(self) -> Course:
        lengths = [sum(1 for life in self.lives if life.record == record) for record in self.records]
        return Course(tuple(lengths))

    def judge(self, key: Key) -> Judge:
        if key not in self._judges:
            self._judges[key] = Judge(self.course, lambda cut: self._content(key, cut))
        return self._judges[key]

    def _content(self, key: Key, cut: Cut) -> Row | None:
        return next((row for row in self._view(cut) if self._view_key(row) == key.values), None)

    def _view_key(self, row: Row) -> Row:
        return tuple(row[i] for i in self.served.key)

    def _view(self, cut: Cut) -> list[Row]:
        """The view's own text, over the base records of a cut."""
        left = dict(zip(self.records, cut, strict=True))
        state = self.scenario.initial()
        for life in self.lives:
            if left[life.record]:
                left[life.record] -= 1
                state[life.record[0]] += _change(life)
        return list(evaluate(self.plan, lambda scan: state[scan.relation]))


def _in_order(of: dict[Key, T]) -> tuple[tuple[Key, T], ...]:
    return tuple(sorted(of.items(), key=lambda item: repr(item[0])))


def following_programs(following: Program | Done) -> tuple[Program, ...]:
    return following.then if isinstance(following, Done) else (following,)


def _has(image: Image | None, key: Row) -> bool:
    return image is not None and image.key == key


def _change(life: Life) -> Bag:
    rows = {row: sign for row, sign in ((life.before, -1), (life.after, 1)) if row is not None}
    return Bag() if life.before == life.after else Bag(rows)


def _key_of(scenario: Scenario, relation: str, row: Row) -> Row:
    found = scenario.relation(relation)
    return tuple(row[found.columns.index(name)] for name in found.key)


def _lives(scenario: Scenario) -> Iterator[Life]:
    """A transaction changes one base record: a row comes, goes, or is replaced by one with its key."""
    for transaction in scenario.transactions:
        before = [u for u in transaction.updates if not u.insert]
        after = [u for u in transaction.updates if u.insert]
        records = {(u.relation, _key_of(scenario, u.relation, u.row)) for u in transaction.updates}
        if len(records) != 1 or len(before) > 1 or len(after) > 1:
            raise ScenarioError(
                f"{transaction.id} changes more than one base record",
                hint="in a world of records a transaction inserts, deletes or replaces one row",
            )
        (record,) = records
        yield Life(record, before[0].row if before else None, after[0].row if after else None)


def _told(life: Life) -> str:
    relation = life.record[0]
    if life.before is None:
        return f"insert {relation} {list(life.after or ())}"
    if life.after is None:
        return f"delete {relation} {list(life.before)}"
    return f"update {relation} {list(life.before)} to {list(life.after)}"


def told_request(request: Request, answer: Any) -> str:
    match request:
        case Read(key):
            return f"reads {_name(key)}"
        case Ask(question):
            return f"asks the base for {list(question)}: {answer if answer is None else list(answer)}"
        case Tagged(link):
            return f"looks for rows of {list(link)}"
        case Put(key):
            return f"writes {_name(key)}" if answer else f"is too late to write {_name(key)}"


def _name(key: Key) -> str:
    return f"{key.kind + ' ' if key.kind else ''}{list(key.values)}"
