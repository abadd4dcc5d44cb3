"""Another way to capture a source, chosen later: begun by itself, and nothing is left of the former one."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

import servers
from shops import Shop
from stillframe.cli.main import main

KINDS = ["postgres", "mariadb", "sqlite"]
OWN = {
    "postgres": "SELECT tgname FROM pg_trigger WHERE NOT tgisinternal UNION ALL SELECT slot_name"
    " FROM pg_replication_slots WHERE database = current_database()",
    "mariadb": "SHOW TABLES LIKE '\\_stillframe%'",
    "sqlite": "SELECT name FROM sqlite_master WHERE name LIKE '%stillframe%'",
}


@pytest.fixture(params=KINDS)
def place(request: pytest.FixtureRequest, shop: Shop) -> tuple[str, str, Callable[..., list[Any]]]:
    """A kind of database, its url, and a way to run statements there."""
    if request.param == "sqlite":
        import sqlite3

        con: Any = sqlite3.connect(shop.root / "crm.db", isolation_level=None)
        con.execute("PRAGMA journal_mode=WAL")
        url = "sqlite:///crm.db"
    else:
        server = request.getfixturevalue(f"{request.param}_server")
        server.database("changed")
        con, url = server.connect("changed"), server.url("changed")
    request.addfinalizer(con.close)

    def run(statement: str) -> list[Any]:
        cursor = con.cursor()
        cursor.execute(statement)
        return [] if cursor.description is None else list(cursor.fetchall())

    run("CREATE TABLE people (id INT PRIMARY KEY, name VARCHAR(20))")
    run("INSERT INTO people VALUES (1, 'ann'), (2, 'bob')")
    shop.views("CREATE MATERIALIZED VIEW names AS SELECT id, name FROM crm.people;")
    return request.param, url, run


def test_another_capture_is_begun_by_itself(
    shop: Shop, place: tuple[str, str, Callable[..., list[Any]]]
) -> None:
    kind, url, run = place
    former = ""
    left: dict[str, list[Any]] = {}
    for n, capture in enumerate(["triggers", "log", "snapshot", "log", "triggers", "snapshot"]):
        if kind == "sqlite" and capture == "log":
            continue
        shop.configure(extra=f"  crm: {{url: '{url}', capture: {capture}}}\n")
        run(f"INSERT INTO people VALUES ({10 + n}, 'unseen')")
        with shop.open() as warehouse:
            outcome = warehouse.maintain().outcomes["names"]
            assert (outcome.mode, outcome.reason) == ("full", "CAPTURE_CHANGED" if former else "NEW"), (
                former,
                capture,
                outcome.error,
            )
            run(f"UPDATE people SET name = '{capture}' WHERE id = 1")
            assert warehouse.maintain().outcomes["names"].mode == "incremental"
            assert warehouse.maintain().outcomes["names"].mode == "unchanged"
            table = warehouse.arrow("names")
            shown = set(zip(*(column.to_pylist() for column in table.columns), strict=True))
            assert shown == set(run("SELECT id, name FROM people"))
            assert warehouse.verify("names").ok  # type: ignore[union-attr]
        found = sorted(run(OWN[kind]))
        assert bool(found) is (capture != "snapshot")
        assert left.setdefault(capture, found) == found, f"something is left of capture by {former}"
        former = capture
    with shop.open() as warehouse:
        warehouse.detach()
    assert not (shop.root / "warehouse" / "snapshots").exists()


def test_detach_removes_a_capture_that_is_not_the_chosen_one(
    shop: Shop, place: tuple[str, str, Callable[..., list[Any]]]
) -> None:
    kind, url, run = place
    shop.configure(extra=f"  crm: {{url: '{url}', capture: triggers}}\n")
    with shop.open() as warehouse:
        warehouse.attach()
    assert run(OWN[kind])
    shop.configure(extra=f"  crm: {{url: '{url}', capture: snapshot}}\n")
    with shop.open() as warehouse:
        warehouse.detach()
    assert not run(OWN[kind])


def test_check_says_what_the_asked_capture_needs(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    with servers.mariadb() as server:
        server.database("bare")
        con = server.connect("bare")
        con.cursor().execute("CREATE TABLE people (id INT PRIMARY KEY)")
        shop.configure(extra=f"  crm: {{url: '{server.url('bare')}', capture: log}}\n")
        shop.views("CREATE MATERIALIZED VIEW ids AS SELECT id FROM crm.people;")
        assert main(["check", "--json", "--project", str(shop.root)]) == 1
        document = json.loads(capsys.readouterr().out)
        assert document["sources"]["crm"]["code"] == "CAPTURE_UNAVAILABLE"
        (log, triggers, snapshot) = document["sources"]["crm"]["methods"]
        assert "--log-bin" in log["missing"][0] and not triggers["missing"] + snapshot["missing"]
        assert main(["refresh", "--json", "--project", str(shop.root)]) == 1
        assert "CAPTURE_UNAVAILABLE" in capsys.readouterr().out
        con.close()
