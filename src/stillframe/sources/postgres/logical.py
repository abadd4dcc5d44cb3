"""A PostgreSQL database as a source: capture from the server's own log, by logical decoding.

Writers do nothing more than write their old rows to the log. Transactions come in the very order of their
commits, and a position is a place in the log: it holds all that was committed before it.

    changes [a, b)  =  rows of the transactions told whose commit stands between a and b
    state at a      =  present rows − rows of transactions that the reading snapshot sees and a does not hold
                                    + rows of transactions that a holds and the snapshot does not see yet

A commit stands in the log a moment before others see it, so both terms are needed. What is told is read again
from the slot each time; nothing is kept beside it. A slot serves one reader at a time: reads wait for each
other. TRUNCATE tells no rows: it is a gap named TRUNCATED.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Sequence
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
    another,
    named,
)
from stillframe.sources.postgres import log, rights, slots
from stillframe.sources.postgres.capture import CONSUMERS, GLOBAL, SLOTS
from stillframe.sources.postgres.catalog import Connection, Table, table_names
from stillframe.sources.postgres.database import PostgresTables
from stillframe.sources.postgres.decoded import Begin, Emptied, Incomplete, Row, events
from stillframe.sources.postgres.install import now
from stillframe.sources.postgres.log import TABLE_TRUNCATED, Installed
from stillframe.sources.postgres.publish import Publisher, drop_slot
from stillframe.sources.postgres.read import KeyList, batches, connected, reading, within_condition, writing
from stillframe.sources.postgres.rows import Condition, Told, chosen, told_batches
from stillframe.sources.postgres.seen import lsn_text
from stillframe.sources.postgres.slots import LogMark, Slot
from stillframe.sources.postgres.types import Reading

COUNTED_BYTES = 64 << 20  # of the server's log; of more, rows are estimated
_ROW_BYTES = 150


@dataclass(frozen=True)
class PostgresLogSource(PostgresTables):
    """Capture by the server's log. `capture_limit` bounds, in rows, how far behind a consumer may be when
    another one acknowledges: it is dropped with its slot, and the server's log let go."""

    @property
    def capture(self) -> Capture:
        return Capture.LOG

    @property
    def transactional(self) -> bool:
        return True

    @property
    def commit_order(self) -> bool:
        return True

    def _as_captured(self, table: Table) -> Table:
        return slots.decodable(table)

    @property
    def _publisher(self) -> Publisher:
        return Publisher(self.name, self.url, self.schema)

    def attach(self, consumer: str, relations: Sequence[str]) -> Position:
        self._require_log()
        self._publisher.attach(consumer, relations)
        try:
            return self.position(consumer, relations)
        except CaptureGap:  # a slot cannot be read past a moment without its publication
            self._publisher.reopen(consumer)
            return self.position(consumer, relations)

    def _require_log(self) -> None:
        """Before anything is changed at the source."""
        with reading(self.name, self.url) as con:
            level, missing = rights.log_level(con), rights.for_reading_the_log(con)
        if missing:
            raise SourceError(
                f"the log of the server of source {self.name!r} cannot be used",
                detail="; ".join(missing),
                hint="`stillframe check` says what each way to capture needs",
                code="CAPTURE_UNAVAILABLE" if level != "logical" else "NOT_PERMITTED",
            )

    def release(self, consumer: str, keep: Sequence[str]) -> None:
        if not keep:
            self.detach(consumer)
            return
        with reading(self.name, self.url) as con:
            log.required(con, self.name)
            self._slot_of(con, consumer)
        self._publisher.release(consumer, keep)

    def detach(self, consumer: str) -> None:
        self._publisher.detach(consumer)

    def position(self, consumer: str, relations: Sequence[str]) -> Position:
        with reading(self.name, self.url) as con:
            here = log.required(con, self.name)
            slot = self._slot_of(con, consumer)
            for relation in relations:
                self._captured(con, slot, relation)
            end = slots.end_of_log(con)
        with slots.listening(self.name, self.url, slot.name) as con:
            found = slots.told(con, slot.name, end)
        last = slots.last_before(found, slot, end)
        return LogMark(end, last, here.timeline, slot.name).position(_identity(here))

    def check(self, after: Position, relations: Sequence[str]) -> None:
        self._told(relations, after)

    def transactions(
        self, relations: Sequence[str], after: Position, upto: Position
    ) -> tuple[Committed, ...]:
        found, tables = self._told(relations, after, upto)
        names = {part: name for name, table in tables.items() for part in table.parts}
        listed = []
        for each in found:
            rows: dict[str, int] = {}
            for part, count in each.rows.items():
                if part in names:
                    rows[names[part]] = rows.get(names[part], 0) + count
            if rows or each.group:
                listed.append(Committed(each.begin.lsn, rows, *(each.group or ("", 0))))
        return tuple(listed)

    def without(self, after: Position, upto: Position, numbers: Collection[int]) -> Position:
        """Any of them can be left out; the slot goes on to tell what comes after the first."""
        _, low, high = self._reach(after, upto)
        if not numbers:
            return upto
        out = {n for n in numbers if n < high.lsn and (n >= low.lsn or n in low.left_out)}
        return replace(high, left_out=high.left_out | out).position(upto.source)

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
            _, low, high = self._reach(after, upto, con)
            slot = slots.require_slot(con, self.name, low.slot)
            table = self._captured(con, slot, relation, low)
            query = replace(self._present(con, table, columns, None, None), tag="tag" if tagged else "")
        with slots.listening(self.name, self.url, low.slot) as con:
            slot = self._still(con, low)
            rows = self._followed(con, slot, table, high.lsn, [low, high], _between(low, high))
            yield from told_batches(self.name, self.url, query, rows)

    def state(
        self,
        relation: str,
        columns: Sequence[str],
        at: Position,
        keys: Keys | None = None,
        within: Range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        with connected(self.name, self.url) as con:
            chosen_keys = self._keys(con, relation, keys)
            self._begin_snapshot(con, relation)
            here, mark, _ = self._reach(at, at, con)
            slot = slots.require_slot(con, self.name, mark.slot)
            table = self._captured(con, slot, relation, mark)
            query = self._present(con, table, columns, chosen_keys, within)
            yield from batches(con, self.name, self.url, query)
            conditions = _conditions(con, table, chosen_keys, within)
            with slots.listening(self.name, self.url, mark.slot) as other:
                slot = self._still(other, mark)
                weigh = _unseen(here, mark)
                rows = self._followed(other, slot, table, None, [mark], weigh)
                rows = chosen(con, self.name, table, rows, conditions)
                yield from told_batches(self.name, self.url, query, rows)

    def behind(self, relations: Sequence[str], after: Position) -> int:
        found, tables = self._told(relations, after)
        parts = {part for table in tables.values() for part in table.parts}
        return sum(count for each in found for part, count in each.rows.items() if part in parts)

    def waiting_since(self, relations: Sequence[str], after: Position) -> datetime | None:
        found, tables = self._told(relations, after)
        parts = {part for table in tables.values() for part in table.parts}
        first = next((each.begin for each in found if parts & each.rows.keys()), None)
        return None if first is None else first.moment.astimezone(UTC).replace(microsecond=0)

    def beat(self, consumer: str) -> None:
        with writing(self.name, self.url) as con:
            log.required(con, self.name)
            slot = self._slot_of(con, consumer)
            con.execute(f"UPDATE {SLOTS} SET heartbeat = %s WHERE slot = %s", (now(), slot.name))

    def acknowledge(self, consumer: str, position: Position) -> None:
        """What is noted comes first: a slot that was not advanced only tells more than is asked for."""
        with reading(self.name, self.url) as con:
            log.required(con, self.name)
            own = self._slot_of(con, consumer)
            here, mark, _ = self._reach(position, position, con)
        with slots.listening(self.name, self.url, own.name) as con:
            slot = self._still(con, mark)
            found = slots.told(con, slot.name, mark.lsn)
            slots.require_last(self.name, mark, slots.last_before(found, slot, mark.lsn))
            # A commit that others do not see yet will be asked for once more, to be added to what they see.
            unseen = [
                t.begin.lsn for t in found if not here.snapshot.has(t.begin.full_xid(here.snapshot.xmax))
            ]
            con.execute("BEGIN READ WRITE")
            noted = replace(mark, slot=own.name)
            con.execute(
                f"UPDATE {SLOTS} SET position = %s, mark = %s, heartbeat = %s WHERE slot = %s",
                (position.sequence, str(noted), now(), own.name),
            )
            _trim_marks(con)
            con.execute("COMMIT")
            place = min([mark.needs, *unseen])
            if place > slot.place:
                con.execute("SELECT pg_replication_slot_advance(%s, %s)", (own.name, lsn_text(place)))
        if self.capture_limit is not None:
            self._drop_those_behind(own.name, self.capture_limit)

    def _drop_those_behind(self, own: str, limit: int) -> None:
        with reading(self.name, self.url) as con:
            rows = con.execute(f"SELECT slot FROM {SLOTS} WHERE slot <> %s AND mark IS NOT NULL", (own,))
            others = [name for (name,) in rows.fetchall()]
        for name in others:
            with slots.listening(self.name, self.url, name) as con:
                if self._rows_behind(con, name) > limit:
                    drop_slot(con, name)
                    con.execute(f"UPDATE {SLOTS} SET position = NULL, mark = NULL WHERE slot = %s", (name,))

    def _rows_behind(self, con: Connection, name: str) -> int:
        """Counted, or estimated from the size of what the slot has to tell."""
        slot = slots.require_slot(con, self.name, name)
        size = slots.end_of_log(con) - slot.place
        if size > COUNTED_BYTES:
            return size // _ROW_BYTES
        found = slots.told(con, name, None)
        return sum(sum(each.rows.values()) for each in found if not slot.noted.holds(each.begin))

    def log_status(self) -> LogStatus:
        with reading(self.name, self.url) as con:
            if log.installed(con) is None:
                return LogStatus(0, 0, 0, ())
            end = slots.end_of_log(con)
            listed = con.execute(
                "SELECT s.slot, CASE WHEN schema = %s THEN consumer"
                " ELSE concat(consumer, ' (schema ', schema, ')') END, s.position, s.heartbeat,"
                " (pg_current_wal_insert_lsn() - r.restart_lsn)::bigint"
                f" FROM {SLOTS} AS s JOIN pg_replication_slots AS r ON r.slot_name = s.slot"
                " WHERE s.mark IS NOT NULL AND r.restart_lsn IS NOT NULL ORDER BY 2",
                (self.schema,),
            ).fetchall()
        consumers = []
        for slot, consumer, position, heartbeat, _ in listed:
            with slots.listening(self.name, self.url, slot) as con:
                consumers.append(Consumer(consumer, position, heartbeat, self._rows_behind(con, slot)))
        rows = max((consumer.behind for consumer in consumers), default=0)
        return LogStatus(rows, max((row[4] for row in listed), default=0), end, tuple(consumers))

    def _slot_of(self, con: Connection, consumer: str) -> Slot:
        name = self._publisher.slot(con, consumer)
        if con.execute(f"SELECT 1 FROM {SLOTS} WHERE slot = %s", (name,)).fetchone() is None:
            raise log.gap(self.name, f"consumer {consumer!r} is not registered there")
        return slots.require_slot(con, self.name, name)

    def _reach(
        self, after: Position, upto: Position, con: Connection | None = None
    ) -> tuple[Installed, LogMark, LogMark]:
        """Both are places of this database's log, as far as can be told without reading it."""
        if con is None:
            with reading(self.name, self.url) as own:
                return self._reach(after, upto, own)
        here = log.required(con, self.name)
        end = slots.end_of_log(con)
        marks = []
        for position in (after, upto):
            if position.source != _identity(here):
                raise another(self.name, _identity(here), position.source)
            mark = LogMark.parse(position.mark)
            log.require_timeline(self.name, here, mark.timeline)
            if mark.lsn > end:
                raise log.gap(
                    self.name,
                    "the database was restored from an older copy",
                    f"position {mark.lsn}, the server's log ends at {end}",
                )
            marks.append(mark)
        return here, marks[0], marks[1]

    def _still(self, con: Connection, mark: LogMark) -> Slot:
        """The slot, if it still tells all that comes after the mark."""
        slot = slots.require_slot(con, self.name, mark.slot)
        if slot.place > mark.needs:
            raise log.gap(
                self.name,
                "the log was trimmed too far",
                f"position {mark.needs}, trimmed up to {slot.place}",
            )
        return slot

    def _captured(self, con: Connection, slot: Slot, relation: str, after: LogMark | None = None) -> Table:
        """The table, if it is published as it was when it was attached."""
        found = slots.published_relations(con, slot.name).get(relation)
        if found is None:
            raise log.gap(self.name, f"relation {relation!r} is not captured")
        since, shape, digest = found
        if relation not in table_names(con, self.schema):
            raise log.gap(self.name, f"table {relation!r} is gone")
        table = self._table(con, relation)
        known = json.loads(shape)
        if table.oid == known["table"]:
            log.require_shape(self.name, table, known)
        if table.refusal:
            raise log.gap(self.name, f"table {relation!r} cannot be captured any more", table.refusal)
        if table.oid != known["table"] or slots.published_digest(con, slot.name, table.oid) != digest:
            raise log.gap(
                self.name,
                f"the publication of table {relation!r} is not as it was made",
                "the table was dropped and created again, or taken out of the publication",
            )
        if not slots.full_identity(con, table.parts):
            raise log.gap(self.name, f"the replica identity of table {relation!r} is not FULL any more")
        if after is not None and since > after.lsn:
            raise log.gap(self.name, f"capture of table {relation!r} was installed later")
        return table

    def _told(
        self, relations: Sequence[str], after: Position, upto: Position | None = None
    ) -> tuple[list[slots.Told], dict[str, Table]]:
        """The transactions between the two (or since the one), if they can be followed, and the tables."""
        with reading(self.name, self.url) as con:
            _, low, high = self._reach(after, upto or after, con)
            slot = slots.require_slot(con, self.name, low.slot)
            tables = {name: self._captured(con, slot, name, low) for name in relations}
        with slots.listening(self.name, self.url, low.slot) as con:
            slot = self._still(con, low)
            found = slots.told(con, slot.name, None if upto is None else high.lsn)
        slots.require_last(self.name, low, slots.last_before(found, slot, low.lsn))
        if upto is not None and high.slot == low.slot:
            slots.require_last(self.name, high, slots.last_before(found, slot, high.lsn))
        between = [t for t in found if not low.holds(t.begin) and (upto is None or high.holds(t.begin))]
        for table in tables.values():
            for each in between:
                if each.emptied & set(table.parts):
                    raise self._emptied(table)
                if each.incomplete & set(table.parts):
                    raise self._incomplete(table)
        return between, tables

    def _followed(
        self,
        con: Connection,
        slot: Slot,
        table: Table,
        upto: int | None,
        marks: Sequence[LogMark],
        weight: Callable[[Begin], int],
    ) -> Iterator[Told]:
        """Rows of the table, each as often as its transaction weighs; the marks are checked on the way."""
        last, unchecked = slot.noted.last, sorted(marks, key=lambda mark: mark.lsn)
        counted, number = 0, 0
        found = slots.messages(con, slot.name, upto, table.parts)
        for event in events(found, lambda begin: weight(begin) != 0):
            match event:
                case Begin():
                    while unchecked and unchecked[0].lsn <= event.lsn:
                        self._require_last(slot, unchecked.pop(0), last)
                    last, counted, number = event, weight(event), event.lsn
                case Row(layout, sign, values):
                    yield sign * counted, number, layout, values
                case Emptied(parts) if set(parts) & set(table.parts):
                    raise self._emptied(table)
                case Incomplete(part) if part in table.parts:
                    raise self._incomplete(table)
        for mark in unchecked:
            self._require_last(slot, mark, last)

    def _require_last(self, slot: Slot, mark: LogMark, last: Begin) -> None:
        if mark.slot == slot.name:
            slots.require_last(self.name, mark, last)

    def _emptied(self, table: Table) -> CaptureGap:
        return log.gap(
            self.name,
            f"table {table.name!r} was emptied by TRUNCATE",
            "the server's log does not tell which rows it had",
            TABLE_TRUNCATED,
        )

    def _incomplete(self, table: Table) -> CaptureGap:
        return log.gap(
            self.name,
            f"the replica identity of table {table.name!r} was not FULL for a while",
            "the old values of some rows are not in the server's log",
        )


def _identity(here: Installed) -> str:
    return named(Capture.LOG, here.identity)


def _between(low: LogMark, high: LogMark) -> Callable[[Begin], int]:
    return lambda begin: int(high.holds(begin) and not low.holds(begin))


def _unseen(here: Installed, mark: LogMark) -> Callable[[Begin], int]:
    """What leads from the rows that a snapshot sees to those that the position holds."""

    def weight(begin: Begin) -> int:
        seen = here.snapshot.has(begin.full_xid(here.snapshot.xmax))
        return int(mark.holds(begin)) - int(seen)

    return weight


def _conditions(
    con: Connection, table: Table, keys: KeyList | None, within: Range | None
) -> list[tuple[str, Reading, Condition]]:
    """The restrictions of a read, as conditions on what is told."""
    found: list[tuple[str, Condition]] = []
    if keys is not None:
        found.append((keys.column, lambda value: keys.condition(con, value)))
    if within is not None:
        found.append((within.column, lambda value: within_condition(con, within, table, f"({value})")))
    read = {column.name: column.reading for column in table.columns}
    return [(column, read[column], condition) for column, condition in found]


def _trim_marks(con: Connection) -> None:
    """Whoever captures by triggers trims them himself."""
    con.execute(
        f"DELETE FROM {GLOBAL} WHERE xid < pg_snapshot_xmin(pg_current_snapshot())::text::bigint"
        f" AND NOT EXISTS (SELECT FROM {CONSUMERS})"
    )
