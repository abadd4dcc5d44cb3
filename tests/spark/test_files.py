"""What one writes, the others read: values of every type, whether they repeat or not."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillframe.engine import Engine, write_frame, write_query, write_rows
from stillframe.engine.files import CODEC, GROUP_ROWS

ROWS = 80_000  # of a quarter of which a dictionary is longer than the engine may have it
DAY, SECOND = date(1, 1, 1), datetime(1900, 1, 1, tzinfo=UTC)
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "small": (pa.int16(), lambda i: (-1) ** i * (i % 30_000)),
    "int": (pa.int32(), lambda i: (-1) ** i * i * 25_000),
    "long": (pa.int64(), lambda i: (-1) ** i * i * 100_000_000_000_000),
    "day": (pa.date32(), lambda i: DAY + timedelta(days=35 * i)),
    "moment": (pa.timestamp("us", "UTC"), lambda i: SECOND + timedelta(days=i, microseconds=i)),
    "nine": (pa.decimal128(9, 2), lambda i: Decimal(i) / 100),
    "eighteen": (pa.decimal128(18, 4), lambda i: Decimal((-1) ** i * i * 10**8)),
    "most": (pa.decimal128(38, 0), lambda i: Decimal(i * 10**33)),
    "text": (pa.string(), lambda i: f"text {i}"),
    "float": (pa.float64(), lambda i: i / 7),
    "truth": (pa.bool_(), lambda i: i % 2 == 0),
}


@functools.cache
def every_type(*without: str) -> pa.Table:
    """Rows in order, of each type a column of values that differ, one of some that repeat, one with gaps."""
    columns = {"row": pa.array(range(ROWS))}
    for name, (type_, value) in VALUES.items():
        if name in without:
            continue
        columns[name] = pa.array([value(i) for i in range(ROWS)], type_)
        columns[f"{name}_again"] = pa.array([value(i % 5) for i in range(ROWS)], type_)
        columns[f"{name}_or_not"] = pa.array([None if i % 3 else value(i) for i in range(ROWS)], type_)
    return pa.table(columns)


def encodings(path: Path) -> dict[str, tuple[str, ...]]:
    footer = pq.read_metadata(path).row_group(0)
    return {footer.column(i).path_in_schema: footer.column(i).encodings for i in range(footer.num_columns)}


def assert_same(found: pa.Table, table: pa.Table) -> None:
    found = found.sort_by("row")
    for name in table.column_names:
        column = found.column(name).cast(table.schema.field(name).type)
        assert column.equals(table.column(name)), name


def assert_all_read(engine: Engine, written: Sequence[Path], table: pa.Table) -> None:
    paths = [str(path) for path in written]
    assert_same(engine.maintenance.read.parquet(*paths).toArrow(), table)
    assert_same(pa.concat_tables(map(pq.read_table, written)), table)
    assert_same(pl.read_parquet(paths).to_arrow(), table)
    duck = duckdb.connect()
    duck.execute("SET TimeZone = 'UTC'")
    assert_same(duck.execute(f"FROM read_parquet({paths})").to_arrow_table(), table)


@pytest.mark.engine
def test_all_read_what_the_driver_writes(engine: Engine, tmp_path: Path) -> None:
    table = every_type()
    write_rows(table, tmp_path / "files")
    [path] = (tmp_path / "files").iterdir()
    assert "DELTA_BINARY_PACKED" in encodings(path)["long"], "or this shows nothing"
    assert_all_read(engine, [path], table)


@pytest.mark.engine
@pytest.mark.parametrize("without", [(), ("most",)])
def test_all_read_what_the_engine_writes(engine: Engine, tmp_path: Path, without: tuple[str, ...]) -> None:
    """Not every reader knows what the second version of the format has for decimals of 19 digits."""
    table = every_type(*without)
    given = tmp_path / "given.parquet"
    pq.write_table(table, given)
    write_frame(engine.maintenance.read.parquet(str(given)), tmp_path / "files")
    written = sorted((tmp_path / "files").glob("*.parquet"))
    found = encodings(written[0])
    assert ("DELTA_BINARY_PACKED" in found["long"]) == bool(without), "or this shows nothing"
    assert "DELTA_BINARY_PACKED" not in found["long_again"]
    assert_all_read(engine, written, table)


@pytest.mark.engine
def test_the_engine_compresses_as_it_is_told(engine: Engine, tmp_path: Path) -> None:
    rows = engine.maintenance.range(1000)
    codecs = {"snappy": "snappy", "lz4_raw": "lz4", "zstd": "zstd", "GZIP": "gzip", "none": "uncompressed"}
    for codec, found in codecs.items():
        engine.maintenance.conf.set(CODEC, codec)
        try:
            write_frame(rows, tmp_path / codec)
        finally:
            engine.maintenance.conf.unset(CODEC)
        [path, *_] = (tmp_path / codec).glob("*.parquet")
        assert pq.read_metadata(path).row_group(0).column(0).compression.lower() == found


@pytest.mark.engine
def test_no_row_group_of_the_engine_has_more_rows_than_a_change_should_read(
    engine: Engine, tmp_path: Path
) -> None:
    """Rows that take next to no room: by their bytes, all would be one group."""
    rows = 3 * 2**20
    write_query(engine, f"SELECT 1 AS one, id % 2 AS two FROM range({rows})", tmp_path / "files")
    footers = [pq.read_metadata(path) for path in (tmp_path / "files").glob("*.parquet")]
    groups = [footer.row_group(i).num_rows for footer in footers for i in range(footer.num_row_groups)]
    assert sum(groups) == rows
    assert max(groups) <= GROUP_ROWS
