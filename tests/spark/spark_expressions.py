"""Expressions over one small table, for checks against Spark itself: what a view text says must be what
Spark SQL in ANSI mode says, in value and in type."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

from stillframe.algebra.schema import Column, Schema
from stillframe.algebra.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    decimal,
)

COLUMNS = {
    "k": INT,
    "i": INT,
    "j": INT,
    "ti": TINYINT,
    "si": SMALLINT,
    "bi": BIGINT,
    "d2": decimal(10, 2),
    "d8": decimal(20, 8),
    "d38": decimal(38, 10),
    "x": DOUBLE,
    "s": STRING,
    "u": STRING,
    "b": BOOLEAN,
    "c": BOOLEAN,
    "dt": DATE,
    "dt2": DATE,
    "ts": TIMESTAMP,
    "bin": BINARY,
}
SCHEMA = Schema(tuple(Column(name, type_) for name, type_ in COLUMNS.items()))

_D = Decimal
ROWS: list[tuple[Any, ...]] = [
    (
        1,
        7,
        2,
        3,
        300,
        5_000_000_000,
        _D("12.34"),
        _D("1.00000001"),
        _D("1.5000000000"),
        1.5,
        "Hello",
        "lo",
        True,
        False,
        date(2024, 2, 29),
        date(2023, 12, 31),
        datetime(2024, 2, 29, 13, 45, 59, 123456, UTC),
        b"\x01\x02",
    ),
    (
        2,
        -7,
        2,
        -3,
        -300,
        -5_000_000_000,
        _D("-12.35"),
        _D("-0.50000000"),
        _D("-2.5000000000"),
        -2.5,
        " aB% ",
        "%",
        False,
        True,
        date(1969, 12, 31),
        date(1970, 1, 1),
        datetime(1969, 12, 31, 23, 59, 59, 0, UTC),
        b"",
    ),
    (
        3,
        0,
        1,
        0,
        0,
        0,
        _D("0.00"),
        _D("0.00000000"),
        _D("0.0000000000"),
        0.0,
        "",
        "",
        None,
        True,
        date(2000, 1, 1),
        date(2000, 3, 1),
        datetime(2000, 1, 1, 0, 0, 0, 500000, UTC),
        b"abc",
    ),
    (
        4,
        None,
        3,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        None,
        "x",
        None,
        None,
        None,
        date(2020, 5, 5),
        None,
        None,
    ),
    (
        5,
        2,
        -5,
        100,
        30000,
        123456789012,
        _D("99999.99"),
        _D("12345.67890123"),
        _D("12345678901.0123456789"),
        1e10,
        "naïve €uro 日本",
        "日",
        True,
        True,
        date(9999, 12, 31),
        date(1, 1, 1),
        datetime(9999, 12, 31, 23, 59, 59, 999999, UTC),
        b"\xff",
    ),
    (
        6,
        1,
        4,
        1,
        2,
        3,
        _D("0.01"),
        _D("-7.00000000"),
        _D("0.3333333333"),
        0.1,
        "a_b\\c",
        "A_B",
        False,
        False,
        date(2023, 10, 1),
        date(2023, 10, 1),
        datetime(2023, 10, 1, 6, 7, 8, 0, UTC),
        b"a",
    ),
]


def _groups() -> dict[str, list[str]]:
    """expressions.txt: one expression a line, in groups under their names."""
    groups: dict[str, list[str]] = {}
    for line in (Path(__file__).parent / "expressions.txt").read_text(encoding="utf-8").splitlines():
        if line.startswith("# "):
            groups[line[2:]] = []
        elif line:
            groups[[*groups][-1]].append(line)
    return groups


GROUPS = _groups()
RAISES = GROUPS.pop("raises")  # what ANSI mode raises at run time, whatever the row

_TYPE_NAMES = {"byte": "TINYINT", "short": "SMALLINT", "integer": "INT", "long": "BIGINT"}


def spark_type(data_type: Any) -> str:
    name = data_type.typeName()
    if name == "decimal":
        return f"DECIMAL({data_type.precision},{data_type.scale})"
    return _TYPE_NAMES.get(name, name.upper())


def comparable(value: Any) -> Any:
    """Values side by side: exact for everything, NaN equal to itself."""
    if isinstance(value, float):
        return "NaN" if math.isnan(value) else value + 0.0
    if isinstance(value, Decimal):
        return ("decimal", format(value, "f"))
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, datetime):
        return (value if value.tzinfo else value.astimezone()).astimezone(UTC)
    return value
