"""A large view's first load: chunk by chunk while writers go on, resumed after a kill, beside other views."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random

import pytest

from shops import Shop
from stillframe.runtime.outcome import Step

ROWS, CHUNK = 12_000, 1_000
VIEW = (
    "CREATE MATERIALIZED VIEW big AS SELECT o.id, o.amount, c.name"
    " FROM a.orders o JOIN a.people c ON c.id = o.who;"
)
SMALL = "CREATE MATERIALIZED VIEW small AS SELECT id, name FROM a.people;"


@pytest.fixture
def large(shop: Shop) -> Shop:
    shop.source(
        "a",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, who INTEGER, amount INTEGER);"
        "CREATE TABLE people (id INTEGER PRIMARY KEY, name TEXT);"
        "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 50)"
        " INSERT INTO people SELECT i, 'p' || i FROM n;"
        f"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {ROWS})"
        " INSERT INTO orders SELECT i * 3, 1 + i % 50, i FROM n;",
    )
    shop.configure(extra=f"load_chunk: {CHUNK}\n")
    return shop


@contextmanager
def writing(path: Path, seed: int) -> Iterator[Counter[str]]:
    """Rows come, go, change, and move from one chunk to another, until the block ends."""
    stop, done = threading.Event(), Counter[str]()

    def write() -> None:
        random = Random(seed)
        con = sqlite3.connect(path, timeout=30, isolation_level=None)
        while not stop.is_set():
            key, other = random.randrange(4 * ROWS), random.randrange(4 * ROWS)
            statement = random.choice(
                [
                    f"INSERT OR IGNORE INTO orders VALUES ({key}, {key % 50 + 1}, -1)",
                    f"DELETE FROM orders WHERE id BETWEEN {key} AND {key + 5}",
                    f"UPDATE orders SET amount = amount + 1 WHERE id BETWEEN {key} AND {key + 5}",
                    f"UPDATE OR IGNORE orders SET id = {other} WHERE id = {key - key % 3}",
                ]
            )
            done[statement[:6]] += con.execute(statement).rowcount
            time.sleep(0.001)
        con.close()

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield done
    finally:
        stop.set()
        thread.join()


def truth(shop: Shop) -> Counter[tuple[object, ...]]:
    con = sqlite3.connect(shop.root / "a.db")
    return Counter(
        con.execute("SELECT o.id, o.amount, c.name FROM orders o JOIN people c ON c.id = o.who").fetchall()
    )


def shown(shop: Shop, warehouse: object) -> Counter[tuple[object, ...]]:
    table = warehouse.arrow("big")  # type: ignore[attr-defined]
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.engine
def test_a_load_is_exact_while_writers_go_on(large: Shop) -> None:
    large.views(VIEW)
    with large.open() as warehouse:
        seen: list[str] = []
        warehouse.observe = lambda step, subject: seen.append(subject) if step is Step.LOADED else None
        with writing(large.root / "a.db", seed=1) as done:
            result = warehouse.maintain()
        assert sum(done.values()) > 20, "nothing was written meanwhile"
        assert not result.failures
        assert len(seen) > ROWS / CHUNK, "it was not read in chunks"
        assert warehouse.verify("big").ok
        warehouse.refresh()
        assert shown(large, warehouse) == truth(large)
        assert not (warehouse.lake.path / "loading" / "big").exists()


def test_a_killed_load_goes_on_with_the_next_chunk(large: Shop) -> None:
    large.views(VIEW)
    folder = large.root / "warehouse" / "loading" / "big"
    command = [str(Path(sys.executable).with_name("stillframe")), "refresh", "--project", str(large.root)]
    with writing(large.root / "a.db", seed=2):
        for wanted in (2, 5, 8):
            process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            deadline = time.monotonic() + 120
            while len(list(folder.glob("[0-9]*"))) < wanted and process.poll() is None:
                assert time.monotonic() < deadline, "the load does not go on"
                time.sleep(0.002)
            process.send_signal(signal.SIGKILL)
            process.wait()
    before = {path: path.stat().st_mtime_ns for path in folder.glob("[0-9]*/*.parquet")}
    assert before, "nothing of the load was left"
    with large.open() as warehouse:
        kept: set[Path] = set()

        def look(step: Step, subject: str) -> None:
            if step is Step.LOADED:
                kept.update(p for p, at in before.items() if p.exists() and p.stat().st_mtime_ns == at)

        warehouse.observe = look
        warehouse.refresh()
        assert kept == set(before), "chunks that were there have been read again"
        assert warehouse.verify("big").ok
        warehouse.refresh()
        assert shown(large, warehouse) == truth(large)


def test_other_views_go_on_while_one_is_loaded(large: Shop) -> None:
    large.views(SMALL)
    with large.open() as warehouse:
        warehouse.refresh()
        large.views(SMALL + VIEW)
        frames: list[dict[str, str]] = []
        stop, loading = threading.Event(), threading.Event()
        hold = threading.Event()

        def look(step: Step, subject: str) -> None:
            if step is Step.LOADED and not hold.is_set():
                loading.set()
                assert hold.wait(60)

        warehouse.observe = look

        def take(result: object) -> None:
            views = result.frame.views  # type: ignore[attr-defined]
            frames.append({name: view.state for name, view in views.items()})

        runner = threading.Thread(target=warehouse.run, args=[0.05], kwargs={"stop": stop, "on_result": take})
        runner.start()
        assert loading.wait(60)
        large.write("a", "UPDATE people SET name = 'new' WHERE id = 1")
        deadline = time.monotonic() + 60
        while not frames and time.monotonic() < deadline:
            time.sleep(0.02)
        assert frames and all(set(frame) == {"small"} for frame in frames)
        hold.set()
        while not any("big" in frame for frame in frames) and time.monotonic() < deadline:
            time.sleep(0.02)
        stop.set()
        runner.join()
        assert {"small", "big"} == set(frames[-1])
        assert all(v.ok for v in warehouse.verify().values())
        assert shown(large, warehouse) == truth(large)


def test_a_new_text_is_built_beside_the_old_view(large: Shop) -> None:
    large.views(VIEW)
    with large.open() as warehouse:
        warehouse.refresh()
        large.views(VIEW.replace("o.amount,", "o.amount * 2 AS amount,"))
        loads: list[str] = []
        during: list[int] = []

        def look(step: Step, subject: str) -> None:
            if step is Step.LOADED:
                loads.append(subject)
                during.append(warehouse.frame().views["big"].rows)

        warehouse.observe = look
        warehouse.refresh()
        assert loads and set(during) == {ROWS}, "the old view stays until the new one is there"
        doubled = Counter({(i, 2 * a, n): c for (i, a, n), c in truth(large).items()})  # type: ignore[operator]
        assert shown(large, warehouse) == doubled
        assert warehouse.frame().number == 2
