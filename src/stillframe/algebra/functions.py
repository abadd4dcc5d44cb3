"""The scalar functions views may use: which types they take, and what they mean.

Meaning is Spark SQL's in ANSI mode and UTC. A function's `signature` maps the types it is given to the
types it takes and the type it returns; `evaluate` works on Python values. Unless `strict` is off, any
NULL argument gives NULL without calling `evaluate`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stillframe.algebra.date_functions import DATE_FUNCTIONS
from stillframe.algebra.number_functions import NUMBER_FUNCTIONS
from stillframe.algebra.signatures import (
    EXACT,
    EvaluationError,
    Function,
    TypeMismatch,
    Types,
    arity,
    in_range,
    meeting,
    takes,
    to_decimal,
)
from stillframe.algebra.text_functions import DIGESTS, TEXT_FUNCTIONS, like_pattern
from stillframe.algebra.types import BIGINT, BOOLEAN, Type, common_type

__all__ = [
    "DIGESTS",
    "EXACT",
    "FUNCTIONS",
    "MANY_ROWS",
    "EvaluationError",
    "Function",
    "TypeMismatch",
    "castable",
    "in_range",
    "like_pattern",
    "to_decimal",
]


def _comparison(types: Types) -> tuple[Types, Type]:
    arity(types, 2)
    meeting = common_type(*types)
    if meeting is None:
        raise TypeMismatch(f"{types[0]} cannot be compared with {types[1]}")
    return (meeting, meeting), BOOLEAN


def _rank(value: Any) -> tuple[int, Any]:
    """Spark's order: NaN is greater than any other number and equal to itself."""
    return (1, 0) if isinstance(value, float) and value != value else (0, value)


def _and(a: bool | None, b: bool | None) -> bool | None:
    if a is False or b is False:
        return False
    return None if a is None or b is None else True


def _or(a: bool | None, b: bool | None) -> bool | None:
    if a is True or b is True:
        return True
    return None if a is None or b is None else False


def _any_one(types: Types) -> tuple[Types, Type]:
    arity(types, 1)
    return types, BOOLEAN


def _extreme(types: Types) -> tuple[Types, Type]:
    if len(types) < 2:
        raise TypeMismatch("takes at least two arguments")
    return meeting(types)


def _order(value: Any) -> tuple[int, Any]:
    """As `_rank`, text by its bytes."""
    return (0, value.encode()) if isinstance(value, str) else _rank(value)


def _greatest(*values: Any) -> Any:
    return max((value for value in values if value is not None), key=_order, default=None)


def _least(*values: Any) -> Any:
    return min((value for value in values if value is not None), key=_order, default=None)


def _only(types: Types) -> tuple[Types, Type]:
    arity(types, 2)
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
    **NUMBER_FUNCTIONS,
    **TEXT_FUNCTIONS,
    **DATE_FUNCTIONS,
    "=": _compare(lambda a, b: a == b),
    "<>": _compare(lambda a, b: a != b),
    "<": _compare(lambda a, b: a < b),
    "<=": _compare(lambda a, b: a <= b),
    ">": _compare(lambda a, b: a > b),
    ">=": _compare(lambda a, b: a >= b),
    "<=>": Function(_comparison, lambda a, b: _rank(a) == _rank(b), strict=False),
    "and": Function(takes(BOOLEAN, BOOLEAN, returns=BOOLEAN), _and, strict=False),
    "or": Function(takes(BOOLEAN, BOOLEAN, returns=BOOLEAN), _or, strict=False),
    "not": Function(takes(BOOLEAN, returns=BOOLEAN), lambda a: not a),
    "isnull": Function(_any_one, lambda a: a is None, strict=False),
    "isnotnull": Function(_any_one, lambda a: a is not None, strict=False),
    "coalesce": Function(meeting, lambda *a: next((v for v in a if v is not None), None), strict=False),
    "greatest": Function(_extreme, _greatest, strict=False),
    "least": Function(_extreme, _least, strict=False),
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
