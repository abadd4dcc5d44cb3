"""A server's binary log, event by event, as a replica is sent it.

Events are read with the laws of MariaDB's log and no others: every transaction is one group, begun by a GTID
event and ended by its commit, and groups stand in the order of their commits. Row events come without names
and signs of columns, so what they mean is decided by who knows the table (`rows`).
"""

from __future__ import annotations

import secrets
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

import pymysql

from stillframe.sources.mariadb.connect import Connection, Server

_COM_BINLOG_DUMP = 0x12
_NON_BLOCKING = 1
_HEADER = struct.Struct("<IBIIIH")
HEADER_BYTES = _HEADER.size
_ARTIFICIAL = 0x20
_CHECKSUM_BYTES = 4
# What a GTID event says of its group.
_GROUP_COMMIT, TRANSACTIONAL, PREPARED_XA, COMPLETED_XA = 0x02, 0x04, 0x40, 0x80


class Kind(IntEnum):
    QUERY = 2
    STOP = 3
    ROTATE = 4
    FORMAT = 15
    XID = 16
    TABLE_MAP = 19
    WRITE_ROWS = 23
    UPDATE_ROWS = 24
    DELETE_ROWS = 25
    XA_PREPARE = 38
    GTID = 162
    QUERY_COMPRESSED = 165
    WRITE_ROWS_COMPRESSED = 166
    UPDATE_ROWS_COMPRESSED = 167
    DELETE_ROWS_COMPRESSED = 168


ROWS = {
    Kind.WRITE_ROWS: Kind.WRITE_ROWS,
    Kind.UPDATE_ROWS: Kind.UPDATE_ROWS,
    Kind.DELETE_ROWS: Kind.DELETE_ROWS,
    Kind.WRITE_ROWS_COMPRESSED: Kind.WRITE_ROWS,
    Kind.UPDATE_ROWS_COMPRESSED: Kind.UPDATE_ROWS,
    Kind.DELETE_ROWS_COMPRESSED: Kind.DELETE_ROWS,
}
_COMPRESSED_FROM = Kind.QUERY_COMPRESSED


class Unreadable(Exception):
    """The log cannot be read from there, in the server's own words."""


@dataclass(frozen=True, slots=True)
class Event:
    """`start` and `end` are positions in `file`; `data` is the whole event with its header."""

    kind: int
    file: str
    start: int
    end: int
    timestamp: int
    data: bytes

    @property
    def body(self) -> bytes:
        return self.data[HEADER_BYTES:]


@dataclass(frozen=True, slots=True)
class Query:
    """`mode` is the sql_mode that the statement was written in."""

    database: str
    text: str
    mode: int = 0


@dataclass(frozen=True, slots=True)
class TableMap:
    """`types` and `metas` are those of the columns, in their order."""

    id: int
    database: str
    table: str
    types: bytes
    metas: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class RowsEvent:
    """`images` is all rows, one after the other; an update has two images a row, of which each has all
    columns if the event is `whole`."""

    kind: Kind
    table: int
    width: int
    whole: bool
    images: bytes


def events(server: Server, file: str, start: int) -> Iterator[Event]:
    """The events from a position to the end of the log. Nothing is held open once the iteration ends."""
    con = Connection(server)
    try:
        con.run("SET @master_binlog_checksum = 'NONE', @mariadb_slave_capability = 4")
        _ask(con.raw, file, start)
        yield from _received(con.raw, file)
    finally:
        raw: Any = con.raw
        raw._force_close()


def _ask(raw: Any, file: str, start: int) -> None:
    """Every reader has a number of its own: a server ends the replica whose number another one gives."""
    replica = 0x8000_0000 | secrets.randbits(31)
    request = struct.pack("<BIHI", _COM_BINLOG_DUMP, start, _NON_BLOCKING, replica) + file.encode()
    raw._write_bytes(len(request).to_bytes(3, "little") + b"\0" + request)
    raw._next_seq_id = 1


def _received(raw: Any, file: str) -> Iterator[Event]:
    """Each file says in its first event whether its events end in checksums, also the one that the server
    makes up at the end of a file to tell of the next. The very first has none, as asked for."""
    checksum = 0
    while True:
        try:
            packet = raw._read_packet()
        except pymysql.err.MySQLError as error:
            number = error.args[0] if error.args else 0
            if number == 1236:
                raise Unreadable(str(error.args[1])) from None
            raise
        data = packet.get_all_data()
        if data[0] == 0xFE and len(data) < 9:
            return
        timestamp, kind, _, length, end, flags = _HEADER.unpack_from(data, 1)
        if kind == Kind.FORMAT:
            checksum = _CHECKSUM_BYTES if data[-1 - _CHECKSUM_BYTES] else 0
        elif kind == Kind.ROTATE and flags & _ARTIFICIAL:
            file = data[1 + HEADER_BYTES + 8 : len(data) - checksum].decode()
        elif not flags & _ARTIFICIAL and end:
            yield Event(kind, file, end - length, end, timestamp, data[1 : len(data) - checksum])


def query_of(event: Event) -> Query:
    body = event.body
    database_length, status_length = body[8], int.from_bytes(body[11:13], "little")
    place = 13 + status_length
    database = body[place : place + database_length].decode()
    text = body[place + database_length + 1 :]
    if event.kind == Kind.QUERY_COMPRESSED:
        text = _uncompressed(text)
    return Query(database, text.decode(errors="replace"), _sql_mode(body[13:place]))


def _sql_mode(status: bytes) -> int:
    """The second thing a statement is logged with, after four bytes of flags."""
    place = 5 if status[:1] == b"\0" else 0
    return (
        int.from_bytes(status[place + 1 : place + 9], "little") if status[place : place + 1] == b"\1" else 0
    )


def xid_of(event: Event) -> str:
    """The name of the XA transaction that a group prepares or ends; nothing where it does neither."""
    body = event.body
    if not body[12] & (PREPARED_XA | COMPLETED_XA):
        return ""
    place = 13 + (8 if body[12] & _GROUP_COMMIT else 0)
    return body[place : place + 6 + body[place + 4] + body[place + 5]].hex()


def table_of(event: Event) -> TableMap:
    body = event.body
    database_end = 9 + body[8]
    database = body[9:database_end].decode()
    table_end = database_end + 2 + body[database_end + 1]
    table = body[database_end + 2 : table_end].decode()
    width, place = _length(body, table_end + 1)
    types = body[place : place + width]
    size, place = _length(body, place + width)
    metas = _metas(types, body[place : place + size])
    return TableMap(int.from_bytes(body[:6], "little"), database, table, types, metas)


def rows_of(event: Event) -> RowsEvent:
    body = event.body
    kind = ROWS[Kind(event.kind)]
    width, place = _length(body, 8)
    bitmap = (width + 7) // 8
    whole = True
    for _ in range(2 if kind is Kind.UPDATE_ROWS else 1):
        present = int.from_bytes(body[place : place + bitmap], "little")
        whole &= present.bit_count() >= width
        place += bitmap
    images = body[place:]
    if event.kind >= _COMPRESSED_FROM:
        images = _uncompressed(images)
    return RowsEvent(kind, int.from_bytes(body[:6], "little"), width, whole, images)


def table_id_of(event: Event) -> int:
    return int.from_bytes(event.data[HEADER_BYTES : HEADER_BYTES + 6], "little")


def _length(data: bytes, place: int) -> tuple[int, int]:
    """A number that says its own length, and where the next thing begins."""
    first = data[place]
    if first < 251:
        return first, place + 1
    size = {252: 2, 253: 3, 254: 8}[first]
    return int.from_bytes(data[place + 1 : place + 1 + size], "little"), place + 1 + size


def _uncompressed(data: bytes) -> bytes:
    return zlib.decompress(data[1 + (data[0] & 7) :])


_TWO_BYTES = {15, 16, 246, 247, 248, 253, 254, 141}
_ONE_BYTE = {4, 5, 17, 18, 19, 140, 245, 249, 250, 251, 252, 255}


def _metas(types: bytes, data: bytes) -> tuple[int, ...]:
    metas, place = [], 0
    for kind in types:
        if kind in _TWO_BYTES:
            # Of DECIMAL, CHAR, ENUM and SET the first byte is a number of its own.
            order = "big" if kind in (246, 247, 248, 254) else "little"
            metas.append(int.from_bytes(data[place : place + 2], order))  # type: ignore[arg-type]
            place += 2
        elif kind in _ONE_BYTE:
            metas.append(data[place])
            place += 1
        else:
            metas.append(0)
    return tuple(metas)
