"""Going forward by changes, or computing anew: which is taken, why, and what is recorded of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from shops import Shop
from stillframe.engine import Engine, EngineError
from stillframe.runtime import deciding
from stillframe.runtime.deciding import Deciding
from stillframe.runtime.definitions import View
from stillframe.runtime.estimating import Estimator, Sized
from stillframe.runtime.outcome import Outcome
from stillframe.runtime.prices import BUILT_IN
from stillframe.runtime.statistics import Statistics
from stillframe.runtime.work import Work

ROWS = 3000
TABLES = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, amount INTEGER);
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
"""
VIEWS = """
CREATE MATERIALIZED VIEW joined AS
SELECT o.id, c.name, o.amount FROM a.orders o JOIN a.customers c ON c.id = o.customer;
CREATE MATERIALIZED VIEW by_name AS SELECT name, sum(amount) AS total FROM joined GROUP BY name;
CREATE MATERIALIZED VIEW always WITH (refresh_policy = 'incremental') AS
SELECT o.id, o.amount, c.name FROM a.orders o JOIN a.customers c ON c.id = o.customer;
"""


@pytest.fixture
def shop(tmp_path: Path, engine: Engine, engine_name: str) -> Iterator[Shop]:
    made = Shop(tmp_path, engine, engine_name)
    made.source("a", TABLES)
    con = sqlite3.connect(made.root / "a.db")
    con.executemany("INSERT INTO customers VALUES (?, 'c' || ?)", ((i, i % 50) for i in range(ROWS // 10)))
    con.executemany(
        "INSERT INTO orders VALUES (?, ?, ?)", ((i, i % (ROWS // 10), i % 7) for i in range(ROWS))
    )
    con.commit()
    con.close()
    made.views(VIEWS)
    yield made


def test_a_large_change_computes_anew_and_says_why(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "FEW_ROWS", 1000)  # three thousand rows are many here
    monkeypatch.setattr(deciding, "CLEARLY", 0.0)
    with shop.open() as warehouse:
        warehouse.refresh()
        shop.write("a", "UPDATE orders SET amount = amount + 1 WHERE id % 2 = 0")
        planned = warehouse.plan("joined")
        assert (planned["mode"], planned["next"]["reason"]) == ("full", "COST")
        assert planned["alternatives"][0]["why_not"] == planned["next"]["detail"]
        assert warehouse.plan("always")["next"] == {"mode": "incremental", "reason": "CHANGES"}
        result = warehouse.maintain()
        assert (result.outcomes["joined"].mode, result.outcomes["joined"].reason) == ("full", "COST")
        assert "anew about" in (result.outcomes["joined"].detail or "")
        assert result.outcomes["by_name"].mode == "full"
        assert result.outcomes["always"].mode == "incremental"  # its policy says so
        cost = result.outcomes["always"].cost
        assert cost is not None and cost["measured"] > 0 and cost["incremental"] > 0 and cost["full"] > 0
        assert result.frame.views["joined"].session["cost"]["estimated"] > 0
        assert all(found.ok for found in warehouse.verify_all().values())


def test_a_view_that_cannot_be_computed_anew_goes_forward(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "FEW_ROWS", 1000)
    monkeypatch.setattr(deciding, "CLEARLY", 0.0)
    recomputed: Callable[..., Outcome] = Work._recomputed

    def too_much(self: Work, view: View, reason: str) -> Outcome:
        if reason == "COST" and view.name == "joined":
            raise EngineError("no room for all of it")
        return recomputed(self, view, reason)

    with shop.open() as warehouse:
        warehouse.refresh()
        monkeypatch.setattr(Work, "_recomputed", too_much)
        shop.write("a", "UPDATE orders SET amount = amount + 1 WHERE id % 2 = 0")
        result = warehouse.maintain()
        assert not result.failures
        assert result.outcomes["joined"].mode == "incremental"
        assert all(found.ok for found in warehouse.verify_all().values())


def test_over_few_rows_a_view_always_goes_forward(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "CLEARLY", 0.0)
    with shop.open() as warehouse:
        warehouse.refresh()
        shop.write("a", "UPDATE orders SET amount = amount + 1")
        result = warehouse.maintain()
        assert {outcome.mode for outcome in result.outcomes.values()} <= {"incremental", "unchanged"}


def test_plan_tells_statistics_and_seconds(shop: Shop) -> None:
    with shop.open() as warehouse:
        warehouse.refresh()
        shop.write(
            "a", "UPDATE orders SET amount = amount + 1 WHERE id < 30", "DELETE FROM orders WHERE id < 5"
        )
        warehouse.refresh()
        found = warehouse.plan("joined")
        known = found["statistics"]["a.orders"]
        assert known["rows"] == ROWS - 5
        assert 0 < known["changed"] <= 60
        assert known["distinct"]["customer"] == pytest.approx(ROWS / 10, rel=0.5)
        assert found["cost"]["seconds"] > 0
        assert found["alternatives"][0]["seconds"] > 0
        json.dumps(found)


def test_values_of_nothing_are_not_counted(tmp_path: Path, engine: Engine, engine_name: str) -> None:
    """Rows of views may all be in changes, or be none."""
    made = Shop(tmp_path, engine, engine_name)
    made.source("a", TABLES)
    made.views(
        VIEWS + "CREATE MATERIALIZED VIEW twice AS"
        " SELECT x.id FROM joined x JOIN joined y ON x.name = y.name AND x.amount = y.amount;"
    )
    with made.open() as warehouse:
        for number in range(3):
            assert not warehouse.maintain().failures
            made.write("a", f"INSERT INTO customers VALUES ({number}, 'x')")
            made.write("a", f"INSERT INTO orders VALUES ({number}, {number}, 1)")
        assert all(found.ok for found in warehouse.verify_all().values())


# -- the decision alone


def decided(shop: Shop, change: float, known: Statistics | None = None, rows: float = 1e6) -> dict[str, str]:
    with shop.open() as warehouse:
        found = dict(warehouse.definitions().views)
    sizes = {"a.orders": Sized(rows, change), "a.customers": Sized(rows / 10, 0)}
    deciding_now = Deciding(
        found,
        lambda view: sizes.__getitem__,
        lambda name: rows,
        Estimator(BUILT_IN["spark"], 0.1),
        known or Statistics(),
    )
    deciding_now.decide(found)
    return {name: decision.mode for name, decision in deciding_now.decisions.items()}


def test_small_changes_go_forward_and_large_ones_do_not(shop: Shop) -> None:
    assert decided(shop, 100)["joined"] == "incremental"
    assert decided(shop, 1.8e6)["joined"] == "full"
    assert decided(shop, 1.8e6)["always"] == "incremental"
    assert decided(shop, 1.8e3, rows=1e3)["joined"] == "incremental"


def test_what_was_learned_turns_the_choice(shop: Shop) -> None:
    known = Statistics()
    for _ in range(10):
        known = known.with_measure("joined", "incremental", 5e4, 1.0, 25.0)
        known = known.with_measure("by_name", "incremental", 5e4, 1.0, 25.0)
    assert decided(shop, 5e4)["joined"] == "incremental"
    assert decided(shop, 5e4, known)["joined"] == "full"


def test_a_view_is_not_computed_anew_at_the_expense_of_those_above(shop: Shop) -> None:
    """by_name would be dear to compute anew: joined goes forward for its sake."""
    known = Statistics()
    for _ in range(10):
        known = known.with_measure("joined", "incremental", 5e4, 1.0, 15.0)
    assert decided(shop, 5e4, known)["joined"] == "full"
    for _ in range(10):
        known = known.with_measure("by_name", "full", 1e6, 1.0, 29.0)
        for part in (name for name in decided(shop, 5e4) if name.startswith("by_name~")):
            known = known.with_measure(part, "full", 1e6, 1.0, 29.0)
    assert decided(shop, 5e4, known)["joined"] == "incremental"
