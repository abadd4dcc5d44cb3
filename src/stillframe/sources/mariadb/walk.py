"""From one position of the binary log to another, group by group.

A position is a place in the log between two groups, and the numbers of earlier ones to leave out. Its anchor
is the event that begins there, which was written after: a database that has it has all that came before. In
one restored from a copy, and written to since, it is another one, or none.

    transaction in position  ⇔  it begins before the place  and  it is not among `out`

The log tells all that can go wrong, in its own order: statements that define tables, statements logged as
text, rows that lack columns. What concerns a relation is a gap for it.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from stillframe.errors import CaptureGap
from stillframe.sources.mariadb.catalog import TableColumn
from stillframe.sources.mariadb.connect import Connection, Server
from stillframe.sources.mariadb.events import (
    COMPLETED_XA,
    PREPARED_XA,
    ROWS,
    TRANSACTIONAL,
    Event,
    Kind,
    Query,
    RowsEvent,
    TableMap,
    Unreadable,
    events,
    query_of,
    rows_of,
    table_id_of,
    table_of,
    xid_of,
)
from stillframe.sources.mariadb.position import gap
from stillframe.sources.mariadb.rows import ByteTables, Layout, Unfit, count_images, images, layout
from stillframe.sources.mariadb.statements import bare

_PLACE_BITS = 40
_FIRST_PLACE = 4  # in each file
_CONTROL = re.compile(r"\s*(BEGIN|COMMIT|ROLLBACK|SAVEPOINT|RELEASE|XA|START)\b", re.IGNORECASE)
_XA_COMMIT = re.compile(r"\s*XA\s+COMMIT\b", re.IGNORECASE)
_ROLLBACK = re.compile(r"\s*ROLLBACK\s*;?\s*$", re.IGNORECASE)
_TEMPORARY = re.compile(r"\s*\w+\s+(OR\s+REPLACE\s+)?(/\*!\d+\s+)?TEMPORARY\b", re.IGNORECASE)
_NAME = r"(?:(?P<of>`(?:[^`]|``)+`|[\w$]+)\s*\.\s*)?(?P<name>`(?:[^`]|``)+`|[\w$]+)"
_CREATE = re.compile(rf"\s*CREATE\s+(OR\s+REPLACE\s+)?TABLE\s+(IF\s+NOT\s+EXISTS\s+)?{_NAME}", re.IGNORECASE)
_ALTER = re.compile(
    rf"\s*ALTER\s+(ONLINE\s+|IGNORE\s+)*TABLE\s+(IF\s+EXISTS\s+)?{_NAME}(?P<rest>.*)",
    re.IGNORECASE | re.DOTALL,
)
_DROPS = re.compile(r"\s*(DROP\s+(TABLE|DATABASE|SCHEMA)|RENAME\s+TABLE)S?\b", re.IGNORECASE)
_TRUNCATES = re.compile(r"\s*TRUNCATE\b", re.IGNORECASE)
_CHANGES = re.compile(r"\s*(INSERT|UPDATE|DELETE|REPLACE|LOAD|WITH|CALL)\b", re.IGNORECASE)
# What an ALTER TABLE does that may move, change or lose a row or a column.
_MOVES = re.compile(
    r"\b(MODIFY|CHANGE|RENAME|CONVERT|PARTITION|PARTITIONING|TRUNCATE|EXCHANGE|FIRST|AFTER|DISCARD|IMPORT|IGNORE"
    r"|DROP(?!\s+(INDEX|KEY|FOREIGN|CONSTRAINT|CHECK|PRIMARY)\b))\b",
    re.IGNORECASE,
)
_CASCADES = re.compile(r"\bON\s+(DELETE|UPDATE)\s+(CASCADE|SET)\b", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Place:
    file: str
    at: int

    @property
    def number(self) -> int:
        """In the order of the log."""
        return int(self.file.rpartition(".")[2]) << _PLACE_BITS | self.at

    def of(self, number: int) -> Place:
        """The place of that number, in the same log."""
        stem, _, digits = self.file.rpartition(".")
        return Place(f"{stem}.{number >> _PLACE_BITS:0{len(digits)}d}", number & ((1 << _PLACE_BITS) - 1))


@dataclass(frozen=True, slots=True)
class Mark:
    """`digest` is that of the event that begins at `place`."""

    place: Place
    out: tuple[int, ...]
    digest: str

    def to_text(self) -> str:
        return json.dumps([self.place.file, self.place.at, self.out, self.digest], separators=(",", ":"))

    @classmethod
    def from_text(cls, text: str) -> Mark:
        file, at, out, digest = json.loads(text)
        return cls(Place(file, at), tuple(out), digest)

    @property
    def start(self) -> Place:
        """Where to read from to see all that is not in the position."""
        return self.place if not self.out else self.place.of(min(self.out))

    def has(self, transaction: int) -> bool:
        return transaction < self.place.number and transaction not in self.out


@dataclass(frozen=True, slots=True)
class Watched:
    """A relation whose rows are wanted: its columns in their order, which to read, and what the bytes of
    their character sets stand for."""

    columns: tuple[TableColumn, ...]
    wanted: tuple[int, ...]
    bytes_of: ByteTables = field(default_factory=dict)


ANYTHING = Watched((), ())  # of a relation of which only is asked whether it changed


@dataclass(frozen=True, slots=True)
class Rows:
    """One rows event of a transaction."""

    transaction: int
    timestamp: int
    relation: str
    event: RowsEvent
    how: Layout

    def signed(self) -> Iterator[tuple[list[bytes | None], int]]:
        if self.event.kind is Kind.UPDATE_ROWS:
            sign = 1
            for cells in images(self.event, self.how):
                sign = -sign
                yield cells, sign
            return
        sign = 1 if self.event.kind is Kind.WRITE_ROWS else -1
        for cells in images(self.event, self.how):
            yield cells, sign

    def count(self) -> int:
        return count_images(self.event, self.how.sizes)


@dataclass(slots=True)
class Walk:
    """`end` is where to stop, at `upto` or, without one, where a snapshot stands. A gap of a `minor` relation
    only disturbs. `bytes` counts what was read."""

    source: str
    server: Server
    after: Mark
    upto: Mark | None
    end: Place
    watched: Mapping[str, Watched]
    minor: frozenset[str] = frozenset()
    disturbed: bool = False
    bytes: int = 0
    _tables: dict[int, tuple[str, Layout] | None] = field(default_factory=dict)
    _prepared: set[str] = field(default_factory=set)

    def rows(self) -> Iterator[Rows]:
        """The row events of transactions that are not in `after` and are in `upto`, if there is one. A group
        that is not of transactional tables alone may end in ROLLBACK: it is held until it is over."""
        transaction, flags, xid = 0, TRANSACTIONAL, ""
        held: list[Rows] = []
        for event in self._events():
            kind = event.kind
            if kind == Kind.GTID:
                yield from held
                held = []
                transaction, flags = Place(event.file, event.start).number, event.body[12]
                xid = xid_of(event)
                if flags & PREPARED_XA and self._wanted(transaction):
                    self._prepared.add(xid)
                self._tables.clear()
            elif kind == Kind.TABLE_MAP:
                self._note(table_of(event))
            elif kind in ROWS:
                known = self._tables.get(table_id_of(event))
                if known is not None and self._wanted(transaction):
                    found = self._rows(transaction, flags, event, *known)
                    if found is None:
                        self.disturbed = True
                    elif flags & TRANSACTIONAL:
                        yield found
                    else:
                        held.append(found)
            elif kind in (Kind.QUERY, Kind.QUERY_COMPRESSED) and self._wanted(transaction):
                query = query_of(event)
                if _ROLLBACK.match(query.text):
                    held = []
                if flags & COMPLETED_XA and _XA_COMMIT.match(query.text):
                    self._require_known(xid)
                self._heed(query)
        yield from held

    def _wanted(self, transaction: int) -> bool:
        return not self.after.has(transaction) and (self.upto is None or self.upto.has(transaction))

    def _rows(self, transaction: int, flags: int, event: Event, relation: str, how: Layout) -> Rows | None:
        """None of a minor relation whose rows cannot be followed."""
        found = rows_of(event)
        if found.whole and not flags & PREPARED_XA:
            return Rows(transaction, event.timestamp, relation, found, how)
        if relation in self.minor:
            return None
        if flags & PREPARED_XA:
            raise self._xa(relation)
        raise self._gap(
            f"the binary log has rows of table {relation!r} that lack columns",
            "they were written with a binlog_row_image other than FULL",
        )

    def _xa(self, relation: str) -> CaptureGap:
        return self._gap(
            f"table {relation!r} was written by an XA transaction",
            "what it wrote is in the log before it is committed",
        )

    def _require_known(self, xid: str) -> None:
        """An XA transaction that was prepared before the walk began is looked for in the file it began in."""
        if xid in self._prepared:
            return
        inside = found = False
        start = self.after.start
        for event in events(self.server, start.file, _FIRST_PLACE):
            if Place(event.file, event.start).number >= start.number:
                break
            if event.kind == Kind.GTID:
                inside = bool(event.body[12] & PREPARED_XA) and xid_of(event) == xid
                found = found or inside
            elif inside and event.kind == Kind.TABLE_MAP:
                table = table_of(event)
                if table.database != self.server.database or table.table not in self.watched:
                    continue
                if table.table not in self.minor:
                    raise self._xa(table.table)
                self.disturbed = True
        if found:
            return
        for relation in self.watched:
            if relation not in self.minor:
                raise self._xa(relation)

    def _note(self, table: TableMap) -> None:
        self._tables[table.id] = None
        watched = self.watched.get(table.table) if table.database == self.server.database else None
        if watched is None:
            return
        try:
            how = layout(table, watched.columns, watched.wanted, watched.bytes_of)
        except Unfit as unfit:
            if table.table in self.minor:
                self.disturbed = True
                return
            raise self._gap(f"table {table.table!r} changed its columns", str(unfit)) from None
        self._tables[table.id] = table.table, how

    def _events(self) -> Iterator[Event]:
        """All that begin before the end. The anchors must be there."""
        start, reached = self.after.start, self.after.start
        anchors = {self.after.place: self.after.digest}
        if self.upto is not None:
            anchors[self.upto.place] = self.upto.digest
        ended, file = True, start.file
        try:
            for event in events(self.server, start.file, start.at):
                place = Place(event.file, event.start)
                if event.file != file and not ended:
                    self._require_durable(file)
                ended, file = event.kind in (Kind.STOP, Kind.ROTATE), event.file
                if place in anchors and anchors.pop(place) != digest_of(event):
                    raise self._gap(
                        "the database was restored from an older copy and written to since",
                        f"the event at {place.file}:{place.at} is another one",
                    )
                if place.number >= self.end.number:
                    reached = self.end
                    break
                reached = Place(event.file, event.end)
                self.bytes += len(event.data)
                yield event
        except Unreadable as error:
            raise self._unreadable(str(error)) from None
        if anchors or reached != self.end:
            raise self._gap(
                "the database was restored from an older copy",
                f"{self.end.file}:{self.end.at} is not in its log",
            )

    def _require_durable(self, file: str) -> None:
        """A file that nothing ends was the last one before a crash. Where commits do not wait for the disk,
        the log may have more than the tables."""
        con = Connection(self.server)
        try:
            ((flush,),) = con.all("SELECT @@innodb_flush_log_at_trx_commit")
        finally:
            con.close()
        if flush != 1:
            raise self._gap(
                "its server crashed, and its tables may lack what its log has",
                f"{file} was not ended, and innodb_flush_log_at_trx_commit is not 1",
            )

    def _unreadable(self, text: str) -> CaptureGap:
        if "Could not find first log" in text:
            return self._gap(
                "the binary log was purged that far, or begun anew",
                f"{self.after.start.file} is not there any more",
            )
        return self._gap("the database was restored from an older copy, or its binary log begun anew", text)

    def _heed(self, query: Query) -> None:
        text = bare(query)
        if _CONTROL.match(text) or _TEMPORARY.match(text):
            return
        ours = self.server.database
        if query.database == ours or _names(text, ours):
            for relation in self.watched:
                try:
                    self._require_harmless(relation, text, query.database)
                except CaptureGap:
                    if relation not in self.minor:
                        raise
                    self.disturbed = True

    def _require_harmless(self, relation: str, text: str, database: str) -> None:
        """A statement may be taken for more than it means, never for less."""
        shown = " ".join(text.split())[:200]
        created, altered, drops = _CREATE.match(text), _ALTER.match(text), _DROPS.match(text)
        if created:
            harmful = self._is(relation, created, database)
        elif altered and self._is(relation, altered, database):
            ignores = _MOVES.search(text[: altered.start("name")])
            changes = _MOVES.search(altered["rest"]) or _CASCADES.search(altered["rest"])
            harmful = (ignores or changes) is not None
        elif altered:
            harmful = _MOVES.search(altered["rest"]) is not None and _names(altered["rest"], relation)
        elif drops:
            harmful = (drops[2] is not None and drops[2].upper() != "TABLE") or _names(text, relation)
        elif _TRUNCATES.match(text) and _names(text, relation):
            raise self._gap(f"table {relation!r} was truncated", shown, "TRUNCATED")
        elif _CHANGES.match(text) and _names(text, relation):
            raise self._gap(
                f"the binary log has a change of table {relation!r} as a statement, not as rows", shown
            )
        else:
            harmful = False
        if harmful:
            raise self._gap(f"table {relation!r} was defined anew", shown)

    def _is(self, relation: str, found: re.Match[str], database: str) -> bool:
        name, of = _unquoted(found["name"]), _unquoted(found["of"] or database)
        return name.lower() == relation.lower() and of.lower() == self.server.database.lower()

    def _gap(self, message: str, detail: str, code: str | None = None) -> CaptureGap:
        return gap(self.source, message, detail, code)


def anchored(source: str, server: Server, place: Place) -> Mark | None:
    """The position at a place, once something was written there."""
    try:
        for event in events(server, place.file, place.at):
            if Place(event.file, event.start) == place:
                return Mark(place, (), digest_of(event))
    except Unreadable as error:
        raise gap(source, "the binary log cannot be read from where a snapshot stands", str(error)) from None
    return None


def digest_of(event: Event) -> str:
    return hashlib.sha256(event.data).hexdigest()[:16]


def _names(text: str, name: str) -> bool:
    """Whether a statement names something, quoted or not."""
    plain = text.replace("``", "`")
    return re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", plain, re.IGNORECASE) is not None


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
