"""Views that group and outer-join rows of a live server, through all that can happen to their parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

import servers
from shops import Shop
from stillframe.runtime import Warehouse

GROUPS = "SELECT town, count(*) AS n, sum(amount) AS total FROM s.orders GROUP BY town"
LONELY = "SELECT o.id, t.name FROM s.orders o LEFT JOIN s.towns t ON t.name = o.town"
TEXTS = {"groups": GROUPS, "lonely": LONELY}
Run = Callable[[str], list[tuple[Any, ...]]]


@pytest.fixture
def run(request: pytest.FixtureRequest, postgres_server: servers.PostgresServer) -> Run:
    postgres_server.database("groups")
    con = postgres_server.connect("groups")
    request.addfinalizer(con.close)

    def run(statement: str) -> list[tuple[Any, ...]]:
        cursor = con.execute(statement)
        return cursor.fetchall() if cursor.description else []

    run("CREATE TABLE orders (id int PRIMARY KEY, town text, amount int)")
    run("CREATE TABLE towns (name text PRIMARY KEY)")
    run("INSERT INTO orders SELECT i, 't' || i % 7, i FROM generate_series(1, 300) AS i")
    run("INSERT INTO towns VALUES ('t1'), ('t2')")
    return run


def configure(shop: Shop, url: str, capture: str, more: str = "", options: str = "") -> None:
    shop.configure(extra=f"  s: {{url: '{url}', capture: {capture}}}\n{more}")
    shop.views("\n".join(f"CREATE MATERIALIZED VIEW {n} {options} AS {t};" for n, t in TEXTS.items()))


def exact(warehouse: Warehouse, run: Run) -> None:
    for name, text in TEXTS.items():
        table = warehouse.arrow(name)
        shown = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
        assert shown == Counter(map(tuple, run(text.replace("s.", "")))), name
    assert all(v.ok for v in warehouse.verify_all().values())


@pytest.mark.parametrize("capture", ["triggers", "log"])
def test_through_truncation_gaps_and_changed_columns(
    shop: Shop, run: Run, postgres_server: servers.PostgresServer, capture: str
) -> None:
    configure(shop, postgres_server.url("groups"), capture)
    with shop.open() as warehouse:
        warehouse.refresh()
        run("UPDATE orders SET town = 't2' WHERE id < 20")
        modes = {name: outcome.mode for name, outcome in warehouse.maintain().outcomes.items()}
        assert modes == {"groups": "incremental", "lonely": "incremental"}
        exact(warehouse, run)
        run("TRUNCATE orders")
        run("INSERT INTO orders VALUES (1, 't1', 5), (2, NULL, 6)")
        warehouse.maintain()
        exact(warehouse, run)
        run("ALTER TABLE orders ADD COLUMN note text")
        run("INSERT INTO orders VALUES (3, 't9', 7, 'x')")
        warehouse.maintain()
        exact(warehouse, run)
        run("DROP SCHEMA _stillframe CASCADE")
        run("DELETE FROM orders WHERE id = 1")
        outcome = warehouse.maintain().outcomes["groups"]
        assert (outcome.mode, outcome.reason) == ("stopped", "CAPTURE_GAP")
        assert warehouse.maintain(["groups", "lonely"], full=True).failures == {}
        exact(warehouse, run)
        run("DELETE FROM orders WHERE id = 2")
        assert warehouse.maintain().outcomes["groups"].mode == "incremental"
        exact(warehouse, run)
        warehouse.detach()


def test_loaded_in_chunks(shop: Shop, run: Run, postgres_server: servers.PostgresServer) -> None:
    configure(shop, postgres_server.url("groups"), "triggers", "load_chunk: 40\n")
    with shop.open() as warehouse:
        warehouse.refresh()
        exact(warehouse, run)
        run("DELETE FROM orders WHERE id % 3 = 0")
        assert warehouse.maintain().outcomes["groups"].mode == "incremental"
        exact(warehouse, run)
        warehouse.detach()


def test_every_transaction_gives_a_frame(
    shop: Shop, run: Run, postgres_server: servers.PostgresServer
) -> None:
    configure(shop, postgres_server.url("groups"), "log", options="WITH (consistency = 'complete')")
    with shop.open() as warehouse:
        first = warehouse.refresh().number
        totals = [run("SELECT count(*) FROM orders")[0][0]]
        for key in (5, 6, 7):
            run(f"DELETE FROM orders WHERE id = {key}")
            totals.append(run("SELECT count(*) FROM orders")[0][0])
        last = warehouse.maintain().frame.number
        shown = [
            sum(warehouse.arrow("groups", frame).column("n").to_pylist()) for frame in range(first, last + 1)
        ]
        assert list(dict.fromkeys(shown)) == totals
        exact(warehouse, run)
        warehouse.detach()
