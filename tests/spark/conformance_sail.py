"""What a view cannot do on Sail: expressions that are refused there, and rows on which it stops."""

from __future__ import annotations

from typing import Any

from conformance_world import LONG, MONEY

from stillframe.algebra import Scalar, Type
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
        case "+" | "-" | "*", [left, right] if left.is_decimal and value is not None:
            return _exact_digits(scalar, left, right) > 38 and len(value.as_tuple().digits) == 38
    return False


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
        case "/", [left, _]:
            return bool(left.is_decimal)
        case "negative" | "abs", [type_]:
            return bool(type_.is_decimal and type_.precision > 34)
        case ("+" | "-" | "*") as name, [left, right] if left.is_decimal:
            scale = left.scale + right.scale if name == "*" else max(left.scale, right.scale)
            return _exact_digits(scalar, left, right) > 38 and scale > 6
    return False
