"""A MariaDB database with a source on it, and what the tests ask of them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import pyarrow as pa
import pymysql

import servers
from stillframe.algebra.bag import Bag
from stillframe.sources import Position
from stillframe.sources.mariadb.binlog import MariadbLogSource
from stillframe.sources.mariadb.triggers import MariadbSource

ME = "warehouse"
USER, PASSWORD = "app", "s3cret pw"


def account(server: servers.MariadbServer, database: str, rights: str = "ALL") -> str:
    """An ordinary account with rights on that database only; the url it uses."""
    with server.connect() as con, con.cursor() as cursor:
        cursor.execute("SET GLOBAL log_bin_trust_function_creators = 1")
        cursor.execute("CREATE OR REPLACE USER %s@'127.0.0.1' IDENTIFIED BY %s", (USER, PASSWORD))
        cursor.execute(f"GRANT {rights} ON `{database}`.* TO %s@'127.0.0.1'", (USER,))
    return server.url(database, USER, PASSWORD.replace(" ", "%20"))


def run(con: pymysql.Connection[Any], *statements: str) -> None:
    with con.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def rows(con: pymysql.Connection[Any], sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
    with con.cursor() as cursor:
        cursor.execute(sql, tuple(parameters) or None)
        return list(cursor.fetchall())


def bag(batches: Iterable[pa.RecordBatch]) -> Bag:
    pairs = []
    for batch in batches:
        *columns, counts = (c.to_pylist() for c in batch.columns)
        found = zip(*columns, strict=True) if columns else [()] * len(counts)
        pairs += list(zip(found, counts, strict=True))
    return Bag(pairs)


class World:
    """Follows one table: after every `follow`, the log's sum is the difference of the states. The connections
    of one world are closed when the next is made, so that a test that failed leaves nothing locked."""

    connections: ClassVar[list[pymysql.Connection[Any]]] = []

    def __init__(self, server: servers.MariadbServer, table: str, *ddl: str, database: str = "w") -> None:
        for left in World.connections:
            if left.open:
                left.close()
        World.connections.clear()
        server.database(database)
        self.server, self.database = server, database
        self.con = self.connect()
        run(self.con, *ddl)
        self.source = MariadbSource("s", account(server, database))
        self.table = table
        self.columns = list(self.source.describe()[table].schema.names)
        self.position = self.source.attach(ME, [table])
        self.rows = self.present()

    def connect(self) -> pymysql.Connection[Any]:
        con = self.server.connect(self.database)
        World.connections.append(con)
        return con

    def present(self) -> Bag:
        """The truth, read past the source."""
        picked = ", ".join("`" + c.replace("`", "``") + "`" for c in self.columns)
        return Bag.of(rows(self.con, f"SELECT {picked} FROM `{self.table}`"))

    def run(self, *statements: str) -> None:
        run(self.con, *statements)

    def follow(self) -> Bag:
        """The change since the last time, checked against the states at both ends."""
        upto = self.source.position(ME, [self.table])
        change = self.change(self.position, upto)
        now = self.present()
        assert self.rows + change == now
        assert self.state(self.position) == self.rows
        assert self.state(upto) == now
        self.position, self.rows = upto, now
        return change

    def change(self, after: Position, upto: Position) -> Bag:
        return bag(self.source.changes(self.table, self.columns, after, upto))

    def state(self, at: Position) -> Bag:
        return bag(self.source.state(self.table, self.columns, at))


def log_account(server: servers.MariadbServer, database: str) -> str:
    url = account(server, database)
    with server.connect() as con:
        run(con, f"GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO {USER}@'127.0.0.1'")
    return url


class LogWorld(World):
    def __init__(self, server: servers.MariadbServer, table: str, *ddl: str, database: str = "w") -> None:
        super().__init__(server, table, *ddl, database=database)
        self.source.detach(ME)
        self.source = MariadbLogSource("s", log_account(server, database))  # type: ignore[assignment]
        self.columns = list(self.source.describe()[table].schema.names)
        self.position = self.source.attach(ME, [table])
        self.rows = self.present()
