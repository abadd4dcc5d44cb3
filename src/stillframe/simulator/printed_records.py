"""The update programs as the paper prints them, for exploration beside ours.

    algorithms 1-3     COUNT          a group that vanishes is deleted, and with it what it reflects
    algorithms 4-6     SUM            a group vanishes when its sum is what leaves
    algorithms 7-9     MIN            counts how often the least value occurs; counter-based
    algorithm 10       join           reads the other relation where it is; counter-based
    algorithms 11-19   selection and projections that keep the key
    algorithms 20-22   projection without the key, as COUNT

Counter-based test-and-set: a record's version is a number that goes up by one, from 1 when it is made, and
entries that come again are not recognised. `Unsigned` programs of COUNT and SUM are that, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from stillframe.records.entry import Row, Touch
from stillframe.records.program import Done, Program
from stillframe.records.requests import Ask, Held, Put, Read, Request, State, Tagged
from stillframe.records.signature import Signature
from stillframe.records.store import Key

INSERT, DELETE, UPDATE = "insert", "delete", "update"


@dataclass(frozen=True)
class Step:
    """One run of a printed program: reads the record, and decides."""

    view: Any
    key: Key
    part: str
    touch: Touch
    then: tuple[Program, ...] = ()

    @property
    def request(self) -> Request:
        return Read(self.key)

    def advance(self, held: Held) -> Program | Done:
        return self.decided(self.view.decide(self.part, self.touch, held), held)

    def decided(self, found: Put | Ask | None, held: Held) -> Program | Done:
        if found is None:
            return Done(self.then)
        return Asked(self, held, found) if isinstance(found, Ask) else Written(self, found)


@dataclass(frozen=True)
class Asked:
    step: Step
    held: Held
    request: Ask

    def advance(self, answer: Any) -> Program | Done:
        return self.step.decided(
            self.step.view.told(self.step.part, self.step.touch, self.held, answer), self.held
        )


@dataclass(frozen=True)
class Written:
    step: Step
    request: Put

    def advance(self, done: bool) -> Program | Done:
        return Done(self.step.then) if done else self.step


@dataclass(frozen=True)
class Printed:
    """What the programs have in common. `signed` is signature-based test-and-set."""

    signed: bool = True

    def record(self, touch: Touch) -> Key:
        return Key(touch.key)

    def program(self, key: Key, touches: tuple[Touch, ...]) -> Program:
        following: Program | None = None
        for touch in reversed(touches):
            for part in reversed(self.parts(touch)):
                following = Step(self, key, part, touch, (following,) if following else ())
        return following or _Nothing()

    def parts(self, touch: Touch) -> tuple[str, ...]:
        if touch.left is None or touch.came is None:
            return (DELETE,) if touch.came is None else (INSERT,)
        return (UPDATE,)

    def processed(self, held: Held, touch: Touch) -> bool:
        return self.signed and held.state is not None and held.state.signature.reflects(touch)

    def put(self, touch: Touch, held: Held, data: Any, link: Row | None = None) -> Put:
        """Test-and-set to other data; to nothing where there is none."""
        signature = (held.state.signature if held.state else Signature()).after([touch])
        state = None if data is None else State(signature if self.signed else Signature(), data, link)
        return Put(self.record(touch), held.version, state, None if self.signed else held.version + 1)

    def row(self, key: Row, state: State) -> Row | None:
        return (*key, *state.data)


@dataclass(frozen=True)
class _Nothing:
    request: Tagged = field(default=Tagged(()))

    def advance(self, answer: Any) -> Done:
        return Done()


@dataclass(frozen=True)
class PrintedCount(Printed):
    def parts(self, touch: Touch) -> tuple[str, ...]:
        return () if touch.left is not None and touch.came is not None else super().parts(touch)

    def decide(self, part: str, touch: Touch, held: Held) -> Put | None:
        if held.state is None:
            return self.put(touch, held, (1,)) if part == INSERT else None
        if self.processed(held, touch):
            return None
        (count,) = held.state.data
        if part == INSERT:
            return self.put(touch, held, (count + 1,))
        return self.put(touch, held, None if count == 1 else (count - 1,))


@dataclass(frozen=True)
class PrintedDistinct(PrintedCount):
    def row(self, key: Row, state: State) -> Row | None:
        return key


@dataclass(frozen=True)
class PrintedSum(Printed):
    def decide(self, part: str, touch: Touch, held: Held) -> Put | None:
        more = (touch.came.values[0] if touch.came else 0) - (touch.left.values[0] if touch.left else 0)
        if held.state is None:
            return None if part == DELETE else self.put(touch, held, (more,))
        if self.processed(held, touch):
            return None
        (total,) = held.state.data
        vanishes = part == DELETE and total == -more
        return self.put(touch, held, None if vanishes else (total + more,))


@dataclass(frozen=True)
class PrintedMin(Printed):
    signed: bool = False

    def parts(self, touch: Touch) -> tuple[str, ...]:
        both = touch.left is not None and touch.came is not None
        return (DELETE, INSERT) if both else super().parts(touch)

    def decide(self, part: str, touch: Touch, held: Held) -> Put | Ask | None:
        if part == INSERT:
            assert touch.came is not None
            (value,) = touch.came.values
            if held.state is None or value < held.state.data[0]:
                return self.put(touch, held, (value, 1))
            least, count = held.state.data
            return self.put(touch, held, (least, count + 1)) if value == least else None
        assert touch.left is not None
        if held.state is None or held.state.data[0] != touch.left.values[0]:
            return None
        least, count = held.state.data
        return self.put(touch, held, (least, count - 1)) if count > 1 else Ask(touch.key)

    def told(self, part: str, touch: Touch, held: Held, answer: Row | None) -> Put:
        return self.put(touch, held, None if answer is None else (*answer, 1))

    def row(self, key: Row, state: State) -> Row | None:
        return (*key, state.data[0])


@dataclass(frozen=True)
class PrintedKeyed(Printed):
    """Selections and projections that keep the key."""

    def decide(self, part: str, touch: Touch, held: Held) -> Put | None:
        if part == INSERT:
            assert touch.came is not None
            return None if held.state is not None else self.put(touch, held, touch.came.values)
        if held.state is None:
            return None if touch.came is None else self.put(touch, held, touch.came.values)
        if self.processed(held, touch):
            return None
        return self.put(touch, held, None if touch.came is None else touch.came.values)


@dataclass(frozen=True)
class PrintedJoin(Printed):
    """Side 0 refers to side 1, whose rows are read at the base: the question is a link, the answer the
    partner's values."""

    signed: bool = False

    def program(self, key: Key, touches: tuple[Touch, ...]) -> Program:
        if touches[0].side:
            changed = [t for t in touches if t.left is not None and t.came is not None]
            return Found(self, changed[-1]) if changed else _Nothing()
        return super().program(key, touches)

    def decide(self, part: str, touch: Touch, held: Held) -> Put | Ask | None:
        if part == DELETE:
            return None if held.state is None else self.put(touch, held, None)
        assert touch.came is not None and touch.came.link is not None
        return Ask(touch.came.link)

    def told(self, part: str, touch: Touch, held: Held, answer: Row | None) -> Put | None:
        assert touch.came is not None
        if answer is None:
            return None
        return self.put(touch, held, (touch.came.values, answer), touch.came.link)

    def row(self, key: Row, state: State) -> Row | None:
        values, other = state.data
        return (*key, *values, *other)


@dataclass(frozen=True)
class Found:
    """The rows of a partner that changed."""

    view: PrintedJoin
    touch: Touch

    @property
    def request(self) -> Tagged:
        return Tagged(self.touch.key)

    def advance(self, keys: tuple[Key, ...]) -> Done:
        return Done(tuple(Spread(self.view, key, self.touch) for key in keys))


@dataclass(frozen=True)
class Spread:
    view: PrintedJoin
    key: Key
    touch: Touch

    @property
    def request(self) -> Request:
        return Read(self.key)

    def advance(self, held: Held) -> Program | Done:
        if held.state is None or held.state.link != self.touch.key or self.touch.came is None:
            return Done()
        data = (held.state.data[0], self.touch.came.values)
        return Spreading(self, Put(self.key, held.version, held.state._replace(data=data), held.version + 1))


@dataclass(frozen=True)
class Spreading:
    begun: Spread
    request: Put

    def advance(self, done: bool) -> Program | Done:
        return Done() if done else self.begun
