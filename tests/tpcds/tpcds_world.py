"""The 24 tables at a tiny scale in SQLite, changes of them, and what DuckDB makes of a view's text.

DuckDB's quotients and averages are floats where Spark's are decimals, so numbers are compared to within the
digits a float has; everything else exactly.
"""

from __future__ import annotations

import math
import random
import re
import sqlite3
from collections.abc import Iterable, Iterator
from decimal import Decimal
from functools import cache
from typing import Any

import duckdb
import pyarrow as pa
from tpcds_texts import SOURCE, columns, connect, texts

from shops import Shop

KEYS = {
    "store_sales": ("ss_item_sk", "ss_ticket_number"),
    "store_returns": ("sr_item_sk", "sr_ticket_number"),
    "catalog_sales": ("cs_item_sk", "cs_order_number"),
    "catalog_returns": ("cr_item_sk", "cr_order_number"),
    "web_sales": ("ws_item_sk", "ws_order_number"),
    "web_returns": ("wr_item_sk", "wr_order_number"),
    "inventory": ("inv_date_sk", "inv_item_sk", "inv_warehouse_sk"),
}
FACTS = tuple(KEYS)
_CHANGED = (*FACTS, "item", "customer", "customer_address", "store", "date_dim")
# Of the smallest scale that can be generated, what is kept.
_KEPT = {
    "store_sales": "ss_ticket_number % 3 = 0",
    "store_returns": "sr_ticket_number % 3 = 0",
    "catalog_sales": "cs_order_number % 3 = 0",
    "catalog_returns": "cr_order_number % 3 = 0",
    "web_sales": "ws_order_number % 2 = 0",
    "web_returns": "wr_order_number % 2 = 0",
    "inventory": "inv_item_sk % 7 = 1",
    "date_dim": "d_year BETWEEN 1998 AND 2003",
    "time_dim": "t_time_sk % 60 = 0",
    "catalog_page": "cp_catalog_page_sk % 20 = 0",
}


def key_of(table: str) -> tuple[str, ...]:
    return KEYS.get(table) or (next(iter(columns()[table])),)


@cache
def asked_for() -> dict[str, list[Any]]:
    """By column, the values that some query compares it with."""
    found: dict[str, set[Any]] = {}
    single = re.compile(r"\b(\w+)\s*(?:=|BETWEEN)\s*('[^']*'|\d+)(?![\w.])", re.IGNORECASE)
    several = re.compile(r"\b(\w+)\s+IN\s*\(((?:\s*(?:'[^']*'|\d+)\s*,?)+)\)", re.IGNORECASE)
    for text in texts().values():
        for column, value in single.findall(text):
            found.setdefault(column.lower(), set()).add(value)
        for column, values in several.findall(text):
            found.setdefault(column.lower(), set()).update(re.findall(r"'[^']*'|\d+", values))
    return {
        column: sorted(int(v) if v.isdigit() else v.strip("'") for v in values)
        for column, values in found.items()
        if len({v.isdigit() for v in values}) == 1
    }


def _aimed(table: str, row: list[Any], rng: random.Random) -> list[Any]:
    """Half of what describes things is what queries ask for: at this scale few rows would be by chance."""
    if table in FACTS or table in ("date_dim", "time_dim"):
        return row
    for place, (column, type_) in enumerate(columns()[table].items()):
        wanted = asked_for().get(column)
        if wanted and column not in key_of(table) and type_ != "DATE" and rng.random() < 0.5:
            row[place] = rng.choice(wanted)
    return row


def fill(shop: Shop, rng: random.Random) -> None:
    """The source, with its rows."""
    generated = connect()
    generated.execute("CALL dsdgen(sf=0.01)")
    statements = []
    for table, declared in columns().items():
        listed = ", ".join(f"{name} {type_}" for name, type_ in declared.items())
        statements.append(f"CREATE TABLE {table} ({listed}, PRIMARY KEY ({', '.join(key_of(table))}));")
    shop.source(SOURCE, "".join(statements))
    with sqlite3.connect(shop.root / f"{SOURCE}.db") as source:
        for table, declared in columns().items():
            shown = ", ".join(f"CAST({c} AS VARCHAR)" if t == "DATE" else c for c, t in declared.items())
            where = _KEPT.get(table, "TRUE")
            rows = generated.execute(f"SELECT {shown} FROM {table} WHERE {where}").fetchall()
            marks = ", ".join("?" * len(declared))
            aimed = [_aimed(table, _plain(row), rng) for row in sorted(rows, key=str)]
            source.executemany(f"INSERT OR IGNORE INTO {table} VALUES ({marks})", aimed)
    source.close()
    generated.close()


def _plain(row: Iterable[Any]) -> list[Any]:
    return [float(value) if isinstance(value, Decimal) else value for value in row]


def change(shop: Shop, rng: random.Random) -> list[str]:
    """A transaction: rows go, rows come back under another number, and measures and names change."""
    statements: list[str] = []
    source = sqlite3.connect(shop.root / f"{SOURCE}.db")
    for table in _CHANGED:
        rows = source.execute(f"SELECT rowid FROM {table} ORDER BY rowid").fetchall()
        for (row,) in rng.sample(rows, min(len(rows), 3)):
            statements += _changed(table, row, rng)
    source.close()
    shop.write(SOURCE, *statements)
    return statements


def _changed(table: str, row: int, rng: random.Random) -> Iterator[str]:
    declared, key = columns()[table], key_of(table)
    number = key[-1] if table != "inventory" else key[1]
    match rng.choice(("update", "update", "delete", "copy")):
        case "delete" if table in FACTS:
            yield f"DELETE FROM {table} WHERE rowid = {row}"
        case "copy" if table in FACTS:
            again = ", ".join(f"{c} + 1000000" if c == number else c for c in declared)
            yield f"INSERT OR IGNORE INTO {table} SELECT {again} FROM {table} WHERE rowid = {row}"
        case _:
            free = [c for c, t in declared.items() if c not in key and t != "DATE"]
            column = rng.choice(free)
            if (wanted := asked_for().get(column)) and rng.random() < 0.5:
                value = rng.choice(wanted)
                text = str(value) if isinstance(value, int) else f"'{value}'"
                yield f"UPDATE {table} SET {column} = {text} WHERE rowid = {row}"
                return
            order = f"(o.rowid * {rng.randrange(1, 999)}) % 997"
            other = f"(SELECT o.{column} FROM {table} o ORDER BY {order} LIMIT 1)"
            yield f"UPDATE {table} SET {column} = {other} WHERE rowid = {row}"


class Oracle:
    """DuckDB over the source's own rows, as they are now."""

    def __init__(self, shop: Shop) -> None:
        self._con = connect()
        self._con.execute(f"CREATE SCHEMA {SOURCE}")
        source = sqlite3.connect(shop.root / f"{SOURCE}.db")
        for table, declared in columns().items():
            listed = ", ".join(f"{name} {type_}" for name, type_ in declared.items())
            self._con.execute(f"CREATE TABLE {SOURCE}.{table} ({listed})")
            rows = source.execute(f"SELECT {', '.join(declared)} FROM {table}").fetchall()
            _insert(self._con, f"{SOURCE}.{table}", rows)
        source.close()

    def rows(self, query: int, *, limited: bool = True) -> list[tuple[Any, ...]]:
        text = texts()[query].replace("`", '"')
        if not limited:
            head, _, tail = text.rpartition("LIMIT ")
            text = head if tail.strip().isdigit() else text
        return self._con.execute(text).fetchall()


def _insert(con: duckdb.DuckDBPyConnection, table: str, rows: list[tuple[Any, ...]]) -> None:
    if rows:
        arrays = [pa.array(column) for column in zip(*rows, strict=True)]
        read = pa.Table.from_arrays(arrays, names=[f"c{i}" for i in range(len(arrays))])
        con.register("rows_read", read)
        con.execute(f"INSERT INTO {table} SELECT * FROM rows_read")
        con.unregister("rows_read")


def difference(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> str:
    """Empty where the rows are the same, in any order."""
    if len(ours) != len(theirs):
        return f"{len(ours)} rows, not {len(theirs)}"
    for mine, other in zip(sorted(ours, key=_place), sorted(theirs, key=_place), strict=True):
        if not all(map(_same, mine, other)):
            return f"{mine}, not {other}"
    return ""


def included(ours: list[tuple[Any, ...]], theirs: list[tuple[Any, ...]]) -> bool:
    left = list(theirs)
    for row in ours:
        found = next((i for i, other in enumerate(left) if all(map(_same, row, other))), None)
        if found is None:
            return False
        left.pop(found)
    return True


def _number(value: Any) -> bool:
    return isinstance(value, int | float | Decimal) and not isinstance(value, bool)


def _place(row: tuple[Any, ...]) -> tuple[Any, ...]:
    """Texts and dates first: numbers may differ in their last digits."""
    words = tuple((v is None, str(v)) for v in row if not _number(v))
    return (words, tuple(round(float(v), 2) for v in row if _number(v)))


def _same(mine: Any, other: Any) -> bool:
    if _number(mine) and _number(other):
        return math.isclose(float(mine), float(other), rel_tol=1e-9, abs_tol=1e-4)
    return bool(mine == other)
