"""The scalar functions views may use: which types they take, and what they mean.

Meaning is Spark SQL's in ANSI mode and UTC. A function's `signature` maps the types it is given to the
types it takes and the type it returns; `evaluate` works on Python values. Unless `strict` is off, any
NULL argument gives NULL without calling `evaluate`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from stillframe.algebra.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    STRING,
    TIMESTAMP,
    VOID,
    Type,
    adjusted_decimal,
    as_decimal,
    common_type,
    decimal,
)

Types = tuple[Type, ...]
Signature = Callable[[Types], tuple[Types, Type]]

EXACT = Context(prec=200, rounding=ROUND_HALF_UP)
_SIGN = Context(prec=34, rounding=ROUND_HALF_EVEN)  # changing a decimal's sign, Spark keeps 34 digits


class TypeMismatch(Exception):
    """An expression that does not type."""


class EvaluationError(Exception):
    """What ANSI mode raises at run time: overflow, division by zero, a cast that cannot be done."""


@dataclass(frozen=True)
class Function:
    signature: Signature
    evaluate: Callable[..., Any]
    strict: bool = True
    arithmetic: bool = False  # `evaluate` gets the result type first; integer literals adapt to decimals


def in_range(value: int, type_: Type) -> int:
    if not -(1 << (type_.bits - 1)) <= value < 1 << (type_.bits - 1):
        raise EvaluationError(f"overflow: {value} does not fit {type_}")
    return value


def to_decimal(value: Decimal, type_: Type) -> Decimal:
    """Rounded half up to the scale; overflow where the digits do not fit."""
    try:
        rounded = value.quantize(Decimal(1).scaleb(-type_.scale), context=EXACT)
    except InvalidOperation:  # beyond the 200 digits of EXACT, so beyond any type
        raise EvaluationError(f"overflow: {value} does not fit {type_}") from None
    if len(rounded.as_tuple().digits) > type_.precision and rounded:
        raise EvaluationError(f"overflow: {value} does not fit {type_}")
    return rounded or abs(rounded)  # there is no negative zero


def _fit(value: Any, type_: Type) -> Any:
    if type_.is_integer:
        return in_range(value, type_)
    if type_.is_decimal:
        return to_decimal(value, type_)
    return value


def _numbers(types: Types) -> None:
    for type_ in types:
        if not (type_.is_numeric or type_ == VOID):
            raise TypeMismatch(f"a number is needed, not {type_}")


def _arity(types: Types, *counts: int) -> None:
    if len(types) not in counts:
        raise TypeMismatch(f"takes {' or '.join(map(str, counts))} arguments, not {len(types)}")


def _arithmetic(rule: Callable[[Type, Type], Type]) -> Signature:
    """Integers meet at the wider one, DOUBLE wins over all, decimals follow `rule`."""

    def signature(types: Types) -> tuple[Types, Type]:
        _arity(types, 2)
        _numbers(types)
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
    _arity(types, 1)
    _numbers(types)
    type_ = DOUBLE if types[0] == VOID else types[0]
    return (type_,), type_


def _negative(type_: Type, value: Any) -> Any:
    return _fit(_SIGN.minus(value) if type_.is_decimal else -value, type_)


def _whole_number(types: Types) -> tuple[Types, Type]:
    """floor and ceil: decimals stay decimals without scale, the others become BIGINT."""
    _arity(types, 1)
    _numbers(types)
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


def _comparison(types: Types) -> tuple[Types, Type]:
    _arity(types, 2)
    meeting = common_type(*types)
    if meeting is None:
        raise TypeMismatch(f"{types[0]} cannot be compared with {types[1]}")
    return (meeting, meeting), BOOLEAN


def _rank(value: Any) -> tuple[int, Any]:
    """Spark's order: NaN is greater than any other number and equal to itself."""
    return (1, 0) if isinstance(value, float) and value != value else (0, value)


def _takes(*taken: Type, returns: Type) -> Signature:
    """A function of fixed types; what is given must be castable without loss of meaning."""

    def signature(types: Types) -> tuple[Types, Type]:
        _arity(types, len(taken))
        for given, wanted in zip(types, taken, strict=True):
            if given != wanted and common_type(given, wanted) != wanted:
                raise TypeMismatch(f"takes {wanted}, not {given}")
        return taken, returns

    return signature


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _or(a: bool | None, b: bool | None) -> bool | None:
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def _any_one(types: Types) -> tuple[Types, Type]:
    _arity(types, 1)
    return types, BOOLEAN


def _coalesce_signature(types: Types) -> tuple[Types, Type]:
    if not types:
        raise TypeMismatch("takes at least one argument")
    result = types[0]
    for type_ in types[1:]:
        wider = common_type(result, type_)
        if wider is None:
            raise TypeMismatch(f"{result} and {type_} have no common type")
        result = wider
    return (result,) * len(types), result


def _strings(types: Types) -> tuple[Types, Type]:
    if any(type_ not in (STRING, VOID) for type_ in types):
        raise TypeMismatch(f"takes text, not {', '.join(map(str, types))}")
    return (STRING,) * len(types), STRING


def _length_signature(types: Types) -> tuple[Types, Type]:
    _arity(types, 1)
    if types[0] not in (STRING, BINARY):
        raise TypeMismatch(f"length takes text or bytes, not {types[0]}")
    return types, INT


def _substring(text: str, start: int, length: int) -> str:
    """Positions count from 1; 0 is 1; a negative one counts from the end, and may begin before the text."""
    begin = start - 1 if start > 0 else (len(text) + start if start < 0 else 0)
    end = begin + max(length, 0)
    return text[max(begin, 0) : max(end, 0)]


def _replace(text: str, search: str, replacement: str) -> str:
    return text.replace(search, replacement) if search else text


def like_pattern(pattern: str) -> re.Pattern[str]:
    """The regular expression of a LIKE pattern with the escape character backslash."""
    out, i = [], 0
    while i < len(pattern):
        char = pattern[i]
        if char == "\\":
            i += 1
            if i == len(pattern) or pattern[i] not in "%_\\":
                raise EvaluationError(f"the pattern {pattern!r} has an escape before an ordinary character")
            out.append(re.escape(pattern[i]))
        else:
            out.append({"%": ".*", "_": "."}.get(char) or re.escape(char))
        i += 1
    return re.compile("".join(out), re.DOTALL)


def _day_part(part: Callable[[date], int]) -> Function:
    def signature(types: Types) -> tuple[Types, Type]:
        _arity(types, 1)
        if types[0] not in (DATE, TIMESTAMP, STRING, VOID):
            raise TypeMismatch(f"takes a date, not {types[0]}")
        return (DATE,), INT

    return Function(signature, part)


def _time_part(part: Callable[[datetime], int]) -> Function:
    def signature(types: Types) -> tuple[Types, Type]:
        _arity(types, 1)
        if types[0] not in (TIMESTAMP, DATE, STRING, VOID):
            raise TypeMismatch(f"takes a timestamp, not {types[0]}")
        return (TIMESTAMP,), INT

    return Function(signature, part)


def _shift_days(day: date, days: int) -> date:
    try:
        return day + timedelta(days=days)
    except OverflowError as error:
        raise EvaluationError(f"overflow: {day} shifted by {days} days") from error


def _date_and_int(types: Types) -> tuple[Types, Type]:
    _arity(types, 2)
    day, days = types
    if day not in (DATE, TIMESTAMP, STRING, VOID) or not (
        days == VOID or (days.is_integer and days.bits <= 32)
    ):
        raise TypeMismatch(f"takes a date and an INT, not {day} and {days}")
    return (DATE, INT), DATE


def _dates(types: Types) -> tuple[Types, Type]:
    _arity(types, 2)
    if any(t not in (DATE, TIMESTAMP, STRING, VOID) for t in types):
        raise TypeMismatch(f"takes two dates, not {types[0]} and {types[1]}")
    return (DATE, DATE), INT


def _only(types: Types) -> tuple[Types, Type]:
    _arity(types, 2)
    return (BIGINT, types[1]), types[1]


def _only_value(rows: int | None, value: Any) -> Any:
    """The value of a query's one row, NULL where it has none."""
    if rows is not None and rows > 1:
        raise EvaluationError(MANY_ROWS)
    return value


def _compare(test: Callable[[Any, Any], bool]) -> Function:
    return Function(_comparison, lambda a, b: test(_rank(a), _rank(b)))


MANY_ROWS = "a query that stands for one value has several rows"

FUNCTIONS: dict[str, Function] = {
    "+": Function(_arithmetic(_sum_type), _add, arithmetic=True),
    "-": Function(_arithmetic(_sum_type), _subtract, arithmetic=True),
    "*": Function(_arithmetic(_product_type), _multiply, arithmetic=True),
    "/": Function(_divide_signature, _divide, arithmetic=True),
    "%": Function(_arithmetic(_remainder_type), _remainder, arithmetic=True),
    "div": Function(_takes(BIGINT, BIGINT, returns=BIGINT), lambda a, b: in_range(_truncated(a, b), BIGINT)),
    "negative": Function(_same_number, _negative, arithmetic=True),
    "abs": Function(
        _same_number, lambda t, a: abs(a) if t == DOUBLE else _negative(t, a) if a < 0 else a, arithmetic=True
    ),
    "floor": Function(_whole_number, _floor, arithmetic=True),
    "ceil": Function(_whole_number, _ceil, arithmetic=True),
    "=": _compare(lambda a, b: a == b),
    "<>": _compare(lambda a, b: a != b),
    "<": _compare(lambda a, b: a < b),
    "<=": _compare(lambda a, b: a <= b),
    ">": _compare(lambda a, b: a > b),
    ">=": _compare(lambda a, b: a >= b),
    "<=>": Function(_comparison, lambda a, b: _rank(a) == _rank(b), strict=False),
    "and": Function(_takes(BOOLEAN, BOOLEAN, returns=BOOLEAN), _and, strict=False),
    "or": Function(_takes(BOOLEAN, BOOLEAN, returns=BOOLEAN), _or, strict=False),
    "not": Function(_takes(BOOLEAN, returns=BOOLEAN), lambda a: not a),
    "isnull": Function(_any_one, lambda a: a is None, strict=False),
    "isnotnull": Function(_any_one, lambda a: a is not None, strict=False),
    "coalesce": Function(
        _coalesce_signature, lambda *a: next((v for v in a if v is not None), None), strict=False
    ),
    "like": Function(
        _takes(STRING, STRING, returns=BOOLEAN), lambda a, p: like_pattern(p).fullmatch(a) is not None
    ),
    "concat": Function(_strings, lambda *a: "".join(a)),
    "upper": Function(_takes(STRING, returns=STRING), str.upper),
    "lower": Function(_takes(STRING, returns=STRING), str.lower),
    "length": Function(_length_signature, len),
    "trim": Function(_takes(STRING, returns=STRING), lambda a: a.strip(" ")),
    "ltrim": Function(_takes(STRING, returns=STRING), lambda a: a.lstrip(" ")),
    "rtrim": Function(_takes(STRING, returns=STRING), lambda a: a.rstrip(" ")),
    "substring": Function(_takes(STRING, INT, INT, returns=STRING), _substring),
    "replace": Function(_takes(STRING, STRING, STRING, returns=STRING), _replace),
    "year": _day_part(lambda d: d.year),
    "quarter": _day_part(lambda d: (d.month + 2) // 3),
    "month": _day_part(lambda d: d.month),
    "day": _day_part(lambda d: d.day),
    "hour": _time_part(lambda t: t.hour),
    "minute": _time_part(lambda t: t.minute),
    "second": _time_part(lambda t: t.second),
    "date_add": Function(_date_and_int, _shift_days),
    "date_sub": Function(_date_and_int, lambda d, n: _shift_days(d, -n)),
    "datediff": Function(_dates, lambda a, b: (a - b).days),
    "only": Function(_only, _only_value, strict=False),
}


_CASTS: dict[str, frozenset[str]] = {
    "INTEGER": frozenset({"INTEGER", "DECIMAL", "DOUBLE", "STRING", "BOOLEAN"}),
    "DECIMAL": frozenset({"INTEGER", "DECIMAL", "DOUBLE", "STRING", "BOOLEAN"}),
    "DOUBLE": frozenset({"INTEGER", "DECIMAL", "DOUBLE", "BOOLEAN"}),
    "STRING": frozenset({"INTEGER", "DECIMAL", "DOUBLE", "STRING", "BOOLEAN", "DATE", "TIMESTAMP", "BINARY"}),
    "BOOLEAN": frozenset({"INTEGER", "STRING", "BOOLEAN"}),
    "DATE": frozenset({"STRING", "TIMESTAMP", "DATE"}),
    "TIMESTAMP": frozenset({"STRING", "DATE", "TIMESTAMP"}),
    "BINARY": frozenset({"BINARY"}),
    "VOID": frozenset({"INTEGER", "DECIMAL", "DOUBLE", "STRING", "BOOLEAN", "DATE", "TIMESTAMP", "BINARY"}),
}


def castable(source: Type, target: Type) -> bool:
    """The casts Stillframe offers: those whose meaning is the same on every engine it runs on."""
    kind = "INTEGER" if source.is_integer else source.name
    return ("INTEGER" if target.is_integer else target.name) in _CASTS[kind]
