"""A view manager: takes the entries of its streams in order, some at a time, and brings the records up to
them.

Entries that touch one record are applied in one write. Programs of different records run side by side: in
each round the store is asked once for all they want to read, and once for all they want to write. What
another manager was faster with is tried again. A manager keeps nothing: one that dies is replaced by one
that begins again, and finds by the records' signatures what was done."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import astuple, dataclass, field
from itertools import count
from operator import add
from typing import Any

from stillframe.records.encoding import key_text
from stillframe.records.entry import Entry, Touch, touches
from stillframe.records.keeping import bytes_of, state_of
from stillframe.records.program import Done, Program, untouched
from stillframe.records.requests import Ask, Held, Put, Read, State, Tagged
from stillframe.records.store import ABSENT, Key, Record, RecordStore, Write
from stillframe.records.view import Served

AT_ONCE = 50_000  # entries whose records are brought forward together
LARGEST = 2  # times as many, if they are all of one record
PER_CALL = 500  # records of one call to the store

Answers = Callable[[Sequence[Any]], Sequence[Any]]  # the base's, to questions of the view's class


@dataclass
class Tally:
    """What a manager did. A conflict is a write that came too late."""

    entries: int = 0
    reads: int = 0
    writes: int = 0
    conflicts: int = 0
    asked: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*map(add, astuple(self), astuple(other)))


@dataclass
class Manager:
    served: Served
    store: RecordStore
    ask: Answers
    versions: Iterator[int] = field(default_factory=lambda: count(_first_version()))
    since: int = 0  # what records reflect of earlier sessions is forgotten: the view was loaded anew
    tally: Tally = field(default_factory=Tally)

    def take(self, entries: Iterable[Entry]) -> Tally:
        """All of some streams' entries, each stream's in order."""
        for some in _entries(entries, AT_ONCE):
            self.tally.entries += len({(entry.stream, entry.position) for entry in some})
            for programs in _some(self._programs(some), PER_CALL):  # soon written after it was read
                self._run(programs)
        return self.tally

    def begin(self, session: int) -> None:
        """The one record of a view that has one, also where nothing is in the base."""
        key = Key(())
        ((version, kept),) = self.store.kept([key])
        if self.served.is_one and self._held(version, kept).state is None:
            first = untouched(self.served.view).signature._replace(session=session)
            state = State(first, self.served.of_nothing)
            self.store.test_and_set([self._write(Put(key, version, state))])

    def _programs(self, entries: Iterable[Entry]) -> Iterator[Program]:
        by_record: dict[Key, list[Touch]] = {}
        for entry in entries:
            for touch in touches(entry):
                by_record.setdefault(self.served.view.record(touch), []).append(touch)
        for key, of in by_record.items():
            yield self.served.view.program(key, tuple(of))

    def _run(self, programs: list[Program]) -> None:
        while programs:
            following: list[Program] = []
            for program, answer in self._answered(programs):
                found = program.advance(answer)
                following += found.then if isinstance(found, Done) else (found,)
            programs = following

    def _answered(self, programs: Sequence[Program]) -> Iterator[tuple[Program, Any]]:
        reading = [(program, r) for program in programs if isinstance(r := program.request, Read)]
        asking = [(program, r) for program in programs if isinstance(r := program.request, Ask)]
        writing = [(program, r) for program in programs if isinstance(r := program.request, Put)]
        for some in _some(reading, PER_CALL):
            self.tally.reads += len(some)
            for (program, _), found in zip(some, self.store.kept([r.key for _, r in some]), strict=True):
                yield program, self._held(*found)
        for program in programs:
            if isinstance(request := program.request, Tagged):
                yield program, tuple(self.store.tagged(key_text(request.link)))
        if asking:
            self.tally.asked += len(asking)
            answers = self.ask([request.question for _, request in asking])
            yield from zip((program for program, _ in asking), answers, strict=True)
        yield from self._written(writing)

    def _held(self, version: int, kept: bytes) -> Held:
        if version == ABSENT:
            return Held()
        state = state_of(kept)
        return Held(version, state if state.signature.session >= self.since else None)

    def _written(self, writing: list[tuple[Program, Put]]) -> Iterator[tuple[Program, bool]]:
        """Two programs of one record, as two partners of one row may start, are not written at once."""
        taken: set[Key] = set()
        first: list[tuple[Program, Put]] = []
        for program, put in writing:
            if put.key in taken:
                yield program, False
            else:
                taken.add(put.key)
                first.append((program, put))
        for some in _some(first, PER_CALL):
            done = self.store.test_and_set([self._write(put) for _, put in some])
            for (program, _), success in zip(some, done, strict=True):
                self.tally.writes += success
                self.tally.conflicts += not success
                yield program, success

    def _write(self, put: Put) -> Write:
        if put.state is None:
            return Write(put.key, put.expected, None)
        shown = None if put.key.kind else self.served.shown(put.key.values, put.state)
        record = Record(next(self.versions), shown, bytes_of(put.state))
        return Write(put.key, put.expected, record, self._tag(put.key, put.state))

    def _tag(self, key: Key, state: State) -> str | None:
        if state.link is not None:
            return key_text(state.link)
        return gone(state.signature.session) if self.served.vanished(key, state) else None


def _some(items: Iterable[Any], size: int) -> Iterator[list[Any]]:
    some: list[Any] = []
    for item in items:
        some.append(item)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some


def _entries(entries: Iterable[Entry], size: int) -> Iterator[list[Entry]]:
    """What has one place in the log is never parted within a record: one that reflects a part of it is taken
    to reflect all. What follows itself in one record is parted only where it is a lot."""
    some: list[Entry] = []
    for entry in entries:
        if len(some) >= size:
            large = len(some) >= LARGEST * size and entry[:2] != some[-1][:2]
            if large or _key(entry) != _key(some[-1]):
                yield some
                some = []
        some.append(entry)
    if some:
        yield some


def _key(entry: Entry) -> tuple[Any, ...]:
    image = entry.after or entry.before
    return image.key if image else ()


def gone(session: int) -> str:
    """The tag of records that vanished in a session. They are kept while entries of it may come again."""
    return f"%gone:{session}"  # which no link spells


def forget(store: RecordStore, session: int) -> None:
    """A session is done and followed by another: what vanished in it need not be known any more."""
    for keys in _some(store.tagged(gone(session)), PER_CALL):
        found = zip(keys, store.kept(keys), strict=True)
        store.test_and_set(
            [
                Write(key, version, None)
                for key, (version, kept) in found
                if kept and state_of(kept).signature.session <= session  # else it came again
            ]
        )


def _first_version() -> int:
    """Where a manager begins to count, out of so many numbers that no two ever meet. Of the system's
    randomness: processes that are copies of one another must not agree."""
    return (int.from_bytes(os.urandom(8)) >> 2) + 1
