"""Values of every type with their extremes, and texts that are read as values."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from stillframe.algebra import Type
from stillframe.algebra.functions import EXACT
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

MONEY, FINE, LONG, HUGE = decimal(10, 2), decimal(20, 8), decimal(38, 10), decimal(38, 0)
NINES = "9" * 38
TIE = "1234567890123456789012345678901234" + "5000"  # halfway between two values of 34 digits


def utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[misc, arg-type]


def _decimals(type_: Type, *texts: str) -> list[Any]:
    """With the digits after the point that a column of this type has."""
    return [EXACT.quantize(Decimal(text), Decimal(1).scaleb(-type_.scale)) for text in texts]


# What arithmetic and comparison meet; NULL is added to each.
VALUES: dict[Type, list[Any]] = {
    BOOLEAN: [True, False],
    TINYINT: [0, 1, -1, 7, 127, -128],
    SMALLINT: [0, 1, -1, 300, 32767, -32768],
    INT: [0, 1, -1, 7, 2147483647, -2147483648],
    BIGINT: [0, 1, -1, 7, -3, 3037000500, 9223372036854775807, -9223372036854775808],
    MONEY: _decimals(MONEY, "0", "1.5", "-2.25", "0.01", "99999999.99", "-99999999.99"),
    FINE: _decimals(FINE, "0", "1.00000001", "-0.5", "999999999999.99999999"),
    LONG: _decimals(LONG, "0", "2.5", "-0.3333333333", NINES[:28] + "." + NINES[28:], "-9e27"),
    HUGE: _decimals(
        HUGE,
        "0",
        "1",
        "-7",
        "12345678901234567890",
        "1234567890123456789012345678901234" + "5000",
        NINES,
        "-" + NINES,
    ),
    DOUBLE: [
        0.0,
        -0.0,
        1.5,
        -2.5,
        0.1,
        0.285,
        1e10,
        1e19,
        -1e19,
        1e308,
        5e-324,
        math.nan,
        math.inf,
        -math.inf,
    ],
    STRING: [
        "",
        "a",
        "ab",
        "A",
        " aB% ",
        "a_b\\c",
        "it's",
        "line\nbreak",
        "naïve",
        "日本",
        "😀x",
        "é" * 3,
        "ΑΣ",
        "ßİ",
    ],
    BINARY: [b"", b"\x00", b"a", b"\xff\x00"],
    DATE: [date(1, 1, 1), date(9999, 12, 31), date(1969, 12, 31), date(2024, 2, 29), date(1582, 10, 10)],
    TIMESTAMP: [
        utc(1, 1, 1),
        utc(9999, 12, 31, 23, 59, 59, 999999),
        utc(1969, 12, 31, 23, 59, 59, 500000),
        utc(2024, 2, 29, 13, 45, 59, 123456),
    ],
}
# Text that is read as something else.
TEXTS: dict[Type, list[str]] = {
    TINYINT: ["0", "127", "-128", "128", " 7 ", "+5", "1.5", "", "x", "1e2", "٣", "\x007\x7f", "\u00a07"],
    SMALLINT: ["32767", "32768", "-1"],
    INT: ["2147483647", "2147483648", "\t8\n", "-0", "1.0", "0x1"],
    BIGINT: ["9223372036854775807", "9223372036854775808", "-9223372036854775808", "12a", "1 2"],
    MONEY: [
        "1.5",
        "1.005",
        "-2.995",
        "1e3",
        ".5",
        "5.",
        " 3 ",
        "123456789",
        "abc",
        "",
        "NaN",
        "1e-9",
        "٣",
        "\x1f2",
        "3\x7f",
        "\u30004",
    ],
    LONG: ["1234567890123456789012345678.0123456789", "1e27", "1e28", "0.00000000005"],
    DOUBLE: [
        "1.5",
        "-0",
        "1e400",
        "1e-400",
        "NaN",
        "Infinity",
        "-inf",
        " 2 ",
        "1d",
        "0x10",
        "0x1p3",
        "abc",
        "",
        "+nan",
        "+NaN",
    ],
    BOOLEAN: ["true", "FALSE", " t ", "y", "no", "1", "0", "on", "2", "", "tru", "\x00yes\x7f", "yeſ"],
    DATE: [
        "2024-02-29",
        "2023-02-29",
        "2024-2-9",
        "2024",
        "2024-05",
        " 2024-05-06 ",
        "0001-01-01",
        "9999-12-31",
        "2024-02-29 10:00:00",
        "2024-02-29T",
        "24-01-01",
        "20240101",
        "2024 0101",
        "9999-1 2-31",
        "10000-01-01",
        "0000-01-01",
        "-0001-01-01",
        "\x002024-02-29\x7f",
        "x",
        "",
    ],
    TIMESTAMP: [
        "2024-02-29 10:11:12",
        "2024-02-29T10:11:12.123456",
        "2024-02-29",
        "2024-02-29 10:11",
        "2024-02-29 10:11:12+02:00",
        "2024-02-29 10:11:12Z",
        "2024-02-29 24:00:00",
        "2024-02-29 10:11:12 UTC",
        "2024-02-29 10:11:12+2",
        "2024-02-29 10:11:12 GMT-0830",
        "2024-02-29 10:11:12+18:01",
        "2024-02-29 10:11:12\u00a0+02:00",
        "2024-02-29 10:11:12 Europe/Berlin",
        "10:11:12",
        "T10:11",
        "0001-01-01 00:00:00+02:00",
        "9999-12-31 23:59:59-02:00",
        "10000-01-01 00:00:00",
        "\t2024-02-29 10:11\x7f",
        "2024",
        "x",
        "",
        "0001-01-01 00:00:00",
        "9999-12-31 23:59:59.999999",
        "2024-02-29 10:11:12.1234567",
        "1969-12-31 1:2:3",
    ],
    STRING: ["", "a\\'b"],
    BINARY: ["", "é", "a\x00b"],
}
PATTERNS = [
    "%",
    "_",
    "a%",
    "%b",
    "",
    "__",
    "a\\_b\\\\c",
    "%\\%%",
    "\\",
    "a\\b",
    "%日%",
    "_x",
    "line_break",
    "%'%",
]
INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
DECIMALS = (MONEY, FINE, LONG, HUGE)
NUMBERS = (*INTEGERS, *DECIMALS, DOUBLE)
MIXED = [(INT, BIGINT), (BIGINT, MONEY), (MONEY, FINE), (LONG, MONEY), (BIGINT, DOUBLE), (DOUBLE, MONEY)]
ARITHMETIC = ("+", "-", "*", "/", "%")
EXTREMES = ("greatest", "least")
COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "<=>")
