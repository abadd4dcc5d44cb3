"""The common log lies in segments, of which one is written to.

A versioned table keeps what is deleted from it, and giving that up for good takes a scan that waits for every
row in flight. So nothing is ever deleted from a segment: when much of one is below every consumer's position,
the next is begun, and the old one is dropped as a whole once all of it is. Numbers come from one sequence.

Every row that stands for a change is in one segment. Rows that only take a number may be in several, and
count in the newest.
"""

from __future__ import annotations

import re

from stillframe.sources.mariadb.capture import LOG, NOTHING
from stillframe.sources.mariadb.connect import Connection

_COLUMNS = "l.seq, l.relation, l.sign, l.mark, l.at, l.trx"
_SEGMENT = re.compile(rf"{LOG}(?:_(\d+))?")


def name_of(segment: int) -> str:
    return LOG if segment == 1 else f"{LOG}_{segment}"


def number_of(name: str) -> int:
    found = _SEGMENT.fullmatch(name)
    assert found is not None, name
    return int(found[1] or 1)


def segments(con: Connection) -> list[str]:
    """The tables of the log there are, the newest first."""
    names = con.all(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
        " AND LEFT(TABLE_NAME, %s) = %s",
        (len(LOG), LOG),
    )
    return sorted((name for (name,) in names if _SEGMENT.fullmatch(name)), key=number_of, reverse=True)


def of_log(con: Connection, condition: str, join: str = "") -> str:
    """FROM and WHERE of a query over the rows of the log, called `l`, that meet a condition; `join` is what
    they are joined with."""
    there = con.remembered("segments", segments)
    if len(there) == 1:
        return f"FROM {there[0]} AS l {join} WHERE {condition}"
    newest, *others = there
    parts = [f"SELECT {_COLUMNS} FROM {newest} AS l WHERE {condition}"]
    parts += [
        f"SELECT {_COLUMNS} FROM {name} AS l WHERE l.relation <> {NOTHING} AND ({condition})"
        for name in others
    ]
    return f"FROM ({' UNION ALL '.join(parts)}) AS l {join} WHERE TRUE"


def highest(con: Connection) -> int:
    return max(
        con.value(f"SELECT max(seq) FROM {name}") or 0 for name in con.remembered("segments", segments)
    )
