"""Joins of a key with a foreign key (algorithm 10): side 0 refers to side 1. Strong.

    record of a row x:         data = (the row's values, its partner's values or None), linked to the partner
    record of a partner y:     kind `partner`, never shown; data = the partner's values, or None

Partners are kept in the store, as they were when their entries came, so no base is read. Two managers work on
the two sides of a join at once, and neither may miss the other:

    row:      read x, read y, write x with its link; read y again: if it is another by now, refresh x
    partner:  write y; then find all rows that are linked to it, and refresh each
    refresh:  read x, read its partner, write x if it shows an older one

A row that is written before the partner's manager looks for rows is found by it; one that is written later
reads the partner again after that, and finds it changed. Partners that a row shows are in order, because a
write of the row holds only if nobody wrote it since it was read, and the partner is read after that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from stillframe.records.entry import Row, Touch
from stillframe.records.keyed import Keyed
from stillframe.records.program import Done, Program, Reading, untouched, written
from stillframe.records.requests import Held, Put, Read, State, Tagged
from stillframe.records.store import Key

PARTNER = "partner"


def partner(link: Row) -> Key:
    return Key(link, PARTNER)


@dataclass(frozen=True)
class Joined:
    idempotent: ClassVar[bool] = True
    empty: ClassVar[None] = None
    signed: bool = True

    def record(self, touch: Touch) -> Key:
        return partner(touch.key) if touch.side else Key(touch.key)

    def program(self, key: Key, touches: tuple[Touch, ...]) -> Program:
        if key.kind == PARTNER:
            return Reading(Keyed(signed=self.signed), key, touches, then=(Spreading(key.values),))
        return Linking(self, key, touches)

    def row(self, key: Row, state: State) -> Row | None:
        if state.data is None:
            return None
        values, other = state.data
        return None if other is None else (*key, *values, *other)


@dataclass(frozen=True)
class Linking:
    view: Joined
    key: Key
    touches: tuple[Touch, ...]

    @property
    def request(self) -> Read:
        return Read(self.key)

    def advance(self, held: Held) -> Program | Done:
        signature = (held.state or untouched(self.view)).signature
        new = signature.unseen(self.touches)
        if not new:  # written before, perhaps by one that died before it looked again
            return Refreshing(self.key)
        came, after = new[-1].came, signature.after(new)
        if came is None or came.link is None:
            data = None if came is None else (came.values, None)
            return Writing(self, written(self.view, self.key, held, State(after, data)), Done())
        return Meeting(self, held, State(after, (came.values, None), came.link))


@dataclass(frozen=True)
class Meeting:
    """The partner of a row that is about to be written."""

    begun: Linking
    held: Held
    state: State

    @property
    def request(self) -> Read:
        assert self.state.link is not None
        return Read(partner(self.state.link))

    def advance(self, other: Held) -> Program:
        key = self.begun.key
        state = _with_partner(self.state, other)
        assert state.link is not None
        return Writing(
            self.begun, Put(key, self.held.version, state), Looking(key, state.link, other.version)
        )


@dataclass(frozen=True)
class Writing:
    begun: Program
    put: Put
    then: Program | Done

    @property
    def request(self) -> Put:
        return self.put

    def advance(self, done: bool) -> Program | Done:
        return self.then if done else self.begun


@dataclass(frozen=True)
class Looking:
    """Whether a partner is still what the row was written with."""

    key: Key
    link: Row
    version: int

    @property
    def request(self) -> Read:
        return Read(partner(self.link))

    def advance(self, other: Held) -> Program | Done:
        return Done() if other.version == self.version else Refreshing(self.key)


@dataclass(frozen=True)
class Spreading:
    link: Row

    @property
    def request(self) -> Tagged:
        return Tagged(self.link)

    def advance(self, keys: tuple[Key, ...]) -> Done:
        return Done(tuple(Refreshing(key) for key in keys))


@dataclass(frozen=True)
class Refreshing:
    key: Key

    @property
    def request(self) -> Read:
        return Read(self.key)

    def advance(self, held: Held) -> Program | Done:
        if held.state is None or held.state.link is None:
            return Done()
        return Renewing(self, held)


@dataclass(frozen=True)
class Renewing:
    begun: Refreshing
    held: Held

    @property
    def request(self) -> Read:
        assert self.held.state is not None and self.held.state.link is not None
        return Read(partner(self.held.state.link))

    def advance(self, other: Held) -> Program | Done:
        assert self.held.state is not None
        state = _with_partner(self.held.state, other)
        if state == self.held.state:
            return Done()
        return Writing(self.begun, Put(self.begun.key, self.held.version, state), Done())


def _with_partner(state: State, other: Held) -> State:
    values: Any = state.data[0]
    return state._replace(data=(values, other.state.data if other.state else None))
