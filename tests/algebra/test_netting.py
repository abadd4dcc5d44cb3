"""Signed rows added up in columns: what adding up each row as a whole gives."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from stillframe.algebra import netting
from stillframe.algebra.arrow import COUNT, staged_schema
from stillframe.algebra.netting import netted
from stillframe.algebra.types import BIGINT, BOOLEAN, DATE, DOUBLE, INT, STRING, TIMESTAMP, Type, decimal

VALUES: dict[Type, list[Any]] = {
    BIGINT: [0, 1, -1, 2**63 - 1, -(2**63)],
    INT: [0, 7, -7],
    STRING: ["", "a", "b", "é", "1 of 2 long texts", "2 of 2 long texts", "a longer one of 2 long texts"],
    BOOLEAN: [True, False],
    DOUBLE: [0.5, -1.5],
    DATE: [date(1970, 1, 1), date(2024, 2, 29)],
    TIMESTAMP: [datetime(1970, 1, 1, tzinfo=UTC), datetime(2024, 1, 1, microsecond=1, tzinfo=UTC)],
    decimal(9, 2): [Decimal("0.00"), Decimal("1.50"), Decimal("-1.50")],
    decimal(38, 0): [Decimal(0), Decimal(2**64), Decimal(2**64 + 1), Decimal(-1), Decimal(10**37)],
}


def random_table(random: Random) -> pa.Table:
    types = [random.choice(list(VALUES)) for _ in range(random.randrange(1, 5))]
    schema = staged_schema(types)
    parts = []
    for _ in range(random.randrange(4)):
        rows = random.choice([0, 1, 5, 40, 200])
        columns = [[random.choice([None, *VALUES[t]]) for _ in range(rows)] for t in types]
        counts = [random.choice([-2, -1, 0, 1, 1, 1]) for _ in range(rows)]
        table = pa.table(
            [pa.array(c, f.type) for c, f in zip([*columns, counts], schema, strict=True)], schema=schema
        )
        parts.append(table.slice(random.randrange(rows + 1)))
    return pa.concat_tables([schema.empty_table(), *parts])


def added_up(table: pa.Table) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for *row, count in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found[tuple(row)] += count
    return found


def check(seed: int) -> None:
    table = random_table(Random(seed))
    net = netted(table)
    assert net.schema == table.schema
    expected = {row: count for row, count in added_up(table).items() if count}
    assert dict(added_up(net)) == expected, f"seed {seed}"
    if not (table.num_rows and all(c == 1 for c in table.column(COUNT).to_pylist())):
        assert net.num_rows == len(expected), f"seed {seed}: a row is there twice"


@pytest.mark.parametrize("many", [1, 50_000])
def test_each_row_is_there_once_with_the_sum_of_its_counts(
    many: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In parts, side by side, and as a whole."""
    monkeypatch.setattr(netting, "_MANY", many)
    for seed in range(1_500):
        check(seed)


def test_counts_may_stand_anywhere() -> None:
    table = pa.table({COUNT: pa.array([1, -1, 2], pa.int64()), "c0": pa.array([5, 5, 6], pa.int64())})
    assert netted(table).to_pylist() == [{COUNT: 2, "c0": 6}]


def test_what_lies_under_a_null_does_not_matter() -> None:
    """The same row twice, with different bytes where its NULL stands."""
    for type_, values in ((pa.int64(), [5, 6]), (pa.decimal128(20, 0), [Decimal(5), Decimal(6)])):
        known = pa.array(values, type_)
        both = pa.Array.from_buffers(type_, 2, [pa.py_buffer(b"\0"), known.buffers()[1]], null_count=2)
        table = pa.table([both, pa.array([1, -1])], names=["c0", COUNT])
        assert netted(table).num_rows == 0
    bounds, data = pa.array([0, 1, 4], pa.int32()).buffers()[1], pa.py_buffer(b"abcd")
    texts = pa.Array.from_buffers(pa.string(), 2, [pa.py_buffer(b"\0"), bounds, data], null_count=2)
    assert netted(pa.table([texts, pa.array([1, -1])], names=["c0", COUNT])).num_rows == 0


def test_texts_of_no_bytes_and_no_texts_at_all() -> None:
    nothing = pa.py_buffer(b"")
    none = pa.Array.from_buffers(pa.string(), 0, [None, nothing, nothing])
    bounds = pa.array([0, 0, 0], pa.int32()).buffers()[1]
    empty = pa.Array.from_buffers(pa.string(), 2, [None, bounds, nothing])
    counts = pa.chunked_array([pa.array([], pa.int64()), pa.array([1, -1], pa.int64())])
    table = pa.table([pa.chunked_array([none, empty]), counts], names=["c0", COUNT])
    assert netted(table).num_rows == 0
