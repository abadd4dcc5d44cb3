"""A MariaDB database as a source: trigger capture, snapshots, reads at a known state.

Capture needs no more than all rights on the one database. Its log is written inside the writers' own
transactions and knows each by its id; see `capture` for its laws and `position` for what a
position is.

Not seen by any trigger, and so refused or told: changes by foreign keys (CASCADE_NOT_CAPTURED), TRUNCATE and
its like (TRUNCATED, see `witness`), rows that a replica is sent. Out of reach: ALTER TABLE that drops a
column and adds it again as it was, in a table whose witnesses hold its default. The server itself notes each
captured transaction in mysql.transaction_registry, for good, as it does for every table versioned by
transactions.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from datetime import datetime

import pyarrow as pa

from stillframe.algebra.selection import Selection
from stillframe.errors import CaptureGap
from stillframe.sources.base import (
    Capture,
    Committed,
    Consumer,
    Keys,
    LogStatus,
    Position,
    Range,
)
from stillframe.sources.mariadb import install, log
from stillframe.sources.mariadb.capture import (
    CONSUMERS,
    NEEDS,
)
from stillframe.sources.mariadb.catalog import (
    OWN_PREFIX,
    Table,
    quoted,
)
from stillframe.sources.mariadb.connect import (
    Connection,
    connected,
    snapshot,
)
from stillframe.sources.mariadb.database import MariadbDatabase
from stillframe.sources.mariadb.position import Mark, beyond, fix, settled, write_anchor
from stillframe.sources.mariadb.queries import columns_of, logged, present
from stillframe.sources.mariadb.read import KeySet, Query, batches
from stillframe.sources.mariadb.trim import trim
from stillframe.sources.mariadb.witness import Verified, appoint


@dataclass(frozen=True)
class MariadbSource(MariadbDatabase):
    """`capture_limit` bounds the log in rows: when it is longer, consumers further behind than that are
    dropped, and meet CAPTURE_GAP when they come back. None: the log waits for everyone."""

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
        with connected(self.name, self.server) as con, install.alone(con, self.name, self.server.database):
            tables = install.capturable(con, self.name, relations)
            try:
                return self._attached(con, consumer, tables)
            except Exception:
                with suppress(Exception):
                    install.tidy(con)
                raise

    def _attached(self, con: Connection, consumer: str, tables: dict[str, Table]) -> Position:
        identity = install.found(con)
        self._mend(con)
        standing = {r: self._standing(r) for r in tables}
        numbers = {r: install.install(con, tables[r]) for r, there in standing.items() if there is None}
        wider = {
            there.id: (there, install.extend(con, there))
            for there in standing.values()
            if there is not None and install.new_columns(there)
        }
        if not numbers and not wider:
            mark = self._read(lambda snap: fix(self.name, snap, con))
        else:
            marker = write_anchor(con).number
            for relation, number in numbers.items():
                columns = tuple(c.name for c in tables[relation].captured())
                appoint(con, log.Captured(number, 0, columns, {}, tables[relation], 0, Verified(0)))
            mark = self._read(lambda snap: self._begin(snap, con, tables, numbers, marker))
            for there, columns in wider.values():
                install.go_on(con, there, columns, marker)
        install.register(con, consumer, list(tables), mark)
        return log.position_of(identity, mark)

    def _mend(self, con: Connection) -> None:
        """A log that others deleted rows from has a gap for every relation, and goes on from here."""
        try:
            self._read(lambda snap: fix(self.name, snap, con))
        except CaptureGap as lost:
            install.declare_fault(con, lost)
            self._read(lambda snap: fix(self.name, snap, con, fresh=True, damaged=True))

    def _standing(self, relation: str) -> log.Captured | None:
        return self._read(lambda snap: install.standing(snap, self.name, relation))

    def _begin(
        self,
        snap: Connection,
        con: Connection,
        tables: dict[str, Table],
        numbers: dict[str, int],
        marker: int,
    ) -> Mark:
        for relation in numbers:
            snap.all(f"SELECT 1 FROM {quoted(relation)} LIMIT 1")
        mark = fix(self.name, snap, con, fresh=True)
        begun = [install.begin(snap, con, tables[r], n, marker, mark) for r, n in numbers.items()]
        log.record_verified(snap, con, begun, mark, always=True)
        return mark

    def release(self, consumer: str, keep: Sequence[str]) -> None:
        if not keep:
            self.detach(consumer)
            return
        with connected(self.name, self.server) as con, install.alone(con, self.name, self.server.database):
            log.require_consumer(con, self.name, consumer)
            kept = ", ".join(["%s"] * len(keep))
            con.run(
                f"DELETE FROM {NEEDS} WHERE consumer = %s AND relation NOT IN ({kept})", (consumer, *keep)
            )
            install.remove_unneeded(con)

    def detach(self, consumer: str) -> None:
        with connected(self.name, self.server) as con, install.alone(con, self.name, self.server.database):
            if log.identity(con) is not None:
                con.run(f"DELETE FROM {CONSUMERS} WHERE name = %s", (consumer,))
                con.run(f"DELETE FROM {NEEDS} WHERE consumer = %s", (consumer,))
                install.remove_unneeded(con)
                if con.value(f"SELECT count(position) FROM {CONSUMERS}"):
                    return
            install.remove_all(con)

    def position(self, consumer: str, relations: Sequence[str]) -> Position:
        with connected(self.name, self.server) as con:
            log.require_consumer(con, self.name, consumer)
            return self._read(
                lambda snap: self._fixed(snap, con, relations), before=self._appoint(con, relations)
            )

    def _fixed(self, snap: Connection, con: Connection, relations: Sequence[str]) -> Position:
        identity = log.required_identity(snap, self.name)
        log.looked_at(snap, self.name, relations)
        captures = [log.captured(snap, self.name, relation) for relation in relations]
        mark = fix(self.name, snap, con)
        log.record_verified(snap, con, captures, mark)
        return log.position_of(identity, mark)

    def _appoint(self, con: Connection, relations: Sequence[str]) -> Callable[[], None]:
        """Witnesses are copied before the snapshot that shows them to be there."""

        def do() -> None:
            for relation in log.short_of_witnesses(con, relations):
                con.forget()
                capture, _ = log.recorded(con, self.name, relation)
                appoint(con, capture)

        return do

    def check(self, after: Position, relations: Sequence[str]) -> None:
        def checked(snap: Connection) -> None:
            mark = log.require_whole_since(snap, self.name, after)
            for relation in relations:
                log.require_captured(snap, self.name, relation, mark)

        self._read(checked)

    def transactions(
        self, relations: Sequence[str], after: Position, upto: Position
    ) -> tuple[Committed, ...]:
        with snapshot(self.name, self.server) as snap:
            return log.transactions(snap, self.name, relations, after, upto)

    def without(self, after: Position, upto: Position, numbers: Collection[int]) -> Position:
        with snapshot(self.name, self.server) as snap:
            return log.without(snap, self.name, after, upto, numbers)

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
        def prepared(snap: Connection) -> Query:
            start, end = log.require_whole(snap, self.name, after, upto)
            capture = log.require_captured(snap, self.name, relation, start)
            between = beyond(start, end)
            return logged(
                snap, self.name, capture, columns, "l.sign", start, between, tagged=tagged, wanted=where
            )

        with ExitStack() as stack:
            snap, query = self._opened(stack, prepared)
            yield from batches(snap, self.name, query)

    def state(
        self,
        relation: str,
        columns: Sequence[str],
        at: Position,
        keys: Keys | None = None,
        within: Range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        sent: list[KeySet] = []

        def before(con: Connection) -> None:
            if keys is not None:
                (column,) = columns_of(self.name, self._table(con, relation), [keys.column])
                sent[:] = [KeySet(con, column, keys)]

        def prepared(snap: Connection) -> list[Query]:
            mark = log.require_whole_since(snap, self.name, at)
            capture = log.require_captured(snap, self.name, relation, mark)
            return [
                present(self.name, capture.table, columns, sent, within),
                logged(snap, self.name, capture, columns, "-l.sign", mark, beyond(mark), sent, within),
            ]

        with ExitStack() as stack:
            snap, queries = self._opened(stack, prepared, before)
            for query in queries:
                yield from batches(snap, self.name, query)

    def behind(self, relations: Sequence[str], after: Position) -> int:
        return self._read(lambda snap: log.missing(snap, self.name, after, relations)[0])

    def waiting_since(self, relations: Sequence[str], after: Position) -> datetime | None:
        return self._read(lambda snap: log.missing(snap, self.name, after, relations)[1])

    def beat(self, consumer: str) -> None:
        with connected(self.name, self.server) as con:
            log.require_consumer(con, self.name, consumer)
            con.run(f"UPDATE {CONSUMERS} SET heartbeat = %s WHERE name = %s", (install.now(), consumer))

    def acknowledge(self, consumer: str, position: Position) -> None:
        with connected(self.name, self.server) as con:
            log.require_consumer(con, self.name, consumer)
            mark = log.require_anchor(con, self.name, position)
            con.run(
                f"UPDATE {CONSUMERS} SET position = %s, floor = %s, heartbeat = %s WHERE name = %s",
                (mark.high, mark.floor, install.now(), consumer),
            )
            if self.capture_limit is not None:
                self._drop_dead(con, consumer)
            trim(con, self.server.database, self._verify)

    def _drop_dead(self, con: Connection, but: str) -> None:
        assert self.capture_limit is not None
        kept = log.kept(con)
        limit = con.value(f"SELECT l.seq {kept} ORDER BY l.seq DESC LIMIT 1 OFFSET {self.capture_limit}")
        if limit is not None:
            con.run(
                f"UPDATE {CONSUMERS} SET position = NULL WHERE name <> %s AND position < %s", (but, limit)
            )

    def _verify(self, relation: str) -> None:
        with connected(self.name, self.server) as con:
            self._read(lambda snap: self._fixed(snap, con, [relation]), before=self._appoint(con, [relation]))

    def log_status(self) -> LogStatus:
        with snapshot(self.name, self.server) as snap:
            if log.identity(snap) is None:
                return LogStatus(0, 0, 0, ())
            rows = snap.value(f"SELECT count(*) {log.kept(snap)}")
            size = snap.value(
                "SELECT sum(DATA_LENGTH + INDEX_LENGTH) FROM information_schema.TABLES"
                " WHERE TABLE_SCHEMA = DATABASE() AND LEFT(TABLE_NAME, %s) = %s",
                (len(OWN_PREFIX) + 1, OWN_PREFIX + "_"),
            )
            consumers = [
                Consumer(name, at, beat, snap.value(f"SELECT count(*) {log.kept(snap)} AND l.seq > {at}"))
                for name, at, beat in snap.all(
                    f"SELECT name, position, heartbeat FROM {CONSUMERS} WHERE position IS NOT NULL"
                    " ORDER BY name"
                )
            ]
            return LogStatus(rows, int(size), settled(snap).high, tuple(consumers))
