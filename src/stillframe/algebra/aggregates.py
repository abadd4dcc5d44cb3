"""Aggregate functions: their types as Spark's ANSI mode has them, and what they mean on a group.

A group is given as its values with how often each occurs. NULL is no value: it is left out before anything
else, and a group without values has the result NULL, or the count 0. Sums are exact. There is none of DOUBLE:
its result would depend on the order in which rows are added, so that no two computations need agree.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal
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
    raise TypeMismatch(_no_sum("sum", taken))


def _average_type(taken: Type) -> Type:
    if taken.is_integer:
        return DOUBLE
    if taken.is_decimal:
        digits = min(MAX_PRECISION, taken.precision + 4)
        return decimal(digits, min(taken.scale + 4, digits, MAX_PRECISION))
    raise TypeMismatch(_no_sum("avg", taken))


def _no_sum(function: str, taken: Type) -> str:
    if taken == DOUBLE:
        return f"{function} of DOUBLE depends on the order of the rows"
    return f"{function} takes a number, not {taken}"


def _sum(result: Type, values: Values) -> Any:
    if result == BIGINT:
        return in_range(sum(value * n for value, n in values), BIGINT)
    return to_decimal(_total(values), result)


def _total(values: Values) -> Decimal:
    total = Decimal(0)
    for value, n in values:
        total = _WIDE.add(total, _WIDE.multiply(Decimal(value), Decimal(n)))
    return total


def _average(result: Type, values: Values) -> Any:
    count = sum(n for _, n in values)
    if result == DOUBLE:
        return float(sum(value * n for value, n in values)) / float(count)
    return to_decimal(_WIDE.divide(_total(values), Decimal(count)), result)


def _truth(taken: Type) -> Type:
    if taken != BOOLEAN:
        raise TypeMismatch(f"a truth value is BOOLEAN, not {taken}")
    return BOOLEAN


AGGREGATIONS: dict[str, Aggregation] = {
    "count": Aggregation(lambda _: BIGINT, lambda _, values: sum(n for _, n in values), nullable=False),
    "count_distinct": Aggregation(lambda _: BIGINT, lambda _, values: len(values), nullable=False),
    "sum": Aggregation(_sum_type, _sum),
    "avg": Aggregation(_average_type, _average),
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
