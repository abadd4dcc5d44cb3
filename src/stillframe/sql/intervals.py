"""Literal intervals beside a date or a timestamp. An interval by itself is no value a view can hold.

Years and months are counted by the calendar, weeks and days are whole days; hours and less move only a
timestamp: Spark makes a timestamp of a date there, which is left to the reader to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from decimal import Decimal

from sqlglot import exp

from stillframe.algebra.functions import TypeMismatch
from stillframe.algebra.scalar import Literal, Scalar, call
from stillframe.algebra.types import BIGINT, DATE, INT, TIMESTAMP
from stillframe.sql.complaints import Complaints

_MONTHS = {"YEAR": 12, "MONTH": 1}
_DAYS = {"WEEK": 7, "DAY": 1}
_SECONDS = {"HOUR": 3600, "MINUTE": 60, "SECOND": 1}
_MICROS_OF_A_SECOND = 1_000_000
_DAY_OF_MICROS = 86_400 * _MICROS_OF_A_SECOND
_WHOLE = re.compile(r"\s*([+-]?\d{1,18})\s*", re.ASCII)
_SECOND = re.compile(r"\s*([+-]?\d{1,12}(?:\.\d{1,6})?)\s*", re.ASCII)
_MOST = (1 << 31) - 1
HINT = (
    "write DATE or TIMESTAMP ± INTERVAL '3' MONTH, with one of YEAR, MONTH, WEEK, DAY, HOUR, MINUTE, SECOND"
)


@dataclass(frozen=True)
class Interval:
    """Only one of these is not nothing."""

    months: int = 0
    days: int = 0
    micros: int = 0

    def __neg__(self) -> Interval:
        return Interval(-self.months, -self.days, -self.micros)


def interval(complaints: Complaints, node: exp.Expr) -> Interval | None:
    """What a literal interval says; None for anything else."""
    match node:
        case exp.Paren():
            return interval(complaints, node.this)
        case exp.Neg():
            inner = interval(complaints, node.this)
            return None if inner is None else -inner
        case exp.Interval():
            return _literal(complaints, node)
    return None


def _literal(complaints: Complaints, node: exp.Interval) -> Interval:
    unit, value = node.args.get("unit"), node.this
    name = unit.name.upper().removesuffix("S") if isinstance(unit, exp.Var) else ""
    pattern = _SECOND if name == "SECOND" else _WHOLE
    found = pattern.fullmatch(value.name) if isinstance(value, exp.Literal) else None
    if found is None or name not in {**_MONTHS, **_DAYS, **_SECONDS}:
        complaints.stop(node, "BAD_LITERAL", "only whole intervals of one unit are supported", HINT)
    number = Decimal(found[1])
    made = Interval(
        months=int(number * _MONTHS.get(name, 0)),
        days=int(number * _DAYS.get(name, 0)),
        micros=int(number * _SECONDS.get(name, 0) * _MICROS_OF_A_SECOND),
    )
    if max(abs(made.months), abs(made.days)) > _MOST or abs(made.micros) >= 1 << 63:
        complaints.stop(node, "BAD_LITERAL", "this interval is too long", "write a shorter one")
    return made


def shifted(moment: Scalar, by: Interval) -> Scalar:
    """A date stays a date, a timestamp a timestamp."""
    if moment.type == DATE and by.micros:
        raise TypeMismatch("hours, minutes and seconds are added to a TIMESTAMP, not to a DATE")
    if moment.type == DATE and by.months:
        return call("add_months", moment, Literal(by.months, INT))
    if moment.type == DATE:
        return call("date_add", moment, Literal(by.days, INT))
    if moment.type != TIMESTAMP:
        raise TypeMismatch(f"an interval is added to a DATE or a TIMESTAMP, not to {moment.type}")
    if by.months:
        return call("timestamp_add_months", moment, Literal(by.months, INT))
    return call("timestamp_add_micros", moment, Literal(by.micros + by.days * _DAY_OF_MICROS, BIGINT))
