"""Values as SQLite keeps them.

SQLite has no exact decimals, no dates and no NaN. A decimal is a number where SQLite holds it exactly: a
whole one of 64 bits, or one of fifteen digits; else it is text. Dates, instants and NaN are text. Text is as
`encoding` spells it.
"""

from __future__ import annotations

from decimal import Context, Decimal
from typing import Any

from stillframe.algebra.types import Type
from stillframe.records.encoding import text_of, value_of

_DIGITS = 15  # of a decimal that a float keeps
_WIDE = Context(prec=80)
_DECLARED = {"STRING": "TEXT", "BINARY": "BLOB", "VOID": ""}


def declared(type_: Type) -> str:
    """Types of SQLite's own words, but for wide decimals: a column without a type takes numbers as well as
    text, and leaves each as it is."""
    if type_.is_decimal:
        return str(type_) if type_.precision <= _DIGITS else ""
    return _DECLARED.get(type_.name, type_.name)


def stored(value: Any) -> Any:
    match value:
        case Decimal():
            return _number(value)
        case float() if value != value:
            return text_of(value)
        case None | int() | float() | str() | bytes():
            return value
    return text_of(value)


def _number(value: Decimal) -> int | float | str:
    text = text_of(value)
    whole, _, part = text.partition(".")
    if not part.strip("0"):
        return int(whole) if -(1 << 63) <= int(whole) < 1 << 63 else text
    return float(text) if len(text.strip("-0.").replace(".", "")) <= _DIGITS else text


def loaded(kept: Any, type_: Type) -> Any:
    if kept is None:
        return None
    if type_.is_decimal:
        text = f"{kept:.{_DIGITS}g}" if isinstance(kept, float) else str(kept)
        return Decimal(text).quantize(Decimal((0, (1,), -type_.scale)), context=_WIDE)
    match type_.name:
        case "BOOLEAN":
            return bool(kept)
        case "DOUBLE":
            return float(kept)
        case "DATE" | "TIMESTAMP":
            return value_of(kept, type_)
    return kept
