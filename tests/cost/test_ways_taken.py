"""The way that a change is estimated by is the way it is computed: else prices of the one would be judged by
what the other takes."""

from __future__ import annotations

import sqlite3
import threading
from collections import defaultdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from shops import Shop
from stillframe.algebra import Plan
from stillframe.engine import Engine
from stillframe.runtime import deciding
from stillframe.runtime.columnar import is_columnar
from stillframe.runtime.computing import Computing
from stillframe.runtime.weighing import Weighing

ROWS = 3000
TABLES = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, amount INTEGER);
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
"""
JOINED = "a.orders o JOIN a.customers c ON c.id = o.customer"
VIEWS = {
    "joined": f"SELECT o.id, c.name, o.amount FROM {JOINED}",
    "calculated": f"SELECT o.id, c.name, o.amount % 10 AS last FROM {JOINED}",
    "halved": f"SELECT o.id, c.name, o.amount / 2 AS half FROM {JOINED}",
    "by_name": f"SELECT c.name, sum(o.amount) AS total FROM {JOINED} GROUP BY c.name",
    "by_order": f"SELECT o.id, c.name, sum(o.amount) AS total FROM {JOINED} GROUP BY o.id, c.name",
    "by_rest": f"SELECT o.id % 50 AS rest, sum(o.amount) AS total FROM {JOINED} GROUP BY o.id % 50",
}


@pytest.mark.parametrize("changed", [3, 100, 2500])
@pytest.mark.engine
def test_the_way_that_is_told_is_taken(
    changed: int, tmp_path: Path, engine: Engine, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = Shop(tmp_path, engine, engine_name)
    made.source("a", TABLES)
    con = sqlite3.connect(made.root / "a.db")
    con.executemany("INSERT INTO customers VALUES (?, 'c' || ?)", ((i, i % 50) for i in range(ROWS // 10)))
    con.executemany("INSERT INTO orders VALUES (?, ?, ?)", ((i, i % (ROWS // 10), i) for i in range(ROWS)))
    con.commit()
    con.close()
    made.views("".join(f"CREATE MATERIALIZED VIEW {name} AS {text};\n" for name, text in VIEWS.items()))
    monkeypatch.setattr(deciding, "FEW_ROWS", 10**9)

    taken: dict[int, list[str]] = defaultdict(list)
    told: dict[str, tuple[str, str]] = {}
    table, measured = Computing._table, Weighing.measured

    def noted(self: Computing, plan: Plan) -> pa.Table | None:
        found = table(self, plan)
        how = "jobs" if found is None else "columns" if is_columnar(plan) else "rows"
        taken[threading.get_ident()].append(how)
        return found

    def noted_too(self: Weighing, view: Any, outcome: Any, took: float) -> Any:
        hows = taken.pop(threading.get_ident(), [])
        decision = self._deciding.decisions.get(view.name)
        if decision is not None and outcome.mode == "incremental":
            told[view.name] = (decision.model.way, f"by {', then '.join(dict.fromkeys(hows))}")
        return measured(self, view, outcome, took)

    monkeypatch.setattr(Computing, "_table", noted)
    monkeypatch.setattr(Weighing, "measured", noted_too)
    with made.open() as warehouse:
        warehouse.refresh()
        taken.clear()
        made.write("a", f"UPDATE orders SET amount = amount + 1 WHERE id < {changed}")
        warehouse.refresh()
        assert all(found.ok for found in warehouse.verify_all().values())
    assert set(VIEWS) <= set(told)
    assert {name: way for name, (way, _) in told.items()} == {name: how for name, (_, how) in told.items()}
