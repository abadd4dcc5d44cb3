"""Is the log what a frame takes it for?

A log row is written by the transaction it tells of, so a log never lacks part of a transaction, or has one
that was rolled back. What a position takes for granted, and is checked each time:

- the database is the one it was, on the timeline it was on, and still holds the log row that was the newest
  then: it was not restored from something older;
- no transaction's log rows were trimmed that the position does not have;
- a relation's triggers stand as they were installed, by a transaction that the position has. To install them
  is to wait for all who wrote to the table before, so the position has those as well.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stillframe.errors import CaptureGap, SourceError
from stillframe.sources.base import Committed, Position, another
from stillframe.sources.postgres.capture import (
    CONSUMERS,
    FORMAT,
    GLOBAL,
    LOG,
    RELATIONS,
    RELOADS,
    SOURCE,
    TRUNCATED,
    installed_digest,
    log_name,
)
from stillframe.sources.postgres.catalog import Connection, Table, read_tables, table_names
from stillframe.sources.postgres.read import require_primary
from stillframe.sources.postgres.seen import Mark, Snapshot, lsn_text

TABLE_CHANGED, TABLE_TRUNCATED = "TABLE_CHANGED", "TRUNCATED"
_RECENT = 16 << 20  # bytes of the server's log
_MICROSECOND = "(extract(epoch FROM at) * 1000000)::bigint"


@dataclass(frozen=True, slots=True)
class Captured:
    """One relation under capture: its number, the transaction that installed it, the numbers of the columns
    in the log. `added` has the transactions that installed columns later than the others."""

    id: int
    since: int
    columns: frozenset[int]
    added: Mapping[str, int]
    table: Table

    def has(self, column: str, after: Snapshot) -> bool:
        """Whether every log row after `after` holds the column."""
        found = self.table.column(column)
        return (
            found is not None
            and found.number in self.columns
            and (column not in self.added or after.has(self.added[column]))
        )


def gap(source: str, message: str, detail: str = "", code: str | None = None) -> CaptureGap:
    return CaptureGap(
        f"the log of source {source!r} does not reach back to what the frame reflects: {message}",
        detail=detail,
        hint="run `stillframe refresh --full` to start again from the source's present state",
        code=code,
    )


@dataclass(frozen=True, slots=True)
class Installed:
    """Capture as a connection's snapshot finds it: the database's identity, what was trimmed, and how far
    the server's transactions are."""

    identity: str
    trimmed: Snapshot
    timeline: str
    snapshot: Snapshot

    def newest(self, con: Connection, source: str) -> Position:
        """The committed state this connection's snapshot shows."""
        return _anchored(con, source, self.snapshot, self.timeline).position(self.identity)


PLACE = (
    "(SELECT system_identifier FROM pg_control_system()) AS here_system,"
    " (SELECT oid::bigint FROM pg_database WHERE datname = current_database()) AS here_database,"
    " CASE WHEN pg_is_in_recovery() THEN '' ELSE"
    " substr(pg_walfile_name(pg_current_wal_insert_lsn()), 1, 8) END AS timeline,"
    " pg_current_snapshot()::text AS snapshot"
)


def is_there(con: Connection) -> bool:
    """Whether the tables of capture are there, whatever they are worth."""
    return con.execute("SELECT to_regclass(%s) IS NOT NULL", (SOURCE,)).fetchone() == (True,)


def installed(con: Connection) -> Installed | None:
    """None where capture is not installed, or came here in a dump or a copy of another database."""
    if not is_there(con):
        return None
    row = con.execute(
        f"SELECT identity, trimmed, timeline, snapshot, format FROM {SOURCE}, (SELECT {PLACE}) AS here"
        " WHERE (system, database) = (here_system, here_database)"
    ).fetchone()
    if row is None:
        return None
    if row[4] != FORMAT:
        raise SourceError(
            "the capture installed there is of another version of stillframe",
            detail=f"format {row[4]}, this version has {FORMAT}",
            hint="detach with the version that installed it, then attach with this one",
            code="CAPTURE_FORMAT",
        )
    return Installed(row[0], Snapshot.parse(row[1]), row[2], Snapshot.parse(row[3]))


def required(con: Connection, source: str) -> Installed:
    require_primary(con, source)
    found = installed(con)
    if found is None:
        raise gap(
            source,
            "capture is not installed there (never attached, detached, or the database was created anew or"
            " restored from a dump)",
        )
    return found


def _anchored(con: Connection, source: str, snapshot: Snapshot, timeline: str) -> Mark:
    (end,) = con.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone() or (0,)
    for low in (max(0, end - _RECENT), 0):
        row = con.execute(
            f"SELECT lsn::text, xid, {_MICROSECOND} FROM {LOG} WHERE lsn > '{lsn_text(low)}'"
            f" AND {snapshot.condition('xid')} ORDER BY lsn DESC, xid DESC LIMIT 1"
        ).fetchone()
        if row is not None:
            lsn, xid, at = row
            return Mark(snapshot, lsn, xid, at, timeline)
    raise gap(source, "the log is empty, and capture always keeps one row: it was trimmed by someone else")


def require_same(source: str, here: Installed, identity: str) -> None:
    if here.identity != identity:
        raise another(source, here.identity, identity)


def require_timeline(source: str, here: Installed, timeline: str) -> None:
    if here.timeline != timeline:
        raise gap(
            source,
            "its server was restored from a backup, or another one has taken its place",
            f"timeline {here.timeline}, expected {timeline}",
        )


def require_anchor(con: Connection, source: str, here: Installed, position: Position) -> Mark:
    require_same(source, here, position.source)
    mark = Mark.parse(position.mark)
    require_timeline(source, here, mark.timeline)
    if mark.snapshot.xmax > here.snapshot.xmax:
        raise gap(
            source,
            "the database was restored from an older copy",
            f"position {position.sequence}, the database is at {here.snapshot.size}",
        )
    if not here.trimmed <= mark.snapshot:
        raise gap(
            source,
            "the log was trimmed too far",
            f"position {position.sequence}, trimmed up to {here.trimmed.size}",
        )
    rows = con.execute(f"SELECT xid, {_MICROSECOND} FROM {LOG} WHERE lsn = '{mark.lsn}'").fetchall()
    if (mark.xid, mark.at) not in rows:
        raise gap(
            source,
            "the database was restored from an older copy and written to since, or log rows were removed",
            f"log row {mark.lsn} is {'another one' if rows else 'not there'}",
        )
    return mark


def captured(con: Connection, source: str, schema: str, relation: str) -> Captured:
    """The relation's capture, if it stands as it was installed."""
    row = con.execute(
        f"SELECT id, since, shape, digest FROM {RELATIONS} WHERE schema = %s AND name = %s",
        (schema, relation),
    ).fetchone()
    if row is None:
        raise gap(source, f"relation {relation!r} is not captured")
    if relation not in table_names(con, schema):
        raise gap(source, f"table {relation!r} is gone")
    number, since, text, digest = row
    table = read_tables(con, source, schema, [relation])[relation]
    shape = json.loads(text)
    if table.oid == shape["table"]:
        require_shape(source, table, shape)
    if table.refusal:
        raise gap(source, f"table {relation!r} cannot be captured any more", table.refusal)
    if table.oid != shape["table"] or installed_digest(con, table, number) != digest:
        raise gap(
            source,
            f"the capture triggers of table {relation!r} are not as they were installed",
            "the table was dropped and created again, or triggers were dropped or switched off for a while",
        )
    return Captured(number, since, frozenset(c[0] for c in shape["columns"]), shape["added"], table)


def require_shape(source: str, table: Table, shape: Mapping[str, Any]) -> None:
    """A table that was changed can be captured again, and views of it computed again."""

    def changed(message: str, detail: str = "") -> CaptureGap:
        return gap(source, message, detail, TABLE_CHANGED)

    present = {c.number: c for c in table.columns}
    for number, name, declared, _ in shape["columns"]:
        column = present.get(int(number))
        if column is None:
            raise changed(f"column {name!r} of table {table.name!r} was dropped")
        if column.name != name:
            raise changed(f"column {name!r} of table {table.name!r} was renamed to {column.name!r}")
        if column.declared != declared:
            raise changed(
                f"column {name!r} of table {table.name!r} changed its type",
                f"from {declared} to {column.declared}",
            )
    altered = [c[1] for c in shape["columns"] if present[int(c[0])].version != c[3]]
    if altered and list(table.files) != shape["files"]:
        raise changed(
            f"table {table.name!r} was rewritten since capture was installed",
            f"column {altered[0]!r} was altered, and the table has a new file",
        )
    if table.refusal is None and [list(table.parts), table.by_row] != shape["parts"]:
        raise changed(
            f"table {table.name!r} is made up otherwise than when capture was installed",
            "it gained or lost a partition, a parent or a subscription",
        )


def require_captured(con: Connection, source: str, schema: str, relation: str, after: Snapshot) -> Captured:
    """The relation's capture, if every change of it after `after` is in the log."""
    found = captured(con, source, schema, relation)
    if not after.has(found.since):
        raise gap(source, f"capture of table {relation!r} was installed later")
    reload = con.execute(
        f"SELECT reason FROM {RELOADS} WHERE relation = {found.id} AND {after.beyond('xid')} LIMIT 1"
    ).fetchone()
    if reload is None:
        return found
    if reload[0] == TRUNCATED:
        raise gap(
            source,
            f"table {relation!r} was emptied by TRUNCATE",
            "in a transaction that could not see all its rows",
            TABLE_TRUNCATED,
        )
    raise gap(
        source,
        f"columns of table {relation!r} were dropped, renamed or retyped for a while",
        code=TABLE_CHANGED,
    )


def require_consumer(con: Connection, source: str, schema: str, consumer: str) -> None:
    row = con.execute(
        f"SELECT position FROM {CONSUMERS} WHERE name = %s AND schema = %s", (consumer, schema)
    ).fetchone()
    if row is None:
        raise gap(source, f"consumer {consumer!r} is not registered there")
    if row[0] is None:
        raise gap(source, f"consumer {consumer!r} was dropped, being further behind than the capture limit")


def check(
    con: Connection, source: str, schema: str, after: Position, relations: Sequence[str]
) -> dict[str, Captured]:
    mark = require_anchor(con, source, required(con, source), after)
    return {name: require_captured(con, source, schema, name, mark.snapshot) for name in relations}


def missing(
    con: Connection, source: str, schema: str, after: Position, relations: Sequence[str]
) -> tuple[int, datetime | None]:
    """How many log rows of the relations a frame at `after` does not have, and when the oldest was made."""
    found = check(con, source, schema, after, relations)
    beyond = Mark.parse(after.mark).snapshot.beyond("xid")
    count, oldest = 0, None
    for capture in found.values():
        rows, at = con.execute(
            f"SELECT count(*), min(at) FROM {log_name(capture.id)} WHERE {beyond}"
        ).fetchone() or (0, None)
        count += rows
        oldest = at if oldest is None or (at is not None and at < oldest) else oldest
    return count, oldest and oldest.astimezone(UTC).replace(microsecond=0)


def transactions(
    con: Connection, source: str, schema: str, relations: Sequence[str], after: Position, upto: Position
) -> tuple[Committed, ...]:
    found = check(con, source, schema, after, relations)
    require_anchor(con, source, required(con, source), upto)
    between = interval(after, upto)
    names = {capture.id: name for name, capture in found.items()}
    rows: dict[int, dict[str, int]] = {}
    last: dict[int, tuple[int, int]] = {}
    for number, log, count, lsn in con.execute(
        f"SELECT xid, substring(c.relname, '^log_(\\d+)$')::int, count(*), (max(lsn) - '0/0')::bigint"
        f" FROM {LOG} AS l JOIN pg_class AS c ON c.oid = l.tableoid WHERE {between} GROUP BY 1, 2"
    ):
        last[number] = max((lsn, number), last.get(number, (0, 0)))
        if log in names:
            rows.setdefault(number, {})[names[log]] = count
    groups: dict[int, tuple[str, int]] = {}
    for number, group, parts in con.execute(
        f"SELECT xid, id, parts FROM {GLOBAL} WHERE {between} ORDER BY lsn"
    ):
        groups.setdefault(number, (group, parts))
    listed = sorted(rows.keys() | groups.keys(), key=last.__getitem__)
    return tuple(Committed(number, rows.get(number, {}), *groups.get(number, ("", 0))) for number in listed)


def without(
    con: Connection, source: str, after: Position, upto: Position, numbers: Collection[int]
) -> Position:
    here = required(con, source)
    mark = require_anchor(con, source, here, upto)
    if not numbers:
        return upto
    had = require_anchor(con, source, here, after).snapshot
    left_out = mark.snapshot.without([n for n in numbers if not had.has(n)])
    return _anchored(con, source, left_out, mark.timeline).position(upto.source)


def interval(after: Position, upto: Position) -> str:
    """SQL that says whether a log row was committed after the one and up to the other."""
    low, high = Mark.parse(after.mark).snapshot, Mark.parse(upto.mark).snapshot
    return f"{low.beyond('xid')} AND {high.condition('xid')}"
