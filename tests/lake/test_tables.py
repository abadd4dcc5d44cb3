"""Other engines that open a settled table see exactly its rows."""

import json
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from stillframe.algebra.arrow import named_schema
from stillframe.algebra.schema import Column, Schema
from stillframe.algebra.types import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, decimal
from stillframe.errors import LakeError
from stillframe.lake import Lake, ViewState
from stillframe.lake.conformance import SCHEMA, frame_of, view_of, write

TYPES = Schema(
    (
        Column("id", BIGINT),
        Column("When it was", TIMESTAMP),
        Column("day", DATE),
        Column("exact", decimal(38, 6)),
        Column("double", DOUBLE),
        Column("naïve, text", STRING),
        Column("blob", BINARY),
        Column("flag", BOOLEAN),
    )
)
ROWS = [
    (
        -(2**63),
        datetime(1, 1, 1, tzinfo=UTC),
        date(1, 1, 1),
        Decimal("-1e31"),
        float("-inf"),
        "",
        b"",
        True,
    ),
    (
        2**63 - 1,
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        date(9999, 12, 31),
        Decimal("99999999999999999999999999999999.999999"),
        5e-324,
        "日本 \U0001f600",
        b"\x00\xff",
        False,
    ),
    (None,) * 8,
    (None,) * 8,
]


def _settled(
    lake: Lake, schema: Schema, rows: list[tuple[object, ...]], table: str = "wide view"
) -> ViewState:
    folder = lake.attempt("data", table)
    folder.mkdir()
    arrow = named_schema(schema)
    columns = [
        pa.array(values, field.type) for values, field in zip(zip(*rows, strict=True), arrow, strict=True)
    ]
    pq.write_table(pa.Table.from_arrays(columns, schema=arrow), folder / "part.parquet")
    view = view_of(table, lake.collect(folder), schema=schema)
    newest = lake.newest()
    lake.publish(frame_of(newest.number + 1 if newest else 1, view), newest)
    assert lake.settle(view)
    return view


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "warehouse", create=True)


def test_every_reader_sees_every_value(lake: Lake) -> None:
    view = _settled(lake, TYPES, ROWS)
    path = str(lake.table_path(view.table))
    expected = sorted(ROWS, key=repr)

    dataset = DeltaTable(path).to_pyarrow_dataset()
    assert tuple(dataset.schema.names) == TYPES.names
    assert sorted((tuple(row.values()) for row in dataset.to_table().to_pylist()), key=repr) == expected

    for frame in (pl.read_delta(path), pl.scan_delta(path).collect()):
        assert tuple(frame.columns) == TYPES.names
        assert sorted(frame.rows(), key=repr) == sorted(
            pl.DataFrame(ROWS, frame.schema, orient="row").rows(), key=repr
        )
        assert [row[1] and row[1].replace(tzinfo=UTC) for row in sorted(frame.rows(), key=repr)] == [
            row[1] for row in expected
        ]

    # DuckDB's delta extension is a download; it reads the same dataset, and the same files by itself.
    files = [str(lake.path / f) for f in lake.settled_files(view.table)]
    with duckdb.connect() as connection:
        connection.execute("SET TimeZone = 'UTC'")
        for source in ("dataset", "read_parquet($files)"):
            query = f'SELECT * REPLACE (epoch_us("When it was") AS "When it was") FROM {source}'
            found = connection.execute(query, {"files": files} if "$" in query else None).fetchall()
            assert sorted(found, key=repr) == sorted(((r[0], _micros(r[1]), *r[2:]) for r in ROWS), key=repr)


def _micros(moment: object) -> int | None:
    if not isinstance(moment, datetime):
        return None
    since = moment - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86400 + since.seconds) * 1_000_000 + since.microseconds


def test_counts_come_from_statistics_and_are_right(lake: Lake) -> None:
    view = _settled(lake, TYPES, ROWS)
    table = DeltaTable(str(lake.table_path(view.table)))
    assert table.count() == len(ROWS)
    (commit,) = (lake.table_path(view.table) / "_delta_log").glob("*.json")
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    (add,) = [action["add"] for action in actions if "add" in action]
    file = lake.path / view.base[0].path
    assert json.loads(add["stats"]) == {"numRecords": 4}
    assert (add["size"], add["modificationTime"]) == (file.stat().st_size, int(file.stat().st_mtime * 1000))
    assert {"appId": "stillframe", "version": 1} in [a.get("txn") for a in actions]
    assert [a["commitInfo"]["stillframe.frame"] for a in actions if "commitInfo" in a] == ["1"]


def test_every_version_of_a_table_is_a_settled_state(lake: Lake) -> None:
    """The first one has its files already, and one to another schema has no state between."""
    bases = [write(lake, "data", "v", range(n)) for n in (2, 3, 4)]
    views = [view_of("v", base, settled=n) for n, base in enumerate(bases, 1)]
    renamed = Schema((Column("other", BIGINT), Column("name", STRING)))
    views.append(view_of("v", write(lake, "data", "v", range(7), renamed), settled=4, schema=renamed))
    newest = None
    for view in views:
        newest = lake.publish(frame_of(view.settled, view), newest)
        assert lake.settle(view)
        assert lake.settle(view)
    path = str(lake.table_path("v"))
    states = [DeltaTable(path, version=v) for v in range(DeltaTable(path).version() + 1)]
    assert [state.to_pyarrow_table().num_rows for state in states] == [2, 3, 4, 7]
    assert [field.name for field in states[-1].schema().fields] == ["other", "name"]


def test_racing_settlers_commit_once(lake: Lake) -> None:
    first = _settled(lake, SCHEMA, [(1, "a")], "v")
    view = view_of("v", write(lake, "data", "v", range(5)), settled=2)
    lake.publish(frame_of(2, view), lake.newest())
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: Lake.open(lake.path).settle(view), range(8))) == [True] * 8
    table = DeltaTable(str(lake.table_path("v")))
    assert table.version() == 1
    assert table.to_pyarrow_table().num_rows == 5
    assert not lake.settle(first)


def test_a_file_that_changed_behind_our_back_is_not_shown(lake: Lake) -> None:
    view = view_of("v", write(lake, "data", "v", range(3)))
    lake.publish(frame_of(1, view), None)
    file = lake.path / view.base[0].path
    content = file.read_bytes()
    file.write_bytes(content + b"x")
    with pytest.raises(LakeError, match="not what was published"):
        lake.settle(view)
    file.unlink()
    with pytest.raises(LakeError, match="missing"):
        lake.settle(view)
    file.write_bytes(content)
    assert lake.settle(view)


def test_columns_that_differ_in_case_are_refused(lake: Lake) -> None:
    view = view_of("v", schema=Schema((Column("Id", BIGINT), Column("id", BIGINT))))
    lake.publish(frame_of(1, view), None)
    with pytest.raises(LakeError) as refused:
        lake.settle(view)
    assert refused.value.code == "AMBIGUOUS_COLUMNS"
