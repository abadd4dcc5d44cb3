"""Values of every type, keys and tags of any length, records of any size and number."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from stillframe.records.conformance.world import (
    EVERY_TYPE,
    ONE_ROW,
    VERSIONS,
    WIDE_KEY,
    Check,
    Maker,
    exact,
    key_of,
    made,
    put,
    record,
    same,
    shown,
)
from stillframe.records.store import ABSENT, Key, Record, Write


def check_every_type_comes_back(make: Maker) -> None:
    store = made(make, EVERY_TYPE)
    rows = _rows_of_every_type()
    records = {Key(row[:7]): Record(next(VERSIONS), row, b"k") for row in rows}
    assert len(records) == len(rows)
    put(store, *(Write(key, ABSENT, each) for key, each in records.items()))
    found = store.read(list(records))
    for got, wanted in zip(found, records.values(), strict=True):
        assert got.shown is not None
        assert exact(got.shown) == exact(wanted.shown or ()), f"{got.shown} for {wanted.shown}"
    assert same(store.scan(), shown(records.values()))
    kinds = {Key(key.values, "kind"): Record(next(VERSIONS), None) for key in records}
    later = {key: each._replace(version=next(VERSIONS)) for key, each in records.items()}
    put(store, *(Write(key, ABSENT, each, "by kind") for key, each in kinds.items()))
    put(store, *(Write(key, records[key].version, each, "by key") for key, each in later.items()))
    for tag in ("by kind", "by key"):
        assert same((key.values for key in store.tagged(tag)), (key.values for key in records)), tag
    put(store, *(Write(key, each.version, None) for key, each in later.items()))
    assert list(store.scan()) == []


def _rows_of_every_type() -> list[tuple[Any, ...]]:
    """Each row is a key, and the same kinds of values beside it."""
    words = ["", " ", ":", "%", "%N", "a:b", "%3A", "NULL", "null", "Zoë 日本 🦆", "'\"\\\n\t", "x" * 1000]
    days = [date(1, 1, 1), date(1969, 12, 31), date(1970, 1, 1), date(9999, 12, 31)]
    east = timezone(timedelta(hours=5, minutes=30))
    moments = [
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1969, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
        datetime(2026, 11, 16, 8, 30, 0, 1, tzinfo=east),
        datetime(9999, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC),
    ]
    prices = [Decimal(text) for text in ("0.00", "-0.01", "1.50", "-9999999999.99", "9999999999.99")]
    wide = ("0E-10", "0.1000000000", "-12345678.9012345678", "9" * 28 + ".0000000001")
    wides = [Decimal(text) for text in wide]
    ratios = [0.0, 0.1, -1e300, 5e-324, math.inf, -math.inf, math.nan, 2.0**53]
    numbers = [0, 1, -1, 2**63 - 1, -(2**63), 2**53 + 1]
    raws = [b"", b"\0", b"\xff\xfe", bytes(range(256))]
    rows: list[tuple[Any, ...]] = [(None,) * 17]
    for n in range(24):
        each: list[list[Any]] = [words, numbers, prices, days, moments, [True, False], raws]
        key = tuple(values[n % len(values)] for values in each)
        ends = ([127, -128][n % 2], [32767, -32768][n % 2], [2**31 - 1, -(2**31)][n % 2])
        rest = (words[-1] * 10, days[n % 4], moments[n % 4], n % 2 == 1, raws[n % 4])
        row = (*key, ratios[n % len(ratios)], *ends, wides[n % 4], *rest)
        rows.append(row if n < 12 else tuple(None if (n + i) % 3 == 0 else v for i, v in enumerate(row)))
    return rows


def check_null_keys(make: Maker) -> None:
    store = made(make)
    keys = [key_of(None, None), key_of(None, ""), key_of(None, "NULL"), key_of(0, None), key_of(0, "")]
    records = {key: record(key, f"{n}.00") for n, key in enumerate(keys)}
    put(store, *(Write(key, ABSENT, each) for key, each in records.items()))
    assert store.test_and_set([Write(key, ABSENT, record(key)) for key in keys]) == [False] * len(keys)
    assert store.read(keys) == list(records.values())
    changed = {key: record(key, "7.00") for key in keys}
    put(store, *(Write(key, records[key].version, each) for key, each in changed.items()))
    assert same(store.scan(), shown(changed.values())), "NULL is not NULL"
    put(store, Write(keys[0], changed[keys[0]].version, None))
    assert len(list(store.scan())) == len(keys) - 1


def check_long_keys_and_tags(make: Maker) -> None:
    """Of which no index holds more than a few thousand characters."""
    store, rng = made(make), random.Random(11)
    for size in (10, 10_000):
        text = "".join(chr(rng.randrange(0x100, 0xD7FF)) for _ in range(size))
        key, kind, tag = key_of(1, text), Key((text, 1), "kind"), text[::-1]
        first, second, hidden = record(key), record(key, "2.00"), Record(next(VERSIONS), None)
        put(store, Write(key, ABSENT, first, tag), Write(kind, ABSENT, hidden, tag))
        put(store, Write(key, first.version, second, tag))
        assert store.read([key, kind]) == [second, hidden]
        assert set(store.tagged(tag)) == {key, kind}
        put(store, Write(key, second.version, None))
    wide = made(make, WIDE_KEY)
    row = tuple(f"{n}" if n % 3 else None for n in range(40))
    put(wide, Write(Key(row), ABSENT, Record(next(VERSIONS), row)))
    assert [each.shown for each in wide.read([Key(row)])] == list(wide.scan()) == [row]


def check_large_and_many(make: Maker) -> None:
    store = made(make)
    kept = random.Random(3).randbytes(100_000)
    records = {key_of(n): record(key_of(n), kept=kept if n == 1000 else b"") for n in range(2000)}
    put(store, *(Write(key, ABSENT, each, f"of {n % 2}") for n, (key, each) in enumerate(records.items())))
    assert store.read(list(records)) == list(records.values())
    assert same(store.scan(), shown(records.values()))
    assert len(store.tagged("of 1")) == 1000
    put(store, *(Write(key, each.version, None) for key, each in records.items()))
    assert list(store.scan()) == store.tagged("of 0") == []


def check_a_view_of_one_row(make: Maker) -> None:
    store, key = made(make, ONE_ROW), Key(())
    first, second = Record(next(VERSIONS), (0, None)), Record(next(VERSIONS), (None, None))
    put(store, Write(key, ABSENT, first, "tag"))
    assert store.tagged("tag") == [key]
    assert list(store.scan()) == [(0, None)]
    put(store, Write(key, first.version, second))
    assert store.read([key]) == [second]
    assert list(store.scan()) == [(None, None)], "a row of NULLs is a row"
    put(store, Write(key, second.version, Record(next(VERSIONS), None)))
    assert list(store.scan()) == []


CHECKS: tuple[Check, ...] = (
    check_every_type_comes_back,
    check_null_keys,
    check_long_keys_and_tags,
    check_large_and_many,
    check_a_view_of_one_row,
)
