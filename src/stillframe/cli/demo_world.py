"""The demo's project: two databases, three views over both, and the writers that keep changing them."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing, suppress
from pathlib import Path
from types import TracebackType

from stillframe.cli import demo_writer
from stillframe.errors import StillframeError

WRITERS = ("shop", "shop", "crm", "crm")
LAST_WORDS_SECONDS = 10.0

SHOP = """
CREATE TABLE products (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price DECIMAL(10,2), stock INTEGER);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, product_id INTEGER, quantity INTEGER);
CREATE INDEX orders_customer ON orders (customer_id);
CREATE INDEX orders_product ON orders (product_id);
INSERT INTO products VALUES (1,'tea','3.50',500), (2,'coffee','7.20',500), (3,'cocoa','5.10',500),
  (4,'mug','12.00',500), (5,'kettle','39.90',500), (6,'spoon','1.10',500);
"""
CRM = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, city TEXT);
CREATE TABLE members (id INTEGER PRIMARY KEY, customer_id INTEGER, discount DECIMAL(3,2));
CREATE INDEX members_customer ON members (customer_id);
"""
VIEWS = """\
-- Which products go to which city, and at what price: the same row may stand here many times.
CREATE MATERIALIZED VIEW city_sales AS
SELECT c.city, p.name AS product, p.price
FROM shop.orders o JOIN shop.products p ON p.id = o.product_id
JOIN crm.customers c ON c.id = o.customer_id;

-- Pairs of orders by one customer: a self-join.
CREATE MATERIALIZED VIEW repeat_orders AS
SELECT c.id AS customer_id, c.name, a.id AS earlier, b.id AS later
FROM shop.orders a JOIN shop.orders b ON b.customer_id = a.customer_id AND a.id < b.id
JOIN crm.customers c ON c.id = a.customer_id;

-- What club members saved by coming back: a view over a view.
CREATE MATERIALIZED VIEW loyalty AS
SELECT r.name, r.later AS order_id, o.quantity * p.price * m.discount AS saved
FROM repeat_orders r JOIN crm.members m ON m.customer_id = r.customer_id
JOIN shop.orders o ON o.id = r.later JOIN shop.products p ON p.id = o.product_id;
"""
ABOUT = {
    "city_sales": "join, with duplicates",
    "repeat_orders": "self-join",
    "loyalty": "over repeat_orders",
}


def make_project(folder: Path, engine: str) -> None:
    (folder / "views").mkdir()
    (folder / "views" / "demo.sql").write_text(VIEWS, encoding="utf-8")
    settings = f"engine: {engine}" + (', master: "local[*]"' if engine == "spark" else "")
    (folder / "stillframe.yml").write_text(
        f"name: demo\nwarehouse: ./warehouse\nspark: {{{settings}}}\n"
        'sources:\n  shop: {url: "sqlite:///shop.db"}\n  crm: {url: "sqlite:///crm.db"}\n',
        encoding="utf-8",
    )
    chance = random.Random(7)
    for name, ddl, fill in (("shop", SHOP, demo_writer.place_orders), ("crm", CRM, demo_writer.join_club)):
        with closing(sqlite3.connect(folder / f"{name}.db")) as database:
            database.execute("PRAGMA journal_mode=WAL")
            database.executescript(ddl)
            for _ in range(60):
                fill(database, chance)
            database.commit()


class Writers:
    """The writer processes, ended when the block is left, however it is left."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._processes: list[subprocess.Popen[str]] = []
        self._listeners: list[threading.Thread] = []
        self._counts: dict[int, dict[str, int]] = {}

    def __enter__(self) -> Writers:
        script = str(Path(demo_writer.__file__))
        try:
            for number, kind in enumerate(WRITERS):
                process = subprocess.Popen(
                    [sys.executable, "-I", script, kind, str(self._folder / f"{kind}.db"), str(number)],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                    start_new_session=True,  # Ctrl-C is for us; we tell them
                )
                self._processes.append(process)
                listener = threading.Thread(target=self._listen, args=(number, process), daemon=True)
                listener.start()
                self._listeners.append(listener)
        except BaseException:
            self._kill()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._kill()

    def _listen(self, number: int, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            with suppress(ValueError):
                self._counts[number] = json.loads(line)

    def total(self, what: str) -> int:
        return sum(counts.get(what, 0) for counts in list(self._counts.values()))

    def check(self) -> None:
        """A demo without its writers would show nothing."""
        for process in self._processes:
            if process.poll() is not None:
                raise StillframeError(
                    f"a writer ended by itself with status {process.returncode}", code="WRITER_FAILED"
                )

    def end(self) -> None:
        """Ask them to end, and take down what they last say."""
        self.check()
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.close()
        for process, listener in zip(self._processes, self._listeners, strict=True):
            process.wait(LAST_WORDS_SECONDS)
            listener.join(LAST_WORDS_SECONDS)

    def _kill(self) -> None:
        for process in self._processes:
            if process.poll() is None:
                process.kill()
            process.wait()
