"""Did rows leave a table without firing a trigger?

TRUNCATE does that, as do ALTER TABLE … TRUNCATE, DROP or EXCHANGE PARTITION, and nothing that an ordinary
account may read tells of it. So some rows of each part of a table are kept as *witnesses*, copied from it.
The law, for a state V that was verified and a later snapshot S:

- a witness present at V, and not logged between V and S, is present in S exactly if nothing passed capture by
  that took it away. TRUNCATE takes all rows there are, so one such witness in S clears the table;
- if all witnesses were logged meanwhile, the rows are counted: there must be as many as when capture began,
  and the signs logged since.

A rebuilt table (ALTER, OPTIMIZE) keeps its witnesses. They are compared in all columns but large ones, so a
column that was dropped and added again shows too, unless its values were the default's.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from stillframe.sources.mariadb.capture import BROKEN, SOURCE, WITNESSES, value_name, values_name
from stillframe.sources.mariadb.catalog import Table, TableColumn, quoted
from stillframe.sources.mariadb.connect import Connection
from stillframe.sources.mariadb.segments import of_log

if TYPE_CHECKING:
    from stillframe.sources.mariadb.log import Captured

_KEPT = 4
_FEW = 2


@dataclass(frozen=True, slots=True)
class Verified:
    """A state up to which nothing passed capture by: all log rows up to `floor` are in it, and the witnesses,
    by the number they are kept under, part by part."""

    floor: int
    witnesses: dict[str, list[int]] = field(default_factory=dict)

    def witnesses_text(self) -> str:
        return json.dumps(self.witnesses, separators=(",", ":"))

    @classmethod
    def of(cls, floor: int, witnesses: str | None) -> Verified:
        return cls(floor, json.loads(witnesses) if witnesses else {})

    def short(self, parts: Sequence[str]) -> list[str]:
        return [part for part in parts if len(self.witnesses.get(part, ())) < _FEW]


def parts(table: Table) -> tuple[str, ...]:
    return table.partitions or ("",)


def appoint(writer: Connection, capture: Captured) -> None:
    """Copy rows that may become witnesses, for each part of the table that is short of them."""
    compared = _compared(capture)
    if not compared:
        return
    short = capture.verified.short(parts(capture.table))
    if not short:
        return
    name = values_name(capture.id)
    into = ", ".join(value_name(place) for place, _ in compared)
    picked = ", ".join(f"r.{quoted(column.name)}" for _, column in compared)
    key = [c for c in capture.table.identity() if c.reading.refused is None]
    orders = [""]
    if capture.table.primary and key:
        orders = [
            f"ORDER BY {', '.join(f'r.{quoted(c.name)} {way}' for c in key)}" for way in ("ASC", "DESC")
        ]
    # Below REPEATABLE READ the rows copied are read without locks, and wait for no writer.
    writer.run("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED")
    try:
        for part in short:
            among = f" PARTITION ({quoted(part)})" if part else ""
            for order in orders:
                # Others may appoint at the same time: a number that anybody had is not had again.
                start = WITNESSES + secrets.randbits(61)
                writer.run(
                    f"INSERT INTO {name} (seq, {into}) SELECT {start} + row_number() OVER (), k.* FROM"
                    f" (SELECT {picked} FROM {quoted(capture.table.name)}{among} AS r {order}"
                    f" LIMIT {_KEPT}) AS k"
                )
    finally:
        writer.run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")


def passed_by(snap: Connection, capture: Captured) -> str | None:
    """What shows that capture missed something up to this snapshot, None if nothing did."""
    broken = f"l.seq > {capture.verified.floor} AND l.relation = {capture.id} AND l.sign = {BROKEN}"
    if snap.value(f"SELECT 1 {of_log(snap, broken)} LIMIT 1"):
        return "a captured column was missing for a while"
    seen = _look(snap, capture)
    unsure = False
    for part in parts(capture.table):
        quiet = [seen[n] for n in capture.verified.witnesses.get(part, ()) if n in seen and not seen[n][1]]
        if not all(present for present, _ in quiet):
            return "rows are gone that nobody deleted" + (f" from partition {part!r}" if part else "")
        unsure |= not quiet
    if unsure:
        there = snap.value(f"SELECT count(*) FROM {quoted(capture.table.name)}")
        expected = capture.base + logged_net(snap, capture.id)
        if there != expected:
            return f"there are {there} rows where capture counted {expected}"
    return None


def logged_net(con: Connection, relation: int, upto: int | None = None) -> int:
    """By how much the logged rows of a relation, up to a number, add to its rows. Trimmed ones are counted
    elsewhere."""
    trimmed = con.value(f"SELECT trimmed FROM {SOURCE}")
    known = f"l.seq > {trimmed} AND l.relation = {relation}" + (f" AND l.seq <= {upto}" if upto else "")
    return int(con.value(f"SELECT coalesce(sum(l.sign), 0) {of_log(con, known)}"))


def present(snap: Connection, capture: Captured) -> dict[str, list[int]]:
    """The witnesses of each part that are in this snapshot."""
    found: dict[str, list[int]] = {}
    compared = _compared(capture)
    if not compared:
        return found
    matches = " AND ".join(f"r.{quoted(c.name)} <=> w.{value_name(place)}" for place, c in compared)
    for part in parts(capture.table):
        among = f" PARTITION ({quoted(part)})" if part else ""
        rows = snap.all(
            f"SELECT w.seq FROM {values_name(capture.id)} AS w WHERE w.seq > {WITNESSES} AND EXISTS"
            f" (SELECT 1 FROM {quoted(capture.table.name)}{among} AS r WHERE {matches}) LIMIT {2 * _KEPT}"
        )
        found[part] = [number for (number,) in rows]
    return found


def forget_others(writer: Connection, relation: int, kept: dict[str, list[int]]) -> None:
    numbers = ", ".join(str(n) for some in kept.values() for n in some)
    but = f" AND seq NOT IN ({numbers})" if numbers else ""
    writer.run(f"DELETE FROM {values_name(relation)} WHERE seq > {WITNESSES}{but}")


def _look(snap: Connection, capture: Captured) -> dict[int, tuple[bool, bool]]:
    """For each witness: is it present, and was its row, or one like it, logged since V?"""
    numbers = [n for some in capture.verified.witnesses.values() for n in some]
    if not numbers:
        return {}
    compared = _compared(capture)
    matches = " AND ".join(f"r.{quoted(c.name)} <=> w.{value_name(place)}" for place, c in compared)
    key = {c.name for c in capture.table.identity()}
    named = [(place, c) for place, c in compared if c.name in key]
    if len(named) < len(key) or not key:
        named = compared
    logged = " AND ".join(f"l.{value_name(place)} <=> w.{value_name(place)}" for place, _ in named)
    rows: list[tuple[Any, ...]] = snap.all(
        f"SELECT w.seq, EXISTS (SELECT 1 FROM {quoted(capture.table.name)} AS r WHERE {matches}),"
        f" EXISTS (SELECT 1 FROM {values_name(capture.id)} AS l WHERE l.seq > {capture.verified.floor}"
        f" AND l.seq < {WITNESSES} AND {logged})"
        f" FROM {values_name(capture.id)} AS w WHERE w.seq IN ({', '.join(map(str, numbers))})"
    )
    return {number: (bool(there), bool(was_logged)) for number, there, was_logged in rows}


def _compared(capture: Captured) -> list[tuple[int, TableColumn]]:
    """Captured columns in the order of the log's, but for large ones, and ones added later, which older
    witnesses do not hold."""
    places = {name: place for place, name in enumerate(capture.columns)}
    return [
        (places[c.name], c)
        for c in capture.table.columns
        if c.name in places and c.name not in capture.added and not c.reading.large
    ]
