"""Changed rows that no view asks for are not read from the log, and every view stays what SQLite makes of its
text."""

from __future__ import annotations

import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from shops import Shop
from stillframe.engine import Engine
from stillframe.sources.sqlite.source import SqliteSource

pytestmark = pytest.mark.engine

DDL = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, state TEXT, day DATE, customer INTEGER, amount INTEGER);
CREATE TABLE customers (id INTEGER PRIMARY KEY, region TEXT);
"""
OPEN = "SELECT id, amount FROM a.orders WHERE state = 'open' AND amount > 100"
LATE = "SELECT day, count(*) AS n, sum(amount) AS s FROM a.orders WHERE day >= '2024-06-01' GROUP BY day"
JOINED = (
    "SELECT o.id, c.region FROM a.orders o JOIN a.customers c ON c.id = o.customer"
    " WHERE o.state IN ('open', 'paid') AND c.region = 'EU'"
)
EVERY = "SELECT state, count(*) AS n FROM a.orders GROUP BY state"
FILL = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 200)"


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """Rows that were read from the log, by relation."""
    found: Counter[str] = Counter()
    changes: Callable[..., Iterator[pa.RecordBatch]] = SqliteSource.changes

    def counted(self: SqliteSource, relation: str, *args: Any, **kwargs: Any) -> Iterator[pa.RecordBatch]:
        for batch in changes(self, relation, *args, **kwargs):
            found[relation] += batch.num_rows
            yield batch

    monkeypatch.setattr(SqliteSource, "changes", counted)
    return found


class Kept:
    def __init__(self, root: Path, engine: Engine, name: str, texts: dict[str, str], copies: str = "none"):
        self.shop, self.texts = Shop(root, engine, name), texts
        self.shop.source("a", DDL)
        self.shop.configure(extra=f"copies: {copies}\n")
        self.shop.views("".join(f"CREATE MATERIALIZED VIEW {n} AS {text};\n" for n, text in texts.items()))
        self.shop.write(
            "a",
            f"{FILL} INSERT INTO orders SELECT i, CASE i % 4 WHEN 0 THEN 'open' WHEN 1 THEN 'paid' WHEN 2"
            " THEN 'gone' END, date('2024-01-01', i || ' days'), i % 10, i FROM n",
            f"{FILL} INSERT INTO customers SELECT i, CASE i % 3 WHEN 0 THEN 'EU' ELSE 'US' END FROM n"
            " WHERE i < 10",
        )
        self.warehouse = self.shop.open()
        self.warehouse.maintain()

    def step(self, *statements: str) -> None:
        self.shop.write("a", *statements)
        result = self.warehouse.maintain()
        assert not result.failures
        con = sqlite3.connect(self.shop.root / "a.db")
        for name, text in self.texts.items():
            table = self.warehouse.arrow(name)
            got = Counter(tuple(map(str, row.values())) for row in table.to_pylist())
            expected = Counter(tuple(map(str, row)) for row in con.execute(text.replace("a.", "main.")))
            assert got == expected, (name, got - expected, expected - got)
        con.close()


@pytest.fixture
def kept(tmp_path: Path, engine: Engine, engine_name: str) -> Iterator[Callable[..., Kept]]:
    made: list[Kept] = []

    def make(**texts: str) -> Kept:
        copies = texts.pop("copies", "none")
        made.append(Kept(tmp_path / str(len(made)), engine, engine_name, texts, copies))
        return made[-1]

    yield make
    for each in made:
        each.warehouse.__exit__(None, None, None)


def test_rows_that_nobody_asks_for_are_not_read(kept: Callable[..., Kept], read: Counter[str]) -> None:
    shop = kept(open_orders=OPEN)
    read.clear()
    shop.step("UPDATE orders SET amount = amount + 1 WHERE state = 'gone'")
    assert read["orders"] == 0
    shop.step("UPDATE orders SET state = 'open' WHERE id IN (102, 10)")
    assert read["orders"] == 1, "of what it was no row is wanted, and of what it is the one above a hundred"
    shop.step("UPDATE orders SET state = NULL WHERE id IN (102, 104)", "DELETE FROM orders WHERE id = 108")
    assert read["orders"] == 4
    shop.step("INSERT INTO orders VALUES (1000, 'open', NULL, NULL, NULL), (1001, NULL, NULL, NULL, 500)")
    assert read["orders"] == 4, "what is NULL is not more than a hundred"


@pytest.mark.slow_on_spark
def test_what_another_view_asks_for_is_read(kept: Callable[..., Kept], read: Counter[str]) -> None:
    shop = kept(open_orders=OPEN, late=LATE)
    read.clear()
    shop.step("UPDATE orders SET customer = 3 WHERE day < '2024-06-01' AND state <> 'open'")
    assert read["orders"] == 0
    shop.step("UPDATE orders SET amount = 7 WHERE day = '2024-06-03'")
    assert read["orders"] == 2
    shop = kept(open_orders=OPEN, every=EVERY)
    read.clear()
    shop.step("UPDATE orders SET state = 'gone' WHERE id <= 20")
    assert read["orders"] == 40


def test_a_copy_has_every_row(kept: Callable[..., Kept], read: Counter[str]) -> None:
    shop = kept(open_orders=OPEN, copies="all")
    read.clear()
    shop.step("UPDATE orders SET amount = amount + 1 WHERE state = 'gone'")
    assert read["orders"] == 100


@pytest.mark.slow_on_spark
def test_random_changes_of_what_is_asked_for(kept: Callable[..., Kept]) -> None:
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    rng = random.Random(seed)
    shop = kept(open_orders=OPEN, late=LATE, joined=JOINED)
    for _ in range(6):
        shop.step(*(_statement(rng) for _ in range(rng.randrange(1, 12))))


def _statement(rng: random.Random) -> str:
    low = rng.randrange(1, 220)
    some = f"WHERE id BETWEEN {low} AND {low + rng.choice([0, 3, 40])}"
    state = rng.choice(["'open'", "'paid'", "'gone'", "NULL", "'OPEN'"])
    day = rng.choice(["NULL", "'2024-05-31'", "'2024-06-01'", "'2024-06-02'"])
    return rng.choice(
        [
            f"UPDATE orders SET state = {state} {some}",
            f"UPDATE orders SET amount = {rng.choice(['NULL', '100', '101', 'amount + 50'])} {some}",
            f"UPDATE orders SET day = {day} {some}",
            f"UPDATE orders SET customer = customer + 1 {some}",
            f"DELETE FROM orders {some}",
            f"INSERT OR REPLACE INTO orders VALUES ({low}, {state}, {day}, 3, 150)",
            f"UPDATE customers SET region = '{rng.choice(['EU', 'US'])}' WHERE id = {rng.randrange(1, 10)}",
            f"DELETE FROM customers WHERE id = {rng.randrange(1, 10)}",
            f"INSERT OR REPLACE INTO customers VALUES ({rng.randrange(1, 10)}, 'EU')",
        ]
    )
