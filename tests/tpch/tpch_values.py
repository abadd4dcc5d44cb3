"""Values that updates give to the benchmark's columns: those the queries ask for, and others."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import date, timedelta
from decimal import Decimal
from random import Random
from typing import Any

START, END, TODAY = date(1992, 1, 1), date(1998, 12, 31), date(1995, 6, 17)
CENT = Decimal("0.01")
# Tables of few rows, and the names that views ask for: they change places but do not go, or views would be
# empty for good.
FEW = {
    "nation": ("n_name", ("FRANCE", "GERMANY", "BRAZIL", "CANADA", "SAUDI ARABIA")),
    "region": ("r_name", ("EUROPE", "ASIA", "AMERICA")),
}
PRIORITIES = ("1-URGENT", "2-HIGH", "3-MEDIUM", "4-NOT SPECIFIED", "5-LOW")
INSTRUCTIONS = ("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
MODES = ("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB", "AIR REG")
REMARKS = ("special packages requests", "quickly final", "Customer slow Complaints", "even deposits")
_SEGMENTS = ("AUTOMOBILE", "BUILDING", "FURNITURE", "MACHINERY", "HOUSEHOLD")
_CONTAINERS = ("MED BOX", "MED BAG", "SM CASE", "SM BOX", "LG CASE", "LG PKG", "JUMBO JAR", "WRAP CAN")
_TYPES = ("ECONOMY ANODIZED STEEL", "PROMO BURNISHED TIN", "LARGE PLATED BRASS", "MEDIUM POLISHED NICKEL")
_NAMES = ("forest green ivory", "forest lace", "dark green", "misty rose", "navy blue")
_DAYS = (
    *(date(1993, 8, 1), date(1993, 11, 2), date(1994, 3, 3), date(1995, 3, 14), date(1995, 3, 16)),
    *(date(1995, 9, 9), date(1996, 2, 29), date(1998, 9, 2), date(1998, 9, 3)),
)

Usual = Callable[[Random], Any]


def any_date(random: Random, first: date = START, last: date = END) -> date:
    return first + timedelta(random.randrange((last - first).days + 1))


def _one_of(values: Sequence[Any]) -> tuple[Sequence[Any], Usual]:
    return tuple(values), lambda random: random.choice(values)


def _money(least: int, most: int, *asked: str) -> tuple[Sequence[Decimal], Usual]:
    """In cents."""
    return [Decimal(value) for value in asked], lambda random: random.randrange(least, most + 1) * CENT


def _phone(random: Random) -> str:
    return f"{random.randrange(10, 35)}-{random.randrange(100, 1000)}-{random.randrange(1000, 10000)}"


_DATES: tuple[Sequence[date], Usual] = _DAYS, any_date
_NEVER: Usual = lambda random: None  # noqa: E731
# Of each column: the values asked for, or the table whose keys it has; and how to draw others.
VALUES: dict[str, tuple[Sequence[Any] | str, Usual]] = {
    "l_partkey": ("part", _NEVER),
    "l_suppkey": ("supplier", _NEVER),
    "l_quantity": (
        [Decimal(n) for n in (1, 2, 10, 15, 23, 24, 25, 280)],
        lambda r: Decimal(r.randrange(1, 51)),
    ),
    "l_extendedprice": _money(90_000, 10_000_000, "1000.00"),
    "l_discount": _money(0, 10, "0.05", "0.06", "0.07"),
    "l_tax": _money(0, 8, "0.04"),
    "l_returnflag": _one_of("RAN"),
    "l_linestatus": _one_of("OF"),
    "l_shipdate": _DATES,
    "l_commitdate": _DATES,
    "l_receiptdate": _DATES,
    "l_shipinstruct": _one_of(INSTRUCTIONS),
    "l_shipmode": _one_of(MODES),
    "l_comment": _one_of(REMARKS),
    "p_name": _one_of(_NAMES),
    "p_brand": _one_of(("Brand#12", "Brand#23", "Brand#34", "Brand#45", "Brand#51")),
    "p_type": _one_of(_TYPES),
    "p_size": ((15, 49, 14, 23, 45, 19, 3, 36, 9, 1, 5, 10), lambda r: r.randrange(1, 51)),
    "p_container": _one_of(_CONTAINERS),
    "p_retailprice": _money(90_000, 200_000, "1000.00"),
    "o_custkey": ("customer", _NEVER),
    "o_orderstatus": _one_of("FOP"),
    "o_totalprice": _money(90_000, 50_000_000, "500000.00"),
    "o_orderdate": _DATES,
    "o_orderpriority": _one_of(PRIORITIES),
    "o_shippriority": _one_of((0, 1)),
    "o_comment": _one_of(REMARKS),
    "c_name": _one_of(("Customer#000000001", "Customer#of its own")),
    "c_nationkey": ("nation", _NEVER),
    "c_phone": (("13-555-0000", "31-555-0001", "23-555-0002", "17-555-0003"), _phone),
    "c_acctbal": _money(-99_999, 999_999, "0.00", "9999.99"),
    "c_mktsegment": _one_of(_SEGMENTS),
    "c_comment": _one_of(REMARKS),
    "s_address": _one_of(("a street", "another street")),
    "s_nationkey": ("nation", _NEVER),
    "s_phone": (("13-555-0000",), _phone),
    "s_acctbal": _money(-99_999, 999_999, "9999.99"),
    "s_comment": _one_of(REMARKS),
    "ps_availqty": ((1, 10, 9999), lambda r: r.randrange(1, 10_000)),
    "ps_supplycost": _money(100, 100_000, "1.00", "2.00"),
    "n_regionkey": ("region", _NEVER),
    "r_comment": _one_of(REMARKS),
}
