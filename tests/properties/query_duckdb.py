"""DuckDB over rows read by plain sqlite3: what a text means, by one who knows nothing of Stillframe."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import duckdb
from property_cases import KINDS, Table, Transaction
from query_cases import QueryView
from query_text import DUCKDB

Rows = Counter[tuple[Any, ...]]
Contents = Mapping[str, list[tuple[Any, ...]]]


class Duck:
    def __init__(self, tables: Sequence[Table]) -> None:
        self.tables = tables
        self.db = duckdb.connect(config={"threads": 1})
        self.db.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")  # as in Spark
        for source in dict.fromkeys(table.source for table in tables):
            self.db.execute(f"CREATE SCHEMA {source}")
        for table in tables:
            columns = ", ".join(f"{c.name} {KINDS[c.kind].type}" for c in table.columns)
            self.db.execute(f"CREATE TABLE {table.full_name} ({columns})")

    def compute(self, view: QueryView) -> Rows:
        """What a view holds; it stays, for the views that read it."""
        self.db.execute(f"CREATE OR REPLACE TABLE {view.name} AS {view.query.sql(DUCKDB)}")
        return self.rows(f"SELECT * FROM {view.name}")

    def forget(self, view: QueryView) -> None:
        self.db.execute(f"DROP TABLE {view.name}")

    def load(self, contents: Contents) -> None:
        for table in self.tables:
            self.db.execute(f"DELETE FROM {table.full_name}")
            if rows := contents[table.full_name]:
                places = ", ".join("?" * len(table.columns))
                self.db.executemany(f"INSERT INTO {table.full_name} VALUES ({places})", rows)

    def rows(self, sql: str) -> Rows:
        return Counter(self.db.execute(sql).fetchall())

    def close(self) -> None:
        self.db.close()


def contents_at(root: Path, tables: Sequence[Table]) -> Contents:
    """What the sources in a folder hold."""
    found = {}
    for table in tables:
        connection = sqlite3.connect(root / f"{table.source}.db")
        found[table.full_name] = _rows(connection, table)
        connection.close()
    return found


def states(tables: Sequence[Table], written: Sequence[Sequence[Transaction]]) -> Iterator[Contents]:
    """What they would hold after each batch of transactions. No two tables have one name."""
    connection = sqlite3.connect(":memory:")
    for table in tables:
        connection.execute(table.ddl)
    for transactions in written:
        for statement in (statement for each in transactions for statement in each.statements):
            connection.execute(statement)
        yield {table.full_name: _rows(connection, table) for table in tables}
    connection.close()


def _rows(connection: sqlite3.Connection, table: Table) -> list[tuple[Any, ...]]:
    decoders = [KINDS[column.kind].decode for column in table.columns]
    return [
        tuple(None if value is None else decode(value) for decode, value in zip(decoders, row, strict=True))
        for row in connection.execute(f"SELECT * FROM {table.name}")
    ]
