"""A SQLite database as a source: trigger capture, snapshots, reads at a known state.

In WAL mode SQLite has one writer at a time, and the trigger log is written inside the writers' own
transactions: the newest log number inside a read transaction names exactly a committed prefix.

Not seen by any trigger, and so out of reach: writers that switch triggers off, writes through
`PRAGMA writable_schema`, and TEMP triggers of a writer that write to the table they fire on or call
RAISE(IGNORE). Two cases are taken wrongly, both of UPDATE OR REPLACE: one that moves a row, its own parent by
ON UPDATE CASCADE, to the place of a row that already held exactly its new content; and, without
recursive_triggers, one whose replaced row takes the updated row with it by ON DELETE CASCADE, when the
replaced row is not logged. `stillframe verify` shows what slips through.
"""

from __future__ import annotations

import json
import os
import sqlite3
import uuid
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa

from stillframe.algebra.selection import Selection, said
from stillframe.algebra.side_by_side import cores, side_by_side
from stillframe.errors import CaptureGap, SourceError
from stillframe.sources.base import (
    Capture,
    Committed,
    Consumer,
    Keys,
    LogStatus,
    Method,
    Position,
    Range,
    Relation,
)
from stillframe.sources.sqlite import log
from stillframe.sources.sqlite.capture import (
    CONSUMERS,
    FORMAT,
    FOUNDATION,
    GLOBAL,
    LOG,
    NEEDS,
    RELATIONS,
    SOURCE,
    installation,
    installed_digest,
    marked_at,
    removal,
    stash_name,
    value_name,
)
from stillframe.sources.sqlite.catalog import (
    Table,
    per_schema,
    quoted,
    read_table,
    references,
    relation_of,
    table_names,
)
from stillframe.sources.sqlite.many import Guard, many
from stillframe.sources.sqlite.read import Query, batches, reading, writing
from stillframe.sources.sqlite.selecting import in_sqlite
from stillframe.sources.sqlite.types import Reading

PART_ROWS = 100_000  # of a log, that a core counts by itself


@dataclass(frozen=True)
class SqliteSource:
    """`capture_limit` bounds the log in rows: when it is longer, consumers further behind than that are
    dropped, and meet CAPTURE_GAP when they come back. None: the log waits for everyone."""

    name: str
    path: Path
    capture_limit: int | None = None

    @property
    def address(self) -> str:
        return f"sqlite:{self.path.resolve()}"

    @property
    def capture(self) -> Capture:
        return Capture.TRIGGERS

    @property
    def transactional(self) -> bool:
        return False

    @property
    def commit_order(self) -> bool:
        return False

    def methods(self) -> tuple[Method, ...]:
        gains = "every change, exactly; what lies between two frames counts as one transaction"
        missing = [
            f"the right to write {place.name}"
            for place in (self.path.parent, self.path)
            if place.exists() and not os.access(place, os.W_OK)
        ]
        return (
            Method(Capture.TRIGGERS, tuple(missing), gains),
            Method(Capture.SNAPSHOT, (), "nothing is installed"),
        )

    def describe(self) -> dict[str, Relation]:
        with reading(self.name, self.path) as con:

            def found() -> dict[str, Relation]:
                names = {name.lower(): name for name in table_names(con)}
                return {
                    name: relation_of(replace(read_table(con, name), references=references(con, name, names)))
                    for name in names.values()
                }

            return dict(per_schema(con, ("relations",), found))

    def attach(self, consumer: str, relations: Sequence[str]) -> Position:
        with writing(self.name, self.path) as con:
            tables = {relation: self._capturable(con, relation) for relation in relations}
            if log.identity(con) is None:
                for statement in FOUNDATION:
                    con.execute(statement)
                con.execute(f"INSERT INTO {SOURCE} VALUES (?, ?)", (str(uuid.uuid4()), FORMAT))
            empty = con.execute(f"SELECT 1 FROM {LOG} LIMIT 1").fetchone() is None
            standing = {relation: None if empty else self._standing(con, relation) for relation in tables}
            due = [
                table
                for relation, table in tables.items()
                if (there := standing[relation]) is None or len(there.columns) < len(table.columns)
            ]
            if due or empty:
                log.write_marker(con)
            position = log.newest(con, self.name)
            for table in due:
                self._install(con, table, standing[table.name], position.sequence)
            con.execute(
                f"INSERT INTO {CONSUMERS} VALUES (?1, ?2, ?3, ?3) ON CONFLICT (name) DO UPDATE"
                " SET position = coalesce(position, excluded.position), heartbeat = excluded.heartbeat",
                (consumer, position.sequence, _now()),
            )
            con.executemany(
                f"INSERT OR IGNORE INTO {NEEDS} VALUES (?, ?)", [(consumer, relation) for relation in tables]
            )
            return position

    def _capturable(self, con: sqlite3.Connection, relation: str) -> Table:
        table = self._table(con, relation)
        if table.refusal:
            raise SourceError(
                f"table {relation!r} of source {self.name!r} cannot be captured",
                detail=table.refusal,
                hint="leave the table out of the views, or change what is named here",
                code="UNCAPTURABLE_TABLE",
            )
        return table

    def _standing(self, con: sqlite3.Connection, relation: str) -> log.Captured | None:
        """Capture that goes on; None where it is missing or broken, and has to begin anew."""
        try:
            return log.captured(con, self.name, relation)
        except CaptureGap:
            return None

    def _install(
        self, con: sqlite3.Connection, table: Table, standing: log.Captured | None, marker: int
    ) -> None:
        """Put capture of all columns in the place of what there is. Columns are only ever added at the end,
        so the log rows of capture that stands hold the older ones where the new triggers put them."""
        (number,) = con.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {RELATIONS}").fetchone()
        since, added = marker, {}
        if standing is not None:
            number, since = standing.id, standing.since
            added = dict(standing.added) | {c.name: marker for c in table.columns[len(standing.columns) :]}
        self._remove(con, table.name)
        width = con.execute("SELECT count(*) FROM pragma_table_info(?)", (LOG,)).fetchone()[0] - 4
        for position_of_value in range(width, len(table.columns)):
            con.execute(f"ALTER TABLE {LOG} ADD COLUMN {value_name(position_of_value)}")
        for statement in installation(table, number):
            con.execute(statement)
        con.execute(
            f"INSERT INTO {RELATIONS} VALUES (?, ?, ?, ?, ?)",
            (
                number,
                table.name,
                since,
                json.dumps(table.shape() | {"added": added}),
                installed_digest(con, table.name, number),
            ),
        )

    def _remove(self, con: sqlite3.Connection, relation: str) -> None:
        for (number,) in con.execute(f"SELECT id FROM {RELATIONS} WHERE name = ?", (relation,)).fetchall():
            for statement in removal(number):
                con.execute(statement)
        con.execute(f"DELETE FROM {RELATIONS} WHERE name = ?", (relation,))

    def _remove_unneeded(self, con: sqlite3.Connection) -> None:
        """A consumer that was dropped needs nothing until it is back."""
        unneeded = con.execute(
            f"SELECT name FROM {RELATIONS} WHERE name NOT IN (SELECT relation FROM {NEEDS} WHERE consumer IN"
            f" (SELECT name FROM {CONSUMERS} WHERE position IS NOT NULL))"
        )
        for (relation,) in unneeded.fetchall():
            self._remove(con, relation)

    def release(self, consumer: str, keep: Sequence[str]) -> None:
        if not keep:
            self.detach(consumer)
            return
        with writing(self.name, self.path) as con:
            log.require_consumer(con, self.name, consumer)
            con.execute(
                f"DELETE FROM {NEEDS} WHERE consumer = ? AND relation NOT IN ({', '.join('?' * len(keep))})",
                (consumer, *keep),
            )
            self._remove_unneeded(con)

    def detach(self, consumer: str) -> None:
        with writing(self.name, self.path) as con:
            if log.identity(con) is None:
                return
            con.execute(f"DELETE FROM {CONSUMERS} WHERE name = ?", (consumer,))
            con.execute(f"DELETE FROM {NEEDS} WHERE consumer = ?", (consumer,))
            self._remove_unneeded(con)
            if con.execute(f"SELECT count(position) FROM {CONSUMERS}").fetchone()[0]:
                return
            for table in (GLOBAL, LOG, RELATIONS, CONSUMERS, NEEDS, SOURCE):
                con.execute(f"DROP TABLE {table}")

    def position(self, consumer: str, relations: Sequence[str]) -> Position:
        with reading(self.name, self.path) as con:
            log.require_consumer(con, self.name, consumer)
            newest = log.newest(con, self.name)
            for relation in relations:
                log.captured(con, self.name, relation)
            return newest

    def check(self, after: Position, relations: Sequence[str]) -> None:
        with reading(self.name, self.path) as con:
            log.check(con, self.name, after, relations, self._counted)

    def transactions(
        self, relations: Sequence[str], after: Position, upto: Position
    ) -> tuple[Committed, ...]:
        with reading(self.name, self.path) as con:
            return log.transactions(con, self.name, relations, after, upto, self._counted)

    def _counted(
        self, con: sqlite3.Connection, first: int, last: int, numbers: Sequence[int]
    ) -> tuple[int, dict[int, int]]:
        """Of many rows in parts side by side, each in a snapshot of its own: what lies between two positions
        of a log never changes."""
        parts = min(cores(), (last + 1 - first) // PART_ROWS)
        if parts < 2:
            return log.counted(con, first, last, numbers)
        ends = [first + (last + 1 - first) * n // parts for n in range(parts + 1)]

        def count(part: tuple[int, int]) -> tuple[int, dict[int, int]]:
            with reading(self.name, self.path) as own:
                return log.counted(own, part[0], part[1] - 1, numbers)

        found = side_by_side(count, list(pairwise(ends)))
        return sum(there for there, _ in found), dict(sum((Counter(each) for _, each in found), Counter()))

    def without(self, after: Position, upto: Position, numbers: Collection[int]) -> Position:
        with reading(self.name, self.path) as con:
            return log.without(con, self.name, after, upto, numbers)

    def changes(
        self,
        relation: str,
        columns: Sequence[str],
        after: Position,
        upto: Position,
        *,
        tagged: bool = False,
        where: Selection | None = None,
    ) -> Iterator[pa.RecordBatch]:
        with reading(self.name, self.path) as con:
            log.require_ends(con, self.name, after, upto)
            capture = log.require_captured(con, self.name, relation, after)

            def part(low: int, high: int) -> tuple[Query, Guard]:
                query = self._logged(capture, columns, "sign", low, high, where=where)
                return query, log.wholeness(low, high)

            if not tagged and (found := many(self.path, after.sequence, upto.sequence, part)) is not None:
                yield from found
                return
            log.require_whole(con, self.name, after, upto)
            count = f"sign, {log.tag(con, after, upto)}" if tagged else "sign"
            query = self._logged(capture, columns, count, after.sequence, upto.sequence, where=where)
            yield from batches(con, self.name, replace(query, tagged=tagged))

    def state(
        self,
        relation: str,
        columns: Sequence[str],
        at: Position,
        keys: Keys | None = None,
        within: Range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        with reading(self.name, self.path, keys) as con:
            now = log.newest(con, self.name)
            log.require_whole(con, self.name, at, now)
            capture = log.require_captured(con, self.name, relation, at)
            yield from batches(con, self.name, self._present(capture.table, columns, keys, within))
            if now.sequence > at.sequence:
                query = self._logged(capture, columns, "-sign", at.sequence, now.sequence, keys, within)
                yield from batches(con, self.name, query)

    def pushable(self, relation: str, column: str) -> bool:
        with reading(self.name, self.path) as con:
            (how,) = self._readings(self._table(con, relation), [column])
        return how.type.name in ("BIGINT", "STRING") and not how.as_text

    def rows(self, relation: str) -> int:
        with reading(self.name, self.path) as con:
            name = self._table(con, relation).name
            (count,) = con.execute(f"SELECT count(*) FROM {quoted(name)}").fetchone()
            return int(count)

    def behind(self, relations: Sequence[str], after: Position) -> int:
        with reading(self.name, self.path) as con:
            return log.missing(con, self.name, after, relations)[0]

    def waiting_since(self, relations: Sequence[str], after: Position) -> datetime | None:
        with reading(self.name, self.path) as con:
            oldest = log.missing(con, self.name, after, relations)[1]
            return None if oldest is None else marked_at(oldest)

    def beat(self, consumer: str) -> None:
        with writing(self.name, self.path) as con:
            log.require_consumer(con, self.name, consumer)
            con.execute(f"UPDATE {CONSUMERS} SET heartbeat = ? WHERE name = ?", (_now(), consumer))

    def acknowledge(self, consumer: str, position: Position) -> None:
        with writing(self.name, self.path) as con:
            log.require_consumer(con, self.name, consumer)
            log.require_anchor(con, self.name, position)
            con.execute(
                f"UPDATE {CONSUMERS} SET position = ?, heartbeat = ? WHERE name = ?",
                (position.sequence, _now(), consumer),
            )
            if self.capture_limit is not None:
                newest = log.newest(con, self.name).sequence
                con.execute(
                    f"UPDATE {CONSUMERS} SET position = NULL WHERE name <> ? AND position < ?"
                    f" AND (SELECT count(*) FROM {LOG}) > ?",
                    (consumer, newest - self.capture_limit, self.capture_limit),
                )
            log.trim(con)
            con.execute(f"DELETE FROM {GLOBAL}")
            for (number,) in con.execute(f"SELECT id FROM {RELATIONS}").fetchall():
                con.execute(f"DELETE FROM {stash_name(number)}")

    def log_status(self) -> LogStatus:
        with reading(self.name, self.path) as con:
            if log.identity(con) is None:
                return LogStatus(0, 0, 0, ())
            newest = log.newest(con, self.name).sequence
            columns = con.execute("SELECT name FROM pragma_table_info(?)", (LOG,)).fetchall()
            width = " + ".join(f"coalesce(length(CAST({name} AS BLOB)), 0)" for (name,) in columns)
            rows, size = con.execute(f"SELECT count(*), sum({width}) FROM {LOG}").fetchone()
            consumers = con.execute(
                f"SELECT name, position, heartbeat, ? - position FROM {CONSUMERS}"
                " WHERE position IS NOT NULL ORDER BY name",
                (newest,),
            )
            return LogStatus(rows, size, newest, tuple(Consumer(*row) for row in consumers))

    def _table(self, con: sqlite3.Connection, relation: str) -> Table:
        return per_schema(con, ("table", relation), lambda: self._found(con, relation))

    def _found(self, con: sqlite3.Connection, relation: str) -> Table:
        names = table_names(con)
        if relation not in names:
            raise SourceError(
                f"source {self.name!r} has no table {relation!r}",
                detail=f"there are: {', '.join(names) or 'none'}",
                hint="views, virtual tables and SQLite's own tables are not relations",
                code="NO_RELATION",
            )
        return read_table(con, relation)

    def _readings(self, table: Table, columns: Sequence[str]) -> tuple[Reading, ...]:
        there = table.readings()
        for column in columns:
            if column not in there:
                raise SourceError(
                    f"{self.name}.{table.name} has no column {column!r}",
                    detail=f"there are: {', '.join(there)}",
                    code="NO_COLUMN",
                )
            if reason := there[column].refused:
                raise SourceError(
                    f"column {column!r} of {self.name}.{table.name} cannot be read",
                    detail=reason,
                    code="UNREADABLE_COLUMN",
                )
        return tuple(there[column] for column in columns)

    def ranges(self, relation: str, rows: int) -> tuple[Range, ...]:
        with reading(self.name, self.path) as con:
            table = self._table(con, relation)
            if table.alias is None:
                return ()
            column = table.columns[table.alias].name
            name = quoted(column)
            cuts = con.execute(
                f"SELECT {name} FROM (SELECT {name}, row_number() OVER (ORDER BY {name}) AS n"
                f" FROM {quoted(table.name)}) WHERE n % ? = 0 ORDER BY {name}",
                (rows,),
            )
            bounds = [None, *(bound for (bound,) in cuts), None]
            return tuple(Range(column, *pair) for pair in pairwise(bounds))

    def _present(
        self, table: Table, columns: Sequence[str], keys: Keys | None = None, within: Range | None = None
    ) -> Query:
        picked = ", ".join(quoted(c) for c in columns) or "1"
        conditions, bounds = ["1"], ()
        if keys:
            conditions.append(_among_keys(table, keys.column, quoted(keys.column)))
        if within:
            between, bounds = _between(within, quoted(within.column))
            conditions.append(between)
        sql = f"SELECT {picked} FROM {quoted(table.name)} WHERE {' AND '.join(conditions)}"
        return Query(sql, bounds, table, tuple(columns), self._readings(table, columns), counted=not columns)

    def _logged(
        self,
        capture: log.Captured,
        columns: Sequence[str],
        count: str,
        after: int,
        upto: int,
        keys: Keys | None = None,
        within: Range | None = None,
        where: Selection | None = None,
    ) -> Query:
        """Log rows in (after, upto], restricted exactly as the present rows are: by keys, and to a range.
        Those that do not meet `where` are left out as far as SQLite can tell."""
        readings = self._readings(capture.table, columns)
        limits = [limit.column for limit in (keys, within) if limit is not None]
        for column in (*columns, *limits):
            if not capture.has(column, after):
                raise log.gap(
                    self.name, f"column {column!r} was added to {capture.table.name!r} after capture"
                )
        stored = {column: value_name(i) for i, column in enumerate(capture.columns)}
        picked = "".join(f"{stored[c]}, " for c in columns)
        limited, bounds = "", ()
        if keys:
            limited = f" AND {_among_keys(capture.table, keys.column, stored[keys.column])}"
        if within:
            between, bounds = _between(within, stored[within.column])
            limited += f" AND {between}"
        how = dict(zip(columns, readings, strict=True))
        if where is not None and (wanted := said(where, partial(in_sqlite, stored, how))):
            limited, bounds = f"{limited} AND {wanted[0]}", (*bounds, *wanted[1])
        sql = (
            f"SELECT {picked}{count} FROM {LOG}"
            f" WHERE seq > ? AND seq <= ? AND relation = {capture.id}{limited}"
        )
        return Query(sql, (after, upto, *bounds), capture.table, tuple(columns), readings, counted=True)


def _among_keys(table: Table, column: str, expression: str) -> str:
    """Compared by the collation of an index where there is one: each built-in collation finds at least
    the equal texts."""
    collation = dict(table.collations).get(table.position(column), "BINARY")
    return f"{expression} COLLATE {collation} IN (SELECT k FROM temp._stillframe_keys)"


def _between(within: Range, expression: str) -> tuple[str, tuple[Any, ...]]:
    parts = [(f"{expression} > ?", within.above), (f"{expression} <= ?", within.upto)]
    bounded = [(text, bound) for text, bound in parts if bound is not None]
    return " AND ".join(text for text, _ in bounded) or "1", tuple(bound for _, bound in bounded)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
