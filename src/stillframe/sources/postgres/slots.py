"""A consumer's share of the server's log: a replication slot, which keeps the log, and a publication, which
says what of it is told.

Laws the rest builds on:

- A position is a place in the server's log: it holds the transactions whose commit stands before it.
- A slot never tells again what was committed before the place it was advanced to, and forgets nothing after.
- What a publication tells is decided by the catalog as it was when the row was written. So a table is added
  to it while no one else writes to it: every transaction is told with all it did to the table, or none of it.
- The publication is made before its slot, which could not be read from before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import psycopg

from stillframe.errors import SourceError
from stillframe.sources.base import Position
from stillframe.sources.postgres.capture import GLOBAL, PUBLISHED, SLOTS
from stillframe.sources.postgres.catalog import Connection, Table
from stillframe.sources.postgres.decoded import Begin, begin, events
from stillframe.sources.postgres.log import gap
from stillframe.sources.postgres.read import connected, literal
from stillframe.sources.postgres.seen import lsn_text

GLOBAL_PUBLICATION = "stillframe_global"
_PATIENT = "600s"
FETCHED = 20_000


def slot_name(database: str, schema: str, consumer: str) -> str:
    """Slots of all databases of a server share their names; these may hold little but letters."""
    digest = hashlib.sha256("\0".join((database, schema, consumer)).encode()).hexdigest()
    return f"stillframe_{digest[:24]}"


@dataclass(frozen=True, slots=True)
class LogMark:
    """What a position is known by: its place, the last transaction told before it (zeros where there was
    none), the timeline of the server's log, and the slot that tells what comes after. It holds all that was
    committed before its place, but what it leaves out."""

    lsn: int
    last: Begin
    timeline: str
    slot: str
    left_out: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> LogMark:
        lsn, last_lsn, at, xid, timeline, slot, out = text.split("|")
        left_out = frozenset(int(each) for each in out.split(",") if each)
        return cls(int(lsn), Begin(int(last_lsn), int(at), int(xid)), timeline, slot, left_out)

    def __str__(self) -> str:
        last, out = self.last, ",".join(map(str, sorted(self.left_out)))
        return f"{self.lsn}|{last.lsn}|{last.at}|{last.xid}|{self.timeline}|{self.slot}|{out}"

    def holds(self, begin: Begin) -> bool:
        return begin.lsn < self.lsn and begin.lsn not in self.left_out

    @property
    def needs(self) -> int:
        """From where on a slot must be able to tell."""
        return min(self.lsn, *self.left_out) if self.left_out else self.lsn

    def position(self, identity: str) -> Position:
        # A commit takes more than a byte, so positions keep their order.
        return Position(identity, self.lsn - len(self.left_out), str(self))


NONE = Begin(0, 0, 0)


@dataclass
class Told:
    """A transaction in brief: how many rows it changed in each table or partition (an update counts two),
    the group it was marked as a part of, and what cannot be followed."""

    begin: Begin
    rows: dict[int, int] = field(default_factory=dict)
    group: tuple[str, int] | None = None
    emptied: set[int] = field(default_factory=set)
    incomplete: set[int] = field(default_factory=set)


def decodable(table: Table) -> Table:
    """The table as the server's log tells of it."""
    why = "a generated column is not in the server's log"
    columns = (
        replace(c, reading=replace(c.reading, key=False, pushed="", refused=c.reading.refused or why))
        if c.generated
        else c
        for c in table.columns
    )
    return replace(table, columns=tuple(columns))


def end_of_log(con: Connection) -> int:
    (end,) = con.execute("SELECT (pg_current_wal_insert_lsn() - '0/0')::bigint").fetchone() or (0,)
    return int(end)


def flush(con: Connection) -> None:
    """Everything committed so far is on the server's disk, and so can be decoded."""
    safe = con.execute("SELECT pg_current_wal_flush_lsn() >= pg_current_wal_insert_lsn()").fetchone()
    if safe != (True,):
        con.execute("BEGIN READ WRITE")
        con.execute("SELECT pg_logical_emit_message(true, 'stillframe', '')")
        con.execute("COMMIT")


@contextmanager
def listening(source: str, url: str, slot: str) -> Iterator[Connection]:
    """A connection of its own, that nobody else reads the slot beside: a slot serves one at a time."""
    with connected(source, url) as con, _slot_errors(source, slot):
        con.execute(f"SET lock_timeout = '{_PATIENT}'")
        con.execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (slot,))
        flush(con)
        yield con


@contextmanager
def _slot_errors(source: str, slot: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.errors.UndefinedObject, psycopg.errors.ObjectNotInPrerequisiteState) as error:
        raise gap(
            source, "its replication slot or publication is gone, or lost", str(error).strip()
        ) from error
    except psycopg.errors.ObjectInUse as error:
        raise SourceError(
            f"the replication slot of source {source!r} is in use",
            detail=str(error).strip(),
            hint=f"end the program that reads slot {slot!r}, then try again",
            code="LOCKED",
        ) from error


def _changes(con: Connection, slot: str, upto: int | None) -> str:
    """The messages, as a table `c` of their number, transaction and bytes."""
    names = f'"{slot}","{GLOBAL_PUBLICATION}"'
    place = "NULL" if upto is None else f"'{lsn_text(upto)}'"
    return (
        f"pg_logical_slot_peek_binary_changes({literal(con, slot)}, {place}, NULL, 'proto_version', '1',"
        f" 'publication_names', {literal(con, names)}) WITH ORDINALITY AS c (lsn, xid, data, n)"
    )


def messages(con: Connection, slot: str, upto: int | None, parts: Sequence[int]) -> Iterator[bytes]:
    """What is told of these tables, in order. The server prepares all of it, and hands it out in pieces."""
    wanted = ", ".join(f"'\\x{part:08x}'" for part in parts)
    con.execute("BEGIN READ ONLY")
    with con.cursor("stillframe_messages", binary=True) as cursor:
        cursor.itersize = FETCHED
        cursor.execute(
            f"SELECT data FROM {_changes(con, slot, upto)} WHERE get_byte(data, 0) IN (66, 82, 84)"
            f" OR substring(data, 2, 4) = ANY (ARRAY[{wanted}]::bytea[])"
        )
        for (data,) in cursor:
            yield data
    con.execute("COMMIT")


def told(con: Connection, slot: str, upto: int | None) -> list[Told]:
    """Every transaction the slot has to tell, in the order of commits, in brief: rows are counted there."""
    (marks,) = con.execute(f"SELECT '{GLOBAL}'::regclass::oid::bigint").fetchone() or (0,)
    rows = con.execute(
        f"WITH m AS MATERIALIZED (SELECT n, xid, data, get_byte(data, 0) AS kind FROM"
        f" {_changes(con, slot, upto)})"
        f" SELECT n, xid::text::bigint, data, 1 FROM m WHERE kind IN (66, 82, 84)"
        f" OR kind = 73 AND substring(data, 2, 4) = '\\x{marks:08x}'"
        " OR kind IN (68, 85) AND get_byte(data, 5) <> 79"
        " UNION ALL SELECT min(n), xid::text::bigint, substring(data, 1, 5), count(*) FROM m"
        " WHERE kind IN (68, 73, 85) GROUP BY 2, 3 ORDER BY 1",
        binary=True,
    ).fetchall()
    layouts = [data for _, _, data, _ in rows if data[:1] == b"R"]
    found: dict[int, Told] = {}
    for _, xid, data, count in rows:
        kind = data[:1]
        if kind == b"B":
            found[xid] = Told(begin(data))
        elif kind != b"R":
            _add(found[xid], data, count, marks, layouts)
    return list(found.values())


def _add(of: Told, data: bytes, count: int, marks: int, layouts: list[bytes]) -> None:
    part = int.from_bytes(data[1:5], "big")
    if data[:1] == b"T":
        (event,) = events([data])
        of.emptied |= set(event.parts)  # type: ignore[union-attr]
    elif len(data) > 5 and part == marks:
        (row,) = [e for e in events([*layouts, data]) if e.layout.part == marks]  # type: ignore[union-attr]
        values = dict(zip(row.layout.columns, row.values, strict=True))  # type: ignore[union-attr]
        of.group = of.group or ((values["id"] or b"").decode(), int(values["parts"] or 0))
    elif len(data) > 5:
        of.incomplete.add(part)
    elif part != marks:
        of.rows[part] = of.rows.get(part, 0) + count * (2 if data[:1] == b"U" else 1)


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot as the server has it, with what we noted of it."""

    name: str
    consumer: str
    place: int
    noted: LogMark
    kept: int


def require_slot(con: Connection, source: str, name: str) -> Slot:
    """CAPTURE_GAP unless the slot is there and can still tell."""
    row = con.execute(
        "SELECT s.consumer, s.mark, (r.confirmed_flush_lsn - '0/0')::bigint, r.wal_status,"
        " (pg_current_wal_insert_lsn() - r.restart_lsn)::bigint"
        f" FROM {SLOTS} AS s LEFT JOIN pg_replication_slots AS r ON r.slot_name = s.slot"
        " AND r.database = current_database() AND r.plugin = 'pgoutput' WHERE s.slot = %s",
        (name,),
    ).fetchone()
    if row is None:
        raise gap(source, "the consumer that the position is of is not registered there")
    consumer, mark, place, status, kept = row
    if mark is None:
        raise gap(source, f"consumer {consumer!r} was dropped, being further behind than the capture limit")
    if place is None:
        raise gap(source, f"the replication slot of consumer {consumer!r} is gone", f"slot {name}")
    if status == "lost" or kept is None:
        raise gap(
            source,
            f"the server gave up the replication slot of consumer {consumer!r}",
            f"slot {name} kept more of the server's log than max_slot_wal_keep_size",
        )
    return Slot(name, consumer, place, LogMark.parse(mark), kept)


def last_before(found: Sequence[Told], slot: Slot, place: int) -> Begin:
    """The last transaction told before a place. What the slot does not tell any more was noted."""
    return next((t.begin for t in reversed(found) if t.begin.lsn < place), slot.noted.last)


def require_last(source: str, mark: LogMark, last: Begin) -> None:
    """The history that the position is of, and not another one that came to the same place."""
    if last != mark.last:
        raise gap(
            source,
            "the database was restored from an older copy and written to since",
            f"the last transaction before {lsn_text(mark.lsn)} is another one",
        )


def published_digest(con: Connection, slot: str, table: int) -> str:
    """What of a table's publication is there now. Whatever is removed and added again has another version."""
    (found,) = con.execute(
        "SELECT md5(concat_ws(' ', p.oid, p.pubinsert, p.pubupdate, p.pubdelete, p.pubtruncate, p.pubviaroot,"
        " r.oid, r.xmin, g.oid, g.xmin)) FROM pg_publication AS p JOIN pg_publication_rel AS r"
        " ON r.prpubid = p.oid AND r.prrelid = %s JOIN pg_publication AS q ON q.pubname = %s"
        " JOIN pg_publication_rel AS g ON g.prpubid = q.oid WHERE p.pubname = %s",
        (table, GLOBAL_PUBLICATION, slot),
    ).fetchone() or ("",)
    return str(found)


def full_identity(con: Connection, parts: Sequence[int]) -> bool:
    return con.execute(
        "SELECT bool_and(relreplident = 'f') FROM pg_class WHERE oid = ANY (%s::oid[])", (list(parts),)
    ).fetchone() != (False,)


def published_relations(con: Connection, slot: str) -> dict[str, tuple[int, str, str]]:
    """Since when each relation is told, its shape and digest then."""
    rows = con.execute(f"SELECT relation, since, shape, digest FROM {PUBLISHED} WHERE slot = %s", (slot,))
    return {relation: (since, shape, digest) for relation, since, shape, digest in rows}
