"""What a refresh and a read cost, as ratios within one run.

A view of `--rows` rows is joined from two SQLite sources. Refreshes with 0, 1, 100 and 10 000 changed rows
stand beside a full refresh, a trivial job and an empty write of the same engine in the same run; reads of
the newest frame with 1 % and 10 % of its rows unsettled stand beside reads of a settled one.

    python -m benchmarks.refresh                       # both engines, each in a process of its own
    python -m benchmarks.refresh --engine sail --rows 100000
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

from stillframe.runtime import Warehouse, load_project

RESULTS = Path(__file__).parent / "results"
VIEWS = """
CREATE MATERIALIZED VIEW keyed AS
SELECT o.id, c.name, c.country, o.amount, o.amount * 2 AS twice, o.placed
FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id;
"""
KEYLESS = """
CREATE MATERIALIZED VIEW keyless AS
SELECT c.name, c.country, o.amount, o.amount * 2 AS twice, o.placed
FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id;
"""


def make_sources(root: Path, rows: int) -> None:
    customers = max(rows // 10, 1)
    shop = sqlite3.connect(root / "shop.db", isolation_level=None)
    shop.execute("PRAGMA journal_mode=WAL")
    shop.execute(
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INT NOT NULL,"
        " amount DECIMAL(12,2), placed DATE)"
    )
    shop.execute("CREATE INDEX by_customer ON orders (customer_id)")
    shop.execute("BEGIN")
    shop.executemany(
        "INSERT INTO orders VALUES (?, ?, ?, ?)",
        (
            (i, i % customers, (i * 37 % 100000) / 100, f"20{i % 20 + 10}-01-{i % 28 + 1:02}")
            for i in range(rows)
        ),
    )
    shop.execute("COMMIT")
    shop.close()
    crm = sqlite3.connect(root / "crm.db", isolation_level=None)
    crm.execute("PRAGMA journal_mode=WAL")
    crm.execute("CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, country TEXT)")
    crm.execute("BEGIN")
    crm.executemany(
        "INSERT INTO customers VALUES (?, ?, ?)",
        ((i, f"customer {i}", "EU" if i % 3 else "US") for i in range(customers)),
    )
    crm.execute("COMMIT")
    crm.close()


def make_project(root: Path, engine: str) -> None:
    (root / "views").mkdir()
    (root / "views" / "views.sql").write_text(VIEWS, encoding="utf-8")
    (root / "stillframe.yml").write_text(
        f"name: bench\nwarehouse: ./warehouse\nspark: {{engine: {engine}}}\n"
        "settle: {rows: 1000, files: 100000, seconds: 1000000}\n"
        "sources:\n  shop: {url: 'sqlite:///shop.db'}\n  crm: {url: 'sqlite:///crm.db'}\n",
        encoding="utf-8",
    )


class Bench:
    def __init__(self, root: Path, rows: int) -> None:
        self.root, self.rows, self.stamp = root, rows, 0
        self.wh = Warehouse(project=load_project(root))
        self.seconds: dict[str, float] = {}

    def change(self, count: int) -> None:
        """`count` rows of the view change: half of them updated orders of the old, half of the new ids."""
        self.stamp += 1
        connection = sqlite3.connect(self.root / "shop.db", isolation_level=None)
        connection.execute("BEGIN IMMEDIATE")
        step = max(self.rows // max(count, 1), 1)
        for i in range(count):
            connection.execute(
                "UPDATE orders SET amount = amount + 1 WHERE id = ?", ((i * step + self.stamp) % self.rows,)
            )
        connection.execute("COMMIT")
        connection.close()

    def timed(
        self, name: str, work: Callable[[], object], repeat: int, before: Callable[[], object] | None = None
    ) -> None:
        taken = []
        for _ in range(repeat):
            if before is not None:
                before()
            began = time.perf_counter()
            work()
            taken.append(time.perf_counter() - began)
        self.seconds[name] = statistics.median(taken)
        print(f"  {name:<34} {self.seconds[name]:8.3f} s   (median of {repeat})", flush=True)

    def trivial(self) -> None:
        self.wh.engine.sql("SELECT 1 AS x").collect()

    def empty_write(self) -> None:
        folder = self.root / "empty"
        shutil.rmtree(folder, ignore_errors=True)
        self.wh.engine.sql("SELECT 1 AS x WHERE 1 = 0").write.mode("overwrite").parquet(str(folder))

    def scan(self, view: str) -> None:
        columns = self.wh.frame().views[view].schema.names
        self.wh.query(f"SELECT COUNT(*), {', '.join(f'MAX({c})' for c in columns)} FROM {view}").collect()

    def aggregate(self, view: str) -> None:
        self.wh.query(f"SELECT country, SUM(amount) FROM {view} GROUP BY country").collect()


def run(engine: str, rows: int, repeat: int) -> dict[str, Any]:
    root = Path(tempfile.mkdtemp(prefix="stillframe-bench-"))
    try:
        make_sources(root, rows)
        make_project(root, engine)
        bench = Bench(root, rows)
        began = time.perf_counter()
        bench.wh.refresh()
        bench.seconds["first load, engine start included"] = time.perf_counter() - began
        for _ in range(3):  # warm the code paths
            bench.trivial()
            bench.empty_write()
            bench.change(10)
            bench.wh.refresh()
        bench.timed("trivial job", bench.trivial, repeat * 3)
        bench.timed("empty write", bench.empty_write, repeat * 3)
        for count in (0, 1, 100, 10_000):
            bench.timed(
                f"refresh, {count} changed", bench.wh.refresh, repeat, lambda n=count: bench.change(n)
            )
        bench.timed("trivial job, again", bench.trivial, repeat * 3)
        bench.timed("empty write, again", bench.empty_write, repeat * 3)
        bench.timed("full refresh", lambda: bench.wh.refresh(full=True), max(repeat // 2, 2))
        (root / "views" / "keyless.sql").write_text(KEYLESS, encoding="utf-8")
        bench.wh.refresh()
        for view in ("keyed", "keyless"):
            bench.scan(view)
            bench.aggregate(view)
        reads(bench, "settled", repeat)
        bench.change(rows // 200)  # an update takes one row away and adds one: twice the rows
        bench.wh.refresh()
        reads(bench, "1 % unsettled", repeat)
        bench.change(rows // 20 - rows // 200)
        bench.wh.refresh()
        reads(bench, "10 % unsettled", repeat)
        bench.wh.close()
        return report(engine, rows, bench.seconds)
    finally:
        shutil.rmtree(root, ignore_errors=True)


def reads(bench: Bench, state: str, repeat: int) -> None:
    for view in ("keyed", "keyless"):
        bench.timed(f"scan {view}, {state}", lambda v=view: bench.scan(v), repeat)
        bench.timed(f"aggregate {view}, {state}", lambda v=view: bench.aggregate(v), repeat)


def report(engine: str, rows: int, seconds: dict[str, float]) -> dict[str, Any]:
    unit = (seconds["trivial job"] + seconds["trivial job, again"]) / 2
    unit += (seconds["empty write"] + seconds["empty write, again"]) / 2
    ratios = {
        "refresh of 1 row / (trivial job + empty write)": seconds["refresh, 1 changed"] / unit,
        "full refresh / refresh of 1 row": seconds["full refresh"] / seconds["refresh, 1 changed"],
        "full refresh / refresh of 100 rows": seconds["full refresh"] / seconds["refresh, 100 changed"],
        "full refresh / refresh of 10 000 rows": seconds["full refresh"] / seconds["refresh, 10000 changed"],
    }
    for view in ("keyed", "keyless"):
        for kind in ("scan", "aggregate"):
            settled = seconds[f"{kind} {view}, settled"]
            for state in ("1 % unsettled", "10 % unsettled"):
                ratios[f"{kind} {view}, {state} / settled"] = seconds[f"{kind} {view}, {state}"] / settled
    return {
        "engine": engine,
        "rows": rows,
        "machine": {"python": platform.python_version(), "system": platform.system(), "cores": _cores()},
        "versions": {name: version(name) for name in ("pyspark", "pysail", "deltalake", "pyarrow")},
        "seconds": {name: round(value, 4) for name, value in seconds.items()},
        "ratios": {name: round(value, 2) for name, value in ratios.items()},
    }


def _cores() -> int:
    import os

    return len(os.sched_getaffinity(0))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--engine", choices=["spark", "sail"], help="one engine only; default: both")
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    options = parser.parse_args()
    if options.engine is None:  # one engine to a process
        for engine in ("spark", "sail"):
            rest = ["--rows", str(options.rows), "--repeat", str(options.repeat)]
            subprocess.run(
                [sys.executable, "-m", "benchmarks.refresh", "--engine", engine, *rest], check=True
            )
        return
    print(f"{options.engine}, view of {options.rows} rows")
    result = run(options.engine, options.rows, options.repeat)
    for name, value in result["ratios"].items():
        print(f"  {name:<50} {value:6.2f}")
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"refresh-{options.engine}.json").write_text(
        json.dumps(result, indent=1) + "\n", encoding="utf-8"
    )


if __name__ == "__main__":
    main()
