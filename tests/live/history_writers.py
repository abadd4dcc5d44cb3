"""Writers of the history tests: each transaction writes what it did, row by row, to a journal in the same
commit. They know nothing of views.

Run as a process: python history_writers.py DATABASE URL TABLES WRITER SEED SECONDS PAUSE
"""

from __future__ import annotations

import json
import sqlite3
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pymysql

TABLES = {
    "orders": ("id", "cust", "cur", "amount"),
    "customers": ("id", "name", "region"),
    "rates": ("id", "cur", "rate"),
}
DDL = (
    "CREATE TABLE orders (id INTEGER PRIMARY KEY, cust INTEGER, cur INTEGER, amount INTEGER)",
    "CREATE TABLE customers (id INTEGER PRIMARY KEY, name VARCHAR(20), region INTEGER)",
    "CREATE TABLE rates (id INTEGER PRIMARY KEY, cur INTEGER, rate INTEGER)",
)
JOURNAL = "CREATE TABLE journal (writer INTEGER, n INTEGER, entry {text}, PRIMARY KEY (writer, n))"
KEYS = 12


class Database:
    """One connection, the same few statements whatever the server is."""

    def __init__(self, kind: str, url: str) -> None:
        self.kind = kind
        parts = urlsplit(url)
        self.con: Any
        if kind == "sqlite":
            self.con = sqlite3.connect(url, timeout=60, isolation_level=None)
        elif kind == "postgres":
            self.con = psycopg.connect(url, autocommit=True)
        else:
            self.con = pymysql.connect(
                host=parts.hostname or "",
                port=parts.port or 0,
                user=parts.username,
                password=parts.password or "",
                database=parts.path[1:],
                autocommit=True,
            )
        self.cursor = self.con.cursor()
        self.mark = "?" if kind == "sqlite" else "%s"
        self.lock = "" if kind == "sqlite" else " FOR UPDATE"

    def run(self, statement: str, *values: Any) -> list[tuple[Any, ...]]:
        self.cursor.execute(statement.replace("?", self.mark), values)
        return [] if self.cursor.description is None else [tuple(row) for row in self.cursor.fetchall()]

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.cursor.execute("BEGIN IMMEDIATE" if self.kind == "sqlite" else "BEGIN")
        try:
            yield
        except BaseException:
            self.cursor.execute("ROLLBACK")
            raise
        self.cursor.execute("COMMIT")


RETRIED = (psycopg.errors.DeadlockDetected, psycopg.errors.UniqueViolation, pymysql.err.OperationalError)


class Writer:
    def __init__(self, database: Database, tables: list[str], writer: int, seed: int) -> None:
        self.database, self.tables, self.writer = database, tables, writer
        self.random = Random(seed)
        self.n = 0

    def row(self, table: str, key: int) -> tuple[Any, ...]:
        pick = self.random.randrange
        return {
            "orders": (key, pick(6), pick(4), pick(1000)),
            "customers": (key % 6, self.random.choice(["ann", "bob", "eve"]), pick(3)),
            "rates": (key % 6, pick(4), pick(1, 9)),
        }[table]

    def change(self, table: str) -> list[tuple[str, int, tuple[Any, ...]]]:
        """One row is put in, taken out or changed; what is there is looked at first, and locked."""
        new = self.row(table, self.random.randrange(KEYS))
        columns = ", ".join(TABLES[table])
        found = self.database.run(f"SELECT {columns} FROM {table} WHERE id = ?{self.database.lock}", new[0])
        if not found:
            marks = ", ".join("?" * len(new))
            self.database.run(f"INSERT INTO {table} ({columns}) VALUES ({marks})", *new)
            return [(table, 1, new)]
        if self.random.random() < 0.4:
            self.database.run(f"DELETE FROM {table} WHERE id = ?", new[0])
            return [(table, -1, found[0])]
        sets = ", ".join(f"{column} = ?" for column in TABLES[table][1:])
        self.database.run(f"UPDATE {table} SET {sets} WHERE id = ?", *new[1:], new[0])
        return [(table, -1, found[0]), (table, 1, new)]

    def transact(self) -> None:
        wanted = [self.random.choice(self.tables) for _ in range(self.random.randrange(1, 4))]
        state = self.random.getstate()
        while True:
            try:
                with self.database.transaction():
                    entry = [done for table in sorted(wanted) for done in self.change(table)]
                    if self.random.random() < 0.1:
                        raise Changed
                    self.database.run(
                        "INSERT INTO journal (writer, n, entry) VALUES (?, ?, ?)",
                        self.writer,
                        self.n + 1,
                        json.dumps(entry),
                    )
                self.n += 1
                return
            except Changed:  # a transaction that changes its mind leaves nothing
                return
            except RETRIED:
                self.random.setstate(state)
                time.sleep(0.01 * self.random.random())
                state = self.random.getstate()

    def go_on(self, seconds: float, pause: float, say: Callable[[], None] = lambda: None) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            self.transact()
            say()
            time.sleep(pause * 2 * self.random.random())


class Changed(Exception):
    """A writer that rolls back."""


def main() -> None:
    kind, url, tables, writer, seed, seconds, pause = sys.argv[1:]
    made = Writer(Database(kind, url), tables.split(","), int(writer), int(seed))
    made.go_on(float(seconds), float(pause))
    print(made.n)


if __name__ == "__main__":
    main()
