"""A selection in SQLite's words.

Any value may stand in any column there. One that is not of the column's type is never left out: reading it is
an error that shows it. Texts are only compared for being equal: their order is that of their encoding.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date

from stillframe.algebra.selection import IS_NOT_NULL, IS_NULL, Compared, Said
from stillframe.sources.sqlite.types import Reading

_DATE = "-".join("[0-9]" * digits for digits in (4, 2, 2))


def in_sqlite(stored: Mapping[str, str], readings: Mapping[str, Reading], one: Compared) -> Said | None:
    """`stored` tells under which name a column's values are found."""
    how = readings.get(one.column)
    if how is None or how.as_text:
        return None
    name, value = stored[one.column], one.value
    if one.word in (IS_NULL, IS_NOT_NULL):
        return f"{name} {one.word}", ()
    match how.type.name:
        case "BIGINT" if type(value) is int:
            return f"(typeof({name}) NOT IN ('integer', 'null') OR {name} {one.word} ?)", (value,)
        case "STRING" if isinstance(value, str) and one.word in ("=", "<>"):
            return f"(typeof({name}) NOT IN ('text', 'null') OR {name} COLLATE BINARY {one.word} ?)", (value,)
        case "DATE" if type(value) is date:
            return f"({name} NOT GLOB '{_DATE}' OR {name} {one.word} ?)", (value.isoformat(),)
    return None
