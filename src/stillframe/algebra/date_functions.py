"""Functions of dates and moments, in UTC, within the years 0001 to 9999."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date, datetime, timedelta

from stillframe.algebra.signatures import EvaluationError, Function, TypeMismatch, Types, arity
from stillframe.algebra.types import DATE, INT, STRING, TIMESTAMP, VOID, Type


def _day_part(part: Callable[[date], int]) -> Function:
    def signature(types: Types) -> tuple[Types, Type]:
        arity(types, 1)
        if types[0] not in (DATE, TIMESTAMP, STRING, VOID):
            raise TypeMismatch(f"takes a date, not {types[0]}")
        return (DATE,), INT

    return Function(signature, part)


def _time_part(part: Callable[[datetime], int]) -> Function:
    def signature(types: Types) -> tuple[Types, Type]:
        arity(types, 1)
        if types[0] not in (TIMESTAMP, DATE, STRING, VOID):
            raise TypeMismatch(f"takes a timestamp, not {types[0]}")
        return (TIMESTAMP,), INT

    return Function(signature, part)


def _shift_days(day: date, days: int) -> date:
    try:
        return day + timedelta(days=days)
    except OverflowError as error:
        raise EvaluationError(f"overflow: {day} shifted by {days} days") from error


def _date_and_int(types: Types) -> tuple[Types, Type]:
    arity(types, 2)
    day, days = types
    if day not in (DATE, TIMESTAMP, STRING, VOID) or not (
        days == VOID or (days.is_integer and days.bits <= 32)
    ):
        raise TypeMismatch(f"takes a date and an INT, not {day} and {days}")
    return (DATE, INT), DATE


def _dates(types: Types) -> tuple[Types, Type]:
    arity(types, 2)
    if any(t not in (DATE, TIMESTAMP, STRING, VOID) for t in types):
        raise TypeMismatch(f"takes two dates, not {types[0]} and {types[1]}")
    return (DATE, DATE), INT


DATE_FUNCTIONS: dict[str, Function] = {
    "year": _day_part(lambda d: d.year),
    "quarter": _day_part(lambda d: (d.month + 2) // 3),
    "month": _day_part(lambda d: d.month),
    "day": _day_part(lambda d: d.day),
    "hour": _time_part(lambda t: t.hour),
    "minute": _time_part(lambda t: t.minute),
    "second": _time_part(lambda t: t.second),
    "date_add": Function(_date_and_int, _shift_days),
    "date_sub": Function(_date_and_int, lambda d, n: _shift_days(d, -n)),
    "datediff": Function(_dates, lambda a, b: (a - b).days),
}
