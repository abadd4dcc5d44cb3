"""Where Sail differs from Apache Spark in ANSI mode: text that means on Sail what the plain text means on
Spark, or a refusal. docs/engines.md lists the differences; the conformance suite shows each of them.

Sail keeps to 128 bits where Spark checks 38 digits, and lets integers wrap. Arithmetic on integers is
therefore done in decimals wide enough, and a result that may need more than 38 digits is held to 37, which
is checked. AND, OR, and CASE or COALESCE of truth values keep nothing from being evaluated there; a CASE of
numbers does.
"""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, date, datetime
from typing import Any

from stillframe.algebra import Call, Cast, EvaluationError, Literal, Scalar, Type
from stillframe.algebra.aggregates import AGGREGATIONS
from stillframe.algebra.casts import cast_value
from stillframe.algebra.types import BINARY, BOOLEAN, DATE, MAX_PRECISION, STRING, TIMESTAMP, as_decimal
from stillframe.engine.sail_decimals import average, held, quotient, total
from stillframe.engine.words import SHIFTS, literal, plain_call, raising
from stillframe.errors import StillframeError

_NEGATED_DIGITS = 34  # what Spark keeps when it changes a decimal's sign
_DOUBLE_DIGITS = 15
_LIKE_PATTERN = r"([^\\]|\\[%_\\])*"
_NEUTRAL: dict[Type, Any] = {
    BOOLEAN: False,
    STRING: "",
    BINARY: b"",
    DATE: date(1970, 1, 1),
    TIMESTAMP: datetime(1970, 1, 1, tzinfo=UTC),
}
_RAISING = {
    "+",
    "-",
    "*",
    "/",
    "%",
    "div",
    "negative",
    "abs",
    "ceil",
    "floor",
    "like",
    "only",
    "mean",
    "split_part",
    *SHIFTS,
}


class EngineRefused(StillframeError):
    """An expression whose meaning on this engine is not Spark's."""

    code = "ENGINE_DIFFERS"


def _refused(what: str, hint: str) -> EngineRefused:
    return EngineRefused(f"{what} differs on Sail from Spark", hint=f"{hint}, or use engine: spark")


def sail_aggregate(function: str, taken: Type | None) -> str | None:
    """The text of an aggregate of {0} over the window {1}, where the plain one will not do."""
    if taken is None or function not in ("sum", "avg"):
        return None
    if function == "sum" and taken.is_integer:
        return "SUM(CAST({0} AS DECIMAL(38,0))){1}"  # which is cast back; of BIGINT it would wrap
    if not taken.is_decimal:
        return None
    text = total(taken) if function == "sum" else average(taken, AGGREGATIONS["avg"].result(taken))
    if text is None:
        raise _refused(f"{function} of {taken}", "cast to fewer digits after the point")
    return text


def sail_cast(text: str, source: Type, target: Type) -> str:
    if source.name == "DOUBLE" and target.is_decimal:
        raise _refused(f"the cast from DOUBLE to {target}", "keep the value a DOUBLE")
    if source.is_decimal and target.name == "BOOLEAN":
        return f"({text} <> {literal(0, source)})"
    if source.is_decimal and target.name == "DOUBLE" and source.precision > _DOUBLE_DIGITS:
        return f"CAST({_without_bounds(f'CAST({text} AS STRING)')} AS {target})"  # one rounding, not two
    if source == STRING != target:
        text = _without_bounds(text)
    cast = f"CAST({text} AS {target})"
    return _without_bounds(cast) if target == STRING and source.is_numeric else cast


def _without_bounds(text: str) -> str:
    """A text of whose least and greatest values Sail's planner knows nothing. It takes those of a number for
    those of its digits, and stops where they cross, as 9 and 13 do."""
    return f"concat({text}, '')"


def sail_shift(name: str, parts: list[str]) -> str:
    """A date or a moment moved on: far moves by microseconds are not exact there."""
    if name != "timestamp_add_micros":
        return plain_call(name, parts)
    wide = [f"CAST({part} AS DECIMAL(19,0))" for part in (f"unix_micros({parts[0]})", parts[1])]
    return f"timestamp_micros(CAST(({' + '.join(wide)}) AS BIGINT))"


def _null_safe_equal(parts: list[str], type_: Type) -> str:
    """As plain equalities, of whether there is a value and of the value: a join of Sail's has one law of
    NULL for all its conditions, whichever of them it brings together when it reorders joins."""
    neutral = literal(_NEUTRAL.get(type_, 0), type_)
    sides = " = ".join(f"coalesce({part}, {neutral})" for part in parts)
    return f"(({parts[0]} IS NULL) = ({parts[1]} IS NULL) AND {sides})"


def sail_call(name: str, type_: Type, args: tuple[Scalar, ...], parts: list[str]) -> str | None:
    """None where the plain text will do."""
    if name == "<=>" and args[0].type.name != "VOID":
        return _null_safe_equal(parts, args[0].type)
    if name in ("/", "%", "div"):
        return _division(name, type_, args, parts)
    if type_.is_integer and name in ("+", "-", "*"):
        wide = [f"CAST({part} AS DECIMAL(19,0))" for part in parts]
        return f"CAST({plain_call(name, wide)} AS {type_})"
    if type_.is_decimal and name in ("negative", "abs") and type_.precision > _NEGATED_DIGITS:
        raise _refused(f"the sign of {type_}", f"cast to {_NEGATED_DIGITS} digits or fewer")
    if type_.is_decimal and name in ("+", "-", "*"):
        return _decimal(name, type_, args[0].type, args[1].type, plain_call(name, parts))
    match name:
        case "like":
            return _like(args[1], parts)
        case "substring":
            return _substring(args, parts)
        case "coalesce" if type_.name == "BOOLEAN":  # else Sail loses track of whether it may be NULL
            return f"CAST(coalesce({', '.join(f'CAST({part} AS INT)' for part in parts)}) AS BOOLEAN)"
        case "coalesce" if len(set(parts)) < len(parts):  # Sail loses itself where one comes twice
            distinct = list(dict.fromkeys(parts))
            return plain_call(name, distinct) if len(distinct) > 1 else distinct[0]
        case "lpad" | "rpad" | "repeat" if (_value(args[1]) or -1) < 0:  # far below nothing, Sail panics
            counted = f"CASE WHEN {parts[1]} < 0 THEN {literal(0, args[1].type)} ELSE {parts[1]} END"
            return plain_call(name, [parts[0], counted, *parts[2:]])
        case "datediff":
            return f"CAST({plain_call(name, parts)} AS {type_})"
    return None


def _division(name: str, type_: Type, args: tuple[Scalar, ...], parts: list[str]) -> str:
    """NULL divided by zero is NULL, not an error. A divisor that is written out is left as it is: Sail sees
    that it is not zero, and drops the check, which it may come to over no rows at all, and fail there."""
    dividend, divisor = parts
    if not _written(args[1]) and _value(args[0]) is None:
        divisor = f"CASE WHEN {dividend} IS NULL THEN {literal(None, args[1].type)} ELSE {divisor} END"
    if name != "/" or not type_.is_decimal:
        return plain_call(name, [dividend, divisor])
    text = quotient(type_, args[0].type, args[1].type, dividend, divisor)
    if text is None:
        raise _refused(f"{args[0].type} / {args[1].type}", "cast to fewer digits after the point")
    return text


def _decimal(name: str, type_: Type, left: Type, right: Type, text: str) -> str:
    if name == "*":
        digits, scale = left.precision + right.precision + 1, left.scale + right.scale
    else:
        scale = max(left.scale, right.scale)
        digits = max(left.precision - left.scale, right.precision - right.scale) + scale + 1
    if digits <= MAX_PRECISION:
        return text
    if scale >= MAX_PRECISION:
        raise _refused(f"{left} {name} {right}, which may need {digits} digits,", "cast to fewer digits")
    return held(text, scale, type_)


def _like(pattern: Scalar, parts: list[str]) -> str | None:
    value = _value(pattern)
    if value is not None and re.fullmatch(_LIKE_PATTERN, value, re.DOTALL):
        return None
    right = rf"(?s)^{_LIKE_PATTERN}\z".replace("\\", "\\\\")
    wrong = f"{parts[0]} IS NOT NULL AND NOT ({parts[1]} RLIKE '{right}')"
    error = raising(pattern.type, "a LIKE pattern has an escape before an ordinary character")
    return plain_call("like", [parts[0], f"CASE WHEN {wrong} THEN {error} ELSE {parts[1]} END"])


def _substring(args: tuple[Scalar, ...], parts: list[str]) -> str | None:
    """A place counted from the end may lie before the text: then less of the length is left. Sail takes a
    place that is NULL for the first. Multiplied by nothing, the length is there for the NULL it may be."""
    start, length = _value(args[1]), _value(args[2])
    if start is not None and start >= 0 and length is not None and length >= 0:
        return None
    text, place, count = parts[0], f"CAST({parts[1]} AS BIGINT)", f"CAST({parts[2]} AS BIGINT)"
    before = f"{place} + length({text})"
    left = f"CASE WHEN {before} < 0 THEN {count} + {before} ELSE {count} END"
    taken = f"greatest({left}, CAST(0 AS BIGINT)) + {count} * 0"
    if start is None:
        text = f"CASE WHEN {parts[1]} IS NULL THEN NULL ELSE {text} END"
    return f"substring({text}, {parts[1]}, CAST({taken} AS INT))"


def fallible(scalar: Scalar) -> bool:
    """Whether a row may make it raise."""
    match scalar:
        case Cast(Literal(value), target):
            try:
                cast_value(value, scalar.arg.type, target)
            except EvaluationError:
                return True
            return False
        case Cast(arg, target):
            here = not _holds(arg.type, target)
        case Call(name):
            here = name in _RAISING and not (scalar.type.name == "DOUBLE" and name not in ("/", "%"))
        case _:
            here = False
    return here or any(fallible(child) for child in scalar.children)


def _holds(source: Type, target: Type) -> bool:
    """Whether every value of the one type is a value of the other."""
    if target.is_integer:
        return source.name == "BOOLEAN" or (source.is_integer and source.bits <= target.bits)
    if target.is_decimal and (source.is_integer or source.is_decimal):
        narrow = as_decimal(source)
        return narrow.precision - narrow.scale <= target.precision - target.scale - (
            narrow.scale > target.scale
        )
    return source.name != "STRING" or target.name in ("STRING", "BINARY")


def guarded(name: str, parts: list[str]) -> str:
    """AND or OR: what stands behind a part that decides is not evaluated."""
    decides, answer = ("NOT {}", 0) if name == "and" else ("{}", 1)
    when = " ".join(f"WHEN {decides.format(part)} THEN {answer}" for part in parts[:-1])
    return f"CAST(CASE {when} ELSE CAST(({f' {name.upper()} '.join(parts)}) AS INT) END AS BOOLEAN)"


def _written(scalar: Scalar) -> Any:
    """The value of a literal, or of one that is cast; None where that is no value."""
    if not isinstance(scalar, Cast):
        return _value(scalar)
    value = _written(scalar.arg)
    with suppress(EvaluationError):
        return None if value is None else cast_value(value, scalar.arg.type, scalar.target)
    return None


def _value(scalar: Scalar) -> Any:
    return scalar.value if isinstance(scalar, Literal) else None
