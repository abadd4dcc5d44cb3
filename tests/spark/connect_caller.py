"""A program that uses Stillframe on a Spark Connect server: `connect_caller.py URL FOLDER`. A process is
either a classic or a Connect client, so this one runs on its own; it ends with 0 if all went well."""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing
from datetime import date
from importlib import import_module
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

import stillframe as sf

SETTINGS = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Europe/Berlin"}
FACTS = """
SELECT o.id, c.name, CAST(o.at AS DATE) AS day, o.amount * 2 AS twice
FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id
"""
MANY = 60_000
sf.Warehouse.room = import_module("stillframe.engine").Room(50_000)  # so that tasks of the server read more


def run(database: Path, *statements: str) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def make_sources(folder: Path) -> dict[str, str]:
    for name in ("shop", "crm"):
        run(folder / f"{name}.db", "PRAGMA journal_mode=WAL")
    run(
        folder / "shop.db",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INT, amount BIGINT, at TIMESTAMP)",
        "CREATE TABLE lines (order_id INT, n BIGINT)",
        "INSERT INTO orders VALUES (1, 1, 10, '2024-03-30 23:30:00'), (2, 2, 20, NULL)",
        f"WITH RECURSIVE k(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM k WHERE n < {MANY})"
        " INSERT INTO lines SELECT n % 7, n FROM k",
    )
    run(
        folder / "crm.db",
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT)",
        "INSERT INTO customers VALUES (1, 'ann'), (2, 'bob')",
    )
    return {name: f"sqlite:///{folder / name}.db" for name in ("shop", "crm")}


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def maintain_on_the_callers_session(spark: Any, folder: Path) -> None:
    for key, value in SETTINGS.items():
        spark.conf.set(key, value)
    spark.range(3).createOrReplaceTempView("facts")
    before = dict(spark.conf.getAll)
    with sf.Warehouse(spark=spark, path=folder / "warehouse", sources=make_sources(folder)) as wh:
        wh.create_view("facts", FACTS)
        wh.create_view("lines", "SELECT order_id, n FROM shop.lines")
        wh.create_view("strict", "SELECT id, amount + 9223372036854775707 AS much FROM shop.orders")
        wh.refresh()
        first = wh.view("facts")
        late = date(2024, 3, 30)
        assert rows(first) == [(1, "ann", late, 20), (2, "bob", None, 40)], rows(first)
        assert wh.view("lines").count() == MANY

        run(
            folder / "shop.db",
            "INSERT INTO orders VALUES (3, 2, 200, NULL)",
            "DELETE FROM lines WHERE n < 11",
        )
        run(folder / "crm.db", "UPDATE customers SET name = 'BOB' WHERE id = 2")
        result = wh.maintain()
        modes = {name: outcome.mode for name, outcome in result.outcomes.items()}
        assert modes == {"facts": "incremental", "lines": "incremental", "strict": "stopped"}, modes
        assert wh.frame().views["strict"].reason["code"] == "EVALUATION_FAILED"
        expected = [(1, "ann", late, 20), (2, "BOB", None, 40), (3, "BOB", None, 400)]
        assert rows(wh.view("facts")) == expected, rows(wh.view("facts"))
        assert wh.view("lines").count() == MANY - 10
        assert rows(first)[1][1] == "bob"

        mine = spark.createDataFrame([(3, "three"), (9, "nine")], "id BIGINT, word STRING")
        joined = wh.view("facts").join(mine, "id").select("id", "name", "word")
        assert rows(joined) == [(3, "BOB", "three")], rows(joined)
        assert wh.view("facts").sparkSession is spark
        assert sorted(wh.arrow("facts")["twice"].to_pylist()) == [20, 40, 400]

        assert wh.verify("facts").ok and wh.verify("lines").ok
        wh.settle_due(everything=True)
        settled = DeltaTable(str(folder / "warehouse" / "views" / "facts")).to_pyarrow_table()
        assert sorted(tuple(row.values()) for row in settled.to_pylist()) == expected
        assert rows(wh.view("facts")) == expected
        assert wh.verify("facts").ok

        wh.engine.maintenance.client.release_session()  # as the server itself does after an hour
        import_module("stillframe.engine.session").QUIET_SECONDS = 0.0
        run(folder / "shop.db", "DELETE FROM orders WHERE id = 1", "DELETE FROM lines WHERE n < 51000")
        modes = {name: outcome.mode for name, outcome in wh.maintain().outcomes.items()}
        assert modes["facts"] == modes["lines"] == "incremental", modes
        assert rows(wh.view("facts")) == expected[1:]
    assert dict(spark.conf.getAll) == before
    assert spark.table("facts").count() == 3, "the caller's temporary view of the same name"
    assert spark.range(5).count() == 5, "closing a warehouse leaves the caller's session and server alone"


def maintain_a_project(url: str, folder: Path) -> None:
    (folder / "views").mkdir()
    (folder / "views" / "facts.sql").write_text(f"CREATE MATERIALIZED VIEW facts AS {FACTS};")
    settings = "\n".join(
        [
            "name: project",
            "warehouse: ./another",
            f"spark: {{remote: '{url}'}}",
            "sources:",
            "  shop: {url: 'sqlite:///shop.db'}",
            "  crm: {url: 'sqlite:///crm.db'}",
        ]
    )
    (folder / "stillframe.yml").write_text(settings)
    with sf.open(folder) as wh:
        wh.refresh()
        run(folder / "shop.db", "DELETE FROM orders WHERE id = 1")
        wh.refresh()
        assert [row[0] for row in rows(wh.view("facts"))] == [2, 3]
        assert wh.verify("facts").ok


def main(url: str, folder: Path) -> None:
    from pyspark.sql import SparkSession

    spark = SparkSession.builder.remote(url).getOrCreate()
    assert type(spark).__module__.startswith("pyspark.sql.connect")
    maintain_on_the_callers_session(spark, folder)
    assert SparkSession.getActiveSession() is spark
    if url.startswith("sc://"):
        maintain_a_project(url, folder)
        assert spark.range(5).count() == 5
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
