"""A PostgreSQL database as a source: trigger capture, snapshots, reads at a known state.

A position is a snapshot as PostgreSQL itself has them: the exact set of transactions it holds, also of those
that began early and committed late. Every transaction of the log is in a position, or not, as a whole:

    changes (a, b]  =  log rows of transactions in b and not in a
    state at a      =  present rows − log rows of transactions not in a, both in one snapshot

A position rests on what is safe on the server's disk only: transactions of writers that do not wait for that
(synchronous_commit = off) are made safe before one that holds them is given out.

Out of reach: whoever writes to the tables of capture by hand; and a running server's files put back from a
copy of its disk, when nothing is lost but transactions that were already running when it was made.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial

import pyarrow as pa

from stillframe.algebra.selection import Selection, said
from stillframe.sources.base import (
    Capture,
    Committed,
    Consumer,
    Keys,
    LogStatus,
    Position,
    Range,
)
from stillframe.sources.postgres import log
from stillframe.sources.postgres.capture import (
    CONSUMERS,
    LOG,
    NEEDS,
    SOURCE,
    log_name,
    value_name,
)
from stillframe.sources.postgres.catalog import Connection, readings
from stillframe.sources.postgres.database import PostgresTables
from stillframe.sources.postgres.install import Installer, now
from stillframe.sources.postgres.read import (
    KeyList,
    Query,
    batches,
    begin_snapshot,
    connected,
    reading,
    within_condition,
    writing,
)
from stillframe.sources.postgres.seen import Mark, Snapshot, common
from stillframe.sources.postgres.selecting import in_postgres
from stillframe.sources.postgres.slots import flush


@dataclass(frozen=True)
class PostgresSource(PostgresTables):
    """Capture by triggers."""

    @property
    def capture(self) -> Capture:
        return Capture.TRIGGERS

    @property
    def transactional(self) -> bool:
        return True

    @property
    def commit_order(self) -> bool:
        return False

    def attach(self, consumer: str, relations: Sequence[str]) -> Position:
        self._installer.attach(consumer, relations)
        return self._fixed()

    def release(self, consumer: str, keep: Sequence[str]) -> None:
        if not keep:
            self.detach(consumer)
            return
        with writing(self.name, self.url) as con:
            log.required(con, self.name)
            log.require_consumer(con, self.name, self.schema, consumer)
            con.execute(
                f"DELETE FROM {NEEDS} WHERE consumer = %s AND schema = %s AND relation <> ALL (%s)",
                (consumer, self.schema, list(keep)),
            )
        self._installer.remove_unneeded()

    def detach(self, consumer: str) -> None:
        self._installer.detach(consumer)

    @property
    def _installer(self) -> Installer:
        return Installer(self.name, self.url, self.schema)

    def position(self, consumer: str, relations: Sequence[str]) -> Position:
        def checked(con: Connection) -> None:
            log.require_consumer(con, self.name, self.schema, consumer)
            for relation in relations:
                log.captured(con, self.name, self.schema, relation)

        return self._fixed(checked)

    def _fixed(self, checked: Callable[[Connection], None] = lambda con: None) -> Position:
        """The newest committed state, once all of it is on the server's disk."""
        with connected(self.name, self.url) as con:
            begin_snapshot(con)
            here = log.required(con, self.name)
            checked(con)
            position = here.newest(con, self.name)
            con.execute("COMMIT")
            flush(con)
            return position

    def check(self, after: Position, relations: Sequence[str]) -> None:
        with reading(self.name, self.url) as con:
            log.check(con, self.name, self.schema, after, relations)

    def transactions(
        self, relations: Sequence[str], after: Position, upto: Position
    ) -> tuple[Committed, ...]:
        with reading(self.name, self.url) as con:
            return log.transactions(con, self.name, self.schema, relations, after, upto)

    def without(self, after: Position, upto: Position, numbers: Collection[int]) -> Position:
        with reading(self.name, self.url) as con:
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
        with reading(self.name, self.url) as con:
            here = log.required(con, self.name)
            low = log.require_anchor(con, self.name, here, after).snapshot
            log.require_anchor(con, self.name, here, upto)
            capture = log.require_captured(con, self.name, self.schema, relation, low)
            interval = log.interval(after, upto)
            tag = "xid" if tagged else ""
            query = self._logged(con, capture, columns, low, interval, "sign", tag=tag, wanted=where)
            yield from batches(con, self.name, self.url, query)

    def state(
        self,
        relation: str,
        columns: Sequence[str],
        at: Position,
        keys: Keys | None = None,
        within: Range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        with connected(self.name, self.url) as con:
            chosen = self._keys(con, relation, keys)
            self._begin_snapshot(con, relation)
            here = log.required(con, self.name)
            then = log.require_anchor(con, self.name, here, at).snapshot
            capture = log.require_captured(con, self.name, self.schema, relation, then)
            present = self._present(con, capture.table, columns, chosen, within)
            undone = self._logged(con, capture, columns, then, then.beyond("xid"), "-sign", chosen, within)
            yield from batches(con, self.name, self.url, present)
            yield from batches(con, self.name, self.url, undone)

    def behind(self, relations: Sequence[str], after: Position) -> int:
        with reading(self.name, self.url) as con:
            return log.missing(con, self.name, self.schema, after, relations)[0]

    def waiting_since(self, relations: Sequence[str], after: Position) -> datetime | None:
        with reading(self.name, self.url) as con:
            return log.missing(con, self.name, self.schema, after, relations)[1]

    def beat(self, consumer: str) -> None:
        with writing(self.name, self.url) as con:
            log.required(con, self.name)
            log.require_consumer(con, self.name, self.schema, consumer)
            con.execute(
                f"UPDATE {CONSUMERS} SET heartbeat = %s WHERE name = %s AND schema = %s",
                (now(), consumer, self.schema),
            )

    def acknowledge(self, consumer: str, position: Position) -> None:
        with writing(self.name, self.url) as con:
            here = log.required(con, self.name)
            log.require_consumer(con, self.name, self.schema, consumer)
            log.require_anchor(con, self.name, here, position)
            # Whoever trims waits here for the one before.
            (trimmed,) = con.execute(f"SELECT trimmed FROM {SOURCE} FOR UPDATE").fetchone() or ("",)
            con.execute(
                f"UPDATE {CONSUMERS} SET position = %s, mark = %s, heartbeat = %s"
                " WHERE name = %s AND schema = %s",
                (position.sequence, position.mark, now(), consumer, self.schema),
            )
            if self.capture_limit is not None:
                self._drop_those_behind(con, consumer, self.capture_limit)
            rows = con.execute(f"SELECT mark FROM {CONSUMERS} WHERE mark IS NOT NULL")
            marks = [Mark.parse(text) for (text,) in rows.fetchall()]
            seen = common(mark.snapshot for mark in marks)
            # The newest row in each position that may still be asked for is one of these, or not in `seen`.
            kept = ", ".join(f"'{mark.lsn}'" for mark in marks)
            gone = con.execute(
                f"DELETE FROM {LOG} WHERE {seen.condition('xid')} AND lsn <> ALL (ARRAY[{kept}]::pg_lsn[])"
                f" AND lsn <> (SELECT max(lsn) FROM {LOG} WHERE {seen.condition('xid')})"
            )
            if gone.rowcount:
                con.execute(f"UPDATE {SOURCE} SET trimmed = %s", (str(Snapshot.parse(trimmed) | seen),))

    def _drop_those_behind(self, con: Connection, consumer: str, limit: int) -> None:
        if (_counted(con, "true")) <= limit:
            return
        others = con.execute(
            f"SELECT name, schema, mark FROM {CONSUMERS}"
            " WHERE (name, schema) <> (%s, %s) AND mark IS NOT NULL",
            (consumer, self.schema),
        )
        for name, schema, mark in others.fetchall():
            if _counted(con, Mark.parse(mark).snapshot.beyond("xid")) > limit:
                con.execute(
                    f"UPDATE {CONSUMERS} SET position = NULL, mark = NULL WHERE name = %s AND schema = %s",
                    (name, schema),
                )

    def log_status(self) -> LogStatus:
        with reading(self.name, self.url) as con:
            here = log.installed(con)
            if here is None:
                return LogStatus(0, 0, 0, ())
            (size,) = con.execute(
                "SELECT sum(pg_total_relation_size(c.oid))::bigint FROM pg_class AS c"
                f" WHERE c.oid = '{LOG}'::regclass OR c.oid IN"
                f" (SELECT inhrelid FROM pg_inherits WHERE inhparent = '{LOG}'::regclass)"
            ).fetchone() or (0,)
            consumers = con.execute(
                f"SELECT CASE WHEN schema = %s THEN name ELSE concat(name, ' (schema ', schema, ')') END,"
                f" position, heartbeat, mark FROM {CONSUMERS} WHERE mark IS NOT NULL ORDER BY 1",
                (self.schema,),
            ).fetchall()
            behind = [_counted(con, Mark.parse(mark).snapshot.beyond("xid")) for *_, mark in consumers]
            listed = tuple(
                Consumer(name, position, heartbeat, count)
                for (name, position, heartbeat, _), count in zip(consumers, behind, strict=True)
            )
            return LogStatus(_counted(con, "true"), size, here.snapshot.size, listed)

    def _logged(
        self,
        con: Connection,
        capture: log.Captured,
        columns: Sequence[str],
        after: Snapshot,
        where: str,
        count: str,
        keys: KeyList | None = None,
        within: Range | None = None,
        tag: str = "",
        wanted: Selection | None = None,
    ) -> Query:
        """Log rows after `after`, restricted exactly as the present rows are: by keys, and to a range. Those
        that are not `wanted` are left out as far as the server can tell."""
        table = capture.table
        how = readings(self.name, table, columns)
        limits = [limit.column for limit in (keys, within) if limit is not None]
        for column in (*columns, *limits):
            if not capture.has(column, after):
                raise log.gap(self.name, f"column {column!r} was added to {table.name!r} after capture")
        stored = {c.name: value_name(c) for c in table.columns}
        if keys:
            where += f" AND {keys.condition(con, stored[keys.column])}"
        if within:
            where += f" AND {within_condition(con, within, table, stored[within.column])}"
        known = dict(zip(columns, how, strict=True))
        if wanted is not None and (asked := said(wanted, partial(in_postgres, con, stored, known))):
            where += f" AND {asked[0]}"
        rows = f"FROM {log_name(capture.id)} WHERE {where}"
        expressions = tuple(stored[c] for c in columns)
        return Query(rows, table, tuple(columns), expressions, how, count, tag)


def _counted(con: Connection, condition: str) -> int:
    (count,) = con.execute(f"SELECT count(*) FROM {LOG} WHERE {condition}").fetchone() or (0,)
    return int(count)
