"""Decimals of SQLite decoded at once are those decoded one by one, and bad ones are refused all the same."""

from __future__ import annotations

import math
import os
import random
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from stillframe.algebra import types as t
from stillframe.algebra.arrow import arrow_type
from stillframe.sources.sqlite import types
from stillframe.sources.sqlite.types import BadValue, Reading, decoded

SEED = int(os.environ.get("STILLFRAME_SEED", random.randrange(2**32)))
DECLARED = [t.decimal(15, 2), t.decimal(4, 2), t.decimal(18, 0), t.decimal(20, 10), t.decimal(38, 15)]


def one_by_one(type_: t.Type, values: list[Any]) -> pa.Array | str:
    try:
        return pa.array(types._each(types._decimal, type_, values), arrow_type(type_))
    except BadValue as error:
        return str(error)


def at_once(type_: t.Type, values: list[Any]) -> pa.Array | str:
    try:
        return decoded(Reading(type_), values)
    except BadValue as error:
        return str(error)


def any_value(source: random.Random, type_: t.Type) -> Any:
    """Mostly numbers as they are stored; a few that are long, odd, or no number of the type."""
    digits = source.randrange(1, 18)
    number = source.randrange(-(10**digits), 10**digits)
    match source.randrange(40):
        case 0:
            return None
        case 1:
            return number
        case 2:
            return str(Decimal(number).scaleb(-type_.scale))
        case 3:
            return source.choice([math.inf, -0.0, 1e-300, 1e300, 0.1 + 0.2, 1 / 3, 2**63, -(2**53) - 1])
        case 4:
            return math.nextafter(number / 10**type_.scale, math.inf)
    return float(Decimal(number).scaleb(-type_.scale))


@pytest.mark.parametrize("type_", DECLARED, ids=str)
def test_differential_at_once_and_one_by_one(type_: t.Type) -> None:
    print(f"STILLFRAME_SEED={SEED}")
    source = random.Random(SEED)
    for length in [1] * 2000 + [3] * 500 + [50] * 20:
        values = [any_value(source, type_) for _ in range(length)]
        expected, found = one_by_one(type_, values), at_once(type_, values)
        assert type(found) is type(expected), values
        assert found == expected if isinstance(expected, str) else found.equals(expected), values


@pytest.mark.parametrize("off", [0.0, math.inf, -math.inf], ids=["exact", "a bit more", "a bit less"])
def test_plain_prices_need_no_second_look(off: float, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(types, "_decimal")
    values = [n / 100 for n in range(-100_000, 1_000_000, 37)]
    values = [math.nextafter(value, off) if off else value for value in values]
    found = types._short_decimals([*values, None], t.decimal(15, 2))
    assert found is not None
    assert found.to_pylist() == [*(Decimal(f"{value:.2f}") for value in values), None]


@pytest.mark.parametrize("value", [0.001, 1e14, math.inf, math.nan, 0.3 + 2e-16], ids=str)
def test_only_numbers_that_are_not_plain_go_the_slow_way(
    value: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked_at = list[float]()
    monkeypatch.setattr(types, "_decimal", lambda value, _: looked_at.append(value) or Decimal(7))
    found = types._short_decimals([1.5, value, None, 2.5], t.decimal(15, 2))
    assert [repr(each) for each in looked_at] == [repr(value)]
    assert found.to_pylist() == [Decimal("1.50"), Decimal(7), None, Decimal("2.50")]
