"""Records in a SQLite file: nothing to install, and any SQLite client reads the results.

The rows of a view are a table of the view's name, with the view's columns and nothing else. Beside it `VIEW~`
holds what managers keep, and `stillframe~` what views there are and the epoch from which each is written.
How values are kept, `sqlite_values` says.

A call that writes is one transaction, which has the file for itself from its first statement on (BEGIN
IMMEDIATE): versions and the fence hold until it ends. The log is flushed at each commit (WAL, synchronous
FULL): what was acknowledged survives a killed process and a machine that loses power. NORMAL would flush at
checkpoints only, and forget acknowledged writes with the power. The file must not lie on a network's file
system.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from stillframe.records.store import ABSENT, NOTHING, Key, Record, Write
from stillframe.records.stores.shared import Handle
from stillframe.records.stores.sqlite_session import connected, explained, path_of, writing
from stillframe.records.stores.sqlite_values import declared, loaded, stored

BOOKS = '"stillframe~"'
_BATCH = 1000


@dataclass(frozen=True)
class SqliteStore(Handle):
    @cached_property
    def path(self) -> Path:
        return path_of(self)

    @cached_property
    def columns(self) -> list[str]:
        return [_quoted(name) for name in self.schema.names]

    @cached_property
    def rows(self) -> str:
        return _quoted(self.view)

    @cached_property
    def state(self) -> str:
        return _quoted(f"{self.view}~")

    @cached_property
    def at_key(self) -> str:
        """Key columns may be NULL, and NULL is NULL."""
        return " AND ".join(f"{self.columns[place]} IS ?" for place in self.key) or "1"

    def create(self) -> None:
        with explained(self, self.path):
            self.path.touch()  # an empty file is an empty database
        with writing(self, self.path) as con:
            con.execute(
                f"CREATE TABLE IF NOT EXISTS {BOOKS} (view TEXT PRIMARY KEY COLLATE NOCASE,"
                " project TEXT NOT NULL, shape TEXT NOT NULL, epoch INTEGER NOT NULL)"
            )
            book = con.execute(f"SELECT project, view, shape FROM {BOOKS} WHERE view = ?", (self.view,))
            if (made := book.fetchone()) is not None:
                return self.agree(str(self.path), *made)
            there = "SELECT name FROM sqlite_master WHERE lower(name) IN (lower(?), lower(?))"
            for (name,) in con.execute(there, (self.view, f"{self.view}~")):
                self.taken(str(self.path), f"{name!r} is there, and Stillframe did not make it")
            parts = [f"{_quoted(column.name)} {declared(column.type)}" for column in self.schema]
            if self.key:  # of which any part may be NULL: SQLite allows it, even here
                parts.append(f"PRIMARY KEY ({', '.join(self.columns[place] for place in self.key)})")
            con.execute(f"CREATE TABLE {self.rows} ({', '.join(parts)})")
            con.execute(
                f"CREATE TABLE {self.state} (id TEXT PRIMARY KEY, version INTEGER NOT NULL,"
                " shown INTEGER NOT NULL, tag TEXT, kept BLOB NOT NULL)"
            )
            tags = _quoted(f"{self.view}~tags")
            con.execute(f"CREATE INDEX {tags} ON {self.state} (tag) WHERE tag IS NOT NULL")
            con.execute(f"INSERT INTO {BOOKS} VALUES (?, ?, ?, 0)", (self.view, self.name, self.shape))
        return None

    def drop(self) -> None:
        if not self.path.exists():
            return
        with writing(self, self.path) as con:
            if not con.execute("SELECT 1 FROM sqlite_master WHERE name = 'stillframe~'").fetchone():
                return
            ours = (self.view, self.name)
            gone = con.execute(f"DELETE FROM {BOOKS} WHERE view = ? AND project = ?", ours)
            if gone.rowcount:
                con.execute(f"DROP TABLE IF EXISTS {self.rows}")
                con.execute(f"DROP TABLE IF EXISTS {self.state}")

    def fence(self, epoch: int) -> None:
        with writing(self, self.path) as con:
            self.refuse(epoch, self._epoch(con))
            con.execute(f"UPDATE {BOOKS} SET epoch = ? WHERE view = ?", (epoch, self.view))

    def fenced(self) -> int:
        with connected(self, self.path) as con:
            return self._epoch(con)

    def read(self, keys: Sequence[Key]) -> list[Record]:
        with connected(self, self.path) as con:
            con.execute("BEGIN")
            found = [self._read(con, key) for key in keys]
            con.execute("COMMIT")
        return found

    def kept(self, keys: Sequence[Key]) -> list[tuple[int, bytes]]:
        sql = f"SELECT version, kept FROM {self.state} WHERE id = ?"
        with connected(self, self.path) as con:
            con.execute("BEGIN")
            found = [con.execute(sql, (self.id_of(key),)).fetchone() for key in keys]
            con.execute("COMMIT")
        return [one or (ABSENT, b"") for one in found]

    def test_and_set(self, writes: Sequence[Write]) -> list[bool]:
        named = self.named(writes)
        if not named:
            return []
        with writing(self, self.path) as con:
            self.refuse(self.epoch, self._epoch(con))
            return [self._write(con, id_, write) for id_, write in named.items()]

    def tagged(self, tag: str) -> list[Key]:
        with connected(self, self.path) as con:
            found = con.execute(f"SELECT id FROM {self.state} WHERE tag = ?", (tag,)).fetchall()
        return [self.key_of(id_) for (id_,) in found]

    def scan(self) -> Iterator[tuple[Any, ...]]:
        with connected(self, self.path) as con:
            cursor = con.execute(f"SELECT {', '.join(self.columns)} FROM {self.rows}")
            while rows := cursor.fetchmany(_BATCH):
                yield from map(self._row, rows)

    def _read(self, con: sqlite3.Connection, key: Key) -> Record:
        id_ = self.id_of(key)
        state = con.execute(f"SELECT version, shown, kept FROM {self.state} WHERE id = ?", (id_,)).fetchone()
        if state is None:
            return NOTHING
        version, shown, kept = state
        if not shown:
            return Record(version, None, kept)
        sql = f"SELECT {', '.join(self.columns)} FROM {self.rows} WHERE {self.at_key}"
        row = con.execute(sql, self._key(key)).fetchone()
        if row is None:
            self.tampered(str(self.path), f"the row of record {id_!r} is gone")
        return Record(version, self._row(row), kept)

    def _write(self, con: sqlite3.Connection, id_: str, write: Write) -> bool:
        key, expected, record, tag = write
        there = con.execute(f"SELECT version FROM {self.state} WHERE id = ?", (id_,)).fetchone()
        if (there[0] if there else ABSENT) != expected:
            return False
        if record is None:
            con.execute(f"DELETE FROM {self.state} WHERE id = ?", (id_,))
        else:
            con.execute(
                f"INSERT INTO {self.state} VALUES (?1, ?2, ?3, ?4, ?5)"
                " ON CONFLICT (id) DO UPDATE SET version = ?2, shown = ?3, tag = ?4, kept = ?5",
                (id_, record.version, record.shown is not None, tag, record.kept),
            )
        if not key.kind:
            self._show(con, key, expected, record.shown if record else None)
        return True

    def _show(self, con: sqlite3.Connection, key: Key, expected: int, row: tuple[Any, ...] | None) -> None:
        if row is None:
            if expected != ABSENT:
                con.execute(f"DELETE FROM {self.rows} WHERE {self.at_key}", self._key(key))
            return
        values = [stored(value) for value in row]
        if expected != ABSENT:
            change = ", ".join(f"{column} = ?" for column in self.columns)
            sql = f"UPDATE {self.rows} SET {change} WHERE {self.at_key}"
            if con.execute(sql, (*values, *self._key(key))).rowcount:
                return
        con.execute(f"INSERT INTO {self.rows} VALUES ({', '.join('?' * len(values))})", values)

    def _key(self, key: Key) -> list[Any]:
        return [stored(value) for value in key.values]

    def _row(self, row: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(map(loaded, row, self.schema.types))

    def _epoch(self, con: sqlite3.Connection) -> int:
        found = con.execute(
            f"SELECT epoch FROM {BOOKS} WHERE view = ? AND project = ?", (self.view, self.name)
        ).fetchone()
        return int(found[0]) if found else self.not_made(str(self.path))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
