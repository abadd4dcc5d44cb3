"""A MariaDB database as a source whose changes are read from the server's binary log.

The log has every transaction in the order of the commits, and writers pay nothing for it. A snapshot of the
database names its exact place in the log, so a state of the past is the present rows less what the log has
after its place.

The log belongs to the server: it is kept for as long as the server is told to keep it, whoever has not read
it yet. What was purged is a gap. Out of reach: sessions that switch the log off (sql_log_bin), which takes a
right of its own; and foreign keys that change rows (CASCADE_NOT_CAPTURED), which the log does not have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa

from stillframe.algebra.selection import Selection
from stillframe.errors import CaptureGap, SourceError
from stillframe.sources.base import (
    Capture,
    Committed,
    Consumer,
    Keys,
    LogStatus,
    Position,
    Range,
    Relation,
    another,
)
from stillframe.sources.mariadb import books, install
from stillframe.sources.mariadb import changes as changed
from stillframe.sources.mariadb.capture import GLOBAL
from stillframe.sources.mariadb.catalog import quoted, read_tables, table_names
from stillframe.sources.mariadb.connect import Connection, connected
from stillframe.sources.mariadb.database import MariadbDatabase
from stillframe.sources.mariadb.position import gap
from stillframe.sources.mariadb.queries import columns_of, present
from stillframe.sources.mariadb.read import KeySet, batches
from stillframe.sources.mariadb.walk import ANYTHING, Mark, Place, Rows, Walk, Watched, anchored

_QUIET_BYTES = 16 << 20


@dataclass(frozen=True)
class MariadbLogSource(MariadbDatabase):
    """`capture_limit` has no meaning here: the log waits for nobody."""

    @property
    def capture(self) -> Capture:
        return Capture.LOG

    @property
    def transactional(self) -> bool:
        return True

    @property
    def commit_order(self) -> bool:
        return True

    def describe(self) -> dict[str, Relation]:
        """As the tables are, less the columns that the log does not tell."""
        with connected(self.name, self.server) as con:
            tables = read_tables(con, table_names(con), linked=True)
        return {name: books.relation_of(tables[name]) for name in sorted(tables)}

    def attach(self, consumer: str, relations: Sequence[str]) -> Position:
        with connected(self.name, self.server) as con, install.alone(con, self.name, self._lock):
            self._require_log()
            tables = install.capturable(con, self.name, relations)
            for table in tables.values():
                if reason := books.refused(table):
                    raise install.uncapturable(self.name, table.name, reason)
            books.found(con)
            begun_anew = self._read(self._begun_anew)
            standing = {name: None if begun_anew else self._standing(name) for name in tables}
            mark = self._read(lambda snap: self._newest(snap, con))
            identity = books.open_books(con, mark, anew=begun_anew)
            books.settle(con, mark)
            for name, table in tables.items():
                there = standing[name]
                if there is None:
                    books.follow(con, table, mark.place.number, {})
                elif len(there.columns) < len(table.columns):
                    new = {c.name: mark.place.number for c in table.columns[len(there.columns) :]}
                    books.follow(con, table, there.since, {**there.added, **new})
            books.register(con, consumer, list(tables), mark)
            return Position(identity, mark.place.number, mark.to_text())

    @property
    def _lock(self) -> str:
        return f"{self.server.database} log"

    def _require_log(self) -> None:
        for method in self.methods():
            if method.capture is Capture.LOG and method.missing:
                raise SourceError(
                    f"the binary log of source {self.name!r} cannot be used",
                    detail="; ".join(method.missing),
                    hint="`stillframe check` says what each way to capture needs",
                    code="CAPTURE_UNAVAILABLE",
                )

    def _begun_anew(self, snap: Connection) -> bool:
        """Whether the log is not the one in which the newest position was fixed, or does not reach back to
        it: then no position of anybody's can be followed."""
        try:
            if books.identity(snap) is not None:
                self._through(books.settled(snap), None, self._place(snap), {})
        except CaptureGap:
            return True
        return False

    def _standing(self, relation: str) -> books.Followed | None:
        """Capture that goes on; None where it is missing or broken, and has to begin anew."""

        def found(snap: Connection) -> books.Followed | None:
            try:
                if books.identity(snap) is None:
                    return None
                there = books.followed(snap, self.name, relation)
                settled = books.settled(snap)
                self._through(settled, None, self._place(snap), {relation: there.watched()})
            except CaptureGap:
                return None
            return there

        return self._read(found)

    def _place(self, snap: Connection) -> Place:
        """Where the snapshot stands in the log."""
        status = dict(snap.all("SHOW STATUS LIKE 'binlog_snapshot_%'"))
        return Place(status["Binlog_snapshot_file"], int(status["Binlog_snapshot_position"]))

    def _newest(self, snap: Connection, con: Connection) -> Mark:
        place = self._place(snap)
        mark = anchored(self.name, self.server, place)
        if mark is None:
            con.run(f"UPDATE {books.BOOK} SET touched = touched + 1")
            mark = anchored(self.name, self.server, place)
        if mark is None:
            raise gap(self.name, "what is written does not come into the binary log", f"after {place}")
        return mark

    def release(self, consumer: str, keep: Sequence[str]) -> None:
        if not keep:
            self.detach(consumer)
            return
        with connected(self.name, self.server) as con, install.alone(con, self.name, self._lock):
            books.require_consumer(con, self.name, consumer)
            kept = ", ".join(["%s"] * len(keep))
            con.run(
                f"DELETE FROM {books.NEEDS} WHERE consumer = %s AND relation NOT IN ({kept})",
                (consumer, *keep),
            )
            books.forget_unneeded(con)

    def detach(self, consumer: str) -> None:
        with connected(self.name, self.server) as con, install.alone(con, self.name, self._lock):
            if books.identity(con) is not None:
                con.run(f"DELETE FROM {books.CONSUMERS} WHERE name = %s", (consumer,))
                con.run(f"DELETE FROM {books.NEEDS} WHERE consumer = %s", (consumer,))
                books.forget_unneeded(con)
                if con.value(f"SELECT count(*) FROM {books.CONSUMERS}"):
                    return
            books.remove_all(con)

    def position(self, consumer: str, relations: Sequence[str]) -> Position:
        with connected(self.name, self.server) as con:
            books.require_consumer(con, self.name, consumer)

            def fixed(snap: Connection) -> Position:
                identity = books.required_identity(snap, self.name)
                base = books.settled(snap)
                watched = {r: books.followed(snap, self.name, r).watched() for r in relations}
                others = {r: ANYTHING for r in books.relations(snap) if r not in watched}
                place = self._place(snap)
                met = self._through(base, None, place, watched, others)
                near = base.place.file == place.file and place.at - base.place.at < _QUIET_BYTES
                if not met and near:
                    return Position(identity, base.place.number, base.to_text())
                mark = self._newest(snap, con)
                books.settle(con, mark)
                return Position(identity, mark.place.number, mark.to_text())

            return self._read(fixed)

    def _through(
        self,
        after: Mark,
        upto: Mark | None,
        end: Place,
        watched: Mapping[str, Watched],
        others: Mapping[str, Watched] | None = None,
    ) -> bool:
        """Whether anything of the relations, or of `others`, or a mark, was met. A gap of one of the
        relations is raised."""
        walk = Walk(
            self.name, self.server, after, upto, end, {**watched, **(others or {}), GLOBAL: changed.MARKS}
        )
        walk.minor = frozenset(others or ())
        met = False
        for _ in walk.rows():
            met = True
        return met or walk.disturbed

    def check(self, after: Position, relations: Sequence[str]) -> None:
        def checked(snap: Connection) -> None:
            mark = self._mark(snap, after)
            watched = {r: self._followed(snap, r, mark).watched() for r in relations}
            self._through(mark, None, self._place(snap), watched)

        self._read(checked)

    def _mark(self, snap: Connection, position: Position) -> Mark:
        identity = books.required_identity(snap, self.name)
        if identity != position.source:
            raise another(self.name, identity, position.source)
        try:
            return Mark.from_text(position.mark)
        except (ValueError, TypeError):
            message = "the frame's position is not one of log capture"
            raise gap(self.name, message, position.mark[:80]) from None

    def _followed(self, snap: Connection, relation: str, after: Mark) -> books.Followed:
        there = books.followed(snap, self.name, relation)
        if there.since > after.place.number:
            raise gap(
                self.name,
                f"capture of table {relation!r} was installed later",
                f"since {there.since}, needed from {after.place.number}",
            )
        return there

    def _between(
        self, snap: Connection, after: Position, upto: Position, watched: Mapping[str, Watched]
    ) -> Iterator[Rows]:
        start, end = self._mark(snap, after), self._mark(snap, upto)
        if end.place.number < start.place.number:
            return iter(())
        return Walk(self.name, self.server, start, end, end.place, watched).rows()

    def transactions(
        self, relations: Sequence[str], after: Position, upto: Position
    ) -> tuple[Committed, ...]:
        def found(snap: Connection) -> tuple[Committed, ...]:
            mark = self._mark(snap, after)
            watched = {r: self._followed(snap, r, mark).watched() for r in relations}
            return changed.told(self._between(snap, after, upto, {**watched, GLOBAL: changed.MARKS}))

        return self._read(found)

    def without(self, after: Position, upto: Position, numbers: Collection[int]) -> Position:
        def found(snap: Connection) -> Position:
            start, end = self._mark(snap, after), self._mark(snap, upto)
            lacking = [n for n in numbers if not start.has(n) and end.has(n)]
            mark = replace(end, out=tuple(sorted({*end.out, *lacking})))
            return Position(upto.source, upto.sequence, mark.to_text()) if lacking else upto

        return self._read(found)

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
        def prepared(snap: Connection) -> tuple[books.Followed, Iterator[Rows]]:
            there = self._followed(snap, relation, self._mark(snap, after))
            watched = {relation: self._watched(there, columns, self._mark(snap, after))}
            return there, self._between(snap, after, upto, watched)

        with ExitStack() as stack:
            _, (there, rows) = self._opened(stack, prepared)
            wanted = columns_of(self.name, there.table, columns)
            yield from changed.batches(self.name, there.table, wanted, rows, tagged=tagged)

    def _watched(self, there: books.Followed, columns: Sequence[str], after: Mark) -> Watched:
        columns_of(self.name, there.table, columns)
        for name in columns:
            if not there.has(name, after.place.number):
                raise gap(self.name, f"column {name!r} was added to {there.name!r} after capture")
            column = there.table.column(name)
            if column is not None and (reason := books.readable(column)):
                raise SourceError(
                    f"column {name!r} of {self.name}.{there.name} cannot be read",
                    detail=reason,
                    code="UNREADABLE_COLUMN",
                )
        return there.watched(columns)

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

        names = list(dict.fromkeys([*columns, *(limit.column for limit in (keys, within) if limit)]))

        def prepared(snap: Connection) -> tuple[books.Followed, Watched, Place, Mark]:
            mark = self._mark(snap, at)
            there = self._followed(snap, relation, mark)
            watched = self._watched(there, names, mark)
            snap.all(f"SELECT 1 FROM {quoted(relation)} LIMIT 1")
            return there, watched, self._place(snap), mark

        with ExitStack() as stack:
            snap, (there, watched, place, mark) = self._opened(stack, prepared, before)
            yield from batches(snap, self.name, present(self.name, there.table, columns, sent, within))
            asking = stack.enter_context(connected(self.name, self.server))
            tests = []
            if keys is not None:
                (column,) = columns_of(self.name, there.table, [keys.column])
                test = changed.among_keys(asking, KeySet(asking, column, keys))
                tests.append((names.index(column.name), test))
            if within is not None:
                (column,) = columns_of(self.name, there.table, [within.column])
                tests.append((names.index(column.name), changed.in_range(asking, column, within)))
            walk = Walk(self.name, self.server, mark, None, place, {relation: watched})
            wanted = columns_of(self.name, there.table, columns)
            yield from changed.batches(self.name, there.table, wanted, walk.rows(), undone=True, tests=tests)

    def behind(self, relations: Sequence[str], after: Position) -> int:
        return self._waiting(relations, after, lambda rows: sum(some.count() for some in rows))

    def waiting_since(self, relations: Sequence[str], after: Position) -> datetime | None:
        first = self._waiting(relations, after, lambda rows: min((s.timestamp for s in rows), default=0))
        return datetime.fromtimestamp(first, UTC) if first else None

    def _waiting(
        self, relations: Sequence[str], after: Position, summary: Callable[[Iterator[Rows]], int]
    ) -> int:
        def found(snap: Connection) -> int:
            mark = self._mark(snap, after)
            watched = {r: self._followed(snap, r, mark).watched() for r in relations}
            return summary(Walk(self.name, self.server, mark, None, self._place(snap), watched).rows())

        return self._read(found)

    def beat(self, consumer: str) -> None:
        with connected(self.name, self.server) as con:
            books.require_consumer(con, self.name, consumer)
            con.run(f"UPDATE {books.CONSUMERS} SET heartbeat = %s WHERE name = %s", (install.now(), consumer))

    def acknowledge(self, consumer: str, position: Position) -> None:
        with connected(self.name, self.server) as con:
            books.require_consumer(con, self.name, consumer)
            mark = self._mark(con, position)
            self._through(mark, None, mark.place, {})
            con.run(
                f"UPDATE {books.CONSUMERS} SET mark = %s, heartbeat = %s WHERE name = %s",
                (mark.to_text(), install.now(), consumer),
            )
            books.sweep_marks(con)

    def log_status(self) -> LogStatus:
        """The rows and bytes of the log after the position of the one furthest behind. They may be gone
        before it comes for them: this log is the server's."""

        def found(snap: Connection) -> LogStatus:
            if books.identity(snap) is None:
                return LogStatus(0, 0, 0, ())
            place, settled = self._place(snap), books.settled(snap)
            watched = dict.fromkeys(books.relations(snap), ANYTHING)
            consumers, rows, size = [], 0, 0
            for name, text, heartbeat in snap.all(
                f"SELECT name, mark, heartbeat FROM {books.CONSUMERS} ORDER BY name"
            ):
                mark = Mark.from_text(text)
                walk = Walk(self.name, self.server, mark, None, place, watched)
                try:
                    behind = sum(some.count() for some in walk.rows())
                except CaptureGap:
                    behind = 0
                consumers.append(Consumer(name, mark.place.number, heartbeat, behind))
                rows, size = max(rows, behind), max(size, walk.bytes)
            return LogStatus(rows, size, settled.place.number, tuple(consumers))

        return self._read(found)
