"""Where a day, week, month, quarter or year begins, by functions of dates that both engines have alike."""

from __future__ import annotations

from datetime import date

from stillframe.algebra.functions import TypeMismatch
from stillframe.algebra.scalar import Literal, Scalar, call, cast
from stillframe.algebra.types import BIGINT, DATE, INT, STRING, TIMESTAMP, VOID

_UNITS = {
    **dict.fromkeys(("year", "yyyy", "yy"), "year"),
    "quarter": "quarter",
    **dict.fromkeys(("month", "mon", "mm"), "month"),
    "week": "week",
}
_FINER = {**dict.fromkeys(("day", "dd"), "day"), "hour": "hour", "minute": "minute", "second": "second"}
_MICROS = {"hour": 3_600_000_000, "minute": 60_000_000, "second": 1_000_000}
_MONDAY = Literal(date.min, DATE)


def weekday(day: Scalar) -> Scalar:
    """0 is Monday, which 0001-01-01 was."""
    return call("%", call("datediff", day, _MONDAY), Literal(7, INT))


def trunc(day: Scalar, unit: Scalar) -> Scalar:
    return _begin(_dated(day), _unit(unit, _UNITS))


def date_trunc(unit: Scalar, moment: Scalar) -> Scalar:
    name = _unit(unit, {**_UNITS, **_FINER})
    if moment.type not in (TIMESTAMP, DATE, STRING, VOID):
        raise TypeMismatch(f"takes a timestamp, not {moment.type}")
    day = cast(cast(moment, TIMESTAMP), DATE)
    if name not in _FINER.values():
        return cast(_begin(day, name), TIMESTAMP)
    found = cast(day, TIMESTAMP)
    for part, micros in _MICROS.items():
        if name == "day":
            break
        passed = call("*", cast(call(part, cast(moment, TIMESTAMP)), BIGINT), Literal(micros, BIGINT))
        found = call("timestamp_add_micros", found, passed)
        if part == name:
            break
    return found


def _begin(day: Scalar, unit: str) -> Scalar:
    if unit == "week":
        return call("date_sub", day, weekday(day))
    if unit == "year":
        return call("date_sub", day, _less_one(call("dayofyear", day)))
    month = call("date_sub", day, _less_one(call("day", day)))
    if unit == "month":
        return month
    passed = call("%", _less_one(call("month", day)), Literal(3, INT))
    return call("add_months", month, call("negative", passed))


def _less_one(number: Scalar) -> Scalar:
    return call("-", number, Literal(1, INT))


def _dated(day: Scalar) -> Scalar:
    if day.type not in (DATE, TIMESTAMP, STRING, VOID):
        raise TypeMismatch(f"takes a date, not {day.type}")
    return cast(day, DATE)


def _unit(unit: Scalar, known: dict[str, str]) -> str:
    """Spark answers NULL to a unit it does not know; here it is a mistake."""
    name = str(unit.value).lower() if isinstance(unit, Literal) else ""
    if name not in known:
        raise TypeMismatch(f"the unit is one of {', '.join(map(repr, dict.fromkeys(known.values())))}")
    return known[name]
