"""PostgreSQL's types, and their values as Arrow arrays.

Values come as the text the server itself prints, with settings that make it exact (`read`), and are
parsed by Arrow. What has no faithful counterpart is refused by name; a value that its column's counterpart
does not have (infinity, NaN in a numeric, a year before 1 or after 9999) is an error that shows it.
"""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from stillframe.algebra import types as t
from stillframe.algebra.arrow import arrow_type
from stillframe.algebra.types import Type


@dataclass(frozen=True, slots=True)
class Reading:
    """How a column is read. `sent` is the expression the server sends for a value `{}`; `logged` the type of
    the column that captures it, always one of PostgreSQL's own, so that a log never keeps a type of the user
    from being changed or dropped. `key`: equal values are equal in Spark too. `pushed` is the type that keys
    are sent as, "" where they are not. `refused` says why the column cannot be read."""

    type: Type
    logged: str = ""
    sent: str = "{}"
    key: bool = True
    pushed: str = ""
    refused: str | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """A column's type: as it is written, and what a domain comes down to. `kind` is pg_type.typtype, `own`
    whether the type is PostgreSQL's own."""

    text: str
    name: str
    kind: str
    own: bool
    modifier: int
    array: bool = False
    deterministic: bool = True


_PLAIN = {
    "int2": Reading(t.SMALLINT, "int2", pushed="int8"),
    "int4": Reading(t.INT, "int4", pushed="int8"),
    "int8": Reading(t.BIGINT, "int8", pushed="int8"),
    # Every float4 is a float8: what is sent is the very value, not the few digits that name it.
    "float4": Reading(t.DOUBLE, "float4", "{}::pg_catalog.float8", key=False),
    "float8": Reading(t.DOUBLE, "float8", key=False),
    "bool": Reading(t.BOOLEAN, "bool", pushed="bool"),
    "text": Reading(t.STRING, "text", pushed="text"),
    "varchar": Reading(t.STRING, "text", pushed="text"),
    # Trailing spaces of char(n) mean nothing to PostgreSQL, and its own cast to text leaves them out.
    "bpchar": Reading(t.STRING, "bpchar", "{}::pg_catalog.text", pushed="bpchar"),
    "uuid": Reading(t.STRING, "uuid", pushed="uuid"),
    "json": Reading(t.STRING, "json", key=False),
    "jsonb": Reading(t.STRING, "jsonb", key=False),
    "bytea": Reading(t.BINARY, "bytea"),
    "date": Reading(t.DATE, "date", pushed="date"),
    "timestamp": Reading(t.TIMESTAMP, "timestamp", pushed="timestamp"),
    "timestamptz": Reading(
        t.TIMESTAMP, "timestamptz", "pg_catalog.timezone('UTC', {})", pushed="timestamptz"
    ),
}
_AS_TEXT = Reading(t.STRING, "text", "{}::pg_catalog.text")
_WHY = {
    "time": "Spark has no time of day",
    "timetz": "Spark has no time of day",
    "interval": "a month has no length",
    "money": "its digits depend on the server's locale",
}


def reading_of(declared: Declared) -> Reading:
    if declared.array:
        return _refused(declared, "arrays have no counterpart")
    if declared.kind == "e":
        return _AS_TEXT
    if declared.name == "citext" and not declared.own:
        return Reading(t.STRING, "text", "{}::pg_catalog.text", key=False)
    if not declared.own:
        return _refused(declared, "it is not one of PostgreSQL's own types")
    if declared.name == "numeric":
        return _numeric(declared)
    plain = _PLAIN.get(declared.name)
    if plain is None:
        return _refused(declared, _WHY.get(declared.name, "it has no counterpart"))
    if not declared.deterministic:
        return Reading(plain.type, plain.logged, plain.sent, key=False)
    return plain


def _numeric(declared: Declared) -> Reading:
    if declared.modifier < 0:
        return _refused(declared, "it says neither precision nor scale, as numeric(18,2) would")
    precision, scale = (declared.modifier - 4) >> 16, (declared.modifier - 4) & 0x7FF
    scale -= 2 * (scale & 0x400)
    try:
        return Reading(t.decimal(precision, scale), "numeric", pushed="numeric")
    except ValueError:
        return _refused(declared, "precision is at most 38, and scale between 0 and precision")


def _refused(declared: Declared, why: str) -> Reading:
    return Reading(t.VOID, key=False, refused=f"the type {declared.text!r} cannot be read: {why}")


def csv_type(reading: Reading) -> pa.DataType:
    """What Arrow parses the server's text as; bytes come as hexadecimal text."""
    if reading.type == t.BINARY:
        return pa.string()
    if reading.type == t.TIMESTAMP:
        return pa.timestamp("us")
    return arrow_type(reading.type)


def finished(reading: Reading, parsed: pa.Array) -> pa.Array:
    """The parsed column as the staged schema has it."""
    if reading.type == t.BINARY:
        return pa.array(
            [None if v is None else bytes.fromhex(v[2:]) for v in parsed.to_pylist()], pa.binary()
        )
    if reading.type == t.TIMESTAMP:
        return parsed.cast(arrow_type(t.TIMESTAMP))
    return parsed


def sendable(reading: Reading, values: pa.Array) -> pa.Array | None:
    """Those of the keys that the column can hold, as values of its type; None where they are of another
    kind, and the column must be read whole."""
    kinds = pa.types
    given = values.type
    if kinds.is_null(given):
        return values.drop_null()
    fits = {
        "int8": kinds.is_integer(given),
        "numeric": kinds.is_decimal(given) or kinds.is_integer(given),
        "bool": kinds.is_boolean(given),
        "date": kinds.is_date32(given),
        "timestamp": kinds.is_timestamp(given),
        "timestamptz": kinds.is_timestamp(given),
    }
    texts = kinds.is_string(given) or kinds.is_large_string(given)
    if not reading.pushed or not fits.get(reading.pushed, texts):
        return None
    kept = values.drop_null()
    if reading.pushed in ("text", "bpchar"):
        return pa.array([v for v in kept.to_pylist() if "\0" not in v], pa.string())
    if reading.pushed == "uuid":
        return pa.array([v for v in kept.to_pylist() if _is_uuid(v)], pa.string())
    return kept


def _is_uuid(text: str) -> bool:
    """Whether this is how the server prints some uuid: no other text equals one in Spark."""
    groups = text.split("-")
    return [len(g) for g in groups] == [8, 4, 4, 4, 12] and all(
        c in "0123456789abcdef" for g in groups for c in g
    )
