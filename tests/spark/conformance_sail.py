"""What a view cannot do on Sail: expressions that are refused there, and rows on which it stops."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any

from conformance_values import LONG, MONEY

from stillframe.algebra import Scalar, Type
from stillframe.algebra.functions import EXACT
from stillframe.algebra.types import DOUBLE, STRING

# Texts on which Sail stops, although Spark reads them.
UNREAD_ON_SAIL: dict[Type, set[str]] = {
    MONEY: {"1e3", "1e-9", "٣"},
    LONG: {"1e27"},
    DOUBLE: {"1d", "0x1p3", "+NaN"},
}


def stops_on_sail(scalar: Scalar, row: tuple[Any, ...], value: Any) -> bool:
    """Where the engine stops a view on Sail, although Spark has a value."""
    if hasattr(scalar, "target") and scalar.children[0].type == STRING:
        return row[0] in UNREAD_ON_SAIL.get(scalar.type, ())
    match getattr(scalar, "function", ""), [arg.type for arg in scalar.children]:
        case ("+" | "-" | "*") as name, [left, right] if left.is_decimal and value is not None:
            exact = _EXACT[name](*_decimals(row))
            return _exact_digits(scalar, left, right) > 38 and len(exact.as_tuple().digits) > 37
        case "/", [left, right] if left.is_decimal and row[0] is not None:
            pairs = zip(_decimals(row), (left, right), strict=True)
            a, b = (abs(int(EXACT.scaleb(digits, type_.scale))) for digits, type_ in pairs)
            return _quotient_stops(scalar.type, left, right, a, None if row[1] is None else b)
    return False


_EXACT: dict[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": EXACT.add,
    "-": EXACT.subtract,
    "*": EXACT.multiply,
}
_BITS = 1 << 127  # from here on, 128 bits with a sign are not enough


def _decimals(row: tuple[Any, ...]) -> list[Decimal]:
    return [Decimal(0 if value is None else value) for value in row]


def _quotient_stops(type_: Type, left: Type, right: Type, a: int, b: int | None) -> bool:
    """Whole numbers a / b, with as many more digits as the quotient has: at once, or in steps by the rest."""
    scale = max(left.scale, type_.scale - 3)
    added = scale - left.scale + 4 + right.scale
    if left.precision + added <= 38 or added <= 10:
        return (b is not None and a * 10**added >= _BITS) or len(str(a * 10 ** (scale - left.scale))) > 38
    if b is None:
        return False
    digits, rest, missing = a // b, a % b, type_.scale + 1 + right.scale - left.scale
    stops = (a - a % b) * 10**4 >= _BITS
    while missing > 0:
        step = min(missing, max(6, 34 - right.precision))
        grown = rest * 10**step
        stops |= (grown - grown % b) * 10**4 >= _BITS or grown >= _BITS or digits * 10**step >= _BITS
        digits, rest, missing = digits * 10**step + grown // b, grown % b, missing - step
    return stops


def _exact_digits(scalar: Scalar, left: Type, right: Type) -> int:
    """How many digits a result may need to be exact."""
    if getattr(scalar, "function", "") == "*":
        return left.precision + right.precision + 1
    whole = max(left.precision - left.scale, right.precision - right.scale)
    return whole + max(left.scale, right.scale) + 1


def refused_on_sail(scalar: Scalar) -> bool:
    """What the engine refuses on Sail: results Sail gives other digits than Spark."""
    if hasattr(scalar, "target"):
        return bool(scalar.children[0].type == DOUBLE and scalar.type.is_decimal)
    match getattr(scalar, "function", ""), [arg.type for arg in scalar.children]:
        case "/", [left, _] if left.is_decimal:
            return bool(scalar.type.scale > 37)
        case "negative" | "abs", [type_]:
            return bool(type_.is_decimal and type_.precision > 34)
        case ("+" | "-" | "*") as name, [left, right] if left.is_decimal:
            scale = left.scale + right.scale if name == "*" else max(left.scale, right.scale)
            return _exact_digits(scalar, left, right) > 38 and scale > 37
    return False
