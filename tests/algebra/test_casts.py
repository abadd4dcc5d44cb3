"""CAST at its extremes, as tables. What is expected is what Spark SQL 4.2 answers in ANSI mode, UTC."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from stillframe.algebra import (
    Bag,
    Cast,
    EvaluationError,
    Literal,
    Ref,
    Type,
    TypeMismatch,
    cast,
    evaluate_scalar,
)
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
    VOID,
    decimal,
)

NAN, INF = float("nan"), float("inf")
RAISES = object()


def outcome(value: Any, source: Type, target: Type) -> Any:
    try:
        return evaluate_scalar(Cast(Ref(0, source), target), (value,))
    except EvaluationError:
        return RAISES


def check(value: Any, source: Type, target: Type, expected: Any) -> None:
    found = outcome(value, source, target)
    assert (found is RAISES) == (expected is RAISES), found
    assert type(found) is type(expected) and Bag.of([(found,)]) == Bag.of([(expected,)]), found


@pytest.mark.parametrize("type_", [TINYINT, SMALLINT, INT, BIGINT], ids=str)
def test_the_ends_of_integers(type_: Type) -> None:
    low, high = -(1 << (type_.bits - 1)), (1 << (type_.bits - 1)) - 1
    for end, beyond in ((low, low - 1), (high, high + 1)):
        check(str(end), STRING, type_, end)
        check(str(beyond), STRING, type_, RAISES)
        check(Decimal(end), decimal(38, 0), type_, end)
        check(Decimal(beyond), decimal(38, 0), type_, RAISES)
        check(Decimal(end) + Decimal("0.0"), decimal(38, 1), type_, end)
    if type_ != BIGINT:
        check(high + 1, BIGINT, type_, RAISES)
        check(low - 1, BIGINT, type_, RAISES)
        check(float(high) + 0.9, DOUBLE, type_, high)
        check(float(low) - 0.9, DOUBLE, type_, low)
        check(float(high) + 1, DOUBLE, type_, RAISES)
        check(float(low) - 1, DOUBLE, type_, RAISES)


@pytest.mark.parametrize(
    ("value", "source", "target", "expected"),
    [
        (-1.9, DOUBLE, INT, -1), (9223372036854774784.0, DOUBLE, BIGINT, 9223372036854774784),
        (-9223372036854775808.0, DOUBLE, BIGINT, -(2**63)), (1e19, DOUBLE, BIGINT, RAISES),
        (NAN, DOUBLE, INT, RAISES),
        (INF, DOUBLE, BIGINT, RAISES), (Decimal("-1.9"), decimal(3, 1), INT, -1),
        (Decimal("1.9"), decimal(3, 1), TINYINT, 1),
        (2**63 - 1, BIGINT, DOUBLE, 9223372036854775808.0), (Decimal("0.1"), decimal(2, 1), DOUBLE, 0.1),
        (True, BOOLEAN, INT, 1), (False, BOOLEAN, TINYINT, 0), (2, INT, BOOLEAN, True),
        (0, BIGINT, BOOLEAN, False),
        (NAN, DOUBLE, BOOLEAN, True), (-0.0, DOUBLE, BOOLEAN, False),
        (Decimal("0.0"), decimal(2, 1), BOOLEAN, False),
        (5, INT, decimal(2, 1), Decimal("5.0")), (10, INT, decimal(2, 1), RAISES),
        (0.1, DOUBLE, decimal(3, 1), Decimal("0.1")),
        (1e300, DOUBLE, decimal(38, 0), RAISES), (NAN, DOUBLE, decimal(5, 1), None),
        (-INF, DOUBLE, decimal(5, 1), None),
        (2.5, DOUBLE, decimal(2, 0), Decimal(3)), (-2.5, DOUBLE, decimal(2, 0), Decimal(-3)),
        (1e-300, DOUBLE, decimal(5, 1), Decimal(0)),
        (Decimal("1.25"), decimal(3, 2), decimal(3, 1), Decimal("1.3")),
        (Decimal("-1.25"), decimal(3, 2), decimal(3, 1), Decimal("-1.3")),
        (Decimal("9.95"), decimal(3, 2), decimal(2, 1), RAISES),
        (Decimal("9.94"), decimal(3, 2), decimal(2, 1), Decimal("9.9")),
        (Decimal("0.04"), decimal(3, 2), decimal(2, 1), Decimal(0)),
    ],
)  # fmt: skip
def test_numbers(value: Any, source: Type, target: Type, expected: Any) -> None:
    check(value, source, target, expected)


@pytest.mark.parametrize(
    ("text", "target", "expected"),
    [
        (" 12 ", INT, 12), ("\t12\n", INT, 12), ("+7", INT, 7), ("-0", INT, 0), ("007", INT, 7),
        ("1.5", INT, RAISES),
        ("-", INT, RAISES), ("", INT, RAISES), (" ", INT, RAISES), ("٣", INT, RAISES), ("1_000", INT, RAISES),
        ("1e3", INT, RAISES), ("0x10", INT, RAISES), ("1 2", INT, RAISES), ("\u00a01", INT, RAISES),
        ("1e3", decimal(10, 0), Decimal(1000)), (".5", decimal(2, 1), Decimal("0.5")),
        ("5.", decimal(2, 1), Decimal(5)),
        ("1.25", decimal(3, 1), Decimal("1.3")), ("-1.25", decimal(3, 1), Decimal("-1.3")),
        (" 1 ", decimal(3, 1), Decimal(1)),
        ("999.95", decimal(4, 1), RAISES), ("0.001", decimal(4, 1), Decimal(0)),
        ("NaN", decimal(4, 1), RAISES),
        ("Infinity", decimal(4, 1), RAISES), ("1_000", decimal(10, 0), RAISES), ("", decimal(10, 0), RAISES),
        ("1e999", decimal(38, 0), RAISES), ("9" * 38, decimal(38, 0), Decimal("9" * 38)),
        ("9" * 39, decimal(38, 0), RAISES),
        ("9" * 300, decimal(38, 0), RAISES), ("0." + "3" * 300, decimal(38, 2), Decimal("0.33")),
        ("1.5", DOUBLE, 1.5), ("1e400", DOUBLE, INF), ("-0", DOUBLE, -0.0), (" nan ", DOUBLE, NAN),
        ("inf", DOUBLE, INF),
        ("+inf", DOUBLE, INF), ("+Infinity", DOUBLE, INF), ("-infinity", DOUBLE, -INF),
        ("1e", DOUBLE, RAISES),
        ("1_0", DOUBLE, RAISES), ("", DOUBLE, RAISES), ("٣", DOUBLE, RAISES), (".", DOUBLE, RAISES),
        ("true", BOOLEAN, True), ("T", BOOLEAN, True), (" YES ", BOOLEAN, True), ("1", BOOLEAN, True),
        ("n", BOOLEAN, False),
        ("FALSE", BOOLEAN, False), ("0", BOOLEAN, False), ("2", BOOLEAN, RAISES), ("", BOOLEAN, RAISES),
        ("maybe", BOOLEAN, RAISES),
        ("é", BINARY, b"\xc3\xa9"), ("", BINARY, b""),
    ],
)  # fmt: skip
def test_text_to_values(text: str, target: Type, expected: Any) -> None:
    check(text, STRING, target, expected)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0001-01-01", date(1, 1, 1)), ("9999-12-31", date(9999, 12, 31)), ("2024-02-29", date(2024, 2, 29)),
        ("2023-02-29", RAISES), ("2020-02-30", RAISES), ("2020-13-01", RAISES), ("2020-00-01", RAISES),
        ("0000-01-01", RAISES),
        ("2020", date(2020, 1, 1)), ("2020-2", date(2020, 2, 1)), ("2020-1-1", date(2020, 1, 1)),
        ("2020-1-1 x", date(2020, 1, 1)),
        (" 2020-01-01 ", date(2020, 1, 1)), ("2020-01-01T00:00:00", date(2020, 1, 1)),
        ("20-01-01", RAISES), ("2020/01/01", RAISES),
        ("2020-01-01x", RAISES), ("2020-2 x", RAISES), ("", RAISES), ("today", RAISES),
        ("٢٠٢٠-01-01", RAISES), ("2020-", RAISES),
    ],
)  # fmt: skip
def test_text_to_dates(text: str, expected: Any) -> None:
    check(text, STRING, DATE, expected)


def _utc(*parts: int) -> datetime:
    return datetime(*parts, tzinfo=UTC)  # type: ignore[arg-type, misc]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0001-01-01 00:00:00", _utc(1, 1, 1)),
        ("9999-12-31 23:59:59.999999", _utc(9999, 12, 31, 23, 59, 59, 999999)),
        ("2020-01-01 00:00:00+02:00", _utc(2019, 12, 31, 22)),
        ("2020-01-01 00:00:00-02:30", _utc(2020, 1, 1, 2, 30)),
        ("2020-01-01 00:00:00+18:00", _utc(2019, 12, 31, 6)), ("2020-01-01 00:00:00+18:30", RAISES),
        ("2020-01-01 00:00:00+99:99", RAISES), ("2020-01-01 00:00:00+01:60", RAISES),
        ("2020-01-01T00:00:00Z", _utc(2020, 1, 1)),
        ("2020-01-01 00:00:00UTC", _utc(2020, 1, 1)),
        ("2020-01-01 00:00:00.1234567", _utc(2020, 1, 1, 0, 0, 0, 123456)),
        ("2020-01-01 00:00:00.5", _utc(2020, 1, 1, 0, 0, 0, 500000)),
        ("2020-01-01 12:30", _utc(2020, 1, 1, 12, 30)),
        ("2020-01-01 12", _utc(2020, 1, 1, 12)), ("2020-01-01", _utc(2020, 1, 1)),
        ("2020-01", _utc(2020, 1, 1)), ("2020", _utc(2020, 1, 1)),
        ("2020-01-01 25:00:00", RAISES), ("2020-01-01 00:60:00", RAISES), ("2020-01-01 00:00:60", RAISES),
        ("2020-01-01 x", RAISES),
        ("", RAISES),
    ],
)  # fmt: skip
def test_text_to_timestamps(text: str, expected: Any) -> None:
    check(text, STRING, TIMESTAMP, expected)


@pytest.mark.parametrize(
    ("value", "source", "expected"),
    [
        (-(2**63), BIGINT, "-9223372036854775808"), (True, BOOLEAN, "true"), (False, BOOLEAN, "false"),
        (date(1, 1, 1), DATE, "0001-01-01"),
        (Decimal("0.0000001"), decimal(10, 7), "0.0000001"), (Decimal("1.50"), decimal(5, 2), "1.50"),
        (Decimal("-0.05"), decimal(5, 2), "-0.05"),
        (Decimal("0.00"), decimal(5, 2), "0.00"), (date(9999, 12, 31), DATE, "9999-12-31"),
        (_utc(1, 1, 1), TIMESTAMP, "0001-01-01 00:00:00"),
        (_utc(2020, 1, 1, 0, 0, 0, 120000), TIMESTAMP, "2020-01-01 00:00:00.12"),
        (_utc(999, 1, 1, 0, 0, 0, 1), TIMESTAMP, "0999-01-01 00:00:00.000001"),
        (_utc(9999, 12, 31, 23, 59, 59, 999999), TIMESTAMP, "9999-12-31 23:59:59.999999"),
    ],
)  # fmt: skip
def test_values_to_text(value: Any, source: Type, expected: str) -> None:
    check(value, source, STRING, expected)
    check(expected, STRING, source, value)


def test_dates_and_timestamps() -> None:
    for day in (date(1, 1, 1), date(9999, 12, 31)):
        check(day, DATE, TIMESTAMP, _utc(day.year, day.month, day.day))
        check(_utc(day.year, day.month, day.day, 23, 59, 59, 999999), TIMESTAMP, DATE, day)


@pytest.mark.parametrize(
    "target", [TINYINT, DOUBLE, decimal(5, 2), STRING, BOOLEAN, DATE, TIMESTAMP], ids=str
)
def test_null_stays_null(target: Type) -> None:
    assert outcome(None, STRING, target) is None
    assert evaluate_scalar(cast(Literal(None, VOID), target), ()) is None
    assert cast(Literal(None, VOID), target).type == target


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (DOUBLE, STRING), (DATE, INT), (INT, DATE), (BOOLEAN, DATE), (BINARY, STRING), (TIMESTAMP, BIGINT),
        (BOOLEAN, decimal(1, 0)),
    ],
    ids=str,
)  # fmt: skip
def test_casts_that_are_not_offered(source: Type, target: Type) -> None:
    with pytest.raises(TypeMismatch):
        Cast(Ref(0, source), target)
