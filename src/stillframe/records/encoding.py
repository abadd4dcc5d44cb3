"""How values are spelled in stores of text: any client reads and makes them without this package.

    a whole number, a decimal    as digits, with as many decimals as its type has
    a double                     the shortest text that reads back as it; Infinity, -Infinity, NaN
    a date, an instant           2026-11-16, 2026-11-16T08:30:00.000000Z
    a boolean                    true, false
    text                         as it is
    bytes                        in base64

Equal values of a type have one spelling: zero has no sign, and an instant is told in UTC.

A key is its values side by side with `:` between them; in it a percent sign, a colon and what is no printable
ASCII are spelled as in addresses (%3A), and NULL as `%N`, which no value gives. Different values of the same
types give different keys. Where nobody says the types, a letter for its type is set before each value.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote, unquote

from stillframe.algebra import types as t
from stillframe.algebra.types import Type

NULL = "%N"
SAFE = " !\"#$&'()*+,-./;<=>?@[\\]^_`{|}~"

_LETTERS: dict[type, tuple[str, Type]] = {
    bool: ("b", t.BOOLEAN),
    int: ("i", t.BIGINT),
    Decimal: ("d", t.decimal(38, 0)),
    float: ("f", t.DOUBLE),
    datetime: ("m", t.TIMESTAMP),
    date: ("t", t.DATE),
    str: ("s", t.STRING),
    bytes: ("x", t.BINARY),
}
_LETTERED = dict(_LETTERS.values())


def text_of(value: Any) -> str:
    """The spelling of a value that is not NULL."""
    match value:
        case bool():
            return "true" if value else "false"
        case int() | str():
            return str(value)
        case Decimal():
            return f"{value or value.copy_abs():f}"
        case float():
            return repr(value + 0.0) if math.isfinite(value) else _ENDLESS.get(value, "NaN")
        case datetime() if value.tzinfo is not None:
            return value.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"
        case datetime():
            raise TypeError(f"{value} is no instant: it does not say its time zone")
        case date():
            return value.isoformat()
        case bytes():
            return base64.b64encode(value).decode("ascii")
    raise TypeError(f"a record cannot hold a {type(value).__name__}")


_ENDLESS = {math.inf: "Infinity", -math.inf: "-Infinity"}
_BOOLEANS = {"true": True, "false": False}


def value_of(text: str, type_: Type) -> Any:
    """The value that is spelled so."""
    if type_.is_integer:
        return int(text)
    if type_.is_decimal:
        return Decimal(text)
    match type_.name:
        case "STRING":
            return text
        case "BOOLEAN":
            return _BOOLEANS[text]
        case "DOUBLE":
            return float(text)
        case "DATE":
            return date.fromisoformat(text)
        case "TIMESTAMP":
            return datetime.fromisoformat(text)
        case "BINARY":
            return base64.b64decode(text)
    raise TypeError(f"a record cannot hold {type_}")


def spelled(text: str) -> str:
    """Text as a part of a key."""
    return quote(text, safe=SAFE)


def key_text(values: Sequence[Any]) -> str:
    return ":".join(map(_part, values))


def _part(value: Any) -> str:
    if type(value) is int:  # most keys: digits are spelled as they are
        return str(value)
    return NULL if value is None else spelled(text_of(value))


def key_values(text: str, types: Sequence[Type]) -> tuple[Any, ...]:
    parts = text.split(":") if types else []
    return tuple(
        None if part == NULL else value_of(unquote(part), type_)
        for part, type_ in zip(parts, types, strict=True)
    )


def lettered_text(values: Sequence[Any]) -> str:
    """A key that says the types of its values."""
    return ":".join(
        NULL if value is None else _LETTERS[type(value)][0] + spelled(text_of(value)) for value in values
    )


def lettered_values(text: str) -> tuple[Any, ...]:
    parts = text.split(":") if text else []
    return tuple(None if part == NULL else value_of(unquote(part[1:]), _LETTERED[part[0]]) for part in parts)
