"""Views over a database and a set of exports, end to end: only what changed goes through, and what is wrong
with an export stops the views that read it, and no others."""

from __future__ import annotations

import json
import sqlite3
from decimal import Decimal
from pathlib import Path

import pytest
from exports import csv_text, put
from tests.room import driver_takes

from shops import Shop
from stillframe import Warehouse
from stillframe.cli.main import main
from stillframe.runtime.outcome import Result
from stillframe.sources import Capture

ORDERS = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, currency TEXT NOT NULL, amount DECIMAL(12,2));
INSERT INTO orders VALUES (1, 'USD', 10.50), (2, 'EUR', 20), (3, 'USD', 3), (4, 'XXX', 1);
"""
VIEWS = """
CREATE MATERIALIZED VIEW in_euro AS
SELECT o.id, o.amount * r.rate AS euro, r.note
FROM shop.orders o JOIN rates.rates r ON r.currency = o.currency;
CREATE MATERIALIZED VIEW large AS SELECT id FROM shop.orders WHERE amount > 5;
CREATE MATERIALIZED VIEW currencies AS SELECT currency FROM rates.rates;
"""
HEADER = ("currency", "rate", "note")
RATES = [("USD", "1.0842", "a"), ("EUR", "1", None), ("GBP", "0.85", ""), ("JPY", "163.5", "b")]


def put_rates(shop: Shop, rows: list[tuple[object, ...]], header: tuple[str, ...] = HEADER) -> None:
    put(shop.root / "rates" / "all.csv", csv_text(header, rows))


def project(shop: Shop, extra: str = "") -> Warehouse:
    shop.source("shop", ORDERS)
    put_rates(shop, RATES)
    shop.views(VIEWS)
    shop.configure(extra=extra or '  rates: {files: "rates/*.csv", key: [currency]}\n')
    return shop.open()


def expected(shop: Shop, rates: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    con = sqlite3.connect(shop.root / "shop.db")
    orders = con.execute("SELECT id, currency, amount FROM orders").fetchall()
    con.close()
    known = {currency: (Decimal(str(rate)), note) for currency, rate, note in rates}
    made = [
        (i, Decimal(str(amount)) * known[currency][0], known[currency][1])
        for i, currency, amount in orders
        if currency in known
    ]
    return sorted(made)


def shown(warehouse: Warehouse) -> list[tuple[object, ...]]:
    rows = warehouse.arrow("in_euro").to_pylist()
    return sorted((row["id"], Decimal(str(row["euro"])), row["note"]) for row in rows)


def modes(result: Result) -> dict[str, tuple[str, int, int]]:
    return {name: (o.mode, o.rows_in, o.rows_out) for name, o in result.outcomes.items()}


def verified(warehouse: Warehouse) -> bool:
    found = warehouse.verify_all()
    assert all(v.ok for v in found.values()), {name: v.to_json() for name, v in found.items()}
    return True


@pytest.mark.engine
def test_only_the_rows_that_changed_go_through(shop: Shop) -> None:
    with project(shop) as warehouse:
        first = warehouse.maintain()
        assert {name: mode for name, (mode, _, _) in modes(first).items()} == dict.fromkeys(
            ("in_euro", "large", "currencies"), "full"
        )
        assert shown(warehouse) == expected(shop, RATES) and verified(warehouse)
        assert warehouse.sources["rates"].capture is Capture.SNAPSHOT
        assert not warehouse.moved()

        changed = [("USD", "1.0901", "a"), *RATES[1:3], ("CHF", "0.95", None)]
        put_rates(shop, changed)
        assert warehouse.moved()
        second = warehouse.maintain()
        assert modes(second) == {
            "in_euro": ("incremental", 4, 4),
            "large": ("unchanged", 0, 0),
            "currencies": ("incremental", 4, 2),
        }
        assert shown(warehouse) == expected(shop, changed) and verified(warehouse)
        assert not warehouse.moved()

        put_rates(shop, [changed[2], changed[0], changed[3], changed[1]])  # in another order
        third = warehouse.maintain()
        assert modes(third)["in_euro"] == ("unchanged", 0, 0) and verified(warehouse)

        put_rates(shop, changed[1:])
        shop.write("shop", "INSERT INTO orders VALUES (5, 'CHF', 7)", "DELETE FROM orders WHERE id = 2")
        fourth = warehouse.maintain()
        assert modes(fourth)["in_euro"] == ("incremental", 3, 4)
        assert shown(warehouse) == expected(shop, changed[1:]) and verified(warehouse)
        status = warehouse.status()["sources"]["rates"]
        assert status["ok"] and status["attached"] and status["log_rows"] == 3
        warehouse.detach()
        assert not (shop.root / "warehouse" / "snapshots" / "rates").exists()


@pytest.mark.engine
def test_a_missing_export_stops_its_views_and_no_others(shop: Shop) -> None:
    with project(shop) as warehouse:
        warehouse.maintain()
        (shop.root / "rates" / "all.csv").unlink()
        shop.write("shop", "INSERT INTO orders VALUES (5, 'USD', 100)")
        assert warehouse.moved()
        stopped = warehouse.maintain()
        for name in ("in_euro", "currencies"):
            error = stopped.outcomes[name].error
            assert error is not None and error.code == "NO_FILES" and "rates/*.csv" in error.detail
            assert stopped.frame.views[name].state == "stopped"
        assert modes(stopped)["large"] == ("incremental", 1, 1)
        assert {row["id"] for row in warehouse.arrow("large").to_pylist()} == {1, 2, 5}
        assert [row[0] for row in shown(warehouse)] == [1, 2, 3]
        status = warehouse.status()
        assert status["sources"]["rates"]["code"] == "NO_FILES"
        assert status["views"]["in_euro"]["reason"]["code"] == "NO_FILES"
        if warehouse.moved():
            warehouse.maintain()
        assert not warehouse.moved(), "what is stopped is tried again only when something is new"

        put_rates(shop, RATES)
        assert warehouse.moved()
        again = warehouse.maintain()
        assert modes(again)["in_euro"] == ("incremental", 1, 1)
        assert shown(warehouse) == expected(shop, RATES) and verified(warehouse)


def test_a_bad_value_stops_the_views_that_read_it(shop: Shop) -> None:
    with project(shop) as warehouse:
        warehouse.maintain()
        put_rates(shop, [*RATES[:3], ("CHF", "n/a", None)])
        stopped = warehouse.maintain()
        error = stopped.outcomes["in_euro"].error
        assert error is not None and error.code == "VALUE_MISMATCH"
        assert "column 'rate'" in error.message and "'n/a' in line 5" in error.message
        assert modes(stopped)["currencies"] == ("incremental", 2, 2)
        assert {row["currency"] for row in warehouse.arrow("currencies").to_pylist()} == {
            "USD",
            "EUR",
            "GBP",
            "CHF",
        }
        assert shown(warehouse) == expected(shop, RATES)
        put_rates(shop, [*RATES[:3], ("CHF", "0.95", None)])
        assert warehouse.moved()
        assert modes(warehouse.maintain())["in_euro"] == ("unchanged", 2, 0), "the bad row met nothing"
        assert verified(warehouse)


def test_a_key_that_is_there_twice_stops_the_views(shop: Shop) -> None:
    with project(shop) as warehouse:
        warehouse.maintain()
        put_rates(shop, [*RATES, ("USD", "9", None)])
        stopped = warehouse.maintain()
        error = stopped.outcomes["currencies"].error
        assert error is not None and error.code == "BAD_KEY" and "currency = USD" in error.message
        assert modes(stopped)["large"] == ("unchanged", 0, 0)


def test_a_column_that_goes_and_one_that_comes(shop: Shop) -> None:
    with project(shop) as warehouse:
        warehouse.maintain()
        slim = [(currency, rate) for currency, rate, _ in RATES[1:]]
        put_rates(shop, slim, HEADER[:2])
        stopped = warehouse.maintain()
        assert modes(stopped)["currencies"] == ("incremental", 1, 1)
        assert stopped.frame.views["in_euro"].state == "stopped"
        assert "note" in json.dumps(stopped.frame.views["in_euro"].reason)
        put_rates(shop, [(*row, "x") for row in slim], ("currency", "rate", "more"))
        assert modes(warehouse.maintain())["currencies"] == ("unchanged", 0, 0)
        put_rates(shop, RATES)
        back = warehouse.maintain(["in_euro"], full=True)
        assert back.outcomes["in_euro"].mode == "full" and shown(warehouse) == expected(shop, RATES)
        warehouse.maintain()
        assert verified(warehouse)


def test_types_that_the_project_declares(shop: Shop) -> None:
    declared = '  rates: {files: "rates/*.csv", columns: {rate: "decimal(20,10)", currency: string}}\n'
    with project(shop, declared) as warehouse:
        warehouse.maintain()
        assert str(warehouse.catalog()["rates"]["rates"].schema.types[1]) == "DECIMAL(20,10)"
        assert shown(warehouse) == expected(shop, RATES) and verified(warehouse)
        fine = [("USD", "1.0842000001", "a"), *RATES[1:]]
        put_rates(shop, fine)
        assert modes(warehouse.maintain())["in_euro"] == ("incremental", 2, 4)
        assert verified(warehouse)
    shop.configure(extra='  rates: {files: "rates/*.csv", columns: {rate: double}}\n')
    with shop.open() as warehouse:
        assert warehouse.maintain().outcomes["in_euro"].mode == "full"
        assert verified(warehouse)


def test_a_database_by_snapshots_beside_exports(shop: Shop) -> None:
    """Nothing is installed in it; all its tables are seen at one state."""
    shop.source("shop", ORDERS)
    put_rates(shop, RATES)
    shop.views(VIEWS)
    shop.sources.clear()
    shop.configure(
        extra="  shop: {url: 'sqlite:///shop.db', capture: snapshot}\n  rates: {files: 'rates/*.csv'}\n"
    )
    with shop.open() as warehouse:
        warehouse.maintain()
        shop.write("shop", "UPDATE orders SET amount = 4 WHERE id = 2")
        assert modes(warehouse.maintain()) == {
            "in_euro": ("incremental", 2, 2),
            "large": ("incremental", 2, 1),
            "currencies": ("unchanged", 0, 0),
        }
        assert shown(warehouse) == expected(shop, RATES) and verified(warehouse)
    con = sqlite3.connect(shop.root / "shop.db")
    assert [name for (name,) in con.execute("SELECT name FROM sqlite_master")] == ["orders"]
    con.close()


@pytest.mark.engine
def test_many_rows_are_compared_by_the_engine(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    driver_takes(500, monkeypatch.setattr)
    many = [(f"C{i:05d}", f"{i}.5", None) for i in range(1, 2000)]
    with project(shop) as warehouse:
        put_rates(shop, [*RATES, *many])
        warehouse.maintain()
        put_rates(shop, [*RATES[1:], *many[3:], ("USD", "2.5", "new")])
        result = warehouse.maintain()
        assert modes(result)["in_euro"] == ("incremental", 5, 4)
        assert modes(result)["currencies"] == ("incremental", 5, 3)
        assert shown(warehouse) == expected(shop, [*RATES[1:], ("USD", "2.5", "new")]) and verified(warehouse)


def test_the_command_line_over_exports(shop: Shop, capsys: pytest.CaptureFixture[str]) -> None:
    project(shop).close()
    folder = ["--project", str(shop.root), "--json"]
    assert main(["check", *folder]) == 0
    assert json.loads(capsys.readouterr().out)["views"]["in_euro"]["ok"]


def test_parquet_exports(shop: Shop, tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    def export(rates: list[tuple[object, ...]]) -> None:
        columns = [[row[i] for row in rates] for i in range(3)]
        decimals = pa.array([Decimal(str(rate)) for rate in columns[1]], pa.decimal128(10, 4))
        notes = pa.array(columns[2], pa.string())
        table = pa.table({"currency": columns[0], "rate": decimals, "note": notes})
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink)
        put(shop.root / "rates" / "all.parquet", sink.getvalue().to_pybytes())

    export(RATES)
    with project(shop, '  rates: {files: "rates/*.parquet", key: [currency]}\n') as warehouse:
        warehouse.maintain()
        assert shown(warehouse) == expected(shop, RATES)
        changed = [("USD", "1.1", "a"), *RATES[1:]]
        export(changed)
        assert modes(warehouse.maintain())["in_euro"] == ("incremental", 2, 4)
        assert shown(warehouse) == expected(shop, changed) and verified(warehouse)
