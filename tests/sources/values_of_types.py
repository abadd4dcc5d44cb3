"""Extreme values of types that several databases have: each a literal they all take, and its Python value."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal

INTEGERS = {
    bits: (
        ("0", 0),
        (str(2 ** (bits - 1) - 1), 2 ** (bits - 1) - 1),
        (f"({-(2 ** (bits - 1)) + 1} - 1)", -(2 ** (bits - 1))),
    )
    for bits in (16, 32, 64)
}
_NINES = "9" * 38
DECIMALS = {
    (38, 0): ((_NINES, Decimal(_NINES)), (f"-{_NINES}", Decimal(f"-{_NINES}")), ("0", Decimal(0))),
    (38, 10): (
        (f"{_NINES[:28]}.{_NINES[:10]}", Decimal(f"{_NINES[:28]}.{_NINES[:10]}")),
        ("0.0000000001", Decimal("0.0000000001")),
        ("-1.5", Decimal("-1.5")),
    ),
    (38, 38): ((f"0.{_NINES}", Decimal(f"0.{_NINES}")), (f"-0.{_NINES}", Decimal(f"-0.{_NINES}"))),
    (5, 2): (("999.99", Decimal("999.99")), ("-0.01", Decimal("-0.01"))),
}
DOUBLES = (
    ("1.7976931348623157e308", 1.7976931348623157e308),
    ("2.2250738585072014e-308", 2.2250738585072014e-308),
    ("0.1", 0.1),
    ("-123456789.123456789", -123456789.123456789),
    ("1e15", 1e15),
)
DATES = (
    ("'0001-01-01'", date(1, 1, 1)),
    ("'9999-12-31'", date(9999, 12, 31)),
    ("'2024-02-29'", date(2024, 2, 29)),
    ("'1582-10-10'", date(1582, 10, 10)),
)
TIMESTAMPS = (
    ("'0001-01-01 00:00:00'", datetime(1, 1, 1, tzinfo=UTC)),
    ("'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
    ("'1969-12-31 23:59:59.999999'", datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
    ("'2024-03-31 02:30:00'", datetime(2024, 3, 31, 2, 30, tzinfo=UTC)),
)
