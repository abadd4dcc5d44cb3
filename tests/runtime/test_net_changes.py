"""A change is net in all of its columns; of some of them it has to be added up again."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stillframe.algebra import Column, Schema
from stillframe.algebra.arrow import COUNT, staged_schema
from stillframe.algebra.types import BIGINT, STRING
from stillframe.engine import Room, staged_table
from stillframe.runtime.passing import pass_on
from stillframe.runtime.reads import ViewFiles

TYPES = (BIGINT, BIGINT)
UPDATE = pa.table([[1, 1], [7, 8], [-1, 1]], schema=staged_schema(TYPES))  # of the second column


def test_an_update_of_a_column_that_is_not_shown_is_no_change(tmp_path: Path) -> None:
    change = staged_table(UPDATE, (0, 1), TYPES, tmp_path / "staged")
    assert change.is_net_in((1, 0)) and not change.is_net_in((0,))
    assert not change.in_files().is_net_in((0, 1)), "who reads files does not know"
    for columns, rows in (((0,), 0), ((0, 1), 2)):
        schema = Schema(tuple(Column(f"c{i}", BIGINT) for i in columns))
        folder = tmp_path / f"shown-{len(columns)}"
        pass_on(change, columns, schema, folder)
        files = list(folder.glob("*.parquet")) if folder.is_dir() else []
        assert sum(pq.read_metadata(path).num_rows for path in files) == rows


def test_the_change_of_a_view_is_net_in_all_of_its_columns(tmp_path: Path) -> None:
    path, schema = tmp_path / "change.parquet", Schema((Column("a", BIGINT), Column("b", BIGINT)))
    pq.write_table(UPDATE.rename_columns(["a", "b", COUNT]), path)
    change = ViewFiles((path,), schema, 2, Room())
    assert change.is_net_in((0, 1)) and not change.is_net_in((0,))


def test_whether_the_driver_may_look_at_a_change_of_a_view_is_told_from_its_rows(tmp_path: Path) -> None:
    """Documents of one template take little room in a file, and all of it in memory."""
    path, schema, rows = tmp_path / "change.parquet", Schema((Column("note", STRING),)), 2_000
    notes = pa.array(["x" * 2_000 + str(number) for number in range(rows)])
    change = pa.table({"note": notes, COUNT: pa.array([1] * rows)})
    pq.write_table(change, path, use_dictionary=False, column_encoding={"note": "DELTA_BYTE_ARRAY"})
    assert path.stat().st_size < 2**20
    assert not ViewFiles((path,), schema, rows, Room(bytes=2**20)).small
    assert ViewFiles((path,), schema, rows, Room(bytes=8 * 2**20)).small
