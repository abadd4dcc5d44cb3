"""What settling and merging rewrite, and when: never too little, and in the long run not much."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import log2
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillframe.algebra import Column, Schema
from stillframe.algebra.arrow import COUNT, named_schema
from stillframe.algebra.types import BIGINT, DOUBLE, STRING
from stillframe.lake.conformance import view_of
from stillframe.lake.frame import ChangeFile, DataFile, ViewState
from stillframe.lake.lookup import losing
from stillframe.lake.reader import generations
from stillframe.runtime import settle
from stillframe.runtime.config import SettleBound
from stillframe.runtime.settle import Due, due, merged_from, rewritten, unsettled_rows

BOUND = SettleBound(rows=0.5, files=8, seconds=900)


def changed(view: ViewState, rows: int, frame: int) -> ViewState:
    return replace(view, changes=(*view.changes, ChangeFile(f"c{frame}", rows, 1, frame)))


def asked(view: ViewState, age: float = 0.0) -> Due | None:
    return due(view, BOUND, lambda _: datetime.now(UTC) - timedelta(seconds=age))


def test_what_is_due() -> None:
    view = replace(view_of("v"), rows=100_000)
    assert asked(view, age=9999) is None
    few = changed(view, 10, 1)
    assert asked(few) is None
    assert asked(few, age=901) is Due.SETTLING
    assert asked(replace(few, owner="copies"), age=901) is None, "nobody reads the table of a hidden view"
    assert asked(changed(view, 50_001, 1)) is Due.SETTLING
    assert asked(replace(changed(view, 50_001, 1), owner="copies")) is Due.SETTLING
    many = view
    for frame in range(1, 9):
        assert asked(many) is None
        many = changed(many, 10, frame)
    assert asked(many) is Due.MERGING
    assert asked(replace(many, rows=100)) is Due.SETTLING, "to rewrite so small a view costs no more"
    large = view
    for frame in range(1, 17):
        assert asked(large) is None, "so many rows are merged late, or settled before"
        large = changed(large, 2_500, frame)
    assert asked(large) is Due.MERGING


def test_the_age_of_merged_changes_is_that_of_the_oldest() -> None:
    view = replace(view_of("v", changes=(ChangeFile("c", 10, 1, frame=9, since=3),)), rows=100)
    now = datetime.now(UTC)
    times = {3: now - timedelta(hours=1), 9: now}
    assert due(view, BOUND, times.__getitem__) is Due.SETTLING


@pytest.mark.parametrize("seed", range(5))
def test_merging_keeps_changes_few_and_moves_each_row_seldom(seed: int) -> None:
    random, view, moved, came = Random(seed), view_of("v"), 0, 0
    frames = 2000
    for frame in range(1, frames + 1):
        rows = random.choice([1, 10, 10, 10, 500])
        came += rows
        view = changed(view, rows, frame)
        if len(generations(view)) >= BOUND.files:
            first = merged_from(view)
            part = view.changes[first:]
            assert len({f.frame for f in part}) > 1
            whole = sum(f.rows for f in part)
            moved += whole
            merged = ChangeFile(f"m{frame}", whole, 1, part[-1].frame, part[0].since)
            view = replace(view, changes=(*view.changes[:first], merged))
        assert len(generations(view)) < BOUND.files
        assert [f.since for f in view.changes] == sorted(f.since for f in view.changes)
    assert unsettled_rows(view) == came
    assert moved <= came * log2(frames)


def test_a_view_that_only_grows_is_not_rewritten_each_time() -> None:
    """Each settling adds a hundredth of a file's most rows, in four files as an engine writes them."""
    view, moved, settlings, added = view_of("v"), 0, 2000, settle.FULL_ROWS // 100
    for frame in range(1, settlings + 1):
        view = changed(view, added, frame)
        old = rewritten(view, frozenset())
        rows = sum(file.rows for file in old) + added
        moved += rows
        new = tuple(DataFile(f"{frame}-{i}", rows // 4, 1) for i in range(4))
        view = replace(view, base=(*(f for f in view.base if f not in old), *new), changes=())
    assert moved <= added * settlings * log2(settlings)
    assert len(view.base) <= 4 * settlings * added / settle.FULL_ROWS + 4 * log2(settlings)


@pytest.mark.parametrize("keyed", [True, False])
@pytest.mark.parametrize("seed", range(6))
def test_files_that_lose_rows_are_found(tmp_path: Path, keyed: bool, seed: int) -> None:
    random = Random(seed)
    columns = (Column("id", BIGINT, nullable=not keyed), Column("town", STRING), Column("share", DOUBLE))
    schema = Schema(columns, frozenset({frozenset({0})}) if keyed else frozenset())
    rows = [
        (None if not keyed and random.random() < 0.1 else i, random.choice(["a", "b", None]), i / 4)
        for i in range(400)
    ]
    if seed % 2:  # keys that lie together, or all over
        random.shuffle(rows)
    files = {f"{n}.parquet": rows[n * 50 : n * 50 + 50] for n in range(8)}
    for name, held in files.items():
        _write(tmp_path / name, schema, held)
    leaving = random.sample(rows, random.choice([0, 1, 3, 30]))
    coming = [(1000 + i, "c", 0.0) for i in range(5)]
    _write(tmp_path / "change", schema, leaving + coming, [-1] * len(leaving) + [1] * len(coming))
    base = tuple(DataFile(name, 50, 1) for name in files)
    view = replace(view_of("v", base, (ChangeFile("change", 1, 1, 1),)), schema=schema)
    found = losing(tmp_path, view)
    exactly = {name for name, held in files.items() if any(row in held for row in leaving)}
    assert found >= exactly
    assert found == exactly or not keyed


def test_files_of_other_types_are_all_taken_to_lose_rows(tmp_path: Path) -> None:
    schema = Schema((Column("share", DOUBLE),))
    _write(tmp_path / "base", schema, [(0.5,)])
    _write(tmp_path / "change", schema, [(-0.0,)], [-1])
    view = view_of("v", (DataFile("base", 1, 1),), (ChangeFile("change", 1, 1, 1),))
    assert losing(tmp_path, replace(view, schema=schema)) == {"base"}


def _write(
    path: Path, schema: Schema, rows: list[tuple[object, ...]], counts: list[int] | None = None
) -> None:
    columns = [list(column) for column in zip(*rows, strict=True)]
    table = pa.table(columns, schema=named_schema(schema))
    if counts is not None:
        table = table.append_column(COUNT, pa.array(counts, pa.int64()))
    pq.write_table(table, path, row_group_size=20)
