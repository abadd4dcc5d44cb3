"""A SQLite database with a source on it, and what the tests ask of them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow as pa

from stillframe.algebra.bag import Bag
from stillframe.sources import Position, SqliteSource

ME = "warehouse"


def database(path: Path, *statements: str) -> sqlite3.Connection:
    con = sqlite3.connect(path, isolation_level=None, timeout=30)
    con.execute("PRAGMA journal_mode=WAL")
    con.execute("PRAGMA synchronous=OFF")
    for statement in statements:
        con.execute(statement)
    return con


def bag(batches: Iterable[pa.RecordBatch]) -> Bag:
    pairs = []
    for batch in batches:
        *columns, counts = (c.to_pylist() for c in batch.columns)
        rows = zip(*columns, strict=True) if columns else [()] * len(counts)
        pairs += list(zip(rows, counts, strict=True))
    return Bag(pairs)


class World:
    """Follows one table: after every `follow`, the log's sum is the difference of the states."""

    def __init__(self, path: Path, table: str, *ddl: str) -> None:
        self.con = database(path, *ddl)
        self.source = SqliteSource("s", path)
        self.table = table
        self.schema = self.source.describe()[table].schema
        self.columns = list(self.schema.names)
        self.position = self.source.attach(ME, [table])
        self.rows = self.present()

    def present(self) -> Bag:
        """The truth, read past the source."""
        picked = ", ".join('"' + c.replace('"', '""') + '"' for c in self.columns)
        name = '"' + self.table.replace('"', '""') + '"'
        rows = self.con.execute(f"SELECT {picked} FROM {name}")
        return Bag.of(
            tuple(
                repr(v) if c.type.name == "STRING" and isinstance(v, int | float) else v
                for c, v in zip(self.schema, row, strict=True)
            )
            for row in rows
        )

    def run(self, *statements: str | tuple[str, Sequence[object]]) -> None:
        for statement in statements:
            sql, parameters = (statement, ()) if isinstance(statement, str) else statement
            self.con.execute(sql, parameters)

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
