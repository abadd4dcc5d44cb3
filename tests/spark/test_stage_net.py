"""Two whole states are compared by the engine: what is staged of them is their difference, however large
they are."""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillframe.algebra import types as t
from stillframe.algebra.arrow import COUNT, staged_schema
from stillframe.algebra.bag import Bag
from stillframe.engine import Engine, Read, Room, Staged, stage
from stillframe.errors import SourceError

pytestmark = pytest.mark.engine

staging = sys.modules["stillframe.engine.stage"]

TYPES = (t.BIGINT, t.STRING, t.DOUBLE, t.decimal(38, 10), t.TIMESTAMP, t.DATE, t.BINARY, t.BOOLEAN)


def row(i: int, n: int = 0) -> tuple[Any, ...]:
    return (
        i,
        None if i % 11 == 0 else f"s{i % 7} ä\0{n}",
        [None, float("nan"), -0.0, 0.0, i / 3][i % 5],
        Decimal(i * 10**20 + n).scaleb(-10) if i % 3 else None,
        datetime(1, 1, 1, tzinfo=UTC) if i % 13 == 0 else datetime(9999, 12, 31, 23, 59, 59, i % 1000, UTC),
        date(9999, 12, 31) if i % 2 else None,
        bytes([i % 256, 0, 255]),
        [True, False, None][i % 3],
    )


def batches(signed: list[tuple[tuple[Any, ...], int]], types: tuple[t.Type, ...]) -> Iterator[pa.RecordBatch]:
    schema = staged_schema(types)
    for begin in range(0, len(signed), 10_000):
        part = signed[begin : begin + 10_000]
        columns = [[r[c] for r, _ in part] for c in range(len(types))] + [[count for _, count in part]]
        yield pa.RecordBatch.from_arrays(
            [pa.array(values, field.type) for values, field in zip(columns, schema, strict=True)],
            schema=schema,
        )


def reading(signed: list[tuple[tuple[Any, ...], int]], types: tuple[t.Type, ...]) -> Read:
    """What a task can run anywhere."""
    return partial(iter, list(batches(signed, types)))


def staged_bag(staged: Staged) -> Bag:
    rows = [pq.read_table(path) for path in staged.files]
    pairs = []
    for table in rows:
        columns = [table.column(name).to_pylist() for name in table.column_names]
        counts = columns.pop()
        pairs += list(zip(zip(*columns, strict=True) if columns else [()] * len(counts), counts, strict=True))
    return Bag(pairs)


def difference(before: list[Any], after: list[Any]) -> list[tuple[tuple[Any, ...], int]]:
    return [*((r, 1) for r in after), *((r, -1) for r in before)]


def test_the_difference_of_two_large_states(engine: Engine, tmp_path: Path) -> None:
    rng = random.Random(3)
    before = [row(i) for i in range(40_000)] + [row(5)] * 3
    after = before[100:] + [row(5)] * 2 + [row(i, 7) for i in range(50_000, 50_100)]
    rng.shuffle(after)
    signed = difference(before, after)
    staged = stage(lambda: engine, reading(signed, TYPES), range(8), TYPES, tmp_path / "x", net=True)
    expected = Bag(signed)
    assert expected.size > 150
    assert staged_bag(staged) == expected
    assert staged.rows == len(expected) and staged.small and not staged.plain
    assert [path.name for path in staged.files] == ["part-0.parquet"]
    assert not (tmp_path / "x" / "raw").exists(), "what was compared is not kept"
    assert set(staged.table([0]).column(0).to_pylist()) == {r[0] for r in expected}


def test_equal_states_leave_nothing(engine: Engine, tmp_path: Path) -> None:
    rows = [row(i) for i in range(30_000)]
    signed = difference(rows, rows[::-1])
    staged = stage(lambda: engine, reading(signed, TYPES), range(8), TYPES, tmp_path / "x", net=True)
    assert (staged.rows, staged.files, staged.small, staged.plain) == (0, (), True, True)


def test_zeros_and_nans_are_equal_in_any_spelling(engine: Engine, tmp_path: Path) -> None:
    before = [(i, 0.0 if i % 2 else float("nan")) for i in range(30_000)]
    after = [(i, -0.0 if i % 2 else -float("nan")) for i in range(30_000)]
    types = (t.BIGINT, t.DOUBLE)
    signed = difference(before, after)
    staged = stage(lambda: engine, reading(signed, types), range(2), types, tmp_path / "x", net=True)
    assert staged.rows == 0


def test_a_large_difference_stays_in_the_engine(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "LITTLE", Room(100))
    before, after = [row(i) for i in range(400)], [row(i) for i in range(300, 700)]
    signed = difference(before, after)
    staged = stage(lambda: engine, reading(signed, TYPES), range(8), TYPES, tmp_path / "x", net=True)
    assert staged_bag(staged) == Bag(signed)
    assert staged.rows == 600 and not staged.small
    inserts = [(r, 1) for r in after]
    staged = stage(lambda: engine, reading(inserts, TYPES), range(8), TYPES, tmp_path / "y", net=True)
    assert staged.plain and staged.rows == 400


def test_rows_without_columns_are_counted(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "LITTLE", Room(10))
    for folder, counts, left in (("a", [1] * 30 + [-1] * 20, {(): 10}), ("b", [1] * 20 + [-1] * 20, {})):
        signed = [((), count) for count in counts]
        staged = stage(lambda: engine, reading(signed, ()), (), (), tmp_path / folder, net=True)
        assert staged_bag(staged) == Bag(left)


def test_what_is_read_once_is_written_as_it_comes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(staging, "LITTLE", Room(10_000))
    begun = list[int]()

    def read() -> Iterator[pa.RecordBatch]:
        begun.append(len(begun))
        yield from batches(signed, TYPES)

    def engine() -> Engine:
        raise AssertionError("the engine is not needed")

    signed = difference([row(i) for i in range(15_000)], [row(i, 1) for i in range(15_000)])
    staged = stage(engine, read, range(8), TYPES, tmp_path / "x", once=True)
    assert begun == [0]
    assert staged.rows == 30_000 and not staged.small and not staged.plain
    assert staged_bag(staged) == Bag(signed)


def test_without_being_asked_to_rows_are_staged_as_they_come(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(staging, "LITTLE", Room(10))
    signed = difference([row(i) for i in range(20)], [row(i) for i in range(20)])
    staged = stage(lambda: engine, reading(signed, TYPES), range(8), TYPES, tmp_path / "x")
    assert staged.rows == 40 and not staged.small and not staged.plain
    assert staged_bag(staged) == Bag()


def test_another_type_than_was_resolved_is_told(engine: Engine, tmp_path: Path) -> None:
    with pytest.raises(SourceError) as said:
        stage(lambda: engine, lambda: batches([((1,), 1)], (t.INT,)), [0], [t.BIGINT], tmp_path / "x")
    assert said.value.code == "SCHEMA_CHANGED" and said.value.detail == "int32 instead of int64"
    assert COUNT not in said.value.message
