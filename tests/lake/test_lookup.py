"""Rows by key: all that a full read would find, from no more row groups than their footers leave open."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillframe.algebra import Column, Schema
from stillframe.algebra.arrow import COUNT, named_schema
from stillframe.algebra.types import BIGINT, DATE, STRING, decimal
from stillframe.lake import lookup
from stillframe.lake.frame import ChangeFile, DataFile, ViewState
from stillframe.lake.lookup import Effort, groups, in_order, look_up, whole
from stillframe.lake.warm import Warm

SCHEMA = Schema(
    (Column("id", BIGINT), Column("town", STRING), Column("day", DATE), Column("paid", decimal(9, 2)))
)
DAY = date(2024, 1, 1)


def row(random: Random, number: int) -> tuple[Any, ...]:
    made = (
        number,
        random.choice(["", "a", "b", "ü" * 40, "z"]),
        DAY + timedelta(days=number // 10),
        Decimal(random.randrange(100)) / 4,
    )
    return tuple(None if random.random() < 0.1 else value for value in made)


def written(path: Path, rows: list[tuple[Any, ...]], counts: list[int] | None, size: int) -> None:
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(SCHEMA)
    schema = named_schema(SCHEMA)
    table = pa.table([pa.array(c, f.type) for c, f in zip(columns, schema, strict=True)], schema=schema)
    if counts is not None:
        table = table.append_column(COUNT, pa.array(counts, pa.int64()))
    pq.write_table(table, path, row_group_size=size)


def view(root: Path, random: Random) -> tuple[ViewState, Counter[tuple[Any, ...]]]:
    content: Counter[tuple[Any, ...]] = Counter()
    base = []
    for i in range(3):
        rows = [row(random, 100 * i + j) for j in range(random.choice([0, 1, 60]))]
        written(root / f"base{i}", rows, None, 7)
        content.update(rows)
        base.append(DataFile(f"base{i}", len(rows), 0))
    rows = [row(random, random.randrange(300)) for _ in range(20)]
    counts = [random.choice([-2, -1, 1, 3]) for _ in rows]
    written(root / "change", rows, counts, 5)
    for one, count in zip(rows, counts, strict=True):
        content[one] += count
    changes = (ChangeFile("change", len(rows), 0, 1),)
    state = ViewState("v", SCHEMA, "", "strong", "", "current", tuple(base), changes, 0, 0, 0, {})
    return state, content


def rows_of(table: pa.Table) -> Counter[tuple[Any, ...]]:
    found: Counter[tuple[Any, ...]] = Counter()
    for *values, count in zip(*(column.to_pylist() for column in table.columns), strict=True):
        found[tuple(values)] += count
    return found


def _net(rows: Counter[tuple[Any, ...]]) -> dict[tuple[Any, ...], int]:
    return {row: count for row, count in rows.items() if count}


@pytest.mark.parametrize("column", range(len(SCHEMA)), ids=SCHEMA.names)
def test_all_rows_and_no_others(column: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(15):
        random = Random(seed)
        monkeypatch.setattr(lookup, "WARM", Warm(random.choice([0, 300, 2_000, 1 << 20])))
        root = tmp_path / str(seed)
        root.mkdir()
        state, content = view(root, random)
        values = sorted({one[column] for one in content if one[column] is not None})
        wanted = random.sample(values, min(len(values), random.choice([0, 1, 3, 30])))
        array = in_order(pa.array(wanted, named_schema(SCHEMA).field(column).type))
        positions = sorted(random.sample(range(len(SCHEMA)), random.randrange(len(SCHEMA) + 1)))
        expected: Counter[tuple[Any, ...]] = Counter()
        for one, count in content.items():
            if one[column] in wanted:
                expected[tuple(one[i] for i in positions)] += count
        for _ in range(2):  # what was read is held, or a part of it
            found = look_up(root, state, positions, column, array)
            assert found is not None
            assert _net(rows_of(found)) == _net(expected), f"seed {seed}"


@pytest.mark.parametrize(
    ("type_", "made"),
    [
        (pa.int8(), lambda number: number),
        (pa.int32(), lambda number: number),
        (pa.int64(), lambda number: number * 2**40),
        (pa.date32(), lambda number: DAY + timedelta(days=number)),
        (pa.timestamp("us"), lambda number: datetime(2024, 1, 1) + timedelta(seconds=number)),
        (pa.string(), lambda number: "abc"[number % 3] * abs(number)),
        (pa.decimal128(9, 2), Decimal),
    ],
    ids=str,
)
def test_values_that_are_looked_for_are_in_order_each_once(type_: pa.DataType, made: Any) -> None:
    random = Random(1)
    some = [made(random.randrange(-9, 9)) for _ in range(40)]
    found = in_order(pa.array([*some, None, *some], type_))
    assert found.type == type_ and found.to_pylist() == sorted(set(some))
    assert in_order(pa.array([None], type_)).to_pylist() == in_order(pa.array([])).to_pylist() == []


def test_a_small_view_as_a_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in range(5):
        root = tmp_path / str(seed)
        root.mkdir()
        state, content = view(root, Random(seed))
        found = whole(root, state, [2, 0])
        assert found is not None
        expected: Counter[tuple[Any, ...]] = Counter()
        for one, count in content.items():
            expected[one[2], one[0]] += count
        assert _net(rows_of(found)) == _net(expected), f"seed {seed}"
    monkeypatch.setattr(lookup, "MOST_WHOLE", 20)
    assert whole(root, state, [0]) is None


def test_only_row_groups_that_may_have_a_value_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [(number, "a", DAY, Decimal(1)) for number in range(1000)]
    monkeypatch.setattr(lookup, "WARM", Warm(1 << 20))
    written(tmp_path / "base", rows, None, 10)
    state = ViewState("v", SCHEMA, "", "strong", "", "current", (DataFile("base", 1000, 0),), (), 0, 0, 0, {})
    assert len(groups(tmp_path / "base")) == 100
    monkeypatch.setattr(lookup, "MOST_READ", 20)
    found = look_up(tmp_path, state, [0], 0, pa.array([5, 7, 995]))
    assert found is not None and sorted(found.column(0).to_pylist()) == [5, 7, 995]
    monkeypatch.setattr(lookup, "WARM", Warm(0))
    assert look_up(tmp_path, state, [0], 0, pa.array([5, 500, 995])) is None, "three row groups"
    assert look_up(tmp_path, state, [0], 3, pa.array([Decimal(1)], pa.decimal128(9, 2))) is None


def test_many_rows_are_left_to_the_engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written(tmp_path / "base", [(1, "a", DAY, None)] * 30, None, 10)
    state = ViewState("v", SCHEMA, "", "strong", "", "current", (DataFile("base", 30, 0),), (), 0, 0, 0, {})
    most = Effort(read=30, found=30, whole=30, bytes=30 * 8)
    assert look_up(tmp_path, state, [0], 0, pa.array([1]), most) is not None
    assert whole(tmp_path, state, [0], most) is not None
    wide = [0, 1]  # with a text
    assert look_up(tmp_path, state, wide, 0, pa.array([1]), most) is None
    assert whole(tmp_path, state, wide, most) is None
    monkeypatch.setattr(lookup, "MOST_FOUND", 29)
    assert look_up(tmp_path, state, [0], 0, pa.array([1])) is None


def test_what_is_in_memory_is_not_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    held = Warm(1 << 20)
    monkeypatch.setattr(lookup, "WARM", held)
    written(tmp_path / "base", [(number, "a", DAY, Decimal(1)) for number in range(100)], None, 10)
    state = ViewState("v", SCHEMA, "", "strong", "", "current", (DataFile("base", 100, 0),), (), 0, 0, 0, {})
    everywhere, effort = pa.array(range(0, 100, 10)), Effort(read=30, found=100, whole=0, lasting=True)

    def found() -> int | None:
        rows = look_up(tmp_path, state, [0, 1], 0, everywhere, effort)
        return None if rows is None else rows.num_rows

    assert [found() for _ in range(6)] == [None] * 6, "a process of one session reads nothing ahead"
    assert held.held == 0
    held.lasting = True
    assert [found() for _ in range(4)] == [None, None, None, 10], "three row groups a session"
    held.limit(0)
    held.limit(1 << 20)
    effort = replace(effort, read=7)
    assert [found() for _ in range(11)] == [None] * 10 + [10], "one a session, though it has more rows"
    held.room = held.held
    assert look_up(tmp_path, state, [0, 2], 0, everywhere, effort) is None
    assert look_up(tmp_path, state, [0, 2], 0, everywhere, effort) is None, "there is no room for more"
