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
_TIMESTAMP = re.compile(
    r"(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?"
    r"(?:Z|UTC|([+-])(\d{2}):(\d{2}))?)?)?)?)?",
    re.ASCII,
)
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
_BLANK = "".join(map(chr, range(0x21))) + "\x7f"  # what may stand around a value: ASCII blanks and controls
_FARTHEST_ZONE = timedelta(hours=18)
_TRUE = {"t", "true", "y", "yes", "1"}
_FALSE = {"f", "false", "n", "no", "0"}


def cast_value(value: Any, source: Type, target: Type) -> Any:
    if value is None or source == target:
        return value
    if target.is_integer:
        return in_range(_whole(value, source, target), target)
    match target.name:
        case "DECIMAL":
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
        if not math.isfinite(value):
            raise _bad(value, target)
        return Decimal(repr(value))
    if isinstance(value, str):
        text = value.strip(_BLANK)
        if not _NUMBER.fullmatch(text):
            raise _bad(value, target)
        return Decimal(text)
    return Decimal(value)


def _double(text: str) -> float:
    stripped = text.strip(_BLANK)
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
    if not _NUMBER.fullmatch(stripped):
        raise _bad(text, "DOUBLE")
    return float(stripped)


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
    year, month, day, hour, minute, second, fraction, sign, zone_hours, zone_minutes = found.groups()
    zone: timezone = UTC
    if sign:
        offset = timedelta(hours=int(zone_hours), minutes=int(zone_minutes))
        if offset > _FARTHEST_ZONE or int(zone_minutes) > 59:
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
