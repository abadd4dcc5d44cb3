"""The words of Spark SQL that both engines understand the same way: literals, names, calls."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

from stillframe.algebra import Type

_INFIX = {"+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or", "like", "div"}
# What may leave the years 0001 to 9999.
SHIFTS = ("date_add", "date_sub", "add_months", "make_date", "timestamp_add_months", "timestamp_add_micros")
_UNITS = {"timestamp_add_months": "MONTH", "timestamp_add_micros": "MICROSECOND"}
ONE_TASK = "/*+ COALESCE(1) */ "


def plain_call(name: str, parts: list[str]) -> str:
    if name in _INFIX:
        return f"({parts[0]} {name.upper()} {parts[1]})"
    match name:
        case "isnull":
            return f"({parts[0]} IS NULL)"
        case "isnotnull":
            return f"({parts[0]} IS NOT NULL)"
        case "not":
            return f"(NOT {parts[0]})"
        case "negative":
            return f"(- {parts[0]})"
        case "sha224" | "sha256" | "sha384" | "sha512":
            return f"sha2({parts[0]}, {name[3:]})"
        case "timestamp_add_months" | "timestamp_add_micros":
            return f"timestampadd({_UNITS[name]}, {parts[1]}, {parts[0]})"
    return f"{name}({', '.join(parts)})"


def raising(type_: Type, message: str = "overflow") -> str:
    """An error in the place of a value."""
    return f"CAST(raise_error({quoted(message)}) AS {type_})"


def literal(value: Any, type_: Type) -> str:
    match value:
        case None:
            return f"CAST(NULL AS {type_})"
        case bool():
            return "TRUE" if value else "FALSE"
        case Decimal():
            return f"CAST('{value:f}' AS {type_})"
        case int() | float():
            return f"CAST('{value}' AS {type_})"
        case str():
            return quoted(value)
        case bytes():
            return f"X'{value.hex()}'"
        case datetime():
            return f"TIMESTAMP'{value.strftime('%Y-%m-%d %H:%M:%S.%f').rjust(26, '0')}'"
        case date():
            return f"DATE'{value.isoformat()}'"
    raise AssertionError(f"no literal for {value!r}")


def quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def identifier(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
