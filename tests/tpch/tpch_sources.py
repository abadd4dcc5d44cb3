"""The databases that hold the benchmark's tables, written and read with their own drivers."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
from tpch_tables import COLUMNS, HOME, HOMES, ddl

import servers

Statement = tuple[str, Sequence[Any]]
DATABASE = "tpch"


@dataclass(frozen=True)
class Sources:
    """PostgreSQL, MariaDB and SQLite, each with some of the tables."""

    postgres: servers.PostgresServer
    mariadb: servers.MariadbServer
    sqlite: Path

    @property
    def configuration(self) -> str:
        return (
            f"  pg: {{url: '{self.postgres.url(DATABASE)}'}}\n"
            f"  maria: {{url: '{self.mariadb.url(DATABASE)}'}}\n"
            f"  lite: {{url: 'sqlite:///{self.sqlite.name}'}}\n"
        )

    def _connect(self, source: str) -> Any:
        """A connection in which a transaction is begun by BEGIN."""
        match source:
            case "pg":
                return self.postgres.connect(DATABASE)
            case "maria":
                return self.mariadb.connect(DATABASE)
        return sqlite3.connect(self.sqlite, timeout=30, isolation_level=None)

    def load(self, made: duckdb.DuckDBPyConnection) -> None:
        """Databases of the tables in `made`, whatever there was."""
        self.postgres.database(DATABASE)
        self.mariadb.database(DATABASE)
        for source, tables in HOMES.items():
            con = self._connect(source)
            cursor = con.cursor()
            if source == "lite":
                cursor.execute("PRAGMA journal_mode=WAL")
            for table in tables:
                cursor.execute(ddl(table))
            cursor.execute("BEGIN")
            for table in tables:
                names = ", ".join(column.name for column in COLUMNS[table])
                rows = made.execute(f"SELECT {names} FROM {table}").fetchall()
                if source == "pg":
                    with cursor.copy(f"COPY {table} FROM STDIN") as copy:
                        for row in rows:
                            copy.write_row(row)
                else:
                    marks = ", ".join(["%s"] * len(COLUMNS[table]))
                    self._many(source, cursor, f"INSERT INTO {table} VALUES ({marks})", rows)
            cursor.execute("COMMIT")
            con.close()

    @staticmethod
    def _many(source: str, cursor: Any, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        if source == "lite":
            statement, rows = statement.replace("%s", "?"), [tuple(map(_for_sqlite, row)) for row in rows]
        cursor.executemany(statement, rows)

    def write(self, source: str, statements: Iterable[Statement]) -> None:
        """One transaction; values stand as %s."""
        con = self._connect(source)
        cursor = con.cursor()
        cursor.execute("BEGIN")
        for text, values in statements:
            self._many(source, cursor, text, [values]) if values else cursor.execute(text)
        cursor.execute("COMMIT")
        con.close()

    def rows(self, table: str) -> pa.Table:
        """A table as its database gives it."""
        con = self._connect(HOME[table])
        cursor = con.cursor()
        cursor.execute(f"SELECT {', '.join(column.name for column in COLUMNS[table])} FROM {table}")
        found = list(zip(*cursor.fetchall(), strict=True)) or [()] * len(COLUMNS[table])
        con.close()
        arrays = {}
        for column, values in zip(COLUMNS[table], found, strict=True):
            read = _reading(column.type, HOME[table])
            arrays[column.name] = pa.array(map(read, values) if read else values, column.arrow)
        return pa.table(arrays)


def _for_sqlite(value: Any) -> Any:
    """SQLite has neither decimals nor dates: the one is a float, the other its text."""
    if isinstance(value, Decimal):
        return float(value)
    return value.isoformat() if isinstance(value, date) else value


def _reading(type_: str, source: str) -> Callable[[Any], Any] | None:
    """From what a driver gives to the value. Blanks at the end of a CHAR are no part of it."""
    if type_.startswith("CHAR"):
        return str.rstrip
    if source == "lite":
        if type_.startswith("DECIMAL"):
            return lambda value: Decimal(repr(value))
        if type_ == "DATE":
            return date.fromisoformat
    return None
