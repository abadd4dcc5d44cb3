"""A project whose exactness can be told without the engine: sources that keep a journal of their own
transactions, the lake's files read with Arrow, and the views' texts run untouched by SQLite.

Every transaction inserts one row into `events` (captured) and one into `journal` (not captured), in which
it writes down which log rows it made. So for each frame it is known exactly which transactions it must
hold: those whose log rows end at or before the frame's position.
"""

from __future__ import annotations

import json
import os
import random
import re
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from stillframe.algebra.arrow import COUNT
from stillframe.engine import Engine
from stillframe.lake import Lake
from stillframe.lake.frame import Frame, ViewState
from stillframe.runtime import Warehouse, load_project

DRIVER = Path(__file__).with_name("driver.py")
CUSTOMERS = 60
JOURNALS = (
    "CREATE TABLE events (n INTEGER PRIMARY KEY, writer TEXT);"
    "CREATE TABLE journal (n INTEGER PRIMARY KEY, low INT, high INT, changes INT);"
)
DDL = {
    "shop": "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INT, amount INT);"
    "CREATE TABLE items (order_id INT, sku TEXT);" + JOURNALS,
    "crm": "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, region TEXT);" + JOURNALS,
}
VIEWS = {
    "facts": "SELECT o.id, c.name, o.amount * 2 AS twice "
    "FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id",
    "regions": "SELECT c.region FROM shop.orders o, crm.customers c "
    "WHERE c.id = o.customer_id AND o.amount > 20",
    "pairs": "SELECT a.id AS a, b.id AS b FROM shop.orders a JOIN shop.orders b "
    "ON a.customer_id = b.customer_id AND a.id < b.id",
    "lines": "SELECT f.id, f.name, i.sku FROM facts f JOIN shop.items i ON i.order_id = f.id",
    "shop_events": "SELECT n, writer FROM shop.events",
    "crm_events": "SELECT n, writer FROM crm.events",
}

Bag = Counter[tuple[Any, ...]]


class FaultsProject:
    def __init__(self, root: Path, engine: Engine | None, engine_name: str) -> None:
        self.root = root
        self.engine = engine
        self.engine_name = engine_name
        self.spawned: list[subprocess.Popen[str]] = []
        (root / "views").mkdir(parents=True)
        for source, ddl in DDL.items():
            con = sqlite3.connect(root / f"{source}.db")
            con.execute("PRAGMA journal_mode=WAL")
            con.executescript(ddl)
            con.close()
        text = "".join(f"CREATE MATERIALIZED VIEW {name} AS {select};\n" for name, select in VIEWS.items())
        (root / "views" / "views.sql").write_text(text, encoding="utf-8")
        self.configure()

    def configure(self, name: str = "faults", extra: str = "", spark: str = "") -> None:
        settings = spark or f"{{engine: {self.engine_name}, master: 'local[2]'}}"
        sources = "".join(f"  {source}: {{url: 'sqlite:///{source}.db'}}\n" for source in DDL)
        (self.root / "stillframe.yml").write_text(
            f"name: {name}\nwarehouse: ./warehouse\nspark: {settings}\n"
            f"small_changes: {'engine' if self.engine_name == 'spark' else 'driver'}\n"
            f"sources:\n{sources}{extra}",
            encoding="utf-8",
        )

    def open(self) -> Warehouse:
        return Warehouse(project=load_project(self.root), engine=self.engine)

    @property
    def lake(self) -> Lake:
        return Lake.open(self.root / "warehouse")

    # -- processes

    def spawn(self, *arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, str(DRIVER), str(self.root), *arguments],
            stdout=subprocess.PIPE,
            stderr=(self.root / "driver.err").open("a"),
            text=True,
        )
        self.spawned.append(process)
        return process

    def end(self) -> None:
        """No process outlives its test."""
        for process in self.spawned:
            if process.poll() is None:
                process.kill()
                process.wait()

    def errors(self) -> str:
        """What the driver processes complained of, for the message of a failed test."""
        path = self.root / "driver.err"
        return path.read_text(encoding="utf-8")[-3000:] if path.exists() else ""

    def finish(self, process: subprocess.Popen[str], timeout: float = 120) -> dict[str, Any]:
        """The one JSON line a driver ends with."""
        out, _ = process.communicate(timeout=timeout)
        assert process.returncode == 0, (process.returncode, out, self.errors())
        return dict(json.loads(out.splitlines()[-1]))

    @contextmanager
    def writing(self, seed: int, pause: float = 0.1) -> Iterator[None]:
        """Transactions go on in both sources for the time of a block."""
        stop = threading.Event()

        def work(source: str) -> None:
            writer = Writer(self.root / f"{source}.db", f"{source}-{seed}", random.Random(f"{source}{seed}"))
            while not stop.wait(pause):
                writer.transact()
            writer.close()

        threads = [threading.Thread(target=work, args=(source,)) for source in DDL]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            stop.set()
            for thread in threads:
                thread.join()

    # -- what should be there

    def expected(self, view: str) -> Bag:
        """The view's own text, run by SQLite over both databases as they are now."""
        con = sqlite3.connect(":memory:")
        for source in DDL:
            con.execute(f"ATTACH '{self.root / source}.db' AS {source}")
        for name, select in VIEWS.items():
            con.execute(f"CREATE TEMP VIEW {name} AS {select}")
        rows: Bag = Counter(con.execute(f"SELECT * FROM {view}").fetchall())
        con.close()
        return rows

    def query(self, source: str, sql: str) -> list[tuple[Any, ...]]:
        con = sqlite3.connect(self.root / f"{source}.db", timeout=30)
        try:
            return con.execute(sql).fetchall()
        finally:
            con.close()

    # -- what is there

    def content(self, state: ViewState) -> Bag:
        """The rows that the files named by a frame hold; the sum of signs is never negative."""
        rows: Bag = Counter()
        for path, signed in [(f.path, False) for f in state.base] + [(f.path, True) for f in state.changes]:
            table = pq.ParquetFile(self.root / "warehouse" / path).read()
            counts = table.column(COUNT).to_pylist() if signed else [1] * table.num_rows
            columns = [table.column(name).to_pylist() for name in state.schema.names]
            for row, count in zip(zip(*columns, strict=True), counts, strict=True):
                rows[row] += count
        assert all(count >= 0 for count in rows.values()), "a row is taken away that was not there"
        return +rows

    def check_newest(self) -> None:
        """With writers at rest and a refresh behind us: the newest frame is the view of the sources now."""
        frame = self.lake.newest()
        assert frame is not None
        for view in VIEWS:
            state = frame.views[view]
            assert state.state == "current", (view, state.reason)
            assert self.content(state) == self.expected(view), view
            assert sum(self.content(state).values()) == state.rows, view

    def check_frames(self, frames: Sequence[Frame] | None = None) -> dict[str, int]:
        """Every frame holds exactly the transactions up to its position, and splits none; so the steps from
        frame to frame apply each of them once."""
        covered: Counter[str] = Counter()
        for source in DDL:
            view = f"{source}_events"
            journal = self.query(source, "SELECT n, low, high, changes FROM journal ORDER BY low")
            assert all(a[2] == b[1] for a, b in pairwise(journal)), "a log row unclaimed"
            ends = {high for _, _, high, _ in journal}
            last = -1
            for frame in reversed(frames if frames is not None else self.lake.history()):
                state = frame.views[view]
                assert state.vector is not None
                position = state.vector[source]["position"]
                assert position >= last, "a frame went back"
                assert position in ends or position <= min(
                    (low for _, low, _, _ in journal), default=position
                )
                shown = {n for n, _ in self.content(state)}
                logged = {n for n, _, high, _ in journal if high <= position}
                before = {n for (n,) in self.query(source, "SELECT n FROM events WHERE writer = 'before'")}
                assert shown == logged | before, (
                    frame.number,
                    source,
                    sorted(shown ^ (logged | before))[:10],
                )
                if last >= 0:
                    covered[source] += sum(
                        c for _, low, high, c in journal if last <= low and high <= position
                    )
                last = position
            covered["changes"] += sum(changes for _, _, high, changes in journal if high <= last)
        return dict(covered)

    def leftovers(self) -> list[str]:
        """Files of attempts that no published revision names."""
        warehouse = self.root / "warehouse"
        named: set[str] = set()
        for path in (warehouse / "frames").glob("*.parquet"):
            for document in pq.ParquetFile(path).read().column("document").to_pylist():
                named |= Frame.from_json(json.loads(document)).files
        there = {p.relative_to(warehouse).as_posix() for p in (warehouse / "views").rglob("*.parquet")}
        there = {p for p in there if "/_delta_log/" not in p}
        staged = [p.relative_to(warehouse).as_posix() for p in (warehouse / "staging").iterdir()]
        return sorted(there - named) + staged


class Writer:
    """One program that writes to one source, knowing nothing of views."""

    def __init__(self, path: Path, name: str, rng: random.Random) -> None:
        self.name = name
        self.rng = rng
        self.con = sqlite3.connect(path, timeout=60, isolation_level=None)
        self.con.execute("PRAGMA synchronous=NORMAL")
        self.captured = False
        self.shop = path.stem == "shop"

    def close(self) -> None:
        self.con.close()

    def transact(self) -> int:
        """One transaction, now and then rolled back; returns the changes committed, as the log counts."""
        con, rng = self.con, self.rng
        con.execute("BEGIN IMMEDIATE")
        low = self._last()
        if rng.random() < 0.15:
            self._statement()
            con.execute("ROLLBACK")
            return 0
        for _ in range(rng.randint(1, 6)):
            self._statement()
        cursor = con.execute("INSERT INTO events (writer) VALUES (?)", (self.name,))
        high = self._last()
        con.execute("INSERT INTO journal VALUES (?, ?, ?, ?)", (cursor.lastrowid, low, high, high - low))
        con.execute("COMMIT")
        return high - low

    def _last(self) -> int:
        (last,) = self.con.execute("SELECT coalesce(max(seq), 0) FROM _stillframe_log").fetchone()
        return int(last)

    def _statement(self) -> None:
        rng, run = self.rng, self.con.execute
        customer = rng.randint(1, CUSTOMERS)
        if not self.shop:
            if rng.random() < 0.2:
                run("DELETE FROM customers WHERE id = ?", (customer,))
            else:
                run(
                    "INSERT INTO customers VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET name = ?2",
                    (customer, f"c{rng.randint(0, 99)}", f"r{customer % 3}"),
                )
            return
        order = self.con.execute("SELECT id FROM orders WHERE id >= ? LIMIT 1", (rng.randint(1, 400),))
        found = (order.fetchone() or (1,))[0]
        match rng.randrange(6):
            case 0 | 1:
                values = (rng.randint(1, 400), customer, rng.randint(0, 50))
                run("INSERT OR REPLACE INTO orders VALUES (?, ?, ?)", values)
            case 2:
                run("UPDATE orders SET amount = amount + 1, customer_id = ? WHERE id = ?", (customer, found))
            case 3:
                run("DELETE FROM orders WHERE id = ?", (found,))
            case 4:
                run("INSERT INTO items VALUES (?, ?), (?1, 'same')", (found, f"s{rng.randint(0, 3)}"))
            case _:
                run("DELETE FROM items WHERE rowid IN (SELECT rowid FROM items LIMIT 1)")


def fill(root: Path, rng: random.Random) -> None:
    """Some rows from before anybody watched."""
    with sqlite3.connect(root / "crm.db") as con:
        con.executemany(
            "INSERT INTO customers VALUES (?, ?, ?)",
            [(i, f"c{rng.randint(0, 99)}", f"r{i % 3}") for i in range(1, CUSTOMERS + 1)],
        )
        con.execute("INSERT INTO events (writer) VALUES ('before')")
    with sqlite3.connect(root / "shop.db") as con:
        con.executemany(
            "INSERT INTO orders VALUES (?, ?, ?)",
            [(i, rng.randint(1, CUSTOMERS), rng.randint(0, 50)) for i in range(1, 201)],
        )
        con.executemany(
            "INSERT INTO items VALUES (?, ?)",
            [(rng.randint(1, 200), f"s{rng.randint(0, 3)}") for _ in range(200)],
        )
        con.execute("INSERT INTO events (writer) VALUES ('before')")


def java_children(pid: int) -> list[int]:
    """The Java processes somewhere beneath a process."""
    parents: dict[int, list[int]] = {}
    names: dict[int, str] = {}
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            match = re.match(r"(\d+) \((.*)\) \S (\d+)", stat.read_text(), re.DOTALL)
        except OSError:
            continue
        if match:
            parents.setdefault(int(match[3]), []).append(int(match[1]))
            names[int(match[1])] = match[2]
    below, pending = [], [pid]
    while pending:
        children = parents.get(pending.pop(), [])
        below += children
        pending += children
    return [p for p in below if names[p] == "java"]


def kill(pid: int) -> None:
    os.kill(pid, signal.SIGKILL)


def wait_for(line: str, process: subprocess.Popen[str], timeout: float = 120) -> None:
    """Read a driver's output up to a line."""
    assert process.stdout is not None
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        found = process.stdout.readline()
        if found.strip() == line:
            return
        if not found:
            break
    raise AssertionError(f"the driver never said {line!r}")
