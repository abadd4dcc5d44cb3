"""What the driver writes, the engine reads: values of every type, whether they repeat or not."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillframe.engine import Engine, write_query, write_rows
from stillframe.engine.files import GROUP_ROWS

ROWS = 1_000
DAY, SECOND = date(1, 1, 1), datetime(1900, 1, 1, tzinfo=UTC)
VALUES: dict[str, tuple[pa.DataType, Any]] = {
    "small": (pa.int16(), lambda i: (-1) ** i * i),
    "int": (pa.int32(), lambda i: (-1) ** i * i * 2_000_000),
    "long": (pa.int64(), lambda i: (-1) ** i * i * 9_000_000_000_000_000),
    "day": (pa.date32(), lambda i: DAY + timedelta(days=3_000 * i)),
    "moment": (pa.timestamp("us", "UTC"), lambda i: SECOND + timedelta(days=i, microseconds=i)),
    "nine": (pa.decimal128(9, 2), lambda i: Decimal(i) / 100),
    "eighteen": (pa.decimal128(18, 4), lambda i: Decimal((-1) ** i * i * 10**11)),
    "most": (pa.decimal128(38, 0), lambda i: Decimal(i * 10**33)),
    "text": (pa.string(), lambda i: f"text {i}"),
    "float": (pa.float64(), lambda i: i / 7),
    "truth": (pa.bool_(), lambda i: i % 2 == 0),
}


@pytest.mark.engine
def test_files_of_every_type_are_read_as_they_were_written(engine: Engine, tmp_path: Path) -> None:
    """Of each column one whose values differ, one whose values repeat, and one with gaps."""
    columns = {}
    for name, (type_, value) in VALUES.items():
        columns[name] = pa.array([value(i) for i in range(ROWS)], type_)
        columns[f"{name}_again"] = pa.array([value(i % 5) for i in range(ROWS)], type_)
        columns[f"{name}_or_not"] = pa.array([None if i % 3 else value(i) for i in range(ROWS)], type_)
    table = pa.table(columns)
    write_rows(table, tmp_path / "files")
    [path] = (tmp_path / "files").iterdir()
    footer = pq.read_metadata(path).row_group(0)
    encoded = {footer.column(i).path_in_schema: footer.column(i).encodings for i in range(footer.num_columns)}
    assert "DELTA_BINARY_PACKED" in encoded["long"], "or this shows nothing"
    read = engine.maintenance.read.parquet(str(path)).toArrow()
    assert read.num_rows == ROWS
    for name in table.column_names:
        found = read.column(name).cast(table.schema.field(name).type)
        assert found.to_pylist() == table.column(name).to_pylist(), name


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
    assert max(groups) <= (GROUP_ROWS if engine.kind == "spark" else 2**20)
