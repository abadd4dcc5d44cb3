"""The first load of a large relation of a live PostgreSQL beside 500 changes a second, killed three times.

STILLFRAME_LONG=1 loads five million rows.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

import servers
from shops import Shop

LONG = os.environ.get("STILLFRAME_LONG") == "1"
ROWS, CHUNK = (5_000_000, 250_000) if LONG else (60_000, 5_000)
RATE = 500
VIEW = (
    "CREATE MATERIALIZED VIEW big AS SELECT o.id, o.amount, p.name FROM pg.orders o"
    " JOIN pg.people p ON p.id = o.who;"
)


@contextmanager
def writing(server: servers.PostgresServer) -> Iterator[list[int]]:
    """Changes at a steady rate, in transactions of ten: rows come, go, change, and move to other ranges."""
    stop, done = threading.Event(), [0]

    def write() -> None:
        random, fresh, began = Random(7), 10 * ROWS, time.monotonic()
        with server.connect("load") as con:
            while not stop.is_set():
                with con.transaction():
                    for _ in range(3):
                        key = random.randrange(2 * ROWS)
                        con.execute("UPDATE orders SET amount = amount + 1 WHERE id = %s", [key])
                        con.execute("DELETE FROM orders WHERE id = %s", [random.randrange(2 * ROWS)])
                        fresh += 1
                        con.execute("INSERT INTO orders VALUES (%s, %s, 0)", [fresh, fresh % 1000 + 1])
                    moved = random.randrange(2 * ROWS)
                    con.execute("UPDATE orders SET id = -%s WHERE id = %s", [fresh, moved])
                done[0] += 10
                time.sleep(max(0.0, began + done[0] / RATE - time.monotonic()))

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def test_a_killed_load_is_exact_at_its_first_frame(
    shop: Shop, postgres_server: servers.PostgresServer, capsys: pytest.CaptureFixture[str]
) -> None:
    postgres_server.database("load")
    with postgres_server.connect("load") as con:
        con.execute("CREATE TABLE people (id int PRIMARY KEY, name text)")
        con.execute("CREATE TABLE orders (id bigint PRIMARY KEY, who int, amount int)")
        con.execute("INSERT INTO people SELECT i, 'p' || i FROM generate_series(1, 1000) i")
        con.execute(f"INSERT INTO orders SELECT 2 * i, 1 + i % 1000, i FROM generate_series(1, {ROWS}) i")
        con.execute("ANALYZE")
    shop.configure(extra=f"  pg: {{url: '{postgres_server.url('load')}'}}\nload_chunk: {CHUNK}\n")
    shop.views(VIEW)
    folder = shop.root / "warehouse" / "loading" / "big"
    command = [str(Path(sys.executable).with_name("stillframe")), "refresh", "--project", str(shop.root)]
    chunks = ROWS // CHUNK
    with writing(postgres_server) as done:
        for wanted in (chunks // 5, chunks // 2, 4 * chunks // 5):
            with (shop.root / "log").open("ab") as log:
                process = subprocess.Popen(command, stdout=log, stderr=log)
            while len(list(folder.glob("[0-9]*"))) < wanted and process.poll() is None:
                time.sleep(0.005)
            assert process.poll() is None, (shop.root / "log").read_text()
            process.send_signal(signal.SIGKILL)
            process.wait()
        left = len(list(folder.glob("[0-9]*")))
        began = time.monotonic()
        with shop.open() as warehouse:
            result = warehouse.maintain()
            assert not result.failures, {n: str(o.error) for n, o in result.failures.items()}
            seconds = time.monotonic() - began
            found = warehouse.verify("big")
            assert found.ok and result.frame.number == 1, found
    with shop.open() as warehouse:
        warehouse.refresh()
        with postgres_server.connect("load") as con:
            expected = con.execute(
                "SELECT count(*), sum(o.id), sum(o.amount) FROM orders o JOIN people p ON p.id = o.who"
            ).fetchone()
        table = warehouse.query("SELECT count(*), sum(id), sum(amount) FROM big").toArrow()
        assert tuple(column[0].as_py() for column in table.columns) == expected
    with capsys.disabled():
        print(
            f"\n{ROWS} rows loaded beside {done[0]} changes, killed three times ({left} chunks kept, the rest"
            f" in {seconds:.0f} s): exact at its first frame, {found.rows} rows compared"
        )
    assert done[0] > 100
