"""The update program of a record: reads it, asks the base where its class must, and writes it by
test-and-set; over again if another manager was faster. (Algorithms 1 to 22 of "Consistency Results for View
Maintenance on Web Data Platforms", which differ in what a class does with the images.)

A program is a value. `request` is what it wants next, `advance` the program that goes on with the answer;
`Done` is one that wants nothing, and names programs that have to follow. So the simulator takes one step of
any program at a time, and a manager serves a thousand programs with one call to the store.

Three rules that the printed programs lack, each of them needed (docs/errata.md):
- a record that vanishes is kept, hidden, with its signature: else a repeated entry makes it again;
- a version is never used twice: else a record that was deleted and made again is taken for the old one;
- the record is read before the base is asked, and written even where nothing seems to be there to change:
  else what was asked may be old when it is written.

Counter-based test-and-set (`signed` is false) is for classes that are `idempotent`: an entry that comes again
leaves a record as it is. It rests on what a session is (`entry`): a base record has one entry in it, and the
base answers as of its end. Then what an entry brings is of the end, too; nothing goes back to what was before
it; and a record that vanished stays so until the next session, so it is removed at once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import reduce
from typing import Any, ClassVar, Protocol

from stillframe.records.entry import Touch
from stillframe.records.requests import Ask, Held, Put, Read, Request, State
from stillframe.records.signature import COUNTER, Signature
from stillframe.records.store import Key


class Program(Protocol):
    @property
    def request(self) -> Request: ...

    def advance(self, answer: Any) -> Program | Done: ...


@dataclass(frozen=True)
class Done:
    then: tuple[Program, ...] = ()


class ViewClass(Protocol):
    """How records of a class follow their base records. All methods are pure."""

    @property
    def idempotent(self) -> bool:
        """Whether an entry may be applied to a record that reflects it."""

    @property
    def signed(self) -> bool:
        """Whether records tell which entries they reflect."""

    @property
    def empty(self) -> Any:
        """The data of a record that nothing has touched, or that vanished."""

    def record(self, touch: Touch) -> Key:
        """The record that a touch is of."""

    def program(self, key: Key, touches: tuple[Touch, ...]) -> Program:
        """The program of touches of one record, in the order of the log within each stream."""

    def row(self, key: tuple[Any, ...], state: State) -> tuple[Any, ...] | None:
        """What readers see of a record."""


@dataclass(frozen=True)
class Folding:
    """A class whose records follow from their entries one by one, or from an answer of the base."""

    idempotent: ClassVar[bool] = False
    signed: bool = field(default=True, kw_only=True)

    @property
    def empty(self) -> Any:
        return None

    def record(self, touch: Touch) -> Key:
        return Key(touch.key)

    def program(self, key: Key, touches: tuple[Touch, ...]) -> Program:
        return Reading(self, key, touches)

    def fold(self, data: Any, touch: Touch) -> Any:
        raise NotImplementedError

    def asks(self, data: Any, touches: tuple[Touch, ...]) -> Any | None:
        """What the base has to be asked before these touches can be applied; None where they suffice."""
        return None

    def answered(self, data: Any, touches: tuple[Touch, ...], answer: Any) -> Any:
        """The data after these touches, of which the base gave this answer."""
        raise AssertionError("asks nothing")

    def row(self, key: tuple[Any, ...], state: State) -> tuple[Any, ...] | None:
        return None if state.data is None else (*key, *state.data)


@dataclass(frozen=True)
class Reading:
    """Of touches of one record, those that it does not reflect yet are applied, all in one write."""

    view: Folding
    key: Key
    touches: tuple[Touch, ...]
    then: tuple[Program, ...] = ()

    @property
    def request(self) -> Read:
        return Read(self.key)

    def advance(self, held: Held) -> Program | Done:
        state = held.state or untouched(self.view)
        new = state.signature.unseen(self.touches)
        if not new:
            return Done(self.then)
        question = self.view.asks(state.data, new)
        if question is not None:
            return Asking(self, held, new, question)
        data = reduce(self.view.fold, new, state.data)
        return Writing(self, written(self.view, self.key, held, State(state.signature.after(new), data)))


@dataclass(frozen=True)
class Asking:
    begun: Reading
    held: Held
    new: tuple[Touch, ...]
    question: Any

    @property
    def request(self) -> Ask:
        return Ask(self.question)

    def advance(self, answer: Any) -> Writing:
        view = self.begun.view
        state = self.held.state or untouched(view)
        data = view.answered(state.data, self.new, answer)
        after = State(state.signature.after(self.new), data)
        return Writing(self.begun, written(view, self.begun.key, self.held, after))


@dataclass(frozen=True)
class Writing:
    begun: Reading
    put: Put

    @property
    def request(self) -> Put:
        return self.put

    def advance(self, done: bool) -> Program | Done:
        return Done(self.begun.then) if done else self.begun


def untouched(view: ViewClass) -> State:
    """The state of a record that nothing has touched."""
    return State(Signature() if view.signed else COUNTER, view.empty)


def written(view: ViewClass, key: Key, held: Held, state: State) -> Put:
    """A record that vanished stays for its signature alone."""
    forgotten = not view.signed and state.data == view.empty
    return Put(key, held.version, None if forgotten else state)
