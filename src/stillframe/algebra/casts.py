"""CAST on Python values, as Spark's ANSI mode has it: exact, or an error."""

from __future__ import annotations

import math
import re
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from typing import Any

from stillframe.algebra.functions import EvaluationError, in_range, to_decimal
from stillframe.algebra.types import Type

_DATE = re.compile(r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
# A day is always said: Spark would add today's date to a bare time of day. Zones are offsets, not names.
_TIMESTAMP = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d*))?)?"
    r"(?:[\x00-\x20]*(?:Z|(?:UTC|GMT|UT)?(?:([+-])(?:(\d{1,2})(?::(\d{1,2}))?|(\d\d)(\d\d)))?))?)?)?)?)?",
    re.ASCII,
)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
# What Java reads: hexadecimal, and with the suffix of its own literals.
_DOUBLE = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?)[dDfF]?", re.ASCII)
_HEXADECIMAL = re.compile(
    r"([+-]?0[xX](?:[\da-fA-F]+\.?[\da-fA-F]*|\.[\da-fA-F]+)[pP][+-]?\d+)[dDfF]?", re.ASCII
)
_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE](?P<exponent>[+-]?0*\d{1,10}))?")  # digits of any script
_FARTHEST_EXPONENT = (1 << 31) - 1
_JAVA_BLANK = "".join(map(chr, range(0x21)))  # what may stand around a number with a point
_BLANK = _JAVA_BLANK + "\x7f"  # what may stand around any other value: ASCII blanks and controls
_FARTHEST_ZONE = timedelta(hours=18)
_OUTER_YEARS = ("0001", "9999")  # a zone could lead out of them
_TRUE = {"t", "true", "y", "yes", "1"}
_FALSE = {"f", "false", "n", "no", "0"}


def cast_value(value: Any, source: Type, target: Type) -> Any:
    if value is None or source == target:
        return value
    if target.is_integer:
        return in_range(_whole(value, source, target), target)
    match target.name:
        case "DECIMAL":
            if isinstance(value, float) and not math.isfinite(value):
                return None  # here Spark raises nothing
            return to_decimal(_decimal(value, target), target)
        case "DOUBLE":
            return _double(value) if isinstance(value, str) else float(value)
        case "STRING":
            return _text(value)
        case "BOOLEAN":
            return _boolean(value)
        case "DATE":
            return value.date() if isinstance(value, datetime) else _date(value)
        case "TIMESTAMP":
            if isinstance(value, date):
                return datetime(value.year, value.month, value.day, tzinfo=UTC)
            return _timestamp(value)
        case "BINARY":
            return value.encode()
    raise AssertionError(f"no cast from {source} to {target}")


def _bad(value: Any, target: Type | str) -> EvaluationError:
    return EvaluationError(f"{value!r} cannot be cast to {target}")


def _whole(value: Any, source: Type, target: Type) -> int:
    if isinstance(value, str):
        text = value.strip(_BLANK)
        if not _WHOLE.fullmatch(text):
            raise _bad(value, target)
        return int(text)
    if isinstance(value, float) and not math.isfinite(value):
        raise _bad(value, target)
    return int(value)


def _decimal(value: Any, target: Type) -> Decimal:
    if isinstance(value, float):
        return Decimal(repr(value))
    if isinstance(value, str):
        found = _DECIMAL.fullmatch(value.strip(_JAVA_BLANK))
        if not found or abs(int(found["exponent"] or 0)) > _FARTHEST_EXPONENT:
            raise _bad(value, target)
        return Decimal(found[0])
    return Decimal(value)


def _double(text: str) -> float:
    stripped = text.strip(_JAVA_BLANK)
    special = {
        "nan": math.nan,
        "infinity": math.inf,
        "+infinity": math.inf,
        "inf": math.inf,
        "+inf": math.inf,
        "-infinity": -math.inf,
        "-inf": -math.inf,
    }
    if stripped.lower() in special:
        return special[stripped.lower()]
    if stripped in ("+NaN", "-NaN"):
        return math.nan
    if found := _DOUBLE.fullmatch(stripped):
        return float(found[1])
    if found := _HEXADECIMAL.fullmatch(stripped):
        try:
            return float.fromhex(found[1])
        except OverflowError:
            return -math.inf if found[1].startswith("-") else math.inf
    raise _bad(text, "DOUBLE")


def _text(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case Decimal():
            return format(value, "f")
        case datetime():
            text = value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S").rjust(19, "0")
            return text + (f".{value.microsecond:06d}".rstrip("0") if value.microsecond else "")
        case date():
            return value.isoformat()
    return str(value)


def _boolean(value: Any) -> bool:
    if isinstance(value, str):
        word = value.strip(_BLANK).lower()
        if word in _TRUE or word in _FALSE:
            return word in _TRUE
        raise _bad(value, "BOOLEAN")
    return bool(value != 0)


def _date(text: str) -> date:
    found = _DATE.fullmatch(text.strip(_BLANK))
    if not found:
        raise _bad(text, "DATE")
    try:
        return date(*(int(part or 1) for part in found.groups()))
    except ValueError:
        raise _bad(text, "DATE") from None


def _timestamp(text: str) -> datetime:
    found = _TIMESTAMP.fullmatch(text.strip(_BLANK))
    if not found:
        raise _bad(text, "TIMESTAMP")
    year, month, day, hour, minute, second, fraction, sign, hours, minutes, *compact = found.groups()
    zone: timezone = UTC
    if sign:
        east, past = (int(part or 0) for part in ((hours, minutes) if hours else compact))
        offset = timedelta(hours=east, minutes=past)
        if offset > _FARTHEST_ZONE or past > 59 or year in _OUTER_YEARS:
            raise _bad(text, "TIMESTAMP")
        zone = timezone(-offset if sign == "-" else offset)
    micros = int((fraction or "0").ljust(6, "0")[:6])
    try:
        moment = datetime(
            int(year),
            int(month or 1),
            int(day or 1),
            int(hour or 0),
            int(minute or 0),
            int(second or 0),
            micros,
            zone,
        )
        return moment.astimezone(UTC)
    except (ValueError, OverflowError):
        raise _bad(text, "TIMESTAMP") from None
