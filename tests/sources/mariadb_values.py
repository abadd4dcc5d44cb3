"""MariaDB's types: how each is declared, what it becomes, and its extremes, as a literal and as a value."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from stillframe.algebra import types as t
from stillframe.algebra.types import Type

NINES = "9" * 38
Case = tuple[str, Type, tuple[tuple[str, Any], ...]]

TYPES: dict[str, tuple[Case, ...]] = {
    "`TINYINT`, `SMALLINT`": (
        ("TINYINT", t.TINYINT, (("-128", -128), ("127", 127))),
        ("SMALLINT", t.SMALLINT, (("-32768", -32768), ("32767", 32767))),
    ),
    "`BOOLEAN`, `BOOL`, `TINYINT(1)`": (
        ("BOOLEAN", t.TINYINT, (("TRUE", 1), ("FALSE", 0), ("2", 2))),
        ("TINYINT(1)", t.TINYINT, (("-5", -5),)),
    ),
    "`MEDIUMINT`, `INT`": (
        ("MEDIUMINT", t.INT, (("-8388608", -8388608), ("8388607", 8388607))),
        ("INT", t.INT, ((str(-(2**31)), -(2**31)), (str(2**31 - 1), 2**31 - 1))),
    ),
    "`BIGINT`": (("BIGINT", t.BIGINT, ((str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1))),),
    "`TINYINT UNSIGNED`": (("TINYINT UNSIGNED", t.SMALLINT, (("255", 255), ("0", 0))),),
    "`SMALLINT UNSIGNED`, `MEDIUMINT UNSIGNED`": (
        ("SMALLINT UNSIGNED", t.INT, (("65535", 65535),)),
        ("MEDIUMINT UNSIGNED", t.INT, (("16777215", 16777215),)),
    ),
    "`INT UNSIGNED`": (
        ("INT UNSIGNED", t.BIGINT, ((str(2**32 - 1), 2**32 - 1),)),
        ("INT(9) ZEROFILL", t.BIGINT, (("7", 7),)),
    ),
    "`BIGINT UNSIGNED`": (
        ("BIGINT UNSIGNED", t.decimal(20, 0), ((str(2**64 - 1), Decimal(2**64 - 1)), ("0", Decimal(0)))),
    ),
    "`DECIMAL(p,s)`, p ≤ 38": (
        ("DECIMAL(38,0)", t.decimal(38, 0), ((NINES, Decimal(NINES)), (f"-{NINES}", Decimal(f"-{NINES}")))),
        ("DECIMAL(38,38)", t.decimal(38, 38), ((f"0.{NINES}", Decimal(f"0.{NINES}")),)),
        ("DECIMAL(5,2) ZEROFILL", t.decimal(5, 2), (("1.5", Decimal("1.50")),)),
        ("NUMERIC", t.decimal(10, 0), (("7", Decimal(7)),)),
    ),
    "`DOUBLE`": (
        (
            "DOUBLE",
            t.DOUBLE,
            (
                *((repr(x), x) for x in (0.1, 1.7976931348623157e308, 2.2250738585072014e-308, 5e-324)),
                ("-0e0", 0.0),
            ),
        ),
    ),
    "`FLOAT`": (
        (
            "FLOAT",
            t.DOUBLE,
            (("0.1", 0.10000000149011612), ("16777217", 16777216.0), ("3.4e38", 3.3999999521443642e38)),
        ),
    ),
    "`BIT(1)`": (("BIT(1)", t.BOOLEAN, (("b'1'", True), ("b'0'", False))),),
    "`CHAR(n)`": (
        ("CHAR(5)", t.STRING, (("'ab   '", "ab"), ("''", ""), ("' a'", " a"), ("'日本'", "日本"))),
    ),
    "`VARCHAR(n)`, `TINYTEXT`, `TEXT`, `MEDIUMTEXT`, `LONGTEXT`": (
        ("VARCHAR(20)", t.STRING, (("'trailing  '", "trailing  "), ("'🙂 é'", "🙂 é"), ("'a\\0b'", "a\0b"))),
        ("VARCHAR(20) CHARACTER SET latin1", t.STRING, (("'äöü €'", "äöü €"),)),
        ("VARCHAR(20) CHARACTER SET utf16", t.STRING, (("'🙂'", "🙂"),)),
        ("TINYTEXT", t.STRING, (("''", ""),)),
        ("TEXT", t.STRING, (("repeat('ü', 30000)", "ü" * 30000),)),
        ("MEDIUMTEXT", t.STRING, (("repeat('x', 70000)", "x" * 70000),)),
        ("LONGTEXT", t.STRING, (("'x'", "x"),)),
    ),
    "`ENUM`, `SET`": (
        ("ENUM('x', 'Y z')", t.STRING, (("'x'", "x"), ("2", "Y z"))),
        ("SET('a', 'b', 'c')", t.STRING, (("'c,a'", "a,c"), ("''", ""))),
    ),
    "`JSON`": (("JSON", t.STRING, (('\'{"b": 1,  "a": [null]}\'', '{"b": 1,  "a": [null]}'),)),),
    "`UUID`, `INET4`, `INET6`": (
        (
            "UUID",
            t.STRING,
            (("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),),
        ),
        ("INET4", t.STRING, (("'192.168.0.1'", "192.168.0.1"),)),
        ("INET6", t.STRING, (("'2001:DB8:0::1'", "2001:db8::1"),)),
    ),
    "`BINARY(n)`": (("BINARY(3)", t.BINARY, (("X'00'", b"\0\0\0"), ("'abc'", b"abc"))),),
    "`VARBINARY(n)`, `TINYBLOB`, `BLOB`, `MEDIUMBLOB`, `LONGBLOB`": (
        ("VARBINARY(9)", t.BINARY, (("X'00FF'", b"\0\xff"), ("''", b""))),
        ("TINYBLOB", t.BINARY, (("X'FE'", b"\xfe"),)),
        ("BLOB", t.BINARY, (("repeat(X'FF', 300)", b"\xff" * 300),)),
        ("MEDIUMBLOB", t.BINARY, (("X'00'", b"\0"),)),
        ("LONGBLOB", t.BINARY, (("X'C328'", b"\xc3\x28"),)),
    ),
    "`DATE`": (("DATE", t.DATE, (("'0001-01-01'", date(1, 1, 1)), ("'9999-12-31'", date(9999, 12, 31)))),),
    "`DATETIME(p)`": (
        (
            "DATETIME(6)",
            t.TIMESTAMP,
            (
                ("'0001-01-01 00:00:00'", datetime(1, 1, 1, tzinfo=UTC)),
                ("'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
            ),
        ),
        ("DATETIME", t.TIMESTAMP, (("'2024-02-29 12:00:00'", datetime(2024, 2, 29, 12, tzinfo=UTC)),)),
    ),
    "`TIMESTAMP(p)`": (
        (
            "TIMESTAMP(6) NULL",
            t.TIMESTAMP,
            (
                ("'1970-01-01 00:00:01'", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
                ("'2038-01-19 03:14:07.999999'", datetime(2038, 1, 19, 3, 14, 7, 999999, UTC)),
            ),
        ),
    ),
    "`YEAR`": (("YEAR", t.SMALLINT, (("1901", 1901), ("2155", 2155), ("'0000'", 0))),),
}
REFUSED = {
    "`DECIMAL(p,s)`, p > 38": ("DECIMAL(39,0)", "DECIMAL(65,30)"),
    "`BIT(n)`, n > 1": ("BIT(2)", "BIT(64)"),
    "`TIME(p)`": ("TIME", "TIME(6)"),
    "`GEOMETRY`, `POINT`, …": ("GEOMETRY", "POINT", "POLYGON"),
}
