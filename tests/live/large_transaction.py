"""One transaction of many rows goes through one algorithm, in a process whose memory is told at its end.

Run as a process: python large_transaction.py ENGINE ALGORITHM POSTGRES_URL FOLDER ROWS
"""

from __future__ import annotations

import json
import resource
import sqlite3
import sys
import time
from pathlib import Path

import psycopg

from stillframe.runtime import Warehouse, load_project

ONE_SOURCE = ("rv", "eca", "eca-key", "eca-local", "lca")


def main() -> None:
    engine, algorithm, url, folder, rows = sys.argv[1:]
    root = Path(folder)
    con = psycopg.connect(url, autocommit=True)
    con.execute("CREATE TABLE orders (id int PRIMARY KEY, who int, amount int)")
    con.execute("CREATE TABLE people (id int PRIMARY KEY, name text)")
    con.execute("INSERT INTO people SELECT i, 'p' || i FROM generate_series(1, 1000) i")
    con.execute("INSERT INTO orders SELECT i, 1 + i % 1000, i FROM generate_series(1, 1000) i")
    lite = sqlite3.connect(root / "lite.db")
    lite.executescript("PRAGMA journal_mode=WAL; CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT);")
    lite.executemany("INSERT INTO people VALUES (?, ?)", [(i, f"p{i}") for i in range(1, 1001)])
    lite.commit()
    people = "pg.people" if algorithm in ONE_SOURCE else "lite.people"
    (root / "views").mkdir()
    (root / "views" / "v.sql").write_text(
        f"CREATE MATERIALIZED VIEW v WITH (algorithm = '{algorithm}') AS SELECT o.id, p.id AS person,"
        f" o.amount, p.name FROM pg.orders o JOIN {people} p ON p.id = o.who;"
    )
    memory = "conf: {spark.driver.memory: 1g}" if engine == "spark" else "conf: {}"
    (root / "stillframe.yml").write_text(
        f"name: large\nspark: {{engine: {engine}, {memory}}}\nsources:\n"
        f"  pg: {{url: '{url}', capture: triggers}}\n"
        "  lite: {url: 'sqlite:///lite.db'}\n"
    )
    with Warehouse(project=load_project(root)) as warehouse:
        warehouse.refresh()
        with con.transaction():
            con.execute(f"INSERT INTO orders SELECT i, 1 + i % 1000, i FROM generate_series(1001, {rows}) i")
            con.execute("DELETE FROM orders WHERE id <= 500")
            con.execute("UPDATE orders SET amount = -1 WHERE id BETWEEN 501 AND 1000")
        began = time.monotonic()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        result = warehouse.maintain()
        outcome = result.outcomes["v"]
        assert not result.failures, str(outcome.error)
        seconds = time.monotonic() - began
        verified = warehouse.verify("v")
        print(
            json.dumps(
                {
                    "algorithm": algorithm,
                    "mode": outcome.mode,
                    "rows_in": outcome.rows_in,
                    "rows": warehouse.frame().views["v"].rows,
                    "verified": verified.ok,
                    "seconds": round(seconds, 1),
                    "driver_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                    "driver_before_mib": before // 1024,
                }
            )
        )


if __name__ == "__main__":
    main()
