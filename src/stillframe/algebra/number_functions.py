"""Functions of numbers. Integers and decimals are exact, or an error."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_HALF_EVEN, Context, Decimal
from typing import Any

from stillframe.algebra.signatures import (
    EXACT,
    EvaluationError,
    Function,
    Signature,
    Types,
    arity,
    in_range,
    numbers,
    takes,
    to_decimal,
)
from stillframe.algebra.types import BIGINT, DOUBLE, VOID, Type, adjusted_decimal, as_decimal, decimal

_SIGN = Context(prec=34, rounding=ROUND_HALF_EVEN)  # changing a decimal's sign, Spark keeps 34 digits


def _fit(value: Any, type_: Type) -> Any:
    if type_.is_integer:
        return in_range(value, type_)
    if type_.is_decimal:
        return to_decimal(value, type_)
    return value


def _arithmetic(rule: Callable[[Type, Type], Type]) -> Signature:
    """Integers meet at the wider one, DOUBLE wins over all, decimals follow `rule`."""

    def signature(types: Types) -> tuple[Types, Type]:
        arity(types, 2)
        numbers(types)
        left, right = types
        if left == VOID and right == VOID:
            left = right = DOUBLE
        left, right = (right if left == VOID else left), (left if right == VOID else right)
        if DOUBLE in (left, right):
            return (DOUBLE, DOUBLE), DOUBLE
        if left.is_integer and right.is_integer:
            wider = left if left.bits >= right.bits else right
            return (wider, wider), wider
        left, right = as_decimal(left), as_decimal(right)
        return (left, right), rule(left, right)

    return signature


def _sum_type(a: Type, b: Type) -> Type:
    scale = max(a.scale, b.scale)
    return adjusted_decimal(max(a.precision - a.scale, b.precision - b.scale) + scale + 1, scale)


def _product_type(a: Type, b: Type) -> Type:
    return adjusted_decimal(a.precision + b.precision + 1, a.scale + b.scale)


def _quotient_type(a: Type, b: Type) -> Type:
    scale = max(6, a.scale + b.precision + 1)
    return adjusted_decimal(a.precision - a.scale + b.scale + scale, scale)


def _remainder_type(a: Type, b: Type) -> Type:
    scale = max(a.scale, b.scale)
    return adjusted_decimal(min(a.precision - a.scale, b.precision - b.scale) + scale, scale)


def _divide_signature(types: Types) -> tuple[Types, Type]:
    taken, result = _arithmetic(_quotient_type)(types)
    return ((DOUBLE, DOUBLE), DOUBLE) if result.is_integer else (taken, result)


def _mean_signature(types: Types) -> tuple[Types, Type]:
    """A sum of DECIMAL(p + 10, s) by a count is the average of DECIMAL(p, s): it has four digits more."""
    total, _ = types
    return (total, BIGINT), decimal(total.precision - 6, total.scale + 4)


def _add(type_: Type, a: Any, b: Any) -> Any:
    return _fit(EXACT.add(a, b) if type_.is_decimal else a + b, type_)


def _subtract(type_: Type, a: Any, b: Any) -> Any:
    return _fit(EXACT.subtract(a, b) if type_.is_decimal else a - b, type_)


def _multiply(type_: Type, a: Any, b: Any) -> Any:
    return _fit(EXACT.multiply(a, b) if type_.is_decimal else a * b, type_)


def _divide(type_: Type, a: Any, b: Any) -> Any:
    if b == 0:
        raise EvaluationError("division by zero")
    return to_decimal(EXACT.divide(a, b), type_) if type_.is_decimal else a / b


def _truncated(a: int, b: int) -> int:
    if b == 0:
        raise EvaluationError("division by zero")
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


def _remainder(type_: Type, a: Any, b: Any) -> Any:
    if b == 0:
        raise EvaluationError("division by zero")
    if type_.is_integer:
        return in_range(a - b * _truncated(a, b), type_)
    if type_.is_decimal:
        return to_decimal(EXACT.remainder(a, b), type_)
    return math.fmod(a, b) if math.isfinite(a) and not math.isnan(b) else float("nan")


def _same_number(types: Types) -> tuple[Types, Type]:
    arity(types, 1)
    numbers(types)
    type_ = DOUBLE if types[0] == VOID else types[0]
    return (type_,), type_


def _negative(type_: Type, value: Any) -> Any:
    return _fit(_SIGN.minus(value) if type_.is_decimal else -value, type_)


def _whole_number(types: Types) -> tuple[Types, Type]:
    """floor and ceil: decimals stay decimals without scale, the others become BIGINT."""
    arity(types, 1)
    numbers(types)
    (type_,) = types
    if type_.is_decimal:
        return (type_,), decimal(type_.precision - type_.scale + 1, 0) if type_.scale else type_
    return (BIGINT if type_.is_integer else DOUBLE,), BIGINT


def _floor(type_: Type, value: Any) -> Any:
    return _whole(type_, value, math.floor)


def _ceil(type_: Type, value: Any) -> Any:
    return _whole(type_, value, math.ceil)


def _whole(type_: Type, value: Any, rounding: Callable[[Any], int]) -> Any:
    """A DOUBLE beyond BIGINT gives the nearest end of its range, NaN gives 0: here Spark raises nothing."""
    if isinstance(value, float):
        if math.isnan(value):
            return 0
        low, high = -(1 << 63), (1 << 63) - 1
        return max(low, min(high, rounding(max(-1e19, min(1e19, value)))))
    whole = rounding(value)
    return Decimal(whole) if type_.is_decimal else in_range(whole, type_)


def _sign(value: float) -> float:
    return value if value == 0 or math.isnan(value) else math.copysign(1.0, value)


def _sqrt(value: float) -> float:
    return math.sqrt(value) if value >= 0 else math.nan


NUMBER_FUNCTIONS: dict[str, Function] = {
    "+": Function(_arithmetic(_sum_type), _add, arithmetic=True),
    "-": Function(_arithmetic(_sum_type), _subtract, arithmetic=True),
    "*": Function(_arithmetic(_product_type), _multiply, arithmetic=True),
    "/": Function(_divide_signature, _divide, arithmetic=True),
    "%": Function(_arithmetic(_remainder_type), _remainder, arithmetic=True),
    "mean": Function(_mean_signature, _divide, arithmetic=True),
    "div": Function(takes(BIGINT, BIGINT, returns=BIGINT), lambda a, b: in_range(_truncated(a, b), BIGINT)),
    "negative": Function(_same_number, _negative, arithmetic=True),
    "abs": Function(
        _same_number, lambda t, a: abs(a) if t == DOUBLE else _negative(t, a) if a < 0 else a, arithmetic=True
    ),
    "floor": Function(_whole_number, _floor, arithmetic=True),
    "ceil": Function(_whole_number, _ceil, arithmetic=True),
    "sign": Function(takes(DOUBLE, returns=DOUBLE), _sign),
    "sqrt": Function(takes(DOUBLE, returns=DOUBLE), _sqrt),
}
