"""Connections to a SQLite file, and queries as Arrow batches.

A reading connection never creates or changes a file. It needs WAL mode, in which a long read does not block
writers: all of one read happens in one transaction, which is one snapshot.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pyarrow as pa

from stillframe.algebra.arrow import staged_schema, tagged_schema
from stillframe.errors import SourceError, ValueMismatch
from stillframe.sources.base import Keys
from stillframe.sources.sqlite.catalog import Table, quoted
from stillframe.sources.sqlite.types import BadValue, Reading, Undecodable, decoded, shortened

BATCH_ROWS = 8_192  # more at once do not stay in the cache, and keep the garbage collector busy
BUSY_SECONDS = 30.0


def _connect(path: Path, mode: str) -> sqlite3.Connection:
    uri = f"file:{quote(str(path.absolute()))}?mode={mode}"
    return sqlite3.connect(uri, uri=True, timeout=BUSY_SECONDS, isolation_level=None)


@contextmanager
def explained(source: str, path: Path) -> Iterator[None]:
    """SQLite's own errors as errors a user can act on."""
    try:
        yield
    except sqlite3.Error as error:
        text = str(error)
        if "locked" in text or "busy" in text:
            raise SourceError(
                f"source {source!r} stayed locked for {BUSY_SECONDS:g} seconds",
                detail=text,
                hint="end the transaction that another program holds open on it, then try again",
                code="LOCKED",
            ) from error
        raise SourceError(f"source {source!r} cannot be used", detail=f"{path}: {text}") from error


def _require_usable(con: sqlite3.Connection, source: str) -> None:
    (mode,) = con.execute("PRAGMA journal_mode").fetchone()
    if mode.lower() != "wal":
        raise SourceError(
            f"source {source!r} is not in WAL mode",
            detail=f"its journal mode is {mode!r}, in which long reads block its writers",
            hint="run `PRAGMA journal_mode=WAL` on it once; the setting stays with the file",
            code="NOT_WAL",
        )


def _require_file(source: str, path: Path) -> None:
    if not path.is_file():
        raise SourceError(
            f"source {source!r} has no database file",
            detail=f"there is no file {path}",
            hint="check the url of the source in stillframe.yml; a missing database is never created",
            code="NO_DATABASE",
        )


@contextmanager
def reading(source: str, path: Path, keys: Keys | None = None) -> Iterator[sqlite3.Connection]:
    """One snapshot. The values of `keys` are in the table temp._stillframe_keys, column k."""
    _require_file(source, path)
    with explained(source, path):
        con = _connect(path, "ro")
        try:
            try:
                con.execute("SELECT count(*) FROM sqlite_master").fetchone()
            except sqlite3.OperationalError as error:
                if "locked" in str(error):
                    raise
                # A WAL database that nobody has open lacks the files a read-only connection cannot make.
                con.close()
                con = _connect(path, "rw")
            _require_usable(con, source)
            if keys is not None:
                con.execute("PRAGMA temp_store = MEMORY")
                kind = "INTEGER" if pa.types.is_integer(keys.values.type) else "TEXT"
                con.execute(f"CREATE TEMP TABLE _stillframe_keys (k {kind} PRIMARY KEY)")
                wanted = ((k,) for k in keys.values.to_pylist() if k is not None)
                con.executemany("INSERT OR IGNORE INTO temp._stillframe_keys VALUES (?)", wanted)
            con.execute("PRAGMA query_only = ON")
            con.execute("BEGIN")
            yield con
        finally:
            con.close()


@contextmanager
def writing(source: str, path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction, committed if its block ends well."""
    _require_file(source, path)
    with explained(source, path):
        con = _connect(path, "rw")
        try:
            _require_usable(con, source)
            con.execute("BEGIN IMMEDIATE")
            yield con
            con.execute("COMMIT")
        finally:
            con.close()


@dataclass(frozen=True, slots=True)
class Query:
    """A query whose columns are the wanted ones, then the signed count if rows are `counted` (else each row
    counts once), then the transaction's number if they are `tagged`."""

    sql: str
    parameters: tuple[Any, ...]
    table: Table
    columns: tuple[str, ...]
    readings: tuple[Reading, ...]
    counted: bool
    tagged: bool = False


def batches(con: sqlite3.Connection, source: str, query: Query) -> Iterator[pa.RecordBatch]:
    try:
        yield from _batches(con, source, query)
    except sqlite3.OperationalError as error:
        if "decode" not in str(error).lower():
            raise
        # Text that is not UTF-8: read again with values that can hold it, to name the row.
        con.text_factory = _lenient
        for _ in _batches(con, source, query):
            pass
        raise


def _lenient(raw: bytes) -> str | Undecodable:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return Undecodable(raw)


def _batches(con: sqlite3.Connection, source: str, query: Query) -> Iterator[pa.RecordBatch]:
    types = [r.type for r in query.readings]
    schema = tagged_schema(types) if query.tagged else staged_schema(types)
    cursor = con.execute(query.sql, query.parameters)
    while rows := cursor.fetchmany(BATCH_ROWS):
        columns = list(zip(*rows, strict=True))
        tags = [pa.array(columns.pop(), type=pa.int64())] if query.tagged else []
        counts = pa.array(columns.pop() if query.counted else [1] * len(rows), type=pa.int64())
        arrays = []
        for name, how, values in zip(query.columns, query.readings, columns, strict=True):
            try:
                arrays.append(decoded(how, values))
            except BadValue as bad:
                raise _mismatch(
                    con, source, query.table, name, bad, rows[bad.index][: len(query.columns)]
                ) from None
        yield pa.RecordBatch.from_arrays([*arrays, counts, *tags], schema=schema)


def _mismatch(
    con: sqlite3.Connection, source: str, table: Table, column: str, bad: BadValue, row: Sequence[object]
) -> ValueMismatch:
    error = ValueMismatch(
        f"column {column!r} of {source}.{table.name} holds {bad}",
        detail=f"in the row {_row_name(con, table, column, bad.value) or shortened(tuple(row), 200)}",
        hint="correct the value at the source, or declare the column with the type its values have",
    )
    error.relation, error.column = table.name, column
    return error


def _row_name(con: sqlite3.Connection, table: Table, column: str, value: object) -> str | None:
    """A row that holds this value, by its primary key or row id; None if it is only in the log."""
    primary = [table.columns[cid].name for u in table.uniques if u.primary for cid, _ in u.parts]
    if table.alias is not None:
        primary = [table.columns[table.alias].name]
    names = primary or ["rowid"]
    picked = ", ".join(quoted(n) for n in primary) or table.rowid
    asked = quoted(column)
    parameter: object
    if isinstance(value, Undecodable):
        condition, parameter = f"CAST({asked} AS BLOB) = ?", bytes(value)
    else:
        condition, parameter = f"+{asked} = ? COLLATE BINARY AND typeof({asked}) = typeof(?1)", value
    found = con.execute(
        f"SELECT {picked} FROM {quoted(table.name)} WHERE {condition.replace('?', '?1', 1)} LIMIT 1",
        (parameter,),
    ).fetchone()
    if found is None:
        return None
    return ", ".join(f"{n} = {shortened(v)}" for n, v in zip(names, found, strict=True))
