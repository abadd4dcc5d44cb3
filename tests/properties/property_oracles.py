"""What a view should hold, by three who know nothing of each other: the engine's own `sql` on the view's
text, the naive evaluator, and DuckDB. All are given rows read by plain sqlite3 from copies of the sources."""

from __future__ import annotations

import math
import shutil
import sqlite3
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Protocol

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
from property_cases import KINDS, Case, Table, View

from stillframe.algebra import Bag, Plan, Scan, Schema, evaluate
from stillframe.engine import Engine
from stillframe.sources.base import Relation
from stillframe.sql import Names, resolve

Snapshot = Mapping[str, list[tuple[Any, ...]]]


def snapshot(case: Case, root: Path) -> Snapshot:
    """Every table's rows, from a copy of each source made at once."""
    found: dict[str, list[tuple[Any, ...]]] = {}
    for source in case.sources:
        copy = sqlite3.connect(":memory:")
        original = sqlite3.connect(root / f"{source}.db")
        original.backup(copy)
        original.close()
        for table in case.tables:
            if table.source == source:
                found[table.full_name] = _rows(copy, table)
        copy.close()
    return found


def _rows(copy: sqlite3.Connection, table: Table) -> list[tuple[Any, ...]]:
    decoders = [KINDS[column.kind].decode for column in table.columns]
    names = ", ".join(column.name for column in table.columns)
    return [
        tuple(None if value is None else decode(value) for decode, value in zip(decoders, row, strict=True))
        for row in copy.execute(f"SELECT {names} FROM {table.name}")
    ]


def arrow_rows(table: Table, rows: list[tuple[Any, ...]]) -> pa.Table:
    columns = list(zip(*rows, strict=True)) or [()] * len(table.columns)
    arrays = [
        pa.array(list(values), KINDS[column.kind].arrow)
        for column, values in zip(table.columns, columns, strict=True)
    ]
    return pa.table(arrays, names=[column.name for column in table.columns])


def bag(rows: Iterable[Iterable[Any]]) -> Bag:
    """Rows of any engine side by side."""
    return Bag.of([_plain(value) for value in row] for row in rows)


def _plain(value: Any) -> Any:
    match value:
        case datetime():
            return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        case bytearray() | memoryview():
            return bytes(value)
        case float() if math.isnan(value):
            return float("nan")
    return value


def bag_of_arrow(table: pa.Table) -> Bag:
    columns = [column.to_pylist() for column in table.columns]
    return bag(zip(*columns, strict=True))


class Oracle(Protocol):
    name: str

    def load(self, contents: Snapshot) -> None:
        """The state views are asked for from now on."""
        ...

    def answer(self, view: View) -> Bag:
        """Views are asked for upstream first."""
        ...

    def close(self) -> None: ...


class EngineOracle:
    """The view's text, untouched, in the engine's SQL; sources are databases there."""

    name = "spark.sql"

    def __init__(self, case: Case, engine: Engine, folder: Path) -> None:
        self._case = case
        self._session = engine.maintenance
        self._folder = folder
        self._loads = 0
        self._named: set[str] = set()
        for source in case.sources:
            self._session.sql(f"CREATE DATABASE IF NOT EXISTS {source} LOCATION '{folder / source}'")

    def load(self, contents: Snapshot) -> None:
        self._loads += 1
        for table in self._case.tables:
            place = self._folder / table.full_name / str(self._loads)
            place.mkdir(parents=True)
            pq.write_table(arrow_rows(table, contents[table.full_name]), place / "rows.parquet")
            columns = ", ".join(f"{column.name} {KINDS[column.kind].type}" for column in table.columns)
            self._session.sql(f"DROP TABLE IF EXISTS {table.full_name}")
            self._session.sql(
                f"CREATE TABLE {table.full_name} ({columns}) USING parquet LOCATION '{place}'"
            ).collect()

    def answer(self, view: View) -> Bag:
        found = self._session.sql(view.sql)
        if any(view.name in other.upstream for other in self._case.views):
            self._session.sql(f"CREATE OR REPLACE TEMP VIEW {view.name} AS {view.sql}").collect()
            self._named.add(view.name)
        return bag_of_arrow(found.toArrow())

    def close(self) -> None:
        for name in self._named:
            self._session.catalog.dropTempView(name)
        for table in self._case.tables:
            self._session.sql(f"DROP TABLE IF EXISTS {table.full_name}").collect()
        for source in self._case.sources:
            self._session.sql(f"DROP DATABASE IF EXISTS {source} CASCADE").collect()
        shutil.rmtree(self._folder, ignore_errors=True)


class NaiveOracle:
    """Our own resolution of the text, neither normalized nor differentiated, on Python values."""

    name = "naive evaluator"

    def __init__(self, case: Case, catalog: Mapping[str, Mapping[str, Relation]]) -> None:
        self._plans: dict[str, Plan] = {}
        schemas: dict[str, Schema] = {}
        for view in case.views:
            self._plans[view.name] = resolve(view.sql, Names(catalog, schemas))
            schemas[view.name] = self._plans[view.name].schema
        self._contents: dict[str, Bag] = {}

    def load(self, contents: Snapshot) -> None:
        self._contents = {name: Bag.of(rows) for name, rows in contents.items()}

    def answer(self, view: View) -> Bag:
        def contents(scan: Scan) -> Bag:
            return self._contents[scan.relation]

        self._contents[view.name] = evaluate(self._plans[view.name], contents)
        return self._contents[view.name]

    def close(self) -> None:
        """Nothing to close."""


class DuckOracle:
    """The view's text, untouched, in DuckDB."""

    name = "DuckDB"

    def __init__(self, case: Case) -> None:
        self._case = case
        self._db = duckdb.connect(config={"threads": 1})
        self._db.execute("SET TimeZone = 'UTC'")
        for source in case.sources:
            self._db.execute(f"CREATE SCHEMA {source}")

    def load(self, contents: Snapshot) -> None:
        for table in self._case.tables:
            self._db.register("given", arrow_rows(table, contents[table.full_name]))
            columns = ", ".join(
                f"CAST({column.name} AS {KINDS[column.kind].type}) AS {column.name}"
                for column in table.columns
            )
            self._db.execute(f"CREATE OR REPLACE TABLE {table.full_name} AS SELECT {columns} FROM given")
            self._db.unregister("given")

    def answer(self, view: View) -> Bag:
        self._db.execute(f"CREATE OR REPLACE TEMP VIEW {view.name} AS {view.sql}")
        return bag(self._db.execute(f"SELECT * FROM {view.name}").fetchall())

    def close(self) -> None:
        self._db.close()
