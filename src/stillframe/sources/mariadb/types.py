"""MariaDB's column types, and the text the server prints for values as Arrow arrays of them.

Values come as the bytes of the text protocol, in UTF-8, with the session's time zone at UTC, and are turned
into arrays whole columns at a time. `select` says how a column is asked for, so that its text is exact: FLOAT
is printed rounded and is asked for as the DOUBLE it equals.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from stillframe.algebra import types as t
from stillframe.algebra.arrow import arrow_type
from stillframe.algebra.types import Type

_SIGNED = {"tinyint": t.TINYINT, "smallint": t.SMALLINT, "mediumint": t.INT, "int": t.INT, "bigint": t.BIGINT}
_UNSIGNED = {
    "tinyint": t.SMALLINT,
    "smallint": t.INT,
    "mediumint": t.INT,
    "int": t.BIGINT,
    "bigint": t.decimal(20, 0),
}
_TEXTS = {"char", "varchar", "tinytext", "text", "mediumtext", "longtext", "enum", "set"}
_NAMES = {"uuid", "inet4", "inet6"}
_BYTES = {"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"}
_LARGE = {"tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob"}
_FIRST_DATE = pa.scalar("0001-01-01").cast(pa.date32())
_FIRST_TIME = pa.scalar("0001-01-01 00:00:00").cast(pa.timestamp("us"))


class BadValue(Exception):
    """The value at `index` of a column is not of the column's type."""

    def __init__(self, index: int, value: bytes, type_: Type) -> None:
        super().__init__(index, value, type_)
        self.index = index
        self.value = value
        self.type = type_

    def __str__(self) -> str:
        return f"{shortened(self.value.decode(errors='replace'))}, which is not a {self.type}"


def shortened(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a column is read. `select` is what stands in the place of `{}`, the column, in a query; `large`
    values are not compared; on `exact` ones equality in Spark implies equality at the source, for whatever
    value is asked for. `refused` says why a column cannot be read."""

    type: Type
    select: str = "{}"
    large: bool = False
    exact: bool = False
    refused: str | None = None


def reading_of(data_type: str, column_type: str) -> Reading:
    """By what information_schema.COLUMNS calls DATA_TYPE and COLUMN_TYPE."""
    name = data_type.lower()
    if name in _SIGNED:
        unsigned = "unsigned" in column_type.lower()
        return Reading((_UNSIGNED if unsigned else _SIGNED)[name], _number(column_type), exact=True)
    if name == "decimal":
        return _decimal(column_type)
    if name in ("double", "float"):
        return Reading(t.DOUBLE, "CAST({} AS DOUBLE)")
    if name in _TEXTS:
        return Reading(t.STRING, large=name in _LARGE, exact=name in ("char", "varchar"))
    if name in _NAMES:
        return Reading(t.STRING, "CAST({} AS CHAR)")
    if name in _BYTES:
        return Reading(t.BINARY, large=name in _LARGE)
    if name == "date":
        return Reading(t.DATE, exact=True)
    if name in ("datetime", "timestamp"):
        return Reading(t.TIMESTAMP)
    if name == "year":
        return Reading(t.SMALLINT, "{}+0", exact=True)
    if name == "bit":
        if column_type.lower() == "bit(1)":
            return Reading(t.BOOLEAN, "{}+0")
        return _refused(column_type, "a string of bits has no counterpart; BIT(1) has")
    if name == "time":
        return _refused(column_type, "a time of day, or a span of up to 838 hours, has no counterpart")
    return _refused(column_type, "it has no counterpart")


def _decimal(column_type: str) -> Reading:
    sized = re.match(r"decimal\((\d+),(\d+)\)", column_type.lower())
    if sized is None or int(sized[1]) > t.MAX_PRECISION:
        return _refused(column_type, f"precision is at most {t.MAX_PRECISION}")
    return Reading(t.decimal(int(sized[1]), int(sized[2])), _number(column_type))


def _number(column_type: str) -> str:
    """ZEROFILL is only a way to print."""
    return "{}+0" if "zerofill" in column_type.lower() else "{}"


def _refused(column_type: str, why: str) -> Reading:
    return Reading(t.VOID, refused=f"the type {column_type!r} cannot be read: {why}")


def decoded(reading: Reading, values: Sequence[bytes | None]) -> pa.Array:
    """The values as an Arrow array of exactly the reading's type, or BadValue."""
    raw = pa.array(values, type=pa.binary())
    try:
        return _converted(reading.type, raw)
    except (pa.ArrowInvalid, ValueError):
        for index, value in enumerate(values):
            try:
                _converted(reading.type, pa.array([value], type=pa.binary()))
            except (pa.ArrowInvalid, ValueError):
                raise BadValue(index, value or b"", reading.type) from None
        raise


def _converted(type_: Type, raw: pa.Array) -> pa.Array:
    if type_.name == "BINARY":
        return raw
    text = raw.cast(pa.string())
    if type_.name == "STRING":
        return text
    if type_.name == "BOOLEAN":
        return text.cast(pa.int8()).cast(pa.bool_())
    if type_.name == "DATE":
        return _from(_FIRST_DATE, text.cast(pa.date32()))
    if type_.name == "TIMESTAMP":
        return _from(_FIRST_TIME, text.cast(pa.timestamp("us"))).cast(arrow_type(type_))
    return text.cast(arrow_type(type_))


def _from(first: pa.Scalar, values: pa.Array) -> pa.Array:
    """The year 0 is no year to Spark."""
    if pc.any(pc.less(values, first)).as_py():
        raise ValueError
    return values
