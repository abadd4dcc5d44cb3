"""Small changes are computed by the driver where any engine would give the same, elsewhere by the engine."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest
from tests.room import driver_takes

from shops import Shop
from stillframe.algebra import (
    Column,
    Filter,
    Join,
    Literal,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    call,
    cast,
)
from stillframe.algebra.functions import FUNCTIONS
from stillframe.algebra.types import BIGINT, DOUBLE, STRING
from stillframe.engine import Engine, write_query
from stillframe.runtime import Warehouse, computing, reads
from stillframe.runtime.evaluating import MOST_ROWS, is_exact, is_quick

pytestmark = pytest.mark.engine

ORDERS = "CREATE TABLE orders (id INTEGER PRIMARY KEY, who INTEGER, amount INTEGER, note TEXT);"
PEOPLE = "CREATE TABLE people (id INTEGER PRIMARY KEY, town TEXT);"
HERE = {
    "joined": "SELECT o.id, p.town FROM a.orders o JOIN a.people p ON p.id = o.who WHERE o.amount > 1",
    "sums": "SELECT who, sum(amount) AS s, count(*) AS n FROM a.orders GROUP BY who HAVING count(*) > 0",
    "alone": "SELECT id FROM a.people p WHERE NOT EXISTS (SELECT 1 FROM a.orders o WHERE o.who = p.id)",
}
BY_ENGINE = {"loud": "SELECT id, upper(note) AS note FROM a.orders"}


class Asked(Exception):
    """Of the engine."""


@pytest.fixture
def filled(shop: Shop) -> Shop:
    shop.source("a", ORDERS + PEOPLE + "INSERT INTO orders VALUES (1, 1, 5, 'x'), (2, 1, 3, 'y');")
    shop.write("a", "INSERT INTO people VALUES (1, 'r'), (2, 's')")
    return shop


@contextmanager
def without_engine() -> Iterator[None]:
    def engine(_: Warehouse) -> Engine:
        raise Asked

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Warehouse, "engine", property(engine))
        yield


def define(shop: Shop, views: dict[str, str], small: str) -> None:
    shop.views("\n".join(f"CREATE MATERIALIZED VIEW {name} AS {text};" for name, text in views.items()))
    shop.configure()
    lines = (shop.root / "stillframe.yml").read_text(encoding="utf-8").splitlines()
    kept = [line for line in lines if not line.startswith("small_changes")]
    (shop.root / "stillframe.yml").write_text("\n".join([*kept, f"small_changes: {small}", ""]))


CHANGES = (
    "INSERT INTO orders VALUES (3, 2, 7, 'z')",
    "UPDATE orders SET amount = 0 WHERE id = 1",
    "DELETE FROM orders WHERE id = 2",
    "UPDATE people SET town = NULL WHERE id = 2",
)


def test_the_engine_is_not_asked(filled: Shop) -> None:
    define(filled, HERE, "driver")
    with filled.open() as warehouse:
        warehouse.refresh()
        with without_engine():
            for change in CHANGES:
                filled.write("a", change)
                result = warehouse.maintain()
                assert not result.failures
                assert {outcome.mode for outcome in result.outcomes.values()} <= {"incremental", "unchanged"}
        assert all(found.ok for found in warehouse.verify_all().values())


@pytest.mark.parametrize(("views", "small"), [(BY_ENGINE, "driver"), (HERE, "engine")])
def test_the_engine_is_asked(filled: Shop, views: dict[str, str], small: str) -> None:
    define(filled, views, small)
    with filled.open() as warehouse:
        warehouse.refresh()
        filled.write("a", CHANGES[0])
        with without_engine(), pytest.raises(Asked):
            warehouse.maintain()
        warehouse.maintain()
        assert all(found.ok for found in warehouse.verify_all().values())


MANY = (
    "INSERT INTO people WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 2000)"
    " SELECT i, 't' || i % 9 FROM n",
    "INSERT INTO orders WITH RECURSIVE n(i) AS (SELECT 10 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)"
    " SELECT i, i % 2000, i % 7, NULL FROM n",
    "UPDATE people SET town = 'u' WHERE id % 3 = 0",
    "UPDATE orders SET amount = amount + 1 WHERE id % 2 = 0",
    "DELETE FROM people WHERE id % 5 = 0",
)
SHOWN = {
    "joined": "SELECT o.id, p.town, o.amount * 2 AS twice FROM a.orders o JOIN a.people p ON p.id = o.who"
    " WHERE o.amount > 1"
}


@pytest.mark.parametrize("copies", ["none", "all"])
def test_joins_of_many_rows_need_no_engine(
    filled: Shop, copies: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    define(filled, SHOWN, f"driver\ncopies: {copies}")
    with filled.open() as warehouse:
        warehouse.refresh()
        with without_engine():
            for change in MANY:
                filled.write("a", change)
                result = warehouse.maintain()
                assert not result.failures
                assert {outcome.mode for outcome in result.outcomes.values()} <= {"incremental", "unchanged"}
        assert all(found.ok for found in warehouse.verify_all().values())
        driver_takes(50, monkeypatch.setattr)
        filled.write("a", "UPDATE orders SET amount = amount + 1")
        with without_engine(), pytest.raises(Asked):
            warehouse.maintain()
        warehouse.maintain()
        assert all(found.ok for found in warehouse.verify_all().values())


def test_rows_of_a_key_are_brought_together_and_added_up(
    filled: Shop, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a view that has a key, and not of one that has none; terms of both relations cancel in part."""
    keyless = SHOWN["joined"].replace("o.id, ", "")
    define(filled, SHOWN | {"keyless": keyless}, "driver\ncopies: all")
    queries: list[str] = []

    def seen(engine: Engine, sql: str, folder: Path) -> None:
        queries.append(sql)
        write_query(engine, sql, folder)

    monkeypatch.setattr(computing, "write_query", seen)
    with filled.open() as warehouse:
        warehouse.refresh()
        driver_takes(50, monkeypatch.setattr)
        filled.write("a", *MANY[:2])
        assert not warehouse.maintain().failures
        filled.write("a", *MANY[2:])
        result = warehouse.maintain()
        assert {result.outcomes[name].mode for name in ("joined", "keyless")} == {"incremental"}
        assert all(found.ok for found in warehouse.verify_all().values())
    together = [sql for sql in queries if "REPARTITION(c0)" in sql]
    of_key = [sql for sql in queries if "`id`" in sql.partition(" FROM ")[0]]
    assert len(queries) == 8 and len(of_key) == 6  # copies of both relations have keys, too
    assert together == (of_key if engine_name == "spark" else [])


def test_what_changed_is_sent_to_every_task(
    filled: Shop, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a hint: this Spark would send nothing by itself."""
    if engine_name != "spark":
        pytest.skip("Sail decides by itself")
    define(filled, SHOWN, "driver\ncopies: all")
    plans: list[str] = []

    def seen(engine: Engine, sql: str, folder: Path) -> None:
        if " JOIN " in sql:
            (plan,) = engine.maintenance.sql(f"EXPLAIN {sql}").collect()
            plans.append(plan[0])
        write_query(engine, sql, folder)

    with filled.open() as warehouse:
        warehouse.refresh()
        warehouse.engine.maintenance.conf.set("spark.sql.autoBroadcastJoinThreshold", "-1")
        driver_takes(50, monkeypatch.setattr)
        filled.write("a", *MANY[:2])
        monkeypatch.setattr(computing, "write_query", seen)
        result = warehouse.maintain()
        assert result.outcomes["joined"].mode == "incremental"
        assert all(found.ok for found in warehouse.verify_all().values())
    assert plans and all("BroadcastHashJoin" in plan for plan in plans)


def test_more_than_is_held_goes_through_files(filled: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reads, "ALL_HELD", 0)
    define(filled, SHOWN, "driver\ncopies: all")
    with filled.open() as warehouse:
        warehouse.refresh()
        with without_engine():
            for change in MANY:
                filled.write("a", change)
                assert not warehouse.maintain().failures
        assert all(found.ok for found in warehouse.verify_all().values())


def test_an_engine_may_know_more_characters(filled: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    query = (
        "SELECT o.id, p.town FROM a.orders o JOIN a.people p ON p.id = o.who WHERE upper(o.note) <> o.note"
    )
    define(filled, {"lower_case": query}, "driver")
    monkeypatch.setitem(FUNCTIONS, "upper", replace(FUNCTIONS["upper"], evaluate=lambda text: text))
    with filled.open() as warehouse:
        warehouse.refresh()
        filled.write("a", CHANGES[0])
        assert {o.mode for o in warehouse.maintain().outcomes.values()} == {"incremental"}
        assert all(found.ok for found in warehouse.verify_all().values())


def scan(*types: object) -> Scan:
    return Scan("s.t", Schema(tuple(Column(f"c{i}", type_) for i, type_ in enumerate(types))))  # type: ignore[arg-type]


NUMBERS, TEXTS, FLOATS = scan(BIGINT, BIGINT), scan(STRING), scan(DOUBLE)
PLANS: dict[str, tuple[Plan, bool]] = {
    "exact arithmetic": (
        Project(NUMBERS, (Output("x", call("*", Ref(0, BIGINT), Literal(3, BIGINT))),)),
        True,
    ),
    "text passed on": (Filter(TEXTS, call("=", Ref(0, STRING), Literal("a", STRING))), True),
    "text changed": (Project(TEXTS, (Output("x", call("upper", Ref(0, STRING))),)), False),
    "a float": (FLOATS, False),
    "a float on the way": (
        Filter(NUMBERS, call(">", call("sign", cast(Ref(0, BIGINT), DOUBLE)), Literal(0.5, DOUBLE))),
        False,
    ),
}


@pytest.mark.parametrize("name", PLANS)
def test_what_is_the_same_on_every_engine(name: str) -> None:
    plan, same = PLANS[name]
    assert is_exact(plan) is same


def test_what_is_quick() -> None:
    assert is_quick(NUMBERS, {"s.t": MOST_ROWS})
    assert not is_quick(NUMBERS, {"s.t": MOST_ROWS + 1})


def pairs(*conditions: Scalar) -> Join:
    return Join((NUMBERS, replace(NUMBERS, relation="s.u")), conditions)


def test_what_is_compared() -> None:
    rows = {"s.t": 200, "s.u": 200}
    equal, less = (call(name, Ref(0, BIGINT), Ref(3, BIGINT)) for name in ("=", "<"))
    alone = call("=", Ref(0, BIGINT), Ref(1, BIGINT))
    assert is_quick(pairs(equal, less), rows)
    assert not is_quick(pairs(less), rows), "all with all"
    assert not is_quick(pairs(alone), rows), "two columns of one input link nothing"
    assert is_quick(pairs(less), {"s.t": 1, "s.u": 200})
    assert not is_quick(pairs(), {"s.t": 1, "s.u": 1}), "without conditions"
