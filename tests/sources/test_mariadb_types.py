"""Each row of the table of MariaDB's types in docs/types.md: what a column becomes, and its extremes."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import servers
from stillframe.errors import ValueMismatch
from stillframe.sources import Relation
from stillframe.sources.mariadb.triggers import MariadbSource

UUID = "00000000-0000-0000-0000-00000000000a"
LARGEST = Decimal("9" * 38)
ROWS: list[tuple[str, str, str, list[tuple[str, Any]]]] = [
    ("`TINYINT`, `BOOL`, `BOOLEAN`", "TINYINT", "TINYINT", [("-128", -128), ("127", 127)]),
    ("`TINYINT`, `BOOL`, `BOOLEAN`", "BOOL", "TINYINT", [("TRUE", 1), ("5", 5)]),
    ("`SMALLINT`", "SMALLINT", "SMALLINT", [("-32768", -32768)]),
    ("`MEDIUMINT`, `INT`", "MEDIUMINT", "INT", [("8388607", 8388607)]),
    ("`MEDIUMINT`, `INT`", "INT(5) ZEROFILL", "BIGINT", [("7", 7)]),
    ("`MEDIUMINT`, `INT`", "INT", "INT", [("-2147483648", -(2**31))]),
    ("`BIGINT`", "BIGINT", "BIGINT", [(str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1)]),
    ("`TINYINT UNSIGNED`", "TINYINT UNSIGNED", "SMALLINT", [("255", 255)]),
    ("`SMALLINT UNSIGNED`, `MEDIUMINT UNSIGNED`", "MEDIUMINT UNSIGNED", "INT", [("16777215", 16777215)]),
    ("`INT UNSIGNED`", "INT UNSIGNED", "BIGINT", [("4294967295", 2**32 - 1)]),
    ("`BIGINT UNSIGNED`", "BIGINT UNSIGNED", "DECIMAL(20,0)", [("18446744073709551615", Decimal(2**64 - 1))]),
    ("`DECIMAL(p,s)`, *p* ≤ 38", "DECIMAL(38,0)", "DECIMAL(38,0)", [(str(LARGEST), LARGEST)]),
    ("`DECIMAL(p,s)`, *p* ≤ 38", "DECIMAL(9,4)", "DECIMAL(9,4)", [("-0.0001", Decimal("-0.0001"))]),
    ("`FLOAT`, `DOUBLE`", "FLOAT", "DOUBLE", [("0.1", 0.10000000149011612)]),
    ("`FLOAT`, `DOUBLE`", "DOUBLE", "DOUBLE", [("1.7976931348623157e308", 1.7976931348623157e308)]),
    ("`BIT(1)`", "BIT(1)", "BOOLEAN", [("b'1'", True), ("b'0'", False)]),
    ("`CHAR(n)`", "CHAR(5)", "STRING", [("'ab  '", "ab")]),
    ("`VARCHAR(n)`, `TEXT`", "VARCHAR(20)", "STRING", [("'ab  '", "ab  "), ("'日本é'", "日本é"), ("''", "")]),
    ("`VARCHAR(n)`, `TEXT`", "ENUM('a','B')", "STRING", [("'B'", "B")]),
    ("`JSON`", "JSON", "STRING", [("'{\"a\":  1}'", '{"a":  1}')]),
    ("`UUID`", "UUID", "STRING", [(f"'{UUID.upper()}'", UUID)]),
    ("`BINARY(n)`", "VARBINARY(5)", "BINARY", [("x'00FF'", b"\x00\xff")]),
    ("`DATE`", "DATE", "DATE", [("'9999-12-31'", date(9999, 12, 31)), ("'0001-01-01'", date(1, 1, 1))]),
    ("`DATETIME(n)`", "DATETIME(6)", "TIMESTAMP",
     [("'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC))]),
    ("`TIMESTAMP(n)`", "TIMESTAMP(6) NULL", "TIMESTAMP",
     [("'2020-01-01 00:00:00.000001'", datetime(2020, 1, 1, 0, 0, 0, 1, UTC))]),
    ("`YEAR`", "YEAR", "SMALLINT", [("2155", 2155)]),
]  # fmt: skip
REFUSED = {
    "`TIME`": "TIME",
    "`DECIMAL(p,s)`, *p* > 38": "DECIMAL(39,0)",
    "`BIT(n)`, *n* > 1": "BIT(2)",
    "geometric types": "POINT",
}
PAGE = Path(__file__).parents[2] / "docs" / "types.md"


@pytest.fixture(scope="module")
def database(mariadb_server: servers.MariadbServer) -> servers.MariadbServer:
    mariadb_server.database("types")
    return mariadb_server


def made(server: servers.MariadbServer, declared: str, *literals: str, mode: str = "") -> MariadbSource:
    with server.connect("types") as con, con.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        if mode:
            cursor.execute(f"SET sql_mode = '{mode}'")
        cursor.execute("DROP TABLE IF EXISTS t")
        cursor.execute(f"CREATE TABLE t (id INT PRIMARY KEY, c {declared})")
        for number, literal in enumerate((*literals, "NULL")):
            cursor.execute(f"INSERT INTO t VALUES ({number}, {literal})")
    return MariadbSource("till", server.url("types"))


def described(source: MariadbSource) -> Relation:
    return source.describe()["t"]


@pytest.mark.parametrize("row, declared, type_, values", ROWS, ids=[f"{row[1]}" for row in ROWS])
def test_a_type_and_its_values(
    row: str, declared: str, type_: str, values: list[tuple[str, Any]], database: servers.MariadbServer
) -> None:
    assert f"| {row.split(' *')[0]}" in PAGE.read_text(), row
    source = made(database, declared, *(literal for literal, _ in values))
    (column,) = [c for c in described(source).schema if c.name == "c"]
    assert str(column.type) == type_
    position = source.attach("me", ["t"])
    try:
        found = {}
        for batch in source.state("t", ["id", "c"], position):
            found |= dict(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
        assert found == {**{n: value for n, (_, value) in enumerate(values)}, len(values): None}
        with database.connect("types") as con, con.cursor() as cursor:
            cursor.execute("DELETE FROM t")
        upto = source.position("me", ["t"])
        logged = {}
        for batch in source.changes("t", ["id", "c"], position, upto):
            logged |= dict(zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True))
        assert logged == found
    finally:
        source.detach("me")


@pytest.mark.parametrize("row, declared", REFUSED.items(), ids=REFUSED.values())
def test_a_type_that_is_refused(row: str, declared: str, database: servers.MariadbServer) -> None:
    assert f"| {row} | refused |" in PAGE.read_text()
    relation = described(made(database, declared))
    assert "c" in relation.refused and [c.name for c in relation.schema] == ["id"]


@pytest.mark.parametrize("declared, literal", [("DATE", "'0000-00-00'"), ("DATETIME", "'2020-00-01'")])
def test_zero_dates_are_named(declared: str, literal: str, database: servers.MariadbServer) -> None:
    source = made(database, declared, literal, mode="ALLOW_INVALID_DATES")
    position = source.attach("me", ["t"])
    try:
        with pytest.raises(ValueMismatch) as caught:
            list(source.state("t", ["id", "c"], position))
        assert "'c'" in caught.value.message and "till.t" in caught.value.message
    finally:
        source.detach("me")
