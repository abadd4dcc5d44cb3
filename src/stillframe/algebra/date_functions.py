"""Functions of dates and moments, in UTC, within the years 0001 to 9999."""

from __future__ import annotations

from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, timedelta
from typing import TypeVar

from stillframe.algebra.signatures import EvaluationError, Function, TypeMismatch, Types, arity, takes
from stillframe.algebra.types import BIGINT, DATE, INT, STRING, TIMESTAMP, VOID, Type

Day = TypeVar("Day", date, datetime)


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


def _shift_months(day: Day, months: int) -> Day:
    """The same day of another month, or the last one where that month is shorter."""
    year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
    if not 1 <= year <= 9999:
        raise EvaluationError(f"overflow: {day} shifted by {months} months")
    return day.replace(year=year, month=month + 1, day=min(day.day, monthrange(year, month + 1)[1]))


def _shift_micros(moment: datetime, micros: int) -> datetime:
    try:
        return moment + timedelta(microseconds=micros)
    except OverflowError as error:
        raise EvaluationError(f"overflow: {moment} shifted by {micros} microseconds") from error


def _date_and_int(types: Types) -> tuple[Types, Type]:
    arity(types, 2)
    day, days = types
    if day not in (DATE, TIMESTAMP, STRING, VOID) or not (
        days == VOID or (days.is_integer and days.bits <= 32)
    ):
        raise TypeMismatch(f"takes a date and an INT, not {day} and {days}")
    return (DATE, INT), DATE


def _last_day(day: date) -> date:
    return day.replace(day=monthrange(day.year, day.month)[1])


def _made(year: int, month: int, day: int) -> date:
    try:
        return date(year, month, day)
    except (ValueError, OverflowError):
        raise EvaluationError(f"there is no day {day} of month {month} of the year {year}") from None


def _date_to_date(types: Types) -> tuple[Types, Type]:
    arity(types, 1)
    if types[0] not in (DATE, TIMESTAMP, STRING, VOID):
        raise TypeMismatch(f"takes a date, not {types[0]}")
    return (DATE,), DATE


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
    "dayofyear": _day_part(lambda d: d.timetuple().tm_yday),
    "dayofweek": _day_part(lambda d: d.isoweekday() % 7 + 1),
    "weekofyear": _day_part(lambda d: d.isocalendar()[1]),
    "last_day": Function(_date_to_date, _last_day),
    "make_date": Function(takes(INT, INT, INT, returns=DATE), _made),
    "hour": _time_part(lambda t: t.hour),
    "minute": _time_part(lambda t: t.minute),
    "second": _time_part(lambda t: t.second),
    "date_add": Function(_date_and_int, _shift_days),
    "date_sub": Function(_date_and_int, lambda d, n: _shift_days(d, -n)),
    "add_months": Function(_date_and_int, _shift_months),
    "timestamp_add_months": Function(takes(TIMESTAMP, INT, returns=TIMESTAMP), _shift_months),
    "timestamp_add_micros": Function(takes(TIMESTAMP, BIGINT, returns=TIMESTAMP), _shift_micros),
    "datediff": Function(_dates, lambda a, b: (a - b).days),
}
