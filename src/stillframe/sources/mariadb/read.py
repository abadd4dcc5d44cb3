"""Queries as Arrow batches.

Rows are taken from the connection's buffer by a loop of our own, columns as they come, and decoded a column
at a time: PyMySQL's way through an object for each row and a converter for each value takes five times as
long. A batch ends after so many rows or so many bytes, so memory is bounded however wide the rows are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pymysql
from pymysql.cursors import SSCursor
from pymysql.protocol import MysqlPacket

from stillframe.algebra.arrow import staged_schema, tagged_schema
from stillframe.errors import ValueMismatch
from stillframe.sources.base import Keys, Range
from stillframe.sources.mariadb.catalog import Table, TableColumn, quoted
from stillframe.sources.mariadb.connect import HERE, Connection, error_number
from stillframe.sources.mariadb.types import BadValue, Reading, decoded, shortened

BATCH_ROWS = 65_536
BATCH_BYTES = 32 << 20
FEW_KEYS = 1000
MOST_TEXT = 8 << 20
KEYS = "_stillframe_keys"
_NO_RIGHT = (1044, 1142, 1227)
_WHOLE_PACKET = 0xFFFFFF


@dataclass(frozen=True, slots=True)
class Query:
    """A query whose columns are the wanted ones, then the signed count if rows are `counted` (else each row
    counts once), then the transaction's number if they are `tagged`."""

    sql: str
    parameters: tuple[Any, ...]
    table: Table
    columns: tuple[TableColumn, ...]
    counted: bool
    tagged: bool = False

    @property
    def width(self) -> int:
        """A query always has a column."""
        return max(len(self.columns) + self.counted + self.tagged, 1)


def batches(con: Connection, source: str, query: Query) -> Iterator[pa.RecordBatch]:
    types = [c.reading.type for c in query.columns]
    schema = tagged_schema(types) if query.tagged else staged_schema(types)
    with con.stream(query.sql, query.parameters) as cursor:
        while (columns := _fetched(cursor, con, query.width)) is not None:
            count = len(columns[0])
            tags = [_integers(columns.pop())] if query.tagged else []
            counts = _integers(columns.pop()) if query.counted else pa.repeat(pa.scalar(1, pa.int64()), count)
            values = columns[: len(query.columns)]
            arrays = []
            for column, cells in zip(query.columns, values, strict=True):
                try:
                    arrays.append(decoded(column.reading, cells))
                except BadValue as bad:
                    row = [cells[bad.index] for cells in values]
                    raise mismatch(source, query.table, query.columns, column, bad, row) from None
            yield pa.RecordBatch.from_arrays([*arrays, counts, *tags], schema=schema)


def _integers(cells: Sequence[bytes | None]) -> pa.Array:
    return pa.array(cells, pa.binary()).cast(pa.string()).cast(pa.int64())


def _fetched(cursor: SSCursor, con: Connection, width: int) -> list[list[bytes | None]] | None:
    """The next rows of a result, as columns of cells; None after the last."""
    raw: Any = con.raw
    result: Any = cursor._result  # type: ignore[attr-defined]
    if not result.unbuffered_active:
        return None
    columns: list[list[bytes | None]] = [[] for _ in range(width)]
    put = [cells.append for cells in columns]
    read = raw._rfile.read
    size = rows = 0
    while rows < BATCH_ROWS and size < BATCH_BYTES:
        header = read(4)
        if len(header) < 4:
            raise pymysql.err.OperationalError(2013, "Lost connection to the server during the query")
        length = header[0] | header[1] << 8 | header[2] << 16
        data = read(length)
        raw._next_seq_id = (header[3] + 1) & 0xFF
        if length == _WHOLE_PACKET:
            data += _rest(raw, read)
        elif len(data) < length:
            raise pymysql.err.OperationalError(2013, "Lost connection to the server during the query")
        first = data[0]
        if first == 0xFF:
            result.unbuffered_active = False
            MysqlPacket(data, raw.encoding).raise_for_error()
        if first == 0xFE and length < 9:
            result.unbuffered_active = False
            result.connection = None
            break
        place = 0
        for append in put:
            length = data[place]
            place += 1
            if length < 251:
                end = place + length
            elif length == 251:
                append(None)
                continue
            else:
                bytes_of_length = {252: 2, 253: 3, 254: 8}[length]
                start = place + bytes_of_length
                end = start + int.from_bytes(data[place:start], "little")
                place = start
            append(data[place:end])
            place = end
        size += place
        rows += 1
    return columns if rows else None


def _rest(raw: Any, read: Any) -> bytes:
    """What follows a packet of the greatest length: a row of 16 MB and more comes in several."""
    parts = []
    while True:
        header = read(4)
        length = header[0] | header[1] << 8 | header[2] << 16
        parts.append(read(length))
        raw._next_seq_id = (header[3] + 1) & 0xFF
        if length < _WHOLE_PACKET:
            return b"".join(parts)


def mismatch(
    source: str,
    table: Table,
    columns: Sequence[TableColumn],
    column: TableColumn,
    bad: BadValue,
    row: Sequence[bytes | None],
) -> ValueMismatch:
    cells = {c.name: value for c, value in zip(columns, row, strict=True)}
    key = [c.name for c in table.identity()]
    shown = key if key and all(name in cells for name in key) else list(cells)
    values = ", ".join(f"{name} = {_shown(cells[name])}" for name in shown)
    return ValueMismatch(
        f"column {column.name!r} of {source}.{table.name} holds {bad}",
        detail=f"in the row {values[:300]}",
        hint="correct the value at the source; a zero date is no date, NULL is none",
    )


def _shown(value: bytes | None) -> str:
    return "NULL" if value is None else shortened(value.decode(errors="backslashreplace"))


def pushable(reading: Reading) -> bool:
    """Equal in Spark, equal at the source: true of numbers and dates, and of text under every collation,
    since collations only make more texts equal. Large texts are not looked up: a key cannot hold them
    whole."""
    return reading.exact and not reading.large


class KeySet:
    """The values of a `Keys` at the server: in the query's text while they are few, in a temporary table
    otherwise. Where neither is possible there is no restriction, which a reader has to expect anyway."""

    def __init__(self, con: Connection, column: TableColumn, keys: Keys) -> None:
        """To be made before a snapshot begins."""
        self.column = column
        self.values = [v for v in keys.values.unique().to_pylist() if v is not None]
        self.inline = len(self.values) <= FEW_KEYS
        self.all = False
        if not self.inline:
            self._send(con)

    def _send(self, con: Connection) -> None:
        length = re.search(r"\((\d+)\)", self.column.declared) if self.column.charset else None
        index = "k(50)" if length and int(length[1]) > 50 else "k"
        try:
            con.run(
                f"CREATE TEMPORARY TABLE {KEYS} (k {self.column.declared} NOT NULL, KEY ({index}))"
                " ENGINE=InnoDB"
            )
        except pymysql.err.MySQLError as error:
            if error_number(error) not in _NO_RIGHT:
                raise
            self.inline = sum(len(str(v)) + 8 for v in self.values) < MOST_TEXT
            self.all = not self.inline
            return
        with con.raw.cursor() as cursor:
            con.run("START TRANSACTION")
            cursor.executemany(f"INSERT IGNORE INTO {KEYS} VALUES (%s)", [(v,) for v in self.values])
            con.run("COMMIT")
        con.run(f"ANALYZE TABLE {KEYS}")

    def condition(self, expression: str) -> tuple[str, tuple[Any, ...]]:
        if self.all:
            return "TRUE", ()
        if not self.inline:
            return f"{expression} IN (SELECT k FROM {KEYS})", ()
        if not self.values:
            return "FALSE", ()
        items = [compared_text(self.column)] * len(self.values)
        return f"{expression} IN ({', '.join(items)})", tuple(self.values)


def compared_text(column: TableColumn) -> str:
    """A parameter to compare a column with. A text that the column's character set does not have becomes one
    with question marks: no error."""
    if column.charset in (None, "utf8mb4"):
        return HERE
    return f"CONVERT({HERE} USING {column.charset}) COLLATE {column.collation}"


def between(within: Range, expression: str) -> tuple[str, tuple[Any, ...]]:
    parts = [(f"{expression} > {HERE}", within.above), (f"{expression} <= {HERE}", within.upto)]
    bounded = [(text, bound) for text, bound in parts if bound is not None]
    return " AND ".join(text for text, _ in bounded) or "TRUE", tuple(bound for _, bound in bounded)


def selected(columns: Sequence[TableColumn], names: Sequence[str]) -> list[str]:
    """What a query asks for, for columns that stand under these names."""
    return [c.reading.select.format(name) for c, name in zip(columns, names, strict=True)]


def cuts(con: Connection, table: str, column: str, rows: int) -> list[Any]:
    """Values of an indexed column that stand about so many rows apart, in its order."""
    found: list[Any] = []
    name = quoted(column)
    while True:
        above = f"WHERE {name} > {HERE}" if found else ""
        row = con.one(
            f"SELECT {name} FROM {quoted(table)} {above} ORDER BY {name} LIMIT 1 OFFSET {rows - 1}",
            found[-1:],
        )
        if row is None:
            return found
        found.append(row[0])
