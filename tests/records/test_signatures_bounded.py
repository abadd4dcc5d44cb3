"""Signatures stay bounded in size however long the log, and safe when streams are dealt out anew: the oldest
entry that can still come is delivered again after a million others."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any
from zlib import crc32

import pytest
from memory_store import MemoryStore, making

from stillframe.algebra import Ref
from stillframe.algebra.schema import Column, Schema
from stillframe.algebra.types import BIGINT
from stillframe.records.aggregates import Aggregates, Measure
from stillframe.records.conformance import View
from stillframe.records.entry import STREAMS, Entry, Image, Position, Touch
from stillframe.records.extremes import Extreme
from stillframe.records.manager import Manager
from stillframe.records.program import ViewClass
from stillframe.records.signature import Signature
from stillframe.records.store import Key
from stillframe.records.view import Served

MILLION = 1_000_000
COLD = 20
HOT = Key((0,))
TOTALS = View("totals", Schema((Column("group_", BIGINT), Column("total", BIGINT))), (0,))
SUM = Aggregates((Measure("sum", BIGINT, 0),))

# A mark is a stream and a place: two digits, and fourteen where a place is of the side that comes second.
BOUND = 100 + STREAMS * len("[63,00000000000000],")


def image(row: int) -> Image:
    """Half of all rows are of one group."""
    return _IMAGES[row % len(_IMAGES)]


_IMAGES = [Image((0 if n % 2 else n % COLD + 1,), (n,)) for n in range(100 * COLD)]


@dataclass
class Log:
    """Rows that come, a value each, in the piece of one session."""

    session: int
    rows: range
    streams: dict[int, list[int]] = field(init=False)

    def __post_init__(self) -> None:
        self.streams = {stream: [] for stream in range(STREAMS)}
        for row in self.rows:
            self.streams[crc32(b"%d" % row) % STREAMS].append(row)

    def entries(self, streams: Sequence[int], most: int = MILLION) -> Iterator[Entry]:
        for stream in streams:
            for place, row in enumerate(self.streams[stream][:most]):
                yield Entry(stream, Position(self.session, place), None, image(row))


@dataclass
class World:
    """A store, and as many managers of a session as it is dealt out to."""

    view: ViewClass = SUM
    store: MemoryStore = field(default_factory=lambda: making()(1, TOTALS))  # type: ignore[assignment, return-value]
    largest: int = 0

    def __post_init__(self) -> None:
        self.store.create()
        outputs = tuple(Ref(at, column.type) for at, column in enumerate(TOTALS.schema))
        self.served = Served("aggregate", self.view, (), outputs, TOTALS.key, "strong")

    def drive(self, log: Log, managers: int, most: int = MILLION) -> None:
        for number in range(managers):
            streams = range(number, STREAMS, managers)
            Manager(self.served, self.store, lambda questions: ()).take(log.entries(streams, most))
            self.largest = max(self.largest, *self.sizes())

    def sizes(self) -> list[int]:
        return [len(record.kept) for record, _ in self.store.records().values()]

    def shown(self) -> dict[int, Any]:
        return dict(self.store.scan())  # type: ignore[arg-type]


def groups(folded: Callable[[list[int]], int], *logs: Log) -> dict[int, int]:
    values: dict[int, list[int]] = {}
    for log in logs:
        for row in log.rows:
            values.setdefault(image(row).key[0], []).append(image(row).values[0])
    return {group: folded(those) for group, those in values.items()}


def driven(rows: int, view: ViewClass = SUM) -> tuple[World, Log, Log]:
    """Two sessions; the second dies when all of it is done, and has not said so."""
    world, first, second = World(view), Log(1, range(1, 2001)), Log(2, range(2001, 2001 + rows))
    world.drive(first, managers=3)
    world.drive(second, managers=4)
    return world, first, second


def delivered_again(world: World, first: Log, second: Log) -> None:
    """To other managers than before: the oldest entry of every stream of the piece, then all of one stream;
    and the oldest of the session before, which a fence would stop."""
    before = dict(world.store.records())
    world.drive(second, managers=7, most=1)
    Manager(world.served, world.store, lambda questions: ()).take(second.entries([5]))
    world.drive(first, managers=5, most=1)
    assert world.store.records() == before, "what came again did harm"


def test_the_oldest_entry_comes_again_after_a_million_others(capsys: pytest.CaptureFixture[str]) -> None:
    began = time.process_time()
    world, first, second = driven(MILLION)
    assert world.shown() == groups(sum, first, second)
    delivered_again(world, first, second)
    (hot,) = world.store.read([HOT])
    with capsys.disabled():
        spent = time.process_time() - began
        print(f"\na million entries in {spent:.0f} s: {len(hot.kept)} bytes of a record, {BOUND} at most")
    assert len(hot.kept) == world.largest <= BOUND


def test_counters_keep_no_marks() -> None:
    world, first, second = driven(20_000, Extreme(signed=False, function="max"))
    assert world.shown() == groups(max, first, second)
    assert world.largest <= len("[2,null,[1999],null]")
    world.drive(second, managers=7, most=1)
    assert world.shown() == groups(max, first, second)


# The same with signatures that are wrong, and fewer rows.

FEW = 20_000


def test_a_right_signature_stands_few_rows() -> None:
    world, first, second = driven(FEW)
    delivered_again(world, first, second)
    assert world.largest <= BOUND


def test_marks_that_are_dropped_are_missed(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Signature.after

    def some(self: Signature, touches: Any) -> Signature:
        found = whole(self, touches)
        return found._replace(marks=(found.marks or ())[-8:])

    monkeypatch.setattr(Signature, "after", some)
    with pytest.raises(AssertionError, match="did harm"):
        delivered_again(*driven(FEW))


def test_marks_by_manager_are_mixed_up_when_streams_are_dealt_out_anew(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if the fourth part of all streams were one."""

    def unseen(self: Signature, touches: Any) -> tuple[Touch, ...]:
        return right(self, [touch._replace(stream=touch.stream % 4) for touch in touches])

    def after(self: Signature, touches: Any) -> Signature:
        return whole(self, [touch._replace(stream=touch.stream % 4) for touch in touches])

    right, whole = Signature.unseen, Signature.after
    monkeypatch.setattr(Signature, "unseen", unseen)
    monkeypatch.setattr(Signature, "after", after)
    world, first, second = driven(FEW)
    with pytest.raises(AssertionError):
        assert world.shown() == groups(sum, first, second)
        delivered_again(world, first, second)


def test_a_signature_that_grows_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has all places."""

    def after(self: Signature, touches: Any) -> Signature:
        more = tuple((touch.stream, touch.position.number) for touch in touches)
        return Signature(2, (*(self.marks or ()), *more))

    monkeypatch.setattr(Signature, "after", after)
    monkeypatch.setattr(Signature, "unseen", lambda self, touches: tuple(touches))
    world, _, _ = driven(2_000)
    assert world.largest > BOUND
