"""The benchmark's 99 queries as DuckDB spells them, and as Spark does, by these rules."""

from __future__ import annotations

import importlib.util
import re
from functools import cache
from pathlib import Path

import duckdb

from stillframe.algebra import Column, Schema, Type
from stillframe.algebra.types import BIGINT, DATE, INT, STRING, decimal
from stillframe.sources.base import Relation
from stillframe.sql import Names, Refused, resolve
from stillframe.sql.rewrite import retarget

SOURCE = "ds"
_TYPES = {"BIGINT": BIGINT, "INTEGER": INT, "VARCHAR": STRING, "DATE": DATE}
_END_OF_OUTPUT = re.compile(r"\s*(,|\bFROM\b)", re.IGNORECASE)


def connect() -> duckdb.DuckDBPyConnection:
    """A DuckDB in memory that knows the benchmark, and orders NULL as Spark does."""
    spec = importlib.util.find_spec("duckdb_extension_tpcds")
    assert spec is not None and spec.submodule_search_locations, "pip install duckdb-extension-tpcds"
    (extension,) = Path(spec.submodule_search_locations[0]).rglob("tpcds.duckdb_extension")
    con = duckdb.connect(config={"threads": 1})
    con.execute(f"LOAD '{extension}'")
    con.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    return con


@cache
def columns() -> dict[str, dict[str, str]]:
    """Every table's columns, with the types DuckDB declares."""
    con = connect()
    con.execute("CALL dsdgen(sf=0)")
    listed = con.execute(
        "SELECT table_name, column_name, data_type FROM information_schema.columns"
    ).fetchall()
    found: dict[str, dict[str, str]] = {}
    for table, column, type_ in listed:
        found.setdefault(table, {})[column] = type_
    return found


def type_of(declared: str) -> Type:
    if declared.startswith("DECIMAL"):
        precision, scale = map(int, re.findall(r"\d+", declared))
        return decimal(precision, scale)
    return _TYPES[declared]


@cache
def catalog() -> Names:
    schemas = {
        table: Schema(tuple(Column(name, type_of(type_)) for name, type_ in declared.items()))
        for table, declared in columns().items()
    }
    return Names(sources={SOURCE: {table: Relation(table, schema) for table, schema in schemas.items()}})


@cache
def duckdb_texts() -> dict[int, str]:
    found = connect().execute("SELECT query_nr, query FROM tpcds_queries()").fetchall()
    return {int(number): text.strip().rstrip(";") for number, text in found}


@cache
def texts() -> dict[int, str]:
    return {number: _in_spark(text) for number, text in duckdb_texts().items()}


def _in_spark(text: str) -> str:
    return _named_outputs(_qualified(_backquoted(text)))


def _backquoted(text: str) -> str:
    """Spark quotes names with backquotes, and a table's columns have no blanks in their names."""
    return re.sub(r'"([^"]*)"', lambda found: "`" + re.sub(r"\W+", "_", found[1]) + "`", text)


def _qualified(text: str) -> str:
    """A table is a relation of a source: ds.item, which is called item."""
    return retarget(text, {table: f"{SOURCE}.{table}" for table in columns()})


def _named_outputs(text: str) -> str:
    """Every output of a view has a name: column_1 for those that DuckDB names after their text."""
    for number in range(1, 50):
        try:
            resolve(text, catalog())
        except Refused as refused:
            unnamed = [reason for reason in refused.reasons if reason.code == "NEEDS_ALIAS"]
            if not unnamed:
                return text
            lines = text.splitlines(keepends=True)
            start = sum(map(len, lines[: unnamed[0].line - 1])) + unnamed[0].column - 1
            end = _end_of_output(text, start)
            text = f"{text[:end]} AS column_{number}{text[end:]}"
        else:
            return text
    raise AssertionError(f"a name was not taken:\n{text}")


def _end_of_output(text: str, start: int) -> int:
    depth = 0
    for at in range(start, len(text)):
        if not depth and _END_OF_OUTPUT.match(text, at):
            return at
        depth += {"(": 1, ")": -1}.get(text[at], 0)
    return len(text)
