"""A PostgreSQL database with a source on it, and what the tests ask of them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

import psycopg
import pyarrow as pa

import servers
from stillframe.algebra.bag import Bag
from stillframe.sources import Position
from stillframe.sources.postgres.logical import PostgresLogSource
from stillframe.sources.postgres.triggers import PostgresSource

ME = "warehouse"
_numbers = count(1)
_open: list[psycopg.Connection[Any]] = []


@contextmanager
def running(**settings: str) -> Iterator[servers.PostgresServer]:
    """A server; it need not wait for the connections that tests leave open."""
    with servers.postgres(**{"max_connections": "300"} | settings) as server:
        try:
            yield server
        finally:
            close_all()


def close_all() -> None:
    while _open:
        _open.pop().close()


def bag(batches: Iterable[pa.RecordBatch]) -> Bag:
    pairs = []
    for batch in batches:
        *columns, counts = (c.to_pylist() for c in batch.columns)
        rows = zip(*columns, strict=True) if columns else [()] * len(counts)
        pairs += list(zip(rows, counts, strict=True))
    return Bag(pairs)


@contextmanager
def standby_of(server: servers.PostgresServer) -> Iterator[servers.PostgresServer]:
    """A replica that follows the server."""
    with servers.private_folder("stillframe-standby-") as folder:
        (folder / "data").rmdir()
        command = [
            servers.program("pg_basebackup", "postgresql"),
            "-D",
            str(folder / "data"),
            "-R",
            "--no-sync",
        ]
        command += ["-c", "fast", "-d", server.url()]
        subprocess.run([*servers.unprivileged(), *command], check=True, capture_output=True, cwd=folder)
        standby = servers.PostgresServer(folder, servers.free_port(), dict(server.settings))
        standby.start()
        try:
            yield standby
        finally:
            standby.stop()


class Database:
    """A database of its own on a server that tests share."""

    def __init__(self, server: servers.PostgresServer, *statements: str) -> None:
        self.server = server
        self.name = f"t{next(_numbers)}"
        server.database(self.name)
        self.con = self.connect()
        self.run(*statements)

    def connect(self, user: str = "postgres") -> psycopg.Connection[Any]:
        con = self.server.connect(self.name, user)
        con.execute("SET timezone = 'UTC'")
        _open.append(con)
        return con

    def run(self, *statements: str) -> None:
        for statement in statements:
            self.con.execute(statement.encode())

    def url(self, user: str = "postgres", password: str = "") -> str:
        return self.server.url(self.name, user, password)

    def source(self, limit: int | None = None, schema: str = "public") -> Any:
        return PostgresSource("s", self.url(), schema, limit)

    def dump(self) -> str:
        """The schema as pg_dump writes it, without what differs from one run to the next."""
        command = [servers.program("pg_dump", "postgresql-client"), "--schema-only", "--dbname", self.url()]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        return "\n".join(line for line in text.splitlines() if not line.startswith("\\"))


class World(Database):
    """Follows one table: after every `follow`, the log's sum is the difference of the states."""

    def __init__(self, server: servers.PostgresServer, table: str, *ddl: str) -> None:
        super().__init__(server, *ddl)
        self.s = self.source()
        self.table = table
        self.start()

    def start(self) -> None:
        """Take the table as it is now."""
        self.schema = self.s.describe()[self.table].schema
        self.columns = list(self.schema.names)
        self.position = self.s.attach(ME, [self.table])
        self.rows = self.present()

    def present(self) -> Bag:
        """The truth, read past the source."""
        picked = ", ".join('"' + c.replace('"', '""') + '"' for c in self.columns)
        name = '"' + self.table.replace('"', '""') + '"'
        with self.server.connect(self.name) as con:
            return Bag.of(con.execute(f"SELECT {picked} FROM {name}".encode()).fetchall())

    def follow(self) -> Bag:
        """The change since the last time, checked against the states at both ends."""
        upto = self.s.position(ME, [self.table])
        change = self.change(self.position, upto)
        now = self.present()
        assert self.rows + change == now
        assert self.state(self.position) == self.rows
        assert self.state(upto) == now
        assert sum(t.rows.get(self.table, 0) for t in self.transactions(upto)) == self.logged(upto)
        self.position, self.rows = upto, now
        return change

    def transactions(self, upto: Position) -> Sequence[Any]:
        return self.s.transactions([self.table], self.position, upto)

    def logged(self, upto: Position) -> int:
        return sum(b.num_rows for b in self.s.changes(self.table, self.columns, self.position, upto))

    def change(self, after: Position, upto: Position) -> Bag:
        return bag(self.s.changes(self.table, self.columns, after, upto))

    def state(self, at: Position) -> Bag:
        return bag(self.s.state(self.table, self.columns, at))


class LogWorld(World):
    """The same, captured from the server's log."""

    def source(self, limit: int | None = None, schema: str = "public") -> Any:
        return PostgresLogSource("s", self.url(), schema, limit)


@contextmanager
def writer(database: Database, isolation: str = "READ COMMITTED") -> Iterator[psycopg.Connection[Any]]:
    """Another program's transaction; what the block leaves open is rolled back."""
    con = database.connect()
    con.execute(f"BEGIN ISOLATION LEVEL {isolation}".encode())
    try:
        yield con
    finally:
        con.close()
