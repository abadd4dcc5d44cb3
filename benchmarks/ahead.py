"""What reading ahead takes off a session: many rows are committed while each session of `run` reads its own,
so that the next one's can be read while this one computes; with reading ahead and without.

`session` is the CPU time of the thread that runs the session, from its beginning to the frame: what a user
waits for at least. `all` is that of the process in the same time, `total` that of the whole run.

    python -m benchmarks.ahead [--rows 100000] [--frames 6]
"""

from __future__ import annotations

import argparse
import sqlite3
import statistics
import tempfile
import threading
import time
from pathlib import Path

from stillframe.runtime import Warehouse, ahead, load_project
from stillframe.runtime.outcome import Step

ORDERS, CUSTOMERS = 100_000, 2_000
VIEWS = """
CREATE MATERIALIZED VIEW v AS
SELECT o.id, c.name, o.x + 1 AS x, o.note FROM one.o o JOIN one.c c ON c.id = o.c;
CREATE MATERIALIZED VIEW g AS SELECT c, count(*) AS n, sum(x) AS s FROM one.o GROUP BY c;
"""
PROJECT = "name: m\nwarehouse: ./warehouse\nspark: {engine: sail}\ncopies: all\n"
SOURCES = "sources:\n  one: {url: 'sqlite:///one.db'}\n"


class World:
    def __init__(self, root: Path, rows: int) -> None:
        self.root, self.rows, self.next = root, rows, 0
        (root / "views").mkdir()
        (root / "views" / "v.sql").write_text(VIEWS)
        (root / "stillframe.yml").write_text(PROJECT + SOURCES)
        con = sqlite3.connect(root / "one.db")
        con.execute("PRAGMA journal_mode=WAL")
        con.execute("CREATE TABLE o (id INTEGER PRIMARY KEY, c INT, x INT, note TEXT)")
        con.execute("CREATE TABLE c (id INTEGER PRIMARY KEY, name TEXT)")
        con.executemany("INSERT INTO c VALUES (?, ?)", [(i, f"customer {i}") for i in range(CUSTOMERS)])
        con.commit()
        con.close()
        self.commit(ORDERS)

    def commit(self, rows: int) -> None:
        numbers = range(self.next, self.next + rows)
        self.next += rows
        con = sqlite3.connect(self.root / "one.db", timeout=60)
        orders = ((i, i % CUSTOMERS, i, f"order number {i}") for i in numbers)
        con.executemany("INSERT INTO o VALUES (?, ?, ?, ?)", orders)
        con.commit()
        con.close()


def clocks() -> tuple[float, float]:
    return time.thread_time(), time.process_time()


def measure(world: World, frames: int) -> dict[str, float]:
    wh = Warehouse(project=load_project(world.root))
    wh.refresh()
    spent: list[tuple[float, float]] = []
    begun = [clocks()]
    pieces = [0]
    committed = [False]

    def observe(step: Step, subject: str) -> None:
        if step is Step.AHEAD:
            pieces[0] += 1
        elif step is Step.STARTED:
            begun[0], committed[0] = clocks(), False
        elif step is Step.STAGED and not committed[0]:
            before = clocks()
            world.commit(world.rows)
            after, committed[0] = clocks(), True
            begun[0] = (begun[0][0] + after[0] - before[0], begun[0][1] + after[1] - before[1])
        elif step is Step.PUBLISHED:
            now = clocks()
            spent.append((now[0] - begun[0][0], now[1] - begun[0][1]))

    wh.observe = observe
    world.commit(world.rows)
    stop, started = threading.Event(), time.process_time()
    wh.run(0.001, stop=stop, on_result=lambda _: stop.set() if len(spent) >= frames else None)
    used = spent[2:]  # the first ones do not know yet that there is much to read
    return {
        "session": statistics.median(one for one, _ in used),
        "all": statistics.median(every for _, every in used),
        "total": time.process_time() - started,
        "pieces": pieces[0],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--frames", type=int, default=6)
    options = parser.parse_args()
    least = ahead.LEAST_ROWS
    for name, rows in (("without", 10**12), ("with", least)):
        ahead.LEAST_ROWS = rows
        with tempfile.TemporaryDirectory() as folder:
            found = measure(World(Path(folder), options.rows), options.frames)
        print(f"{name:8} {options.rows} rows", *(f"{key} {value:.3f}" for key, value in found.items()))


if __name__ == "__main__":
    main()
