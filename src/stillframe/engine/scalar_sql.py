"""Scalars as Spark SQL text, in the dialect each engine understands the same way.

Every cast is explicit in the algebra, so the text leaves an engine nothing to coerce. Where Sail's
arithmetic differs from Spark's ANSI mode, the text is written so that it cannot (64-bit integers would
wrap silently), or the expression is refused.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from stillframe.algebra import Call, Case, Cast, Literal, Ref, Scalar, Type
from stillframe.errors import StillframeError

_INFIX = {"+", "-", "*", "/", "%", "=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or", "like", "div"}
ONE_TASK = "/*+ COALESCE(1) */ "


class EngineRefused(StillframeError):
    """An expression whose meaning on this engine is not Spark's."""

    code = "ENGINE_DIFFERS"


@dataclass(frozen=True)
class ScalarWriter:
    """`sail` asks for text that means on Sail what the plain text means on Apache Spark; `one_task` for
    joins that stay in the one task their inputs are in."""

    sail: bool = False
    one_task: bool = False

    def text(self, scalar: Scalar, column: Callable[[int], str]) -> str:
        match scalar:
            case Ref(position):
                return column(position)
            case Literal(value):
                return literal(value, scalar.type)
            case Cast(arg, target):
                return f"CAST({self.text(arg, column)} AS {target})"
            case Case(branches, otherwise):
                when = " ".join(
                    f"WHEN {self.text(condition, column)} THEN {self.text(value, column)}"
                    for condition, value in branches
                )
                return f"CASE {when} ELSE {self.text(otherwise, column)} END"
            case Call(name, args):
                return self._call(name, scalar.type, args, [self.text(arg, column) for arg in args])
        raise AssertionError(f"no such node: {type(scalar).__name__}")

    def _call(self, name: str, type_: Type, args: tuple[Scalar, ...], parts: list[str]) -> str:
        if self.sail:
            if name == "/" and type_.is_decimal:
                raise EngineRefused(
                    "division of decimals has another scale on Sail than on Spark",
                    hint="cast one side to DOUBLE, or use engine: spark",
                )
            if type_.is_integer and name in ("+", "-", "*", "negative", "abs", "div"):
                wide = [f"CAST({part} AS DECIMAL(19,0))" for part in parts]
                if name == "div":
                    negated = f"CAST(- {wide[0]} AS BIGINT)"
                    return f"CASE WHEN {parts[1]} = -1 THEN {negated} ELSE {_plain(name, parts)} END"
                return f"CAST({_plain(name, wide)} AS {type_})"
        return _plain(name, parts)


def _plain(name: str, parts: list[str]) -> str:
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
    return f"{name}({', '.join(parts)})"


def literal(value: Any, type_: Type) -> str:
    match value:
        case None:
            return f"CAST(NULL AS {type_})"
        case bool():
            return "TRUE" if value else "FALSE"
        case int() | float() | Decimal():
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
