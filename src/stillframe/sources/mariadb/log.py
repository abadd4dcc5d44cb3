"""Is the log what a frame takes it for?

A position's rows are counted when it is fixed, so (after, upto] is whole exactly if it has as many rows as
the two counts differ by, and both anchors are there. A relation's part is whole if its triggers stand as they
were installed, since `after`, and nothing passed them by.

Whatever installs capture first writes a row of its own to the log: a position fixed before is below that row.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pymysql

from stillframe.errors import SourceError
from stillframe.sources.base import Committed, Position, another
from stillframe.sources.mariadb.capture import (
    CONSUMERS,
    FORMAT,
    GLOBAL,
    MARKER,
    NOTHING,
    RELATIONS,
    SOURCE,
    installed_digest,
)
from stillframe.sources.mariadb.catalog import Table, quoted, read_tables
from stillframe.sources.mariadb.connect import Connection, error_number, transaction
from stillframe.sources.mariadb.position import Mark, anchor_at, beyond, gap, settled
from stillframe.sources.mariadb.segments import highest, of_log
from stillframe.sources.mariadb.witness import Verified, forget_others, parts, passed_by, present

_NO_TABLE = 1146

Verify = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Captured:
    """One relation under capture: its number in the log, since when, and where each column stands. `added`
    says since when columns are captured that came later than the others; `base` is how many rows there would
    be without those still in the log; `verified` up to where nothing passed capture by."""

    id: int
    since: int
    columns: tuple[str, ...]
    added: Mapping[str, int]
    table: Table
    base: int
    verified: Verified

    def has(self, column: str, after: int) -> bool:
        """Whether every log row after `after` holds the column."""
        return column in self.columns and self.added.get(column, 0) <= after


def position_of(identity: str, mark: Mark) -> Position:
    return Position(identity, mark.high, mark.to_text())


def mark_of(source: str, position: Position) -> Mark:
    try:
        return Mark.from_text(position.mark)
    except (ValueError, TypeError):
        raise gap(source, "the frame's position is not one of trigger capture", position.mark[:80]) from None


def identity(con: Connection) -> str | None:
    """The identity capture gave this database, None where none is installed, or not wholly."""
    if not con.one(
        "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s",
        (SOURCE,),
    ):
        return None
    row = con.one(f"SELECT identity, format FROM {SOURCE}")
    if row is None or row[0] is None:
        return None
    if row[1] != FORMAT:
        raise SourceError(
            "the capture installed there is of another version of stillframe",
            detail=f"format {row[1]}, this version has {FORMAT}",
            hint="detach with the version that installed it, then attach with this one",
            code="CAPTURE_FORMAT",
        )
    return str(row[0])


def required_identity(con: Connection, source: str) -> str:
    found = identity(con)
    if found is None:
        raise gap(source, "capture is not installed there (never attached, detached, or created anew)")
    return found


def require_anchor(con: Connection, source: str, position: Position) -> Mark:
    found = required_identity(con, source)
    if found != position.source:
        raise another(source, found, position.source)
    mark = mark_of(source, position)
    anchor = mark.anchor
    trimmed, high = con.value(f"SELECT trimmed FROM {SOURCE}"), highest(con)
    if mark.floor < trimmed:
        raise gap(
            source, "the log was trimmed too far", f"position {mark.floor}, the log begins after {trimmed}"
        )
    there = anchor_at(con, anchor.number)
    if there == anchor:
        return mark
    if there is None and high < anchor.number:
        raise gap(
            source,
            "the database was restored from an older copy",
            f"position {mark.high}, the log ends at {high}",
        )
    raise gap(
        source,
        "the database was restored from an older copy and written to since",
        f"the log row {anchor.number} is another one",
    )


def require_whole(con: Connection, source: str, after: Position, upto: Position) -> tuple[Mark, Mark]:
    start, end = require_anchor(con, source, after), require_anchor(con, source, upto)
    counted = of_log(con, f"{beyond(start, end)} AND l.relation <> {NOTHING}")
    there = con.value(f"SELECT count(*) {counted}")
    missing = max(end.rows - start.rows, 0) - there
    if missing:
        raise gap(source, f"{missing} log rows are missing", f"between {start.high} and {end.high}")
    return start, end


def looked_at(con: Connection, source: str, relations: Sequence[str]) -> dict[str, Table]:
    """The tables as they are, looked at once on each connection. `con` is a snapshot: once it has read from a
    table, the table cannot be truncated or altered until the snapshot ends."""
    known: dict[str, Table] = con.remembered("tables", lambda _: {})
    new = [relation for relation in relations if relation not in known]
    for relation in new:
        with still_there(source, relation):
            con.all(f"SELECT 1 FROM {quoted(relation)} LIMIT 1")
    known.update(read_tables(con, new))
    for relation in relations:
        if relation not in known:
            raise gap(source, f"table {relation!r} is gone")
    return known


def recorded(con: Connection, source: str, relation: str) -> tuple[Captured, str]:
    """The relation's capture as it was installed, on the table as it is, and the digest of its triggers
    then."""
    row = con.one(
        f"SELECT id, since, shape, triggers, base, floor, witnesses, fault FROM {RELATIONS}"
        " WHERE name = %s AND since IS NOT NULL",
        (relation,),
    )
    if row is None:
        raise gap(source, f"relation {relation!r} is not captured")
    number, since, shape, triggers, base, floor, witnesses, fault = row
    if fault:
        raise gap(source, *json.loads(fault))
    table = looked_at(con, source, [relation])[relation]
    installed = json.loads(shape)
    columns = tuple(name for name, _ in installed["columns"])
    verified = Verified.of(floor, witnesses)
    capture = Captured(number, since, columns, installed["added"], table, base, verified)
    _require_shape(source, table, installed)
    return capture, triggers


def require_whole_since(con: Connection, source: str, after: Position) -> Mark:
    """All that is known of the log after a position is there."""
    mark, newest = require_anchor(con, source, after), settled(con)
    if newest.high >= mark.high and newest.rows >= mark.rows:
        require_whole(con, source, after, position_of(after.source, newest))
    return mark


def captured(con: Connection, source: str, relation: str) -> Captured:
    """The relation's capture, if it stands as it was installed."""
    capture, triggers = recorded(con, source, relation)
    if installed_digest(con, relation, capture.id, len(capture.columns)) != triggers:
        raise gap(
            source,
            f"the capture triggers of table {relation!r} are not as they were installed",
            "the table was dropped and created again, it was renamed, or triggers were dropped",
        )
    if refusal := capture.table.refusal:
        raise gap(source, f"table {relation!r} cannot be captured any more", refusal[1], refusal[0])
    if evidence := passed_by(con, capture):
        raise gap(
            source,
            f"rows of table {relation!r} changed without firing a trigger, as TRUNCATE does",
            evidence,
            "TRUNCATED",
        )
    return capture


def short_of_witnesses(con: Connection, relations: Sequence[str]) -> list[str]:
    """Those of the relations that have too few."""
    found = con.all(
        f"SELECT name, shape, floor, witnesses FROM {RELATIONS} WHERE since IS NOT NULL AND fault IS NULL"
    )
    return [
        name
        for name, shape, floor, witnesses in found
        if name in relations and Verified.of(floor, witnesses).short(json.loads(shape)["partitions"] or [""])
    ]


def record_verified(
    snap: Connection, writer: Connection, captures: Sequence[Captured], mark: Mark, *, always: bool = False
) -> None:
    """Nothing passed these relations by up to the snapshot, whose position is `mark`: witnesses that are in
    it serve from there on. What was trimmed meanwhile has verified more than this."""
    for capture in captures:
        short = capture.verified.short(parts(capture.table))
        if not (always or short or capture.verified.floor < mark.floor):
            continue
        verified = Verified(mark.floor, present(snap, capture))
        if verified == capture.verified:
            continue
        with transaction(writer):
            if writer.value(f"SELECT trimmed FROM {SOURCE} FOR UPDATE") > verified.floor:
                continue
            writer.run(
                f"UPDATE {RELATIONS} SET floor = %s, witnesses = %s WHERE id = %s",
                (verified.floor, verified.witnesses_text(), capture.id),
            )
            forget_others(writer, capture.id, verified.witnesses)


def shape_of(table: Table, columns: Sequence[str], added: Mapping[str, int]) -> str:
    meanings = {c.name: c.meaning for c in table.columns}
    return json.dumps(
        {
            "columns": [[name, meanings[name]] for name in columns],
            "partitions": list(table.partitions),
            "added": dict(added),
        }
    )


def _require_shape(source: str, table: Table, installed: dict[str, Any]) -> None:
    """Columns added since are not captured, and do no harm."""
    present = {c.name: c.meaning for c in table.columns}
    for name, meaning in installed["columns"]:
        if present.get(name) != meaning:
            became = f"became {present[name]}" if name in present else "is gone"
            raise gap(
                source,
                f"column {name!r} of table {table.name!r} changed since capture was installed",
                f"{meaning} {became}",
                "TABLE_CHANGED",
            )
    if list(table.partitions) != installed["partitions"]:
        raise gap(source, f"table {table.name!r} changed its partitions since capture was installed")


@contextmanager
def still_there(source: str, relation: str) -> Iterator[None]:
    try:
        yield
    except pymysql.err.MySQLError as error:
        if error_number(error) != _NO_TABLE:
            raise
        raise gap(source, f"table {relation!r} is gone") from None


def require_captured(con: Connection, source: str, relation: str, after: Mark) -> Captured:
    found = captured(con, source, relation)
    if found.since > after.high:
        raise gap(
            source,
            f"capture of table {relation!r} was installed later",
            f"since {found.since}, needed from {after.high}",
        )
    return found


def require_consumer(con: Connection, source: str, consumer: str) -> None:
    required_identity(con, source)
    row = con.one(f"SELECT position FROM {CONSUMERS} WHERE name = %s", (consumer,))
    if row is None:
        raise gap(source, f"consumer {consumer!r} is not registered there")
    if row[0] is None:
        raise gap(source, f"consumer {consumer!r} was dropped, being further behind than the capture limit")


def missing(
    con: Connection, source: str, after: Position, relations: Sequence[str]
) -> tuple[int, datetime | None]:
    """How many log rows of the relations a frame at `after` does not have, and when the oldest was
    written."""
    mark = require_anchor(con, source, after)
    numbers = [require_captured(con, source, relation, mark).id for relation in relations]
    if not numbers:
        return 0, None
    wanted = f"{beyond(mark)} AND l.relation IN ({', '.join(map(str, numbers))}) AND l.sign <> 0"
    count, oldest = con.all(f"SELECT count(*), min(l.at) {of_log(con, wanted)}")[0]
    return count, None if oldest is None else oldest.replace(tzinfo=UTC, microsecond=0)


def kept(con: Connection) -> str:
    """FROM and WHERE of the changes in the log that somebody may still need."""
    trimmed = con.value(f"SELECT trimmed FROM {SOURCE}")
    return of_log(con, f"l.relation <> {NOTHING} AND l.seq > {trimmed}")


def transactions(
    con: Connection, source: str, relations: Sequence[str], after: Position, upto: Position
) -> tuple[Committed, ...]:
    """In the order of their last numbers. A transaction's number is its id at the server."""
    start, end = require_whole(con, source, after, upto)
    names = dict(con.all(f"SELECT id, name FROM {RELATIONS}"))
    where = beyond(start, end)
    rows: dict[int, dict[str, int]] = {}
    last: dict[int, int] = {}
    for trx, number, count, newest in con.all(
        "SELECT l.trx, l.relation, count(*), max(l.seq)"
        f" {of_log(con, f'{where} AND l.relation > {NOTHING}')} GROUP BY l.trx, l.relation"
    ):
        last[trx] = max(newest, last.get(trx, 0))
        if names.get(number) in relations:
            rows.setdefault(trx, {})[names[number]] = count
    groups: dict[int, tuple[str, int]] = {}
    for trx, seq, group, count in con.all(
        f"SELECT m.trx, g.seq, g.id, g.parts FROM (SELECT l.trx, l.seq"
        f" {of_log(con, f'{where} AND l.relation = {MARKER}')}) AS m"
        f" JOIN {GLOBAL} AS g ON g.seq = m.seq ORDER BY g.seq"
    ):
        last[trx] = max(seq, last.get(trx, 0))
        groups[trx] = group, count
    return tuple(
        Committed(trx, rows.get(trx, {}), *groups.get(trx, ("", 0)))
        for trx in sorted(last, key=last.__getitem__)
        if trx in rows or trx in groups
    )


def without(
    con: Connection, source: str, after: Position, upto: Position, numbers: Collection[int]
) -> Position:
    start, end = require_whole(con, source, after, upto)
    if not numbers:
        return upto
    trxs = ", ".join(str(int(n)) for n in numbers)
    named = f"{beyond(start, end)} AND l.relation <> {NOTHING} AND l.trx IN ({trxs})"
    found = con.all(f"SELECT l.trx, min(l.seq), count(*) {of_log(con, named)} GROUP BY l.trx")
    out = dict(end.out) | {trx: first for trx, first, _ in found}
    rows = end.rows - sum(count for _, _, count in found)
    return position_of(upto.source, replace(end, rows=rows, out=tuple(sorted(out.items()))))
