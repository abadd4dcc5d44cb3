"""The databases that hold the tables: three SQLite files in WAL mode, and how frames are written to them."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.tpch.changes import SIGN
from benchmarks.tpch.data import COLUMNS, INDEXES, KEYS, ddl, made, scale_folder, tables

HOMES = {"sales": ("orders", "lineitem"), "crm": ("customer",), "buying": ("supplier", "nation", "region")}
HOME = {table: source for source, held in HOMES.items() for table in held}
RELATIONS = {table: f"{source}.{table}" for table, source in HOME.items()}
_BATCH = 50_000
_CACHE = 500_000  # KiB of pages that a writer holds

Rows = list[tuple[Any, ...]]


def databases(scale: float) -> Path:
    return made(scale_folder(scale) / "sqlite", lambda folder: _load(scale, folder))


def copied(scale: float, folder: Path) -> None:
    """Databases of one's own, to change."""
    for source in HOMES:
        shutil.copyfile(databases(scale) / f"{source}.db", folder / f"{source}.db")


def _load(scale: float, folder: Path) -> None:
    for source, held in HOMES.items():
        con = sqlite3.connect(folder / f"{source}.db", isolation_level=None)
        con.execute("PRAGMA journal_mode=WAL")
        con.execute("PRAGMA synchronous=OFF")
        con.execute("BEGIN")
        for table in held:
            con.execute(ddl(table))
            marks = ", ".join("?" * len(COLUMNS[table]))
            for rows in _batches(tables(scale) / f"{table}.parquet", COLUMNS[table]):
                con.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
            for column in INDEXES.get(table, ()):
                con.execute(f"CREATE INDEX {table}_{column} ON {table} ({column})")
        con.execute("COMMIT")
        con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        con.close()


def _batches(path: Path, names: Sequence[str]) -> Iterator[Rows]:
    for batch in pq.ParquetFile(path).iter_batches(_BATCH, columns=list(names)):
        yield _stored(pa.Table.from_batches([batch]), names)


def _stored(rows: pa.Table, names: Sequence[str]) -> Rows:
    """Rows as SQLite keeps them: a decimal as a float, a date as its text."""
    columns = []
    for column in rows.select(list(names)).columns:
        if pa.types.is_decimal(column.type):
            column = column.cast(pa.float64())
        elif pa.types.is_date(column.type):
            column = column.cast(pa.string())
        columns.append(column.to_pylist())
    return list(zip(*columns, strict=True))


def write(folder: Path, frame: dict[str, Path]) -> None:
    """One transaction at each database that changes: deletes, updates and inserts by key. With
    `synchronous = NORMAL` writers flush what they wrote: with OFF, who trims the log would do it for them."""
    for source, held in HOMES.items():
        changed = [table for table in held if table in frame]
        if not changed:
            continue
        con = sqlite3.connect(folder / f"{source}.db", timeout=60, isolation_level=None)
        for setting in ("synchronous = NORMAL", f"cache_size = -{_CACHE}", f"mmap_size = {_CACHE * 4096}"):
            con.execute(f"PRAGMA {setting}")
        con.execute("BEGIN IMMEDIATE")
        for table in changed:
            key = " AND ".join(f"{name} = ?" for name in KEYS[table])
            sets = ", ".join(f"{name} = ?" for name in COLUMNS[table] if name not in KEYS[table])
            marks = ", ".join("?" * len(COLUMNS[table]))
            for deletes, updates, inserts in statements(table, frame[table]):
                con.executemany(f"DELETE FROM {table} WHERE {key}", deletes)
                con.executemany(f"UPDATE {table} SET {sets} WHERE {key}", updates)
                con.executemany(f"INSERT INTO {table} VALUES ({marks})", inserts)
        con.execute("COMMIT")
        con.close()


def statements(table: str, path: Path) -> Iterator[tuple[Rows, Rows, Rows]]:
    """The parameters of deletes (a key), updates (the rest of a row, and its key) and inserts (a row), in
    parts in the order of keys: changes that are spread over a table touch nearly all of its pages, and who
    goes over it once for deletes and once for updates writes it twice."""
    rest = [place for place, name in enumerate(COLUMNS[table]) if name not in KEYS[table]]
    for signed in _whole_keys(pq.read_table(path), KEYS[table]):
        keys, rows = (_stored(signed, names) for names in (KEYS[table], COLUMNS[table]))
        old: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        new: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        for key, row, sign in zip(keys, rows, signed[SIGN].to_pylist(), strict=True):
            (old if sign < 0 else new)[key] = row
        deletes = [key for key in old if key not in new]
        updates = [(*(row[place] for place in rest), *key) for key, row in new.items() if key in old]
        yield deletes, updates, [row for key, row in new.items() if key not in old]


def _whole_keys(rows: pa.Table, key: Sequence[str]) -> Iterator[pa.Table]:
    """Parts of rows in the order of keys, all rows of a key in one part."""
    keys, begin = rows.select(list(key)), 0
    while begin < len(rows):
        end = min(begin + _BATCH, len(rows))
        while end < len(rows) and keys.slice(end, 1).equals(keys.slice(end - 1, 1)):
            end += 1
        yield rows.slice(begin, end - begin)
        begin = end
