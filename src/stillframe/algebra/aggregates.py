"""Aggregate functions: their types as Spark's ANSI mode has them, and what they mean on a group.

A group is given as its values with how often each occurs. NULL is no value: it is left out before anything
else, and a group without values has the result NULL, or the count 0. Sums are exact, but for those of DOUBLE
and what is computed from them (`inexact`): these depend on the order in which rows are added, so that two
computations agree in all but the last digits.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import Any

from stillframe.algebra.functions import TypeMismatch, in_range, to_decimal
from stillframe.algebra.types import BIGINT, BOOLEAN, DOUBLE, MAX_PRECISION, Type, decimal

Values = Sequence[tuple[Any, int]]  # without NULL; how often each occurs
_WIDE = Context(prec=80, rounding=ROUND_HALF_UP)


@dataclass(frozen=True)
class Aggregation:
    """`nullable`: the result is NULL where there is no value."""

    result: Callable[[Type], Type]
    evaluate: Callable[[Type, Values], Any]
    nullable: bool = True


def _sum_type(taken: Type) -> Type:
    if taken.is_integer:
        return BIGINT
    if taken.is_decimal:
        return decimal(min(MAX_PRECISION, taken.precision + 10), taken.scale)
    if taken == DOUBLE:
        return DOUBLE
    raise TypeMismatch(_no_sum("sum", taken))


def _average_type(taken: Type) -> Type:
    if taken.is_integer:
        return DOUBLE
    if taken.is_decimal:
        digits = min(MAX_PRECISION, taken.precision + 4)
        return decimal(digits, min(taken.scale + 4, digits, MAX_PRECISION))
    if taken == DOUBLE:
        return DOUBLE
    raise TypeMismatch(_no_sum("avg", taken))


def _no_sum(function: str, taken: Type) -> str:
    return f"{function} takes a number, not {taken}"


def _sum(result: Type, values: Values) -> Any:
    if result == BIGINT:
        return in_range(sum(value * n for value, n in values), BIGINT)
    if result == DOUBLE:
        return _floats(values)
    return to_decimal(_total(values), result)


def _floats(values: Values) -> float:
    try:
        return math.fsum(value for value, n in values for _ in range(n))
    except (OverflowError, ValueError):  # of infinities
        return float(sum(value * n for value, n in values))


def _total(values: Values) -> Decimal:
    total = Decimal(0)
    for value, n in values:
        total = _WIDE.add(total, _WIDE.multiply(Decimal(value), Decimal(n)))
    return total


def _average(result: Type, values: Values) -> Any:
    count = sum(n for _, n in values)
    if result == DOUBLE and all(isinstance(value, int) for value, _ in values):
        return mean(result, sum(value * n for value, n in values), count)
    if result == DOUBLE:
        return _floats(values) / count
    return mean(result, _total(values), count)


def plus(total: int | Decimal, value: int | Decimal) -> int | Decimal:
    """Exact, whatever the digits."""
    if type(total) is int and type(value) is int:
        return total + value
    return _WIDE.add(Decimal(total), Decimal(value))


def mean(result: Type, total: int | Decimal, count: int) -> Any:
    """Of whole numbers or decimals, from their sum; `count` is not 0."""
    if result == DOUBLE:
        return float(total) / float(count)
    return to_decimal(_WIDE.divide(Decimal(total), Decimal(count)), result)


def _spread(*, sample: bool, root: bool) -> Callable[[Type, Values], Any]:
    """Variance, or its root: of a sample, or of all there are. One value has no variance of a sample."""

    def evaluate(_: Type, values: Values) -> Any:
        count = sum(n for _, n in values)
        if count - sample < 1:
            return None
        if not all(math.isfinite(value) for value, _ in values):
            return math.nan
        mean = sum((Fraction(value) * n for value, n in values), Fraction()) / count
        squares = sum(((Fraction(value) - mean) ** 2 * n for value, n in values), Fraction())
        variance = float(squares / (count - sample))
        return math.sqrt(variance) if root else variance

    return evaluate


def _double(taken: Type) -> Type:
    if taken != DOUBLE:
        raise TypeMismatch(f"takes a number, not {taken}")
    return DOUBLE


def _once(values: Values) -> Values:
    return [(value, 1) for value, _ in values]


def _truth(taken: Type) -> Type:
    if taken != BOOLEAN:
        raise TypeMismatch(f"a truth value is BOOLEAN, not {taken}")
    return BOOLEAN


SPREADS = ("var_samp", "var_pop", "stddev_samp", "stddev_pop")
DISTINCT = {"count": "count_distinct", "sum": "sum_distinct", "avg": "avg_distinct"}


def inexact(function: str, taken: Type | None) -> bool:
    """Whether two computations of it may differ in the last digits."""
    return function in SPREADS or (function.startswith(("sum", "avg")) and taken == DOUBLE)


AGGREGATIONS: dict[str, Aggregation] = {
    "count": Aggregation(lambda _: BIGINT, lambda _, values: sum(n for _, n in values), nullable=False),
    "count_distinct": Aggregation(lambda _: BIGINT, lambda _, values: len(values), nullable=False),
    "sum": Aggregation(_sum_type, _sum),
    "avg": Aggregation(_average_type, _average),
    "sum_distinct": Aggregation(_sum_type, lambda result, values: _sum(result, _once(values))),
    "avg_distinct": Aggregation(_average_type, lambda result, values: _average(result, _once(values))),
    "var_samp": Aggregation(_double, _spread(sample=True, root=False)),
    "var_pop": Aggregation(_double, _spread(sample=False, root=False)),
    "stddev_samp": Aggregation(_double, _spread(sample=True, root=True)),
    "stddev_pop": Aggregation(_double, _spread(sample=False, root=True)),
    "min": Aggregation(lambda taken: taken, lambda _, values: min((v for v, _ in values), key=ordered)),
    "max": Aggregation(lambda taken: taken, lambda _, values: max((v for v, _ in values), key=ordered)),
    "bool_and": Aggregation(_truth, lambda _, values: all(v for v, _ in values)),
    "bool_or": Aggregation(_truth, lambda _, values: any(v for v, _ in values)),
}


def ordered(value: Any) -> Any:
    """NaN is the greatest number; text is ordered by its bytes."""
    if isinstance(value, float):
        return (value != value, 0.0 if value != value else value)
    return value.encode() if isinstance(value, str) else value


def aggregated(function: str, result: Type, values: Values) -> Any:
    found = AGGREGATIONS[function]
    return found.evaluate(result, values) if values or not found.nullable else None
