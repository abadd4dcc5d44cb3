"""Declared SQLite types, and stored values as Arrow arrays of them.

SQLite lets any value stand in any column. A declaration is taken at its word here: a stored value is of
the declared type, or it is an error that shows it. Nothing is converted unless it is the same value after.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Context, Decimal, Inexact
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from stillframe.algebra import types as t
from stillframe.algebra.arrow import arrow_type
from stillframe.algebra.types import Type

_INTEGERS = {
    "INT",
    "INTEGER",
    "BIGINT",
    "SMALLINT",
    "TINYINT",
    "MEDIUMINT",
    "INT2",
    "INT4",
    "INT8",
    "BIG INT",
}
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_WHOLE_DATE = rf"\A{_DATE.pattern}\z"  # as Arrow writes it
_FIRST_DAY = (date.min - date(1970, 1, 1)).days
_TIMESTAMP = re.compile(
    r"\d{4}-\d\d-\d\d[ Tt]\d\d:\d\d(:\d\d(\.\d{1,6})?)?\s?([Zz]|[+-]\d\d:\d\d)?", re.ASCII
)
_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,4})?", re.ASCII)
_EXACT = Context(prec=120, traps=[Inexact])
_SHORT = 15  # digits that a float keeps


class Undecodable(bytes):
    """Text of a source that is not UTF-8."""


class BadValue(Exception):
    """The value at `index` of a column is not of the column's type."""

    def __init__(self, index: int, value: object, type_: Type) -> None:
        super().__init__(index, value, type_)
        self.index = index
        self.value = value
        self.type = type_

    def __str__(self) -> str:
        if isinstance(self.value, Undecodable):
            return f"text that is not UTF-8: {shortened(bytes(self.value))}"
        kind = _STORAGE.get(type(self.value), type(self.value).__name__)
        return f"the {kind} {shortened(self.value)}, which is not a {self.type}"


_STORAGE = {int: "integer", float: "real", str: "text", bytes: "blob"}


def shortened(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a column is read. `as_text`: numbers too are given as text, since the column declares no type
    of its own. `refused` says why a column cannot be read."""

    type: Type
    as_text: bool = False
    refused: str | None = None


@lru_cache(maxsize=1024)
def reading_of(declared: str) -> Reading:
    name = " ".join(declared.upper().split())
    sized = re.fullmatch(r"(.*?) ?\( ?([+-]?\d+) ?(?:, ?([+-]?\d+) ?)?\)(.*)", name)
    bare = (sized[1] + sized[4]).strip() if sized else name
    if not bare or bare == "ANY":
        return Reading(t.STRING, as_text=True)
    if " ".join(w for w in bare.split() if w not in ("UNSIGNED", "SIGNED")) in _INTEGERS:
        return Reading(t.BIGINT)
    if "INT" in bare:
        return _refused(declared, "SQLite itself takes it for an integer")
    if bare.startswith("BOOL"):
        return Reading(t.BOOLEAN)
    if bare == "JSON":
        return Reading(t.STRING, as_text=True)
    if any(word in bare for word in ("CHAR", "CLOB", "TEXT")) or bare == "UUID":
        return Reading(t.STRING)
    if "BLOB" in bare or bare in ("BINARY", "VARBINARY", "BYTEA"):
        return Reading(t.BINARY)
    if any(word in bare for word in ("REAL", "FLOA", "DOUB")):
        return Reading(t.DOUBLE)
    if bare in ("DECIMAL", "NUMERIC", "DEC"):
        if not sized:
            return _refused(declared, "it says neither precision nor scale, as DECIMAL(18,2) would")
        try:
            return Reading(t.decimal(int(sized[2]), int(sized[3] or 0)))
        except ValueError:
            return _refused(declared, "precision is at most 38, and scale at most precision")
    if bare == "DATE":
        return Reading(t.DATE)
    if bare.startswith(("DATETIME", "TIMESTAMP")):
        return Reading(t.TIMESTAMP)
    return _refused(declared, "it has no counterpart")


def _refused(declared: str, why: str) -> Reading:
    return Reading(t.VOID, refused=f"the declared type {declared!r} cannot be read: {why}")


def decoded(reading: Reading, values: Sequence[Any]) -> pa.Array:
    """The values as an Arrow array of exactly the reading's type, or BadValue."""
    allowed, convert = _AS_TEXT if reading.as_text else _HOW[reading.type.name]
    if not allowed.issuperset(map(type, values)):
        index = next(i for i, v in enumerate(values) if type(v) not in allowed)
        raise BadValue(index, values[index], reading.type)
    if convert is _decimal:
        found = _short_decimals(values, reading.type)
        if found is not None:
            return found
    if convert is _date:
        found = _usual_dates(pa.array(values, pa.string()))
        if found is not None:
            return found
    if convert is not None:
        values = _each(convert, reading.type, values)
    return pa.array(values, type=arrow_type(reading.type))


def column_of(reading: Reading, stored: pa.Array) -> pa.Array | None:
    """The same of values that Arrow has, as SQLite stores them; None where a value needs to be looked at by
    itself, perhaps to be told as an error."""
    match reading.type.name:
        case "BIGINT" | "DOUBLE":
            return stored
        case "BOOLEAN":
            return stored.cast(pa.bool_())
        case "STRING":
            return stored if _is_text(stored) else None
        case "DATE":
            return _usual_dates(stored) if _is_text(stored) else None
        case "DECIMAL" if reading.type.scale <= _SHORT:
            found, short = _as_decimals(stored, reading.type)
            return found if pc.all(short, min_count=0).as_py() else None
    return None


def _is_text(stored: pa.Array) -> bool:
    try:
        stored.validate(full=True)
    except pa.ArrowInvalid:  # bytes that are not UTF-8
        return False
    return True


def _each(convert: Callable[[Any, Type], Any], type_: Type, values: Sequence[Any]) -> list[Any]:
    out = []
    for index, value in enumerate(values):
        try:
            out.append(None if value is None else convert(value, type_))
        except (ValueError, ArithmeticError):
            raise BadValue(index, value, type_) from None
    return out


def _boolean(value: int, _: Type) -> bool:
    if value not in (0, 1):
        raise ValueError
    return value == 1


def _text(value: int | float | str, _: Type) -> str:
    return value if isinstance(value, str) else repr(value)


def _date(value: str, _: Type) -> date:
    if not _DATE.fullmatch(value):
        raise ValueError
    return date.fromisoformat(value)


def _usual_dates(texts: pa.Array) -> pa.Array | None:
    """The same as `_date` of each value, all at once; None where one of them is no date."""
    written = pc.match_substring_regex(texts, _WHOLE_DATE)  # Arrow alone would take some others too
    if not pc.all(written, min_count=0).as_py():
        return None
    try:
        days = texts.cast(pa.date32())
    except pa.ArrowInvalid:
        return None
    earliest = pc.min(days.cast(pa.int32())).as_py()
    return days if earliest is None or earliest >= _FIRST_DAY else None


def _timestamp(value: str, _: Type) -> datetime:
    if not _TIMESTAMP.fullmatch(value):
        raise ValueError
    parsed = datetime.fromisoformat(value.replace(" ", "T", 1).replace(" ", "").upper())
    offset = parsed.utcoffset()
    # Subtraction leaves the years 0001 to 9999 with an error, never by wrapping.
    return parsed if offset is None else parsed.replace(tzinfo=None) - offset


def _short_decimals(values: Sequence[Any], type_: Type) -> pa.Array | None:
    """The same as `_decimal` of each value, all at once but for those that are no plain short numbers; None
    where Arrow does not take them."""
    if str in set(map(type, values)) or type_.scale > _SHORT:
        return None
    try:
        floats = pa.array(values, pa.float64())
    except pa.ArrowInvalid:  # an integer that no float is
        return None
    found, short = _as_decimals(floats, type_)
    odd = pc.fill_null(pc.invert(short), False)
    places = pc.indices_nonzero(odd).to_pylist()
    if not places:
        return found
    try:
        rest = _each(_decimal, type_, [values[i] for i in places])
    except BadValue as bad:
        raise BadValue(places[bad.index], bad.value, type_) from None
    return pc.replace_with_mask(found, odd, pa.array(rest, found.type))


def _as_decimals(floats: pa.Array, type_: Type) -> tuple[pa.Array, pa.Array]:
    """Those that are plain short numbers as decimals, the others as NULL; and which are.

    Law: a float x within 2⁻⁵² |x| of the float nearest to n / 10^s, n of at most fifteen digits, prints as
    that number in fifteen digits: it is off by less than 3.4 · 10⁻¹⁶ |x|, and half of the last digit is at
    least 5 · 10⁻¹⁶ |x|. So are numbers that arithmetic left one bit away from what was meant."""
    unit = float(10**type_.scale)
    whole = pc.round(pc.multiply(floats, unit))
    digits = min(_SHORT, type_.precision)
    off = pc.abs(pc.subtract(pc.divide(whole, unit), floats))
    near = pc.less_equal(off, pc.multiply(pc.abs(floats), 2.0**-52))
    short = pc.and_(pc.less(pc.abs(whole), float(10**digits)), near)
    numbers = pc.if_else(short, whole, None).cast(pa.int64()).cast(pa.decimal128(19, 0))
    step = pa.scalar(Decimal((0, (1,), -type_.scale)), pa.decimal128(type_.scale + 1, type_.scale))
    found = pc.multiply(numbers, step).cast(arrow_type(type_))
    return found, short


def _decimal(value: int | float | str, type_: Type) -> Decimal:
    # SQLite keeps such columns as floats; the fifteen digits it prints are the number that was meant.
    text = f"{value:.15g}" if isinstance(value, float) else str(value)
    if not _NUMBER.fullmatch(text):
        raise ValueError
    number = Decimal(text)
    if number and number.adjusted() >= type_.precision - type_.scale:
        raise ValueError
    return number.quantize(Decimal((0, (1,), -type_.scale)), context=_EXACT)


_NONE = type(None)
_AS_TEXT: tuple[frozenset[type], Callable[[Any, Type], Any] | None]
_AS_TEXT = frozenset({int, float, str, _NONE}), _text
_HOW: dict[str, tuple[frozenset[type], Callable[[Any, Type], Any] | None]] = {
    "BIGINT": (frozenset({int, _NONE}), None),
    "BOOLEAN": (frozenset({int, _NONE}), _boolean),
    "DOUBLE": (frozenset({float, _NONE}), None),
    "STRING": (frozenset({str, _NONE}), None),
    "BINARY": (frozenset({bytes, _NONE}), None),
    "DATE": (frozenset({str, _NONE}), _date),
    "TIMESTAMP": (frozenset({str, _NONE}), _timestamp),
    "DECIMAL": (frozenset({int, float, str, _NONE}), _decimal),
}
