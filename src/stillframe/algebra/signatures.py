"""What every function has: the types it takes and returns, and what its values must fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from typing import Any

from stillframe.algebra.types import VOID, Type, common_type

Types = tuple[Type, ...]
Signature = Callable[[Types], tuple[Types, Type]]

EXACT = Context(prec=200, rounding=ROUND_HALF_UP)


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


def numbers(types: Types) -> None:
    for type_ in types:
        if not (type_.is_numeric or type_ == VOID):
            raise TypeMismatch(f"a number is needed, not {type_}")


def arity(types: Types, *counts: int) -> None:
    if len(types) not in counts:
        raise TypeMismatch(f"takes {' or '.join(map(str, counts))} arguments, not {len(types)}")


def takes(*taken: Type, returns: Type) -> Signature:
    """A function of fixed types; what is given must be castable without loss of meaning."""

    def signature(types: Types) -> tuple[Types, Type]:
        arity(types, len(taken))
        for given, wanted in zip(types, taken, strict=True):
            if given != wanted and common_type(given, wanted) != wanted:
                raise TypeMismatch(f"takes {wanted}, not {given}")
        return taken, returns

    return signature


def meeting(types: Types) -> tuple[Types, Type]:
    if not types:
        raise TypeMismatch("takes at least one argument")
    result = types[0]
    for type_ in types[1:]:
        wider = common_type(result, type_)
        if wider is None:
            raise TypeMismatch(f"{result} and {type_} have no common type")
        result = wider
    return (result,) * len(types), result
