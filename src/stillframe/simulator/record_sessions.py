"""Worlds of records over several sessions: what one leaves to the next, and what comes of managers that are
thought dead.

A session takes a piece of the log, whose bounds are fixed when it begins; the first one loads the base as it
is. A base record has one entry in a piece, from what it was to what it is, and the base answers as of the
piece's end: so changes of the base are no steps of their own, and where a session's piece ends is all there
is to choose. Streams are dealt out anew whenever managers begin. One step is one request of a manager, the
end of a session, the beginning of the next, or the death of its process. A session whose process died begins
again, with the very piece it had; a load that died is followed by another. A manager that is thought dead
goes on beside them for as long as it likes; once a later session has begun, it must not write (`fence`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Any, NamedTuple

from stillframe.algebra import Plan, Row
from stillframe.consistency import Verdict
from stillframe.records.entry import Entry, Position
from stillframe.records.program import Program
from stillframe.records.requests import Held, Put, Read
from stillframe.records.store import Key
from stillframe.records.view import Served
from stillframe.simulator.record_world import (
    RecordSimulation,
    RecordWorld,
    following_programs,
    told_request,
)
from stillframe.simulator.scenario import Scenario

_TURN_BITS = 40


class Piece(NamedTuple):
    """Changes of the base after so many of them, up to so many. `since` is the session of the load."""

    session: int
    since: int
    after: int
    upto: int

    @property
    def loads(self) -> bool:
        return self.session == self.since


class Task(NamedTuple):
    """A manager: what it is to do, how many of its entries it has begun, and the programs of these."""

    piece: Piece
    turn: int
    streams: tuple[int, ...]
    late: bool = False  # thought dead
    begun: int = 0
    programs: tuple[Program, ...] = ()


class SessionWorld(NamedTuple):
    """`tasks` are the managers that have something to do; `dealt` is how often they began."""

    piece: Piece
    turn: int
    done: bool
    dealt: int
    tasks: tuple[Task, ...]
    records: RecordWorld

    @property
    def shown(self) -> tuple[tuple[Key, tuple[Row | None, ...]], ...]:
        return self.records.shown


class SessionStep(NamedTuple):
    label: str
    world: SessionWorld
    messages: int = 0
    bytes: int = 0


@dataclass(frozen=True)
class Sessions:
    """Base records by stream, in the order they first change: where nothing is said, each has its own.
    `dealings` give streams to managers, one after the other and then from the first again. `combine` lets a
    manager take all its entries at once; `deaths` is how often a process dies at most."""

    streams: tuple[tuple[int, ...], ...] = ()
    dealings: tuple[tuple[tuple[int, ...], ...], ...] = ()
    combine: bool = False
    deaths: int = 1


@dataclass
class SessionSimulation:
    scenario: Scenario
    plan: Plan
    served: Served
    sessions: Sessions = field(default_factory=Sessions)

    def __post_init__(self) -> None:
        self.single = RecordSimulation(self.scenario, self.plan, self.served)
        records = self.single.records
        of = self.sessions.streams or tuple((i,) for i in range(len(records)))
        self.stream = {records[i]: stream for stream, those in enumerate(of) for i in those}
        apart, together = tuple((i,) for i in range(len(of))), (tuple(range(len(of))),)
        self.dealings = self.sessions.dealings or (apart, together)
        self._queue = cache(self._entries)

    # What has to hold between sessions; tests plant bugs here.

    def fenced(self, task: Task, world: SessionWorld) -> bool:
        return task.piece.session < world.piece.session

    def again(self, piece: Piece) -> Iterator[Piece]:
        """What follows a session that died."""
        if not piece.loads:
            yield piece
            return
        for upto in range(piece.upto, min(piece.upto + 1, len(self.single.lives)) + 1):
            yield Piece(piece.session + 1, piece.session + 1, upto, upto)

    def forgotten(self, key: Key, held: Held, piece: Piece) -> bool:
        """Whether nothing need be known of a record when this piece begins."""
        assert held.state is not None
        return self.served.vanished(key, held.state) and held.state.signature.session == piece.session - 1

    # Worlds

    def start(self) -> SessionWorld:
        first = Piece(1, 1, 0, 0)
        empty = RecordWorld(0, (), (), (), (), self.sessions.deaths)
        return self._begun(SessionWorld(first, 0, False, 0, (), empty), first)

    def steps(self, world: SessionWorld) -> Iterator[SessionStep]:
        piece = world.piece
        if world.done:
            for upto in range(piece.upto + 1, len(self.single.lives) + 1):
                following = Piece(piece.session + 1, piece.since, piece.upto, upto)
                label = f"session {following.session}: takes U{piece.upto + 1} to U{upto}"
                yield SessionStep(label, self._begun(world, following))
        elif all(task.late for task in world.tasks):
            yield SessionStep(f"session {piece.session}: is done", self._ended(world))
        for number in range(len(world.tasks)):
            yield from self._of_task(world, number)
        if world.records.crashes and not world.done:
            yield from self._deaths(world)

    def _begun(self, world: SessionWorld, piece: Piece) -> SessionWorld:
        records = world.records
        for key, held in records.store:
            if self.forgotten(key, held, piece):
                _, records = self.single.serve(records, Put(key, held.version, None))
        late = tuple(task for task in world.tasks if task.late)
        begun = SessionWorld(piece, 0, False, world.dealt + 1, late, records)
        return self._turned(begun._replace(tasks=(*late, *self._tasks(begun))))

    def _tasks(self, world: SessionWorld) -> Iterator[Task]:
        dealing = self.dealings[(world.dealt - 1) % len(self.dealings)]
        for number, streams in enumerate(dealing):
            share = (number, len(dealing)) if world.piece.loads else streams
            if (task := self._taking(Task(world.piece, world.turn, share))) is not None:
                yield task

    def _taking(self, task: Task) -> Task | None:
        """With the next of its entries, if it is done with those before; None where there are none."""
        if task.programs:
            return task
        queue = self._queue(task.piece, task.turn, task.streams)
        some = queue[task.begun :] if self.sessions.combine else queue[task.begun : task.begun + 1]
        if not some:
            return None
        return task._replace(begun=task.begun + len(some), programs=tuple(self.single.programs(some)))

    def _turned(self, world: SessionWorld) -> SessionWorld:
        """Partners before the rows that refer to them: one side is done when the other begins."""
        while all(task.late for task in world.tasks) and world.turn + 1 < len(self.served.sides):
            world = world._replace(turn=world.turn + 1)
            world = world._replace(tasks=(*world.tasks, *self._tasks(world)))
        return world

    def _ended(self, world: SessionWorld) -> SessionWorld:
        records = world.records
        if world.piece.loads:  # what nothing touched is removed; levels hold from here on
            for key, held in records.store:
                if held.state is not None and held.state.signature.session < world.piece.since:
                    _, records = self.single.serve(records, Put(key, held.version, None))
            records = records._replace(shown=tuple((key, history[-1:]) for key, history in records.shown))
        return world._replace(done=True, records=records)

    def _of_task(self, world: SessionWorld, number: int) -> Iterator[SessionStep]:
        task = world.tasks[number]
        before, after = world.tasks[:number], world.tasks[number + 1 :]
        name = f"manager {number + 1} of session {task.piece.session}{', late,' if task.late else ''}"
        for at, program in enumerate(task.programs):
            request = program.request
            if isinstance(request, Put) and self.fenced(task, world):
                yield SessionStep(f"{name} is refused", world._replace(tasks=before + after))
                continue
            answer, records = self.single.serve(world.records._replace(base=task.piece.upto), request)
            if isinstance(request, Read):
                answer = _since(answer, task.piece.since)
            rest = (
                *task.programs[:at],
                *following_programs(program.advance(answer)),
                *task.programs[at + 1 :],
            )
            going = self._taking(task._replace(programs=rest))
            tasks = (*before, *(() if going is None else (going,)), *after)
            following = world._replace(tasks=tasks, records=records._replace(base=0))
            yield SessionStep(f"{name} {told_request(request, answer)}", self._turned(following))

    def _deaths(self, world: SessionWorld) -> Iterator[SessionStep]:
        """All managers die with their process, but for one at most."""
        records = world.records._replace(crashes=world.records.crashes - 1)
        late = tuple(task for task in world.tasks if task.late)
        working = [task for task in world.tasks if not task.late]
        for lingering in ((), *((task._replace(late=True),) for task in working)):
            for piece in self.again(world.piece):
                label = f"session {world.piece.session}: dies{', but for a manager' if lingering else ''}"
                left = world._replace(tasks=(*late, *lingering), records=records)
                yield SessionStep(f"{label}; {piece.session} begins", self._begun(left, piece))

    def verdict(self, world: SessionWorld) -> Verdict:
        return self.single.verdict(world.records)

    # Entries

    def _entries(self, piece: Piece, turn: int, streams: tuple[int, ...]) -> tuple[Entry, ...]:
        number = len(self.served.sides) - 1 - turn
        return tuple(
            self._loaded(piece, turn, number, streams)
            if piece.loads
            else self._changed(piece, turn, number, streams)
        )

    def _changed(self, piece: Piece, turn: int, number: int, streams: tuple[int, ...]) -> Iterator[Entry]:
        """Places are those of base records in their stream, whatever became of them."""
        side = self.served.sides[number]
        lives = self.single.lives[piece.after : piece.upto]
        for stream in streams:
            changed = [r for r in self.single.records if self.stream[r] == stream and r[0] == side.relation]
            changed = [r for r in changed if any(life.record == r for life in lives)]
            for place, record in enumerate(changed):
                of = [life for life in lives if life.record == record]
                before, after = side.image(of[0].before), side.image(of[-1].after)
                if before != after:
                    yield Entry(
                        stream, Position(piece.session, turn << _TURN_BITS | place), before, after, number
                    )

    def _loaded(self, piece: Piece, turn: int, number: int, share: tuple[int, ...]) -> Iterator[Entry]:
        """Dealt out by record, and places are within one."""
        side, (mine, all_of) = self.served.sides[number], share
        rows = self.single.base(piece.upto)[side.relation].rows()
        by_record: dict[Row, list[Any]] = {}
        for image in (side.image(row) for row in sorted(rows)):
            if image is not None:
                by_record.setdefault(image.key, []).append(image)
        for at, images in enumerate(by_record.values()):
            if at % all_of == mine:
                for place, image in enumerate(images):
                    yield Entry(0, Position(piece.session, turn << _TURN_BITS | place), None, image, number)


def _since(held: Held, since: int) -> Held:
    """What records reflect of sessions before a load is forgotten."""
    known = held.state is not None and held.state.signature.session >= since
    return held if known else Held(held.version)
