"""What keys spare: reads of relations, counted at the source, while every view stays what SQLite makes of its
text. Foreign keys are trusted only where the project says so."""

from __future__ import annotations

import os
import random
import re
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import stillframe.runtime.computing as computing
from shops import Shop
from stillframe.engine import Engine
from stillframe.runtime import Warehouse
from stillframe.runtime.sharing import Going
from stillframe.sources.sqlite.source import SqliteSource

SEED = int(os.environ.get("STILLFRAME_SEED", "4"))
DDL = """
CREATE TABLE customers (
  id INTEGER PRIMARY KEY, name TEXT NOT NULL, note TEXT, boss INTEGER REFERENCES customers
);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER REFERENCES customers (id), day INTEGER);
CREATE TABLE lines (
  o INTEGER NOT NULL REFERENCES orders, n INTEGER NOT NULL, amount INTEGER, note TEXT, PRIMARY KEY (o, n)
) WITHOUT ROWID;
"""
JOINED = "a.customers c JOIN a.orders o ON o.customer = c.id JOIN a.lines l ON l.o = o.id"
TEXTS = {
    "all_keys": f"SELECT c.id, o.id AS o, l.n, c.name, l.amount FROM {JOINED}",
    "no_keys": f"SELECT c.name, l.amount FROM {JOINED}",
    "some": f"SELECT o.id, l.amount FROM {JOINED} WHERE l.amount > 5 AND o.day < 3",
    "sums": f"SELECT c.name, sum(l.amount) AS s, count(*) AS n FROM {JOINED} GROUP BY c.name",
    "bosses": "SELECT c.id, b.id AS boss, b.name FROM a.customers c JOIN a.customers b ON c.boss = b.id",
    "couples": "SELECT c.id, b.name FROM a.customers c JOIN a.customers b ON c.boss = b.id AND b.boss = c.id",
    "pairs": "SELECT x.id, y.id AS y FROM a.orders x JOIN a.orders y ON x.customer = y.customer",
    "either": "SELECT o.id FROM a.orders o JOIN a.customers c ON o.customer = c.id"
    " UNION ALL SELECT l.o FROM a.lines l JOIN a.orders o ON l.o = o.id",
}
PARTS = {
    "lines_of": "SELECT l.n, l.amount, o.day FROM a.lines l JOIN a.orders o ON o.id = l.o",
    "orders_of": "SELECT c.name, o.day FROM a.customers c JOIN a.orders o ON o.customer = c.id",
}
START = (
    "INSERT INTO customers VALUES (1, 'ann', NULL, NULL), (2, 'bob', NULL, 1)",
    "INSERT INTO orders VALUES (10, 1, 1), (11, 2, 2)",
    "INSERT INTO lines VALUES (10, 1, 7, NULL), (10, 2, 3, NULL), (11, 1, 9, NULL)",
)
TRUSTED, IGNORED = "trusted", "ignored"


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The relations whose states a source is asked for."""
    found: list[str] = []
    state: Callable[..., Any] = SqliteSource.state

    def counted(self: SqliteSource, relation: str, *args: Any, **kwargs: Any) -> Any:
        found.append(relation)
        return state(self, relation, *args, **kwargs)

    monkeypatch.setattr(SqliteSource, "state", counted)
    return found


class Kept:
    """A shop whose views are compared with their texts after every frame."""

    def __init__(self, root: Path, engine: Engine, name: str, trust: str, views: dict[str, str], **more: str):
        self.shop = Shop(root, engine, name)
        self.shop.source("a", DDL)
        self.shop.configure()
        path = root / "stillframe.yml"
        small = more.pop("small", "driver")
        text = path.read_text().replace("'sqlite:///a.db'}", f"'sqlite:///a.db', foreign_keys: {trust}}}")
        text = re.sub("small_changes: .*", f"small_changes: {small}", text)
        path.write_text(text + "".join(f"{key}: {value}\n" for key, value in more.items()))
        self.texts = views
        self.shop.views("\n".join(f"CREATE MATERIALIZED VIEW {n} AS {text};" for n, text in views.items()))
        self.shop.write("a", "INSERT INTO customers VALUES (1, 'ann', NULL, NULL), (2, 'bob', NULL, 1)")
        self.shop.write("a", "INSERT INTO orders VALUES (10, 1, 1), (11, 2, 2)")
        self.shop.write("a", "INSERT INTO lines VALUES (10, 1, 7, NULL), (10, 2, 3, NULL), (11, 1, 9, NULL)")
        self.warehouse: Warehouse = self.shop.open()
        self.warehouse.maintain()

    def step(self, *statements: str) -> dict[str, str]:
        """The modes of the views; all are right then."""
        self.shop.write("a", *statements)
        result = self.warehouse.maintain()
        assert not result.failures
        con = sqlite3.connect(self.shop.root / "a.db")
        for name, text in self.texts.items():
            table = self.warehouse.arrow(name)
            got = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
            expected = Counter(con.execute(text.replace("a.", "main.")).fetchall())
            assert got == expected, (name, got - expected, expected - got)
        con.close()
        return {name: outcome.mode for name, outcome in result.outcomes.items()}


@pytest.fixture
def kept(tmp_path: Path, engine: Engine, engine_name: str) -> Iterator[Callable[..., Kept]]:
    made: list[Kept] = []

    def make(trust: str, *names: str, **more: str) -> Kept:
        views = {name: {**TEXTS, **PARTS}[name] for name in names or TEXTS}
        made.append(Kept(tmp_path / str(len(made)), engine, engine_name, trust, views, **more))
        return made[-1]

    yield make
    for each in made:
        each.warehouse.__exit__(None, None, None)


def test_new_rows_that_others_refer_to_ask_for_nothing(kept: Callable[..., Kept], asked: list[str]) -> None:
    for trust in (TRUSTED, IGNORED):
        shop = kept(trust, "all_keys", "no_keys", "sums")
        asked.clear()
        new = "INSERT INTO customers VALUES (3, 'cid', NULL, NULL)"
        modes = shop.step(new, "INSERT INTO orders VALUES (12, 3, 1), (13, 1, 1)")
        assert set(modes.values()) == {"unchanged"}
        assert bool(asked) == (trust == IGNORED)
        asked.clear()
        shop.step("INSERT INTO orders VALUES (14, 3, 1)", "INSERT INTO lines VALUES (14, 1, 5, NULL)")
        if trust == TRUSTED:
            assert sorted(set(asked)) == ["customers", "orders"], "lines were there already, and met nothing"
        asked.clear()
        shop.step("UPDATE customers SET name = 'dan' WHERE id = 1")
        assert asked, "a row that was there may be referred to"


@pytest.fixture
def shared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Parts of joins are shared, whether that pays or not."""
    monkeypatch.setattr(Going, "worth", lambda _going, _core, uses, _anyway: uses)


@pytest.mark.usefixtures("shared")
def test_new_rows_that_a_shared_part_refers_to_ask_for_nothing(
    kept: Callable[..., Kept], asked: list[str]
) -> None:
    """The part, lines of orders, asks for orders, and what it becomes for customers; nobody else asks."""
    for trust in (TRUSTED, IGNORED):
        shop = kept(trust, "lines_of", "no_keys")
        asked.clear()
        new = "INSERT INTO customers VALUES (3, 'cid', NULL, NULL)"
        shop.step(new, "INSERT INTO lines VALUES (11, 2, 5, NULL)")
        assert (sorted(asked) == ["customers", "orders"]) == (trust == TRUSTED), asked


@pytest.mark.usefixtures("shared")
def test_rows_that_leave_beside_a_shared_part_are_found_by_the_keys_of_the_view(
    kept: Callable[..., Kept], asked: list[str]
) -> None:
    shop = kept(IGNORED, "lines_of", "all_keys")
    asked.clear()
    shop.step("DELETE FROM customers WHERE id = 2", "UPDATE lines SET amount = 8 WHERE o = 10 AND n = 1")
    assert sorted(asked) == ["customers", "orders"]
    shop.step("DELETE FROM customers", "DELETE FROM lines WHERE n = 1", "DELETE FROM orders WHERE id = 11")
    shop.step("INSERT INTO customers VALUES (1, 'ann', NULL, NULL)")
    assert shop.warehouse.arrow("all_keys").num_rows == 1


def test_a_key_that_comes_back_is_not_new(kept: Callable[..., Kept]) -> None:
    shop = kept(TRUSTED, "all_keys", "sums", "bosses")
    shop.step("DELETE FROM customers WHERE id = 2", "INSERT INTO customers VALUES (2, 'eve', NULL, NULL)")
    shop.step("UPDATE orders SET id = 20 WHERE id = 11", "UPDATE lines SET o = 20 WHERE o = 11")


def test_a_key_whose_row_met_no_condition_is_not_new(kept: Callable[..., Kept]) -> None:
    shop = kept(TRUSTED, "some")
    shop.step("UPDATE orders SET day = 7 WHERE id = 10")
    shop.step("UPDATE orders SET day = 2 WHERE id = 10")
    assert shop.warehouse.arrow("some").num_rows == 2


def test_new_rows_that_refer_to_each_other_meet(kept: Callable[..., Kept]) -> None:
    shop = kept(TRUSTED, "couples", "bosses")
    shop.step(
        "INSERT INTO customers VALUES (3, 'cid', NULL, NULL), (4, 'dot', NULL, 3)",
        "UPDATE customers SET boss = 4 WHERE id = 3",
    )
    assert shop.warehouse.arrow("couples").num_rows == 2


def test_rows_that_leave_are_found_by_the_keys_of_the_view(
    kept: Callable[..., Kept], asked: list[str]
) -> None:
    shop = kept(IGNORED, "all_keys")
    asked.clear()
    assert shop.step("DELETE FROM lines WHERE o = 10 AND n = 2")["all_keys"] == "incremental"
    assert not asked
    shop.step("DELETE FROM lines WHERE o = 11", "DELETE FROM orders WHERE id = 11")
    assert not asked
    shop.step("DELETE FROM lines", "DELETE FROM orders", "DELETE FROM customers")
    assert not asked
    assert shop.warehouse.arrow("all_keys").num_rows == 0
    shop.step(*START)
    assert shop.warehouse.arrow("all_keys").num_rows == 3, "a row was taken away twice"


def test_a_view_without_the_keys_asks(kept: Callable[..., Kept], asked: list[str]) -> None:
    shop = kept(IGNORED, "no_keys")
    asked.clear()
    shop.step("DELETE FROM lines WHERE o = 10 AND n = 2")
    assert asked


def test_changes_that_make_no_difference_ask_for_nothing(kept: Callable[..., Kept], asked: list[str]) -> None:
    shop = kept(IGNORED, "some", "no_keys")
    asked.clear()
    shop.step("UPDATE lines SET note = 'seen'")
    assert not asked, "no view reads the column"
    modes = shop.step("UPDATE orders SET day = 0 WHERE id = 10")
    assert set(modes.values()) == {"unchanged"}
    assert set(asked) == {"customers", "lines"}, "one view looks at the column, and only that one asks"


def test_rows_outside_a_selection_ask_for_nothing(
    kept: Callable[..., Kept], asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shop = kept(IGNORED, "some", small="engine")
    jobs: list[str] = []
    write = computing.write_query
    monkeypatch.setattr(computing, "write_query", lambda *args: (jobs.append(args[1]), write(*args)))
    asked.clear()
    modes = shop.step("INSERT INTO lines VALUES (10, 3, 1, NULL)", "UPDATE orders SET day = 9 WHERE day > 5")
    assert modes == {"some": "unchanged"}
    assert not asked and not jobs
    shop.step("UPDATE lines SET amount = 8 WHERE o = 10 AND n = 3")
    assert asked and jobs


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_random_changes(kept: Callable[..., Kept], seed: int) -> None:
    """Foreign keys hold after every transaction, in any mixture of rows that come, go and come back."""
    print(f"STILLFRAME_SEED={seed}")
    rng = random.Random(seed)
    shop = kept(
        rng.choice([TRUSTED, TRUSTED, IGNORED]),
        small=rng.choice(["driver", "engine"]),
        copies=rng.choice(["all", "none", "[a.lines, a.orders]"]),
    )
    for _ in range(5):
        shop.step(*_statements(rng, shop.shop.root / "a.db"))


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("seed", range(SEED, SEED + 3))
def test_random_changes_of_views_that_share_parts(kept: Callable[..., Kept], seed: int) -> None:
    print(f"STILLFRAME_SEED={seed}")
    rng = random.Random(seed)
    names = (rng.choice([*PARTS]), rng.choice(["all_keys", "sums"]), "pairs")
    small, copies = rng.choice(["driver", "engine"]), rng.choice(["all", "none", "[a.lines, a.orders]"])
    shop = kept(TRUSTED, *names, small=small, copies=copies)
    for _ in range(5):
        shop.step(*_statements(rng, shop.shop.root / "a.db"))


def _statements(rng: random.Random, path: Path) -> Iterator[str]:
    """Tried on a copy of the database, so that what would break a foreign key is left out."""
    trial = sqlite3.connect(":memory:", isolation_level=None)
    with sqlite3.connect(path) as con:
        con.backup(trial)
    for (trigger,) in trial.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
        trial.execute(f'DROP TRIGGER "{trigger}"')
    trial.execute("PRAGMA foreign_keys = ON")
    for _ in range(rng.randrange(1, 30)):
        i, j, k = (rng.randrange(1, 9) for _ in range(3))
        statement = rng.choice(
            [
                f"INSERT INTO customers VALUES ({i}, 'n{j % 3}', NULL, {rng.choice([k, 'NULL'])})",
                f"INSERT INTO orders VALUES ({10 + i}, {j}, {k})",
                f"INSERT INTO lines VALUES ({10 + i}, {j % 3}, {k * 2}, NULL)",
                f"INSERT INTO lines VALUES ({10 + j}, {i % 3}, {k * 2}, NULL)",
                f"DELETE FROM lines WHERE o = {10 + i}",
                f"DELETE FROM lines WHERE o = {10 + i} AND n = {j % 3}",
                f"DELETE FROM orders WHERE id = {10 + i}",
                f"DELETE FROM customers WHERE id = {i}",
                f"UPDATE customers SET name = 'n{j % 3}' WHERE id = {i}",
                f"UPDATE customers SET note = 'x{j}', boss = {k} WHERE id = {i}",
                f"UPDATE customers SET id = {10 + j} WHERE id = {i}",
                f"UPDATE orders SET customer = {j}, day = {k} WHERE id = {10 + i}",
                f"UPDATE orders SET id = {10 + j} WHERE id = {10 + i}",
                f"UPDATE lines SET amount = {k * 2} WHERE o = {10 + i}",
                f"UPDATE lines SET o = {10 + j} WHERE o = {10 + i}",
            ]
        )
        try:
            trial.execute(statement)
        except sqlite3.IntegrityError:
            continue
        yield statement
    trial.close()
