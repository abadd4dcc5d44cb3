"""The views that checks make, and what checks are made of."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from decimal import Decimal
from itertools import count
from threading import Barrier
from typing import Any, NamedTuple, Protocol, TypeVar

from stillframe.algebra import types as t
from stillframe.algebra.schema import Column, Schema
from stillframe.records.store import Key, Record, RecordStore, Write


class View(NamedTuple):
    name: str
    schema: Schema
    key: tuple[int, ...]


def _view(name: str, key: tuple[int, ...], **columns: t.Type) -> View:
    return View(name, Schema(tuple(Column(each, type_) for each, type_ in columns.items())), key)


ORDERS = _view("orders", (1, 0), number=t.BIGINT, region=t.STRING, total=t.decimal(12, 2))
NEIGHBOUR = ORDERS._replace(name="orders_of")
ONE_ROW = _view('100% of "it": rows*', (), count=t.BIGINT, last=t.DATE)
EVERY_TYPE = _view(
    "every_type", (0, 1, 2, 3, 4, 5, 6),
    word=t.STRING, number=t.BIGINT, price=t.decimal(12, 2), day=t.DATE, moment=t.TIMESTAMP, flag=t.BOOLEAN,
    raw=t.BINARY, ratio=t.DOUBLE, tiny=t.TINYINT, small=t.SMALLINT, middle=t.INT, wide=t.decimal(38, 10),
    rowid=t.STRING, version=t.DATE, kept=t.TIMESTAMP, id=t.BOOLEAN, tag=t.BINARY,
)  # fmt: skip
WIDE_KEY = View("wide_key", Schema(tuple(Column(f"part {n}", t.STRING) for n in range(40))), tuple(range(40)))


class Maker(Protocol):
    def __call__(self, epoch: int, view: View = ORDERS, /) -> RecordStore: ...


Check = Callable[[Maker], None]
T = TypeVar("T")

THREADS = 8
TURNS = 200
VERSIONS = count((1 << 61) + 1)  # more digits than a double has, each used once


def key_of(number: int | None, region: str | None = "north") -> Key:
    return Key((region, number))


def record(key: Key, total: str = "1.00", kept: bytes = b"") -> Record:
    region, number = key.values
    return Record(next(VERSIONS), (number, region, Decimal(total)), kept)


def made(make: Maker, view: View = ORDERS) -> RecordStore:
    store = make(1, view)
    store.create()
    return store


def put(store: RecordStore, *writes: Write) -> None:
    done = store.test_and_set(writes)
    assert done == [True] * len(writes), f"of writes that expect what is there, done: {done}"


def at_once(work: Callable[[int], T], threads: int = THREADS) -> list[T]:
    """The work of several threads that begin together."""
    barrier = Barrier(threads)

    def begun(n: int) -> T:
        barrier.wait(60)
        return work(n)

    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(begun, range(threads), timeout=300))


def same(found: Iterable[Sequence[Any]], wanted: Iterable[Sequence[Any]]) -> bool:
    """As bags of rows, types of values and digits of decimals included."""
    return Counter(map(exact, found)) == Counter(map(exact, wanted))


def exact(row: Sequence[Any]) -> tuple[tuple[str, str], ...]:
    return tuple((type(v).__name__, str(v.astimezone(UTC) if isinstance(v, datetime) else v)) for v in row)


def shown(records: Iterable[Record]) -> list[tuple[Any, ...]]:
    return [record.shown for record in records if record.shown is not None]
