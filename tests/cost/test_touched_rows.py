"""What a refresh reads, for one touched group of 100 000: rows of relations, counted operator by operator.

Changed rows come from the logs, and shown rows from the lake; what is counted here is every other row of a
relation that a source was asked for.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import duckdb
import pyarrow as pa
import pytest

from shops import Shop
from stillframe.engine import Engine
from stillframe.runtime import Warehouse

GROUPS, EACH = 100_000, 3
LEAST, GREATEST = 10, 30  # of every group's amounts
FACTS = "CREATE TABLE facts (id INTEGER PRIMARY KEY, g INTEGER NOT NULL, amount INTEGER);"
KEYS = "CREATE TABLE keys (g INTEGER PRIMARY KEY, name TEXT NOT NULL);"
INDEX = "CREATE INDEX facts_g ON facts (g);"
TEXTS = {
    "sums": "SELECT g, count(*) AS n, sum(amount) AS s, avg(amount) AS a FROM a.facts GROUP BY g",
    "extremes": "SELECT g, min(amount) AS least, max(amount) AS most FROM a.facts GROUP BY g",
    "different": "SELECT g, count(DISTINCT amount) AS d FROM a.facts GROUP BY g",
    "total": "SELECT count(*) AS n, sum(amount) AS s FROM a.facts",
    "groups": "SELECT DISTINCT g FROM a.facts",
    "unnamed": "SELECT g FROM a.facts EXCEPT SELECT g FROM a.keys",
    "spread": "SELECT g, stddev(amount) AS d FROM a.facts GROUP BY g",
    "placed": "SELECT id, rank() OVER (PARTITION BY g ORDER BY amount) AS place FROM a.facts",
    "first_two": "SELECT id, g FROM a.facts"
    " QUALIFY row_number() OVER (PARTITION BY g ORDER BY amount, id) <= 2",
    "top": "SELECT id, amount FROM a.facts ORDER BY amount DESC, id LIMIT 5",
    "known": "SELECT f.id FROM a.facts f WHERE EXISTS (SELECT 1 FROM a.keys k WHERE k.g = f.g)",
    "all_keys": "SELECT k.g, f.id FROM a.keys k LEFT JOIN a.facts f ON f.g = k.g",
    "named": "SELECT k.name, sum(f.amount) AS s FROM a.facts f JOIN a.keys k ON k.g = f.g GROUP BY k.name",
    "above_mean": "SELECT f.id FROM a.facts f WHERE f.amount >"
    " (SELECT avg(x.amount) FROM a.facts x WHERE x.g = f.g)",
}
OF_ITSELF = {"sums", "different", "total", "groups", "unnamed"}  # no row of a relation is read again


@pytest.fixture(scope="module")
def warehouse(
    tmp_path_factory: pytest.TempPathFactory, engine: Engine, engine_name: str
) -> Iterator[tuple[Warehouse, Shop]]:
    shop = Shop(tmp_path_factory.mktemp("touched"), engine, engine_name)
    shop.source("a", FACTS + KEYS + INDEX)
    con = sqlite3.connect(shop.root / "a.db")
    amounts = (LEAST, 20, GREATEST)
    con.executemany(
        "INSERT INTO facts (g, amount) VALUES (?, ?)",
        ((g, amounts[i]) for g in range(GROUPS) for i in range(EACH)),
    )
    con.executemany("INSERT INTO keys VALUES (?, 'k' || ?)", ((g, g) for g in range(GROUPS)))
    con.commit()
    con.close()
    shop.views("\n".join(f"CREATE MATERIALIZED VIEW {name} AS {text};" for name, text in TEXTS.items()))
    with shop.open() as opened:
        opened.refresh()
        yield opened, shop


def read_for(warehouse: Warehouse, shop: Shop, *statements: str) -> dict[str, int]:
    """The rows that a refresh after these statements reads for each view; every view is right then."""
    shop.write("a", *statements)
    result = warehouse.maintain()
    assert not result.failures
    assert {outcome.mode for outcome in result.outcomes.values()} <= {"incremental", "unchanged"}
    _right(warehouse, shop)
    return {name: outcome.rows_read for name, outcome in result.outcomes.items()}


def _right(warehouse: Warehouse, shop: Shop) -> None:
    con = duckdb.connect()
    con.execute("SET default_null_order = 'nulls_first_on_asc_last_on_desc'")
    con.execute("CREATE SCHEMA a")
    source = sqlite3.connect(shop.root / "a.db")
    for table, ddl in (("facts", FACTS), ("keys", KEYS)):
        con.execute(ddl.replace(f"TABLE {table}", f"TABLE a.{table}"))
        rows = source.execute(f"SELECT * FROM {table}").fetchall()
        columns = [d[0] for d in source.execute(f"SELECT * FROM {table} LIMIT 0").description]
        arrow = pa.table(dict(zip(columns, map(list, zip(*rows, strict=True)), strict=True)))
        con.register("arrow", arrow)
        con.execute(f"INSERT INTO a.{table} SELECT * FROM arrow")
        con.unregister("arrow")
    for name, text in TEXTS.items():
        shown = warehouse.arrow(name)
        con.register("shown", shown)
        seen = "g, round(d, 9)" if name == "spread" else "*"  # floats are added up in any order
        for left, right in (("shown", f"({text})"), (f"({text})", "shown")):
            extra = con.execute(
                f"SELECT count(*) FROM (SELECT {seen} FROM {left} EXCEPT ALL SELECT {seen} FROM {right})"
            ).fetchone()
            assert extra == (0,), f"{name}: {left[:6]} has more"
        con.unregister("shown")


def test_one_touched_group_of_many(warehouse: tuple[Warehouse, Shop]) -> None:
    opened, shop = warehouse
    # An amount in the middle of one group: nothing of the group but this row changes places.
    read = read_for(opened, shop, "UPDATE facts SET amount = 21 WHERE g = 777 AND amount = 20")
    assert {name: read[name] for name in OF_ITSELF} == dict.fromkeys(OF_ITSELF, 0)
    assert read["extremes"] == 0 and read["top"] == 0
    for name in ("spread", "placed"):
        assert read[name] <= EACH, name
    assert all(rows <= 4 * EACH for rows in read.values()), read


def test_a_group_is_read_again_only_when_its_extreme_leaves(warehouse: tuple[Warehouse, Shop]) -> None:
    opened, shop = warehouse
    read = read_for(opened, shop, f"UPDATE facts SET amount = {LEAST - 1} WHERE g = 5 AND amount = {LEAST}")
    assert read["extremes"] == 0, "a lesser one came"
    read = read_for(opened, shop, f"DELETE FROM facts WHERE g = 5 AND amount = {LEAST - 1}")
    assert 0 < read["extremes"] <= EACH
    assert {name: read[name] for name in OF_ITSELF} == dict.fromkeys(OF_ITSELF, 0)


def test_first_rows_are_read_again_only_when_one_leaves(warehouse: tuple[Warehouse, Shop]) -> None:
    opened, shop = warehouse
    read = read_for(opened, shop, "INSERT INTO facts (g, amount) VALUES (3, 99)")
    assert read["top"] == 0, "one that is further ahead came"
    read = read_for(opened, shop, "DELETE FROM facts WHERE g = 9 AND amount = 20")
    assert read["top"] == 0, "one behind them left"
    read = read_for(opened, shop, "DELETE FROM facts WHERE amount = 99")
    assert read["top"] > 0


def test_born_emptied_and_moved(warehouse: tuple[Warehouse, Shop]) -> None:
    opened, shop = warehouse
    read = read_for(
        opened,
        shop,
        f"INSERT INTO facts (g, amount) VALUES ({GROUPS + 1}, 1)",
        "DELETE FROM facts WHERE g = 11",
        "UPDATE facts SET g = 13 WHERE g = 12",
        "DELETE FROM keys WHERE g = 14",
    )
    assert {name: read[name] for name in OF_ITSELF} == dict.fromkeys(OF_ITSELF, 0)
    assert all(rows <= 20 * EACH for name, rows in read.items() if name != "top"), read
