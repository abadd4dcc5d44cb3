"""The databases that hold the tables: three SQLite files in WAL mode, and how frames are written to them.

Rows come from Parquet by way of a SQLite file that is attached, as they are to be stored: writers are
statements of SQLite, and what they cost is SQLite's.
"""

from __future__ import annotations

import importlib.util
import shutil
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from benchmarks.tpch.changes import SIGN, Workload
from benchmarks.tpch.data import COLUMNS, DECLARED, INDEXES, KEYS, ddl, duck, made, scale_folder, tables

HOMES = {"sales": ("orders", "lineitem"), "crm": ("customer",), "buying": ("supplier", "nation", "region")}
HOME = {table: source for source, held in HOMES.items() for table in held}
RELATIONS = {table: f"{source}.{table}" for table, source in HOME.items()}
PART = 50_000  # rows of a table that are changed before the next ones are
_CACHE = 500_000  # KiB of pages that a writer holds
_STAGE = "staged.db"
_DELETED, _INSERTED, _UPDATED = 0, 2, 3  # rows of a key, and the sign of the one that is taken


def databases(scale: float) -> Path:
    return made(scale_folder(scale) / "sqlite", lambda folder: _load(scale, folder))


def copied(scale: float, folder: Path) -> None:
    """Databases of one's own, to change."""
    for source in HOMES:
        shutil.copyfile(databases(scale) / f"{source}.db", folder / f"{source}.db")


def _load(scale: float, folder: Path) -> None:
    _stage(folder / _STAGE, {table: f"SELECT * FROM '{tables(scale) / table}.parquet'" for table in HOME})
    for source, held in HOMES.items():
        path, settings = folder / f"{source}.db", ("journal_mode = WAL", "synchronous = OFF")
        with _writer(path, folder / _STAGE, *settings) as con:
            for table in held:
                con.execute(ddl(table))
                con.execute(f"INSERT INTO {table} SELECT {', '.join(COLUMNS[table])} FROM staged.{table}")
                for column in INDEXES.get(table, ()):
                    con.execute(f"CREATE INDEX {table}_{column} ON {table} ({column})")
    (folder / _STAGE).unlink()


def prepare(workload: Workload) -> None:
    """Makes what `write` reads, all of it, if it is not there."""
    for number in range(1, workload.last + 1):
        if frame := workload.frame(number):
            staged(frame)


def staged(frame: Mapping[str, Path]) -> Path:
    """A SQLite file with the rows of a frame, beside its Parquet files."""
    (beside,) = {path.parent for path in frame.values()}
    return made(beside / f"sqlite-{PART}", lambda folder: _stage_changes(frame, folder / _STAGE)) / _STAGE


def _stage_changes(frame: Mapping[str, Path], path: Path) -> None:
    """Of each key that changes one row, the last if there is one; what is done to it; and its part of the
    table."""
    queries = {}
    for table, signed in frame.items():
        key = ", ".join(KEYS[table])
        found = f"SELECT *, count(*) OVER (PARTITION BY {key}) + {SIGN} AS done FROM '{signed}'"
        place = f"row_number() OVER (ORDER BY {key})"
        queries[table] = (
            f"SELECT * EXCLUDE ({SIGN}), ({place} - 1) // {PART} AS part FROM ({found})"
            f" WHERE {SIGN} > 0 OR done = {_DELETED} ORDER BY part, done, {key}"
        )
    _stage(path, queries)
    con = sqlite3.connect(path)
    for table in frame:
        con.execute(f"CREATE INDEX {table}_parts ON {table} (part, done)")
    con.close()


def _stage(path: Path, queries: Mapping[str, str]) -> None:
    """A SQLite file with what DuckDB answers, as SQLite keeps it: decimals as floats, dates as texts."""
    found = importlib.util.find_spec("duckdb_extension_sqlite_scanner")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("duckdb-extension-sqlite-scanner is missing: install the project's extra `dev`")
    (extension,) = Path(found.submodule_search_locations[0]).rglob("*.duckdb_extension")
    con = duck()
    con.execute(f"LOAD '{extension}'")
    con.execute(f"ATTACH '{path}' AS staged (TYPE sqlite)")
    con.execute("BEGIN")
    for table, query in queries.items():
        stored = ", ".join(_stored(column) for column in DECLARED[table].split(", "))
        con.execute(f"CREATE TABLE staged.{table} AS SELECT * REPLACE ({stored}) FROM ({query})")
    con.execute("COMMIT")
    con.close()


def _stored(declared: str) -> str:
    name, kind = declared.split(" ", 1)
    kind = "DOUBLE" if kind.startswith("DECIMAL") else "VARCHAR" if kind == "DATE" else kind
    return f"CAST({name} AS {kind}) AS {name}"


def write(folder: Path, frame: Mapping[str, Path]) -> None:
    """One transaction at each database that changes: deletes, updates and inserts by key, part by part in the
    order of keys. Changes that are spread over a table touch nearly all of its pages: who goes over it once
    for deletes and once for updates writes it twice. With `synchronous = NORMAL` writers flush what they
    wrote: with OFF, who trims the log would do it for them."""
    settings = ("synchronous = NORMAL", f"cache_size = -{_CACHE}", f"mmap_size = {_CACHE * 4096}")
    for source, held in HOMES.items():
        changed = [table for table in held if table in frame]
        if not changed:
            continue
        with _writer(folder / f"{source}.db", staged(frame), *settings) as con:
            for table in changed:
                _change(con, table)


def _change(con: sqlite3.Connection, table: str) -> None:
    names = ", ".join(COLUMNS[table])
    key = " AND ".join(f"t.{name} = s.{name}" for name in KEYS[table])
    sets = ", ".join(f"{name} = s.{name}" for name in COLUMNS[table] if name not in KEYS[table])
    (last,) = con.execute(f"SELECT max(part) FROM staged.{table}").fetchone()
    for part in range(last + 1):
        done = f"s.part = {part} AND s.done ="
        con.execute(
            f"DELETE FROM {table} WHERE rowid IN (SELECT t.rowid FROM staged.{table} AS s"
            f" CROSS JOIN {table} AS t WHERE {key} AND {done} {_DELETED})"
        )
        con.execute(
            f"UPDATE {table} AS t SET {sets} FROM staged.{table} AS s WHERE {key} AND {done} {_UPDATED}"
        )
        con.execute(f"INSERT INTO {table} SELECT {names} FROM staged.{table} AS s WHERE {done} {_INSERTED}")


@contextmanager
def _writer(path: Path, stage: Path, *settings: str) -> Iterator[sqlite3.Connection]:
    """A transaction at a database that sees what is staged."""
    con = sqlite3.connect(path, timeout=60, isolation_level=None, uri=True)
    try:
        for setting in settings:
            con.execute(f"PRAGMA {setting}")
        con.execute("ATTACH ? AS staged", (f"{stage.resolve().as_uri()}?immutable=1",))
        con.execute("BEGIN IMMEDIATE")
        yield con
        con.execute("COMMIT")
    finally:
        con.close()
