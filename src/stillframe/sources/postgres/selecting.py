"""A selection in PostgreSQL's words, with its values written into it."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from stillframe.algebra.selection import IS_NOT_NULL, IS_NULL, Compared, Said
from stillframe.sources.postgres.catalog import Connection
from stillframe.sources.postgres.read import literal
from stillframe.sources.postgres.types import Reading, sendable

_ORDERED = frozenset({"int8", "numeric", "date"})  # as Spark orders them


def in_postgres(
    con: Connection, stored: Mapping[str, str], readings: Mapping[str, Reading], one: Compared
) -> Said | None:
    """`stored` tells under which name a column's values are found."""
    how = readings.get(one.column)
    if how is None:
        return None
    name = stored[one.column]
    if one.word in (IS_NULL, IS_NOT_NULL):
        return f"{name} {one.word}", ()
    equal = one.word in ("=", "<>")
    if how.pushed not in _ORDERED and not (equal and how.pushed in ("bool", "text")):
        return None
    given = sendable(how, pa.array([one.value]))
    if given is None or not len(given):
        return None
    collated = ' COLLATE "C"' if how.pushed == "text" else ""
    return f"{name} {one.word} {literal(con, str(one.value))}::{how.pushed}{collated}", ()
