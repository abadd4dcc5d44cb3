"""Schema changes at a live source: unused columns go unnoticed; a used one stops the views that use it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pymysql
import pytest

from shops import Shop
from stillframe.runtime import Warehouse

VIEWS = (
    "CREATE MATERIALIZED VIEW names AS SELECT id, name FROM crm.people;"
    "CREATE MATERIALIZED VIEW ages AS SELECT id, age FROM crm.people;"
    "CREATE MATERIALIZED VIEW towns AS SELECT id, town FROM crm.towns;"
)


class Crm:
    """A live database of either kind, and a project over it."""

    def __init__(self, shop: Shop, url: str, execute: Any) -> None:
        self.shop, self.execute = shop, execute
        execute("CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(20), age INT)")
        execute("CREATE TABLE towns (id INT PRIMARY KEY, town VARCHAR(20))")
        execute("INSERT INTO people VALUES (1, 'ann', 30), (2, 'bob', 40)")
        execute("INSERT INTO towns VALUES (1, 'ulm')")
        shop.configure(extra=f"  crm: {{url: '{url}'}}\n")
        shop.views(VIEWS)


@pytest.fixture(params=["postgres", "mariadb"])
def crm(request: pytest.FixtureRequest, shop: Shop) -> Iterator[Crm]:
    server: Any = request.getfixturevalue(f"{request.param}_server")
    server.database("schemas")
    connection: psycopg.Connection[Any] | pymysql.Connection[Any] = server.connect("schemas")
    cursor = connection.cursor()
    yield Crm(shop, server.url("schemas"), cursor.execute)
    connection.close()


def states(warehouse: Warehouse) -> dict[str, str]:
    return {name: view.state for name, view in warehouse.frame().views.items()}


def rows(warehouse: Warehouse, view: str) -> list[tuple[Any, ...]]:
    table = warehouse.arrow(view)
    return sorted(zip(*(column.to_pylist() for column in table.columns), strict=True))


def test_an_added_column_goes_unnoticed(crm: Crm) -> None:
    with crm.shop.open() as warehouse:
        warehouse.refresh()
        crm.execute("ALTER TABLE people ADD COLUMN mail VARCHAR(20)")
        crm.execute("INSERT INTO people (id, name, age, mail) VALUES (3, 'eve', 50, 'x')")
        result = warehouse.maintain()
        assert {o.mode for o in result.outcomes.values()} == {"incremental", "unchanged"}
        assert rows(warehouse, "names") == [(1, "ann"), (2, "bob"), (3, "eve")]
        assert all(v.ok for v in warehouse.verify().values())
        crm.shop.views(VIEWS + "CREATE MATERIALIZED VIEW mails AS SELECT id, mail FROM crm.people;")
        warehouse.refresh()
        crm.execute("UPDATE people SET mail = 'y' WHERE id = 3")
        result = warehouse.maintain()
        assert result.outcomes["mails"].mode == "incremental"
        assert rows(warehouse, "mails") == [(1, None), (2, None), (3, "y")]


@pytest.mark.parametrize(
    "change",
    [
        "ALTER TABLE people DROP COLUMN age",
        "ALTER TABLE people {retype}",
    ],
    ids=["dropped", "retyped"],
)
def test_a_used_column_stops_its_view_alone(change: str, crm: Crm, request: pytest.FixtureRequest) -> None:
    retype = "ALTER COLUMN age TYPE text" if "postgres" in request.node.name else "MODIFY age VARCHAR(9)"
    with crm.shop.open() as warehouse:
        warehouse.refresh()
        crm.execute(change.format(retype=retype))
        crm.execute("INSERT INTO people (id, name) VALUES (3, 'eve')")
        crm.execute("INSERT INTO towns VALUES (2, 'bonn')")
        result = warehouse.maintain()
        assert rows(warehouse, "towns") == [(1, "ulm"), (2, "bonn")]
        assert states(warehouse)["towns"] == "current"
        if "retyped" in request.node.name:
            # The view's own type changed with it: it is computed anew, or stopped until that is asked for.
            assert states(warehouse)["ages"] in ("current", "stopped")
        else:
            assert states(warehouse)["ages"] == "stopped"
            reason = warehouse.frame().views["ages"].reason
            assert reason is not None and "age" in reason["message"] and reason["hint"]
        assert "ages" not in result.outcomes or result.outcomes["ages"].mode in ("stopped", "full")
        if states(warehouse)["names"] == "stopped":
            reason = warehouse.frame().views["names"].reason
            assert reason is not None and "people" in reason["message"], reason
        warehouse.refresh("names", full=True)
        assert rows(warehouse, "names") == [(1, "ann"), (2, "bob"), (3, "eve")]
        crm.execute("UPDATE people SET name = 'ada' WHERE id = 1")
        result = warehouse.maintain()
        assert result.outcomes["names"].mode == "incremental"
        assert rows(warehouse, "names") == [(1, "ada"), (2, "bob"), (3, "eve")]
        if "retyped" in request.node.name:
            warehouse.refresh("ages", full=True)
            assert rows(warehouse, "ages") == [(1, "30"), (2, "40"), (3, None)]
            assert states(warehouse)["ages"] == "current"


def test_a_truncated_table_is_followed_or_read_again(crm: Crm) -> None:
    with crm.shop.open() as warehouse:
        warehouse.refresh()
        crm.execute("TRUNCATE TABLE people")
        crm.execute("INSERT INTO people VALUES (7, 'new', 1)")
        result = warehouse.maintain()
        assert not result.failures
        assert result.outcomes["names"].reason in ("CHANGES", "TRUNCATED")
        assert rows(warehouse, "names") == [(7, "new")]
        crm.execute("INSERT INTO people VALUES (8, 'next', 1)")
        result = warehouse.maintain()
        assert result.outcomes["names"].mode == "incremental"
        assert rows(warehouse, "names") == [(7, "new"), (8, "next")]
        assert all(v.ok for v in warehouse.verify().values())


def test_what_a_dropped_column_does_not_concern_goes_on_by_itself(crm: Crm) -> None:
    with crm.shop.open() as warehouse:
        warehouse.refresh()
        crm.execute("ALTER TABLE people DROP COLUMN age")
        crm.execute("INSERT INTO people (id, name) VALUES (3, 'eve')")
        warehouse.maintain()
        assert states(warehouse) == {"names": "current", "ages": "stopped", "towns": "current"}
        assert rows(warehouse, "names") == [(1, "ann"), (2, "bob"), (3, "eve")]
        crm.execute("UPDATE people SET name = 'ada' WHERE id = 1")
        assert warehouse.maintain().outcomes["names"].mode == "incremental"
        assert rows(warehouse, "names") == [(1, "ada"), (2, "bob"), (3, "eve")]
