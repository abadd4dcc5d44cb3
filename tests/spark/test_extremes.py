"""The ends of every type's range, through views and out again: Spark or Sail, Arrow, delta-rs, Polars and
DuckDB all give the values that went in, of a view computed at once, brought forward by changes, settled."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import closing
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal, Inexact
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from stillframe import Warehouse

pytestmark = pytest.mark.engine

NINES = "9" * 38
SCRIPTS = "ä ß İ ı Ω Ж א ع हिन्दी ไทย 日本語 한국어 👩‍👩‍👧 𝔘 e\u0301 \u200f \u202e \ufeff \ufffd \U0010ffff"
# Numbers that SQLite itself cannot hold (it keeps fifteen digits, and no NaN) come as text, which views cast.
TABLE = """
CREATE TABLE t (id INTEGER PRIMARY KEY, b BOOLEAN, n BIGINT, x DOUBLE, y TEXT, whole TEXT, part TEXT,
                money TEXT, d DATE, moment TIMESTAMP, s TEXT, raw BLOB);
CREATE TABLE kinds (id INTEGER PRIMARY KEY, kind TEXT);
INSERT INTO kinds VALUES (0, 'even'), (1, 'odd');
"""
VALUES = """b, n, x, CAST(y AS DOUBLE) AS y, CAST(whole AS DECIMAL(38,0)) AS whole,
CAST(part AS DECIMAL(38,38)) AS part, CAST(money AS DECIMAL(38,10)) AS money, d, moment, s, raw"""
VIEWS = f"""
CREATE MATERIALIZED VIEW plain AS SELECT id, {VALUES} FROM s.t;
CREATE MATERIALIZED VIEW joined AS
SELECT t.id, {VALUES} FROM s.t JOIN s.kinds k ON k.id = t.id % 2;
CREATE MATERIALIZED VIEW bag AS SELECT {VALUES} FROM s.t UNION ALL SELECT {VALUES} FROM s.t;
"""
NAMES = ("id", "b", "n", "x", "y", "whole", "part", "money", "d", "moment", "s", "raw")
NOTHING = (0, *[None] * 11)
LOWEST = (1, 0, -(2**63), float("-inf"), "-Infinity", f"-{NINES}", f"-0.{NINES}",
          f"-{NINES[:28]}.{NINES[:10]}", "0001-01-01", "0001-01-01 00:00:00", "", b"")  # fmt: skip
HIGHEST = (2, 1, 2**63 - 1, float("inf"), "Infinity", NINES, f"0.{NINES}",
           f"{NINES[:28]}.{NINES[:10]}", "9999-12-31", "9999-12-31 23:59:59.999999", "nul \0 inside\0",
           bytes(range(256)))  # fmt: skip
SMALLEST = (3, 0, -1, 5e-324, "4.9E-324", "1", f"0.{'0' * 37}1", "-0.0000000001", "1582-10-10",
            "0001-01-01 00:00:00.000001", "'\"\\`%_\t\r\n", b"\xff\xfe\0'\"")  # fmt: skip
LARGEST = (4, 1, 2**53 + 1, 1.7976931348623157e308, "-1.7976931348623157E308", f"-1{'0' * 37}", "-0.5",
           "0.1", "0999-12-31", "1582-10-10 12:34:56.000001", "x" * 100_000, b"\0" * 70_000)  # fmt: skip
NO_NUMBER = (5, 0, 0, -0.0, "NaN", "0", "0", "0", "2024-02-29", "1969-12-31 23:59:59.999999", SCRIPTS,
             b"\0")  # fmt: skip
ZERO = (6, 1, 1, 0.1, "-0.0", "-1", "0.1", "1", "1900-02-28", "1899-12-31 23:59:59.999999", " ", b" ")

Row = tuple[Any, ...]
Rows = Counter[Row]
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
EXACT = Context(prec=80, traps=[Inexact])


def meant(row: Row) -> Row:
    """The values a view should have for a row of the table, in comparable form."""
    id_, b, n, x, y, whole, part, money, d, moment, s, raw = row
    if n is None:
        return row
    scaled = [
        Decimal(text).quantize(Decimal(1).scaleb(-scale), context=EXACT)
        for text, scale in ((whole, 0), (part, 38), (money, 10))
    ]
    instant = datetime.fromisoformat(moment).replace(tzinfo=UTC)
    values = (id_, b == 1, n, x, float(y), *scaled, date.fromisoformat(d), instant, s, raw)
    return tuple(comparable(value) for value in values)


def comparable(value: Any) -> Any:
    """Equal for equal values of one type only, to the last digit: timestamps as microseconds, decimals as
    their digits, floats as their bits, where bag identity has one zero and one NaN."""
    match value:
        case bool():
            return str(value)
        case float():
            return "NaN" if value != value else (value + 0.0).hex()
        case Decimal():
            return format(value.normalize(EXACT), "f") if value else "0"
        case datetime():
            return (value - EPOCH) // timedelta(microseconds=1)
        case date():
            return value.isoformat()
        case bytearray() | memoryview():
            return bytes(value)
    return value


def counted(rows: Iterable[Iterable[Any]]) -> Rows:
    return Counter(tuple(comparable(value) for value in row) for row in rows)


def expected(view: str, rows: list[Row]) -> Rows:
    if view == "bag":
        return Counter({row: 2 * n for row, n in Counter(meant(row)[1:] for row in rows).items()})
    return Counter(meant(row) for row in rows)


def by_the_engine(wh: Warehouse, view: str) -> Rows:
    """Instants as numbers: PySpark would give the wall clock of wherever the process runs."""
    frame = wh.view(view)
    columns = [f"unix_micros({name}) AS {name}" if name == "moment" else name for name in frame.columns]
    return counted(frame.selectExpr(*columns).collect())


def by_arrow(table: pa.Table) -> Rows:
    place = table.schema.get_field_index("moment")
    assert table.schema.field(place).type.unit == "us"
    numbered = table.set_column(place, "moment", table["moment"].cast(pa.int64()))
    return counted(zip(*(column.to_pylist() for column in numbered.columns), strict=True))


def by_polars(frame: pl.DataFrame) -> Rows:
    return counted(frame.with_columns(pl.col("moment").dt.epoch("us")).rows())


def by_duckdb(relation: str, **tables: pa.Table) -> Rows:
    with duckdb.connect() as connection:
        for name, table in tables.items():
            connection.register(name, table)
        return counted(
            connection.sql(f"SELECT * REPLACE (epoch_us(moment) AS moment) FROM {relation}").fetchall()
        )


def readers_of_a_frame(wh: Warehouse, view: str) -> dict[str, Callable[[], Rows]]:
    handed = wh.arrow(view)
    return {
        "the engine": lambda: by_the_engine(wh, view),
        "Arrow": lambda: by_arrow(handed),
        "Polars over Arrow": lambda: by_polars(pl.from_arrow(handed)),
        "DuckDB over Arrow": lambda: by_duckdb("handed", handed=handed),
    }


def readers_of_the_table(wh: Warehouse, view: str) -> dict[str, Callable[[], Rows]]:
    table = DeltaTable(str(wh.lake.path / "views" / view))
    return {
        "delta-rs": lambda: by_arrow(table.to_pyarrow_table()),
        "Polars": lambda: by_polars(pl.read_delta(table.table_uri)),
        "DuckDB": lambda: by_duckdb(f"read_parquet({table.file_uris()})"),
    }


def check(wh: Warehouse, rows: list[Row], *, settled: bool) -> None:
    for view in ("plain", "joined", "bag"):
        readers = readers_of_a_frame(wh, view)
        if settled:
            readers |= readers_of_the_table(wh, view)
        wanted = expected(view, rows)
        for name, read in readers.items():
            found = read()
            assert found == wanted, f"{view} by {name}: {shown(found - wanted)} for {shown(wanted - found)}"


def shown(rows: Rows) -> str:
    return str([[str(value)[:80] for value in row] for row in rows])


def insert(shop: Any, *rows: Row) -> None:
    with closing(sqlite3.connect(shop.root / "s.db")) as connection, connection:
        connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' * len(NAMES))})", rows)


def test_every_reader_gives_the_ends_of_every_range(shop: Any) -> None:
    shop.source("s", TABLE)
    shop.views(VIEWS)
    insert(shop, NOTHING, LOWEST, HIGHEST)
    wh = shop.open()
    assert {outcome.mode for outcome in wh.maintain().outcomes.values()} == {"full"}
    check(wh, [NOTHING, LOWEST, HIGHEST], settled=True)

    insert(shop, SMALLEST, LARGEST, NO_NUMBER, ZERO)
    shop.write("s", "DELETE FROM t WHERE id = 2", "UPDATE t SET n = 5 WHERE id = 1")
    lower = tuple(5 if name == "n" else value for name, value in zip(NAMES, LOWEST, strict=True))
    rows = [NOTHING, lower, SMALLEST, LARGEST, NO_NUMBER, ZERO]
    assert {outcome.mode for outcome in wh.maintain().outcomes.values()} == {"incremental"}
    assert all(wh.frame().views[view].changes for view in ("plain", "joined", "bag"))
    check(wh, rows, settled=False)

    insert(shop, HIGHEST)
    shop.write("s", "DELETE FROM t WHERE id IN (0, 1, 3, 5)")
    rows = [HIGHEST, LARGEST, ZERO]
    wh.maintain()
    check(wh, rows, settled=False)
    wh.settle_due(everything=True)
    check(wh, rows, settled=True)
    assert all(verification.ok for verification in wh.verify_all().values())

    insert(shop, NOTHING, LOWEST, SMALLEST, NO_NUMBER)
    wh.refresh(full=True)
    check(wh, [*rows, NOTHING, LOWEST, SMALLEST, NO_NUMBER], settled=True)
