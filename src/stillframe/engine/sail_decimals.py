"""Decimals on Sail with Spark's digits: exact, rounded half up once, or an error where 128 bits do not hold
what comes between.

Sail's own quotient has four digits more than its dividend and cuts off the rest. So a dividend that is given
digits enough has a quotient of one digit more than asked for, and a cast rounds that away: cutting off behind
the digit that decides changes no rounding half up. Products and sums raise beyond 128 bits; the sum of a
column does not, and is therefore added up in two halves.
"""

from __future__ import annotations

from collections.abc import Iterator

from stillframe.algebra import Type
from stillframe.algebra.types import MAX_PRECISION, decimal

HELD_DIGITS = MAX_PRECISION - 1  # to which a cast holds what may have more than 38
_GIVEN = 4  # the digits Sail adds to a quotient
_AT_ONCE = 10  # so many digits are added to any dividend, and fit unless it has more than 28
_AT_A_TIME = 6
_ADDED_DIGITS = 10  # Spark counts on 10**10 rows
_COUNT = decimal(20, 0)


def held(text: str, scale: int, type_: Type) -> str:
    """A result that may have more than 38 digits, of which `scale` stand after the point."""
    return f"CAST(CAST({text} AS DECIMAL({HELD_DIGITS},{scale})) AS {type_})"


def quotient(type_: Type, left: Type, right: Type, dividend: str, divisor: str) -> str | None:
    """None where no text gives it."""
    if type_.scale >= MAX_PRECISION:
        return None
    scale = max(left.scale, type_.scale + 1 - _GIVEN)
    added = scale - left.scale + _GIVEN + right.scale
    if left.precision + added > MAX_PRECISION and added > _AT_ONCE:
        return _long_division(type_, left, right, dividend, divisor)
    wide = decimal(min(MAX_PRECISION, left.precision - left.scale + scale), scale)
    return f"CAST((CAST({dividend} AS {wide}) / {divisor}) AS {type_})"


def chunks(type_: Type, left: Type, right: Type) -> Iterator[int]:
    """How many digits each step of a long division adds; one digit more than asked for in all."""
    missing = type_.scale + 1 + right.scale - left.scale
    at_a_time = max(_AT_A_TIME, MAX_PRECISION - _GIVEN - right.precision)
    while missing > 0:
        yield min(missing, at_a_time)
        missing -= at_a_time


def _long_division(type_: Type, left: Type, right: Type, dividend: str, divisor: str) -> str:
    """By whole numbers: what is left of the dividend gets digits, and is divided again."""
    whole, by = _unscaled(dividend, left), _unscaled(divisor, right)
    rest = f"({whole} % {by})"
    digits = _divided(whole, by)
    for step in chunks(type_, left, right):
        power = f"CAST('1{'0' * step}' AS DECIMAL({step + 1},0))"
        grown = f"({rest} * {power})"
        digits = f"({digits} * {power} + {_divided(grown, by)})"
        rest = f"({grown} % {by})"
    scale = type_.scale + 1
    return f"CAST(({digits} * CAST('{_unit(scale)}' AS DECIMAL({scale},{scale}))) AS {type_})"


def _divided(whole: str, by: str) -> str:
    """Without what is left over, a quotient is whole at any scale."""
    return f"CAST((({whole} - {whole} % {by}) / {by}) AS DECIMAL({MAX_PRECISION},0))"


def _unscaled(text: str, type_: Type) -> str:
    """The digits of a decimal as a whole number. Where a product cannot be sure to hold them, the point is
    taken out of the printed number."""
    if not type_.scale:
        return f"CAST({text} AS DECIMAL({MAX_PRECISION},0))"
    if type_.precision + type_.scale <= MAX_PRECISION:
        power = f"CAST('1{'0' * type_.scale}' AS DECIMAL({type_.scale + 1},0))"
        return f"CAST(({text} * {power}) AS DECIMAL({MAX_PRECISION},0))"
    return f"CAST(replace(CAST({text} AS STRING), '.', '') AS DECIMAL({MAX_PRECISION},0))"


def _unit(scale: int) -> str:
    """The smallest number with these digits after the point."""
    return f"0.{'1'.rjust(scale, '0')}" if scale else "1"


def total(taken: Type) -> str | None:
    """The text of SUM around {0}, its argument, over the window {1}: of many digits, what they are above and
    below the last ten is summed apart."""
    if taken.precision + _ADDED_DIGITS <= MAX_PRECISION:
        return "SUM({0}){1}"
    if taken.scale + _ADDED_DIGITS > MAX_PRECISION:
        return None
    scale = taken.scale
    ten = _ADDED_DIGITS
    unit = _scaled_power(ten, scale)
    shrink = f"CAST('{_unit(ten)}' AS DECIMAL({ten},{ten}))"
    above = f"CAST((({{0}} - {{0}} % {unit}) * {shrink}) AS DECIMAL({MAX_PRECISION - ten},{scale}))"
    power = f"CAST('1{'0' * ten}' AS DECIMAL({ten + 1},0))"
    added = f"(SUM({above}){{1}} * {power} + SUM({{0}} % {unit}){{1}})"
    return held(added, scale, decimal(MAX_PRECISION, scale))


def _scaled_power(digits: int, scale: int) -> str:
    """10**digits times the smallest number with `scale` digits after the point."""
    text = "1" + "0" * (digits - scale) if scale <= digits else _unit(scale - digits)
    return f"CAST('{text}' AS DECIMAL({MAX_PRECISION},{scale}))"


def average(taken: Type, result: Type) -> str | None:
    added = total(taken)
    sums = decimal(min(MAX_PRECISION, taken.precision + _ADDED_DIGITS), taken.scale)
    if added is None:
        return None
    return quotient(result, sums, _COUNT, added, f"nullif(CAST(COUNT({{0}}){{1}} AS {_COUNT}), 0)")
