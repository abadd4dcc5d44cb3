"""Connections to a PostgreSQL server, and queries as Arrow batches.

All of one read happens in one repeatable-read transaction, which is one snapshot. TRUNCATE and rewriting
ALTER TABLE do not keep to snapshots, so a table is locked (against nothing else) before the snapshot is.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
import pyarrow as pa
import pyarrow.csv as csv
from psycopg import sql

from stillframe.algebra.arrow import staged_schema, tagged_schema
from stillframe.errors import SourceError, ValueMismatch
from stillframe.postgres_url import HINT, place_of, url_parts
from stillframe.sources.base import Range
from stillframe.sources.postgres.catalog import Connection, Table, quoted
from stillframe.sources.postgres.types import Reading, csv_type, finished, sendable

BATCH_ROWS = 65_536
BATCH_BYTES = 16 << 20
CONNECT_SECONDS = 10
LOCK_SECONDS = 30
FEW_KEYS = 1000

# What is printed is exact and means the same everywhere; a row that row security would hide is an error; what
# we write is on the server's disk before we go on, and no standby is waited for.
_SETTINGS = {
    "search_path": "pg_catalog",
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "timezone": "UTC",
    "extra_float_digits": "3",
    "bytea_output": "hex",
    "row_security": "off",
    "synchronous_commit": "local",
    "lock_timeout": f"{LOCK_SECONDS}s",
    "standard_conforming_strings": "on",
}


def parts_of(source: str, url: str) -> dict[str, Any]:
    """The connection's parameters."""
    parts = url_parts(url)
    if parts is None:
        raise SourceError(f"the url of source {source!r} cannot be read", hint=HINT, code="BAD_URL")
    return parts


@contextmanager
def connected(source: str, url: str) -> Iterator[Connection]:
    """A connection of its own for each use; the server's errors become errors a user can act on."""
    parts = parts_of(source, url)
    parts.setdefault("connect_timeout", CONNECT_SECONDS)
    parts.setdefault("application_name", "stillframe")
    try:
        con: Connection = psycopg.connect(**parts, autocommit=True)
    except psycopg.Error as error:
        raise _unreachable(source, place_of(parts), str(error)) from None
    with explained(source):
        try:
            con.execute(
                "SELECT "
                + ", ".join(f"set_config('{name}', '{to}', false)" for name, to in _SETTINGS.items())
            )
            yield con
        finally:
            con.close()


@contextmanager
def reading(source: str, url: str) -> Iterator[Connection]:
    """One snapshot, of what no TRUNCATE and no ALTER TABLE can reach: the catalog and our own tables."""
    with connected(source, url) as con:
        begin_snapshot(con)
        yield con


def begin_snapshot(con: Connection, *tables: str) -> None:
    """The snapshot is taken by the first query after this: when the tables are locked against being emptied
    or rewritten."""
    con.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
    for table in tables:
        con.execute(f"LOCK TABLE {table} IN ACCESS SHARE MODE")


@contextmanager
def writing(source: str, url: str) -> Iterator[Connection]:
    """One transaction, committed if its block ends well."""
    with connected(source, url) as con:
        require_primary(con, source)
        con.execute("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        yield con
        con.execute("COMMIT")


def require_primary(con: Connection, source: str) -> None:
    if con.execute("SELECT pg_is_in_recovery()").fetchone() == (True,):
        raise SourceError(
            f"source {source!r} is a read-only replica",
            detail="changes are captured where they are written",
            hint="give the url of the primary server, or `capture: snapshot`",
            code="READ_ONLY_REPLICA",
        )


_CONNECTING = (
    ("password authentication failed|no password supplied|authentication failed", "LOGIN_REFUSED",
     "refuses the login", "check user and password in the url"),
    ("role .* does not exist", "LOGIN_REFUSED", "knows no such user", "check the user in the url"),
    ("pg_hba.conf|not permitted to log in|permission denied for database", "LOGIN_REFUSED",
     "does not let this account in", "ask the server's administrator for access"),
    ("database .* does not exist", "NO_DATABASE", "has no such database", "check the url of the source"),
    ("too many (clients|connections)|remaining connection slots", "TOO_MANY_CONNECTIONS",
     "has no connection left", "try again later, or raise max_connections"),
)  # fmt: skip


def _unreachable(source: str, place: str, text: str) -> SourceError:
    text = " ".join(text.split())
    for pattern, code, what, hint in _CONNECTING:
        if re.search(pattern, text):
            return SourceError(
                f"the server of source {source!r} {what}", detail=f"{place}: {text}", hint=hint, code=code
            )
    return SourceError(
        f"the server of source {source!r} cannot be reached",
        detail=f"{place}: {text}",
        hint="check host and port in the url, and that the server runs",
        code="UNREACHABLE",
    )


@contextmanager
def explained(source: str) -> Iterator[None]:
    try:
        yield
    except (psycopg.errors.LockNotAvailable, psycopg.errors.DeadlockDetected) as error:
        raise SourceError(
            f"a table of source {source!r} stayed locked",
            detail=_text(error),
            hint="end the transaction that another program holds open on it, then try again",
            code="LOCKED",
        ) from error
    except psycopg.errors.QueryCanceled as error:
        raise SourceError(
            f"source {source!r} cancelled a statement",
            detail=_text(error),
            hint="if it was a timeout: ALTER ROLE … SET statement_timeout = 0 for the account of the url",
            code="STATEMENT_TIMEOUT",
        ) from error
    except psycopg.errors.ReadOnlySqlTransaction as error:
        raise SourceError(
            f"source {source!r} is read-only",
            detail=_text(error),
            hint="give the url of a server that can be written to, or `capture: snapshot`",
            code="READ_ONLY",
        ) from error
    except psycopg.errors.InsufficientPrivilege as error:
        raise SourceError(
            f"the account of source {source!r} lacks a right",
            detail=_text(error),
            hint="`stillframe check` lists the rights that each way to capture needs",
            code="NOT_PERMITTED",
        ) from error
    except psycopg.Error as error:
        raise SourceError(f"source {source!r} cannot be used", detail=_text(error)) from error


def _text(error: psycopg.Error) -> str:
    primary = error.diag.message_primary
    return " ".join((primary or str(error)).split())


def literal(con: Connection, value: Any) -> str:
    return sql.Literal(value).as_string(con)


class KeyList:
    """The keys a read is restricted to: an array in the statement when they are few, else a table of the
    session's own, which has to be made before the snapshot is taken."""

    def __init__(self, con: Connection, column: str, reading: Reading, values: pa.Array) -> None:
        self.column = column
        self._reading = reading
        found = sendable(reading, values)
        self._texts = None if found is None else _texts(found)
        self._table = self._texts is not None and len(self._texts) > FEW_KEYS and self._filled(con)

    def _filled(self, con: Connection) -> bool:
        try:
            con.execute(f"CREATE TEMP TABLE stillframe_keys (k {self._reading.pushed})")
        except psycopg.errors.InsufficientPrivilege:
            return False
        with con.cursor() as cursor, cursor.copy("COPY pg_temp.stillframe_keys FROM STDIN") as copy:
            for text in self._texts or ():
                copy.write_row((text,))
        con.execute("ANALYZE pg_temp.stillframe_keys")
        return True

    def condition(self, con: Connection, expression: str) -> str:
        """True at least where the expression holds one of the keys."""
        if self._texts is None:
            return "true"
        if self._table:
            return f"{expression} IN (SELECT k FROM pg_temp.stillframe_keys)"
        return f"{expression} = ANY ({literal(con, self._texts)}::text[]::{self._reading.pushed}[])"


def _texts(values: pa.Array) -> list[str]:
    return [v.isoformat() if hasattr(v, "isoformat") else str(v) for v in values.to_pylist()]


def within_condition(con: Connection, within: Range, table: Table, expression: str) -> str:
    """Compared in the order of the column's own collation, which a log column need not have."""
    column = table.column(within.column)
    assert column is not None
    if column.collation:
        expression = f"{expression} COLLATE {column.collation}"
    bounds = [
        f"{expression} {operator} {literal(con, bound)}::{column.reading.logged}"
        for operator, bound in ((">", within.above), ("<=", within.upto))
        if bound is not None
    ]
    return " AND ".join(bounds) or "true"


@dataclass(frozen=True, slots=True)
class Query:
    """Rows of a table as they are or were logged: `rows` is what stands after SELECT … , `count` the signed
    count of each, `tag` the number of its transaction. `expressions` are those of the columns, in order."""

    rows: str
    table: Table
    columns: tuple[str, ...]
    expressions: tuple[str, ...]
    readings: tuple[Reading, ...]
    count: str = "1"
    tag: str = ""

    @property
    def sql(self) -> str:
        sent = [r.sent.format(e) for r, e in zip(self.readings, self.expressions, strict=True)]
        # The count comes first: Arrow takes some bytes at the very start for a byte order mark.
        return f"SELECT {', '.join([self.count, *([self.tag] if self.tag else []), *sent])} {self.rows}"


def batches(con: Connection, source: str, url: str, query: Query) -> Iterator[pa.RecordBatch]:
    parser = Parser(query)
    gathered: list[bytes] = []
    size = 0
    with con.cursor() as cursor, cursor.copy(f"COPY ({query.sql}) TO STDOUT (FORMAT csv)") as copy:
        for line in copy:
            gathered.append(bytes(line))
            size += len(line)
            if len(gathered) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield parser.parse(b"".join(gathered), source, url)
                gathered, size = [], 0
    if gathered:
        yield parser.parse(b"".join(gathered), source, url)


class Parser:
    """Lines of CSV, as the server writes them, into batches: an empty field is NULL, an empty text has
    quotes."""

    def __init__(self, query: Query) -> None:
        self._query = query
        types = [r.type for r in query.readings]
        self._schema = tagged_schema(types) if query.tag else staged_schema(types)
        self._leading = 2 if query.tag else 1
        kinds = [pa.int64()] * self._leading + [csv_type(r) for r in query.readings]
        self._types = {f"f{i}": kind for i, kind in enumerate(kinds)}

    def parse(self, lines: bytes, source: str, url: str) -> pa.RecordBatch:
        try:
            table = self._read(lines, self._types)
        except pa.ArrowInvalid as error:
            raise self._mismatch(lines, str(error), source, url) from None
        parsed = [column.combine_chunks() for column in table.columns]
        parsed = [p.chunk(0) if isinstance(p, pa.ChunkedArray) else p for p in parsed]
        leading, columns = parsed[: self._leading], parsed[self._leading :]
        arrays = [finished(r, c) for r, c in zip(self._query.readings, columns, strict=True)]
        return pa.RecordBatch.from_arrays([*arrays, *leading], schema=self._schema)

    @staticmethod
    def _read(lines: bytes, types: dict[str, pa.DataType]) -> pa.Table:
        return csv.read_csv(
            pa.BufferReader(lines),
            read_options=csv.ReadOptions(
                column_names=list(types), use_threads=False, block_size=len(lines) + 1
            ),
            parse_options=csv.ParseOptions(newlines_in_values=True),
            convert_options=csv.ConvertOptions(
                column_types=types,
                null_values=[""],
                strings_can_be_null=True,
                quoted_strings_can_be_null=False,
                true_values=["t"],
                false_values=["f"],
            ),
        )

    def _mismatch(self, lines: bytes, text: str, source: str, url: str) -> SourceError:
        place = re.match(r"In CSV column #(\d+): (?:Row #(\d+): )?", text)
        query = self._query
        if place is None or int(place[1]) < self._leading:
            return SourceError(
                f"what source {source!r} sent of {query.table.name!r} cannot be read", detail=text
            )
        column = query.columns[int(place[1]) - self._leading]
        reading = query.readings[int(place[1]) - self._leading]
        name = f"column {column!r} of {source}.{query.table.name}"
        hint = "correct the value at the source, or leave the column out of the views"
        if place[2] is None:
            told = ValueMismatch(f"{name} holds what is not a {reading.type}", detail=text, hint=hint)
        else:
            strings = {field: pa.string() for field in self._types}
            row = self._read(lines, strings).slice(int(place[2]) - 1, 1).to_pylist()[0]
            value = row[f"f{place[1]}"]
            shown = list(row.values())[self._leading :]
            where = _row_name(source, url, query.table, column, value) or _shortened(tuple(shown), 200)
            what = f"{name} holds {_shortened(value)}, which is not a {reading.type}"
            told = ValueMismatch(what, detail=f"in the row {where}", hint=hint)
        told.relation, told.column = query.table.name, column
        return told


def _shortened(value: object, limit: int = 80) -> str:
    text = repr(value)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _row_name(source: str, url: str, table: Table, column: str, value: str) -> str | None:
    """A row that holds this value, by its primary key; None if it is only in the log."""
    names = [c.name for number in table.primary for c in table.columns if c.number == number]
    if not names:
        return None
    asked = table.column(column)
    assert asked is not None
    sent = asked.reading.sent.format(quoted(column))
    with reading(source, url) as con:
        found = con.execute(
            f"SELECT {', '.join(f'{quoted(n)}::text' for n in names)} FROM {table.rows_sql}"
            f" WHERE ({sent})::text = {literal(con, value)} LIMIT 1"
        ).fetchone()
    if found is None:
        return None
    return ", ".join(f"{n} = {_shortened(v)}" for n, v in zip(names, found, strict=True))
