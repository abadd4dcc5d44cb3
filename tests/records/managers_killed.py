"""A program of its own: views served to a store by eight managers on Apache Spark, half of the changes on one
group, while managers are killed. Prints what came of it as one JSON document.

    python managers_killed.py FOLDER URL CHANGES KILLS VIEW…

With UNSIGNED set, records do not tell what they reflect: what a killed manager did is done again. With
TEST_AND_SET=counter they do not, either, because views ask for it.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import threading
import time
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path

from records.histories import Base, Looker, Order, judged
from records.serving_views import TABLES, views
from stillframe.records.aggregates import Aggregates
from stillframe.records.entry import Position, Touch
from stillframe.records.program import Reading
from stillframe.records.store import Key
from stillframe.runtime import Warehouse, load_project
from stillframe.runtime.serving import Place

HOT = "EU"
MANAGERS = 8


def project(folder: Path, url: str, names: tuple[str, ...], rows: int) -> None:
    (folder / "views").mkdir(parents=True)
    way = os.environ.get("TEST_AND_SET", "")
    (folder / "views" / "views.sql").write_text(views(url, names, way), encoding="utf-8")
    (folder / "stillframe.yml").write_text(
        "name: killed\nwarehouse: ./warehouse\n"
        f"spark: {{engine: spark, master: 'local[{MANAGERS},50]', conf: {{spark.driver.memory: 512m}}}}\n"
        "sources:\n  shop: {url: 'sqlite:///shop.db'}\n",
        encoding="utf-8",
    )
    with closing(sqlite3.connect(folder / "shop.db")) as con:
        con.execute("PRAGMA journal_mode=WAL")
        con.executescript(TABLES)
        con.executemany("INSERT INTO customers VALUES (?, ?)", [(i, f"c{i}") for i in range(50)])
        for table in ("orders", "returns"):
            con.executemany(f"INSERT INTO {table} VALUES (?, ?, ?, ?)", map(row, range(rows)))
        con.commit()


def row(number: int) -> tuple[int, str, int, int]:
    region = HOT if random.random() < 0.5 else f"r{random.randrange(200)}"
    return number, region, random.randrange(50), random.randrange(1_000_000)


def change(folder: Path, first: int, changes: int) -> None:
    """Of so many records: some are new, some go, most become others."""
    with closing(sqlite3.connect(folder / "shop.db", timeout=60)) as con:
        for table in ("orders", "returns"):
            for number in range(first, first + changes):
                if number % 10 == 0:
                    con.execute(f"DELETE FROM {table} WHERE id = ?", (number,))
                else:
                    con.execute(f"INSERT OR REPLACE INTO {table} VALUES (?, ?, ?, ?)", row(number))
        con.execute("UPDATE customers SET name = name || '!' WHERE id % 3 = 0")
        con.commit()


def base(folder: Path) -> Base:
    with closing(sqlite3.connect(folder / "shop.db")) as con:
        orders = con.execute("SELECT id, region, customer, amount FROM orders").fetchall()
        return Base(
            {number: Order(*rest) for number, *rest in orders},
            dict(con.execute("SELECT id, name FROM customers").fetchall()),
        )


def lookers(wh: Warehouse, folder: Path, names: tuple[str, ...], changes: int) -> list[Looker]:
    """Of the groups the hot one and some others; of the join orders that change, and that come and go."""
    groups = [(HOT,), *((f"r{number}",) for number in range(20))]
    watched = {
        "summed": groups,
        "least": groups,
        "named": [(number,) for number in range(0, changes, max(changes // 100, 1))],
    }
    place = Place("killed", folder)
    return [Looker(wh, place, name, keys) for name, keys in watched.items() if name in names]


def managers() -> list[int]:
    """The processes in which tasks run: children of Spark's Python daemon."""
    found = {}
    for folder in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            if folder.name.isdigit() and b"pyspark.daemon" in (folder / "cmdline").read_bytes():
                found[int(folder.name)] = int((folder / "stat").read_text().rsplit(")", 1)[1].split()[1])
    return [process for process, parent in found.items() if parent in found]


@dataclass(frozen=True)
class Unsigned(Aggregates):
    """Takes every entry for a new one."""

    def program(self, key: Key, touches: tuple[Touch, ...]) -> Reading:
        now = Position(time.time_ns(), 0)
        return super().program(key, tuple(touch._replace(position=now) for touch in touches))


def unsigned(wh: Warehouse) -> None:
    found = wh.definitions
    given = {}
    for name, view in found().views.items():
        if view.served is not None and isinstance(view.served.view, Aggregates):
            way = replace(view.served, view=Unsigned(view.served.view.measures))
            given[name] = replace(view, served=way)
    wh.definitions = lambda **_: replace(found(), views={**found().views, **given})  # type: ignore[method-assign]


class Killer(threading.Thread):
    def __init__(self, kills: int) -> None:
        super().__init__(daemon=True)
        self.left, self.killed, self.stopped = kills, 0, threading.Event()

    def run(self) -> None:
        while self.left and not self.stopped.wait(random.uniform(0.05, 0.3)):
            running = managers()
            if running:
                with suppress(ProcessLookupError):
                    os.kill(random.choice(running), signal.SIGKILL)
                    self.killed += 1
                    self.left -= 1


def main() -> None:
    folder, url, changes, kills, names = (
        Path(sys.argv[1]),
        sys.argv[2],
        int(sys.argv[3]),
        int(sys.argv[4]),
        tuple(sys.argv[5:]),
    )
    random.seed(int(os.environ.get("STILLFRAME_SEED", "1")))
    project(folder, url, names, changes // 2)
    wh = Warehouse(project=load_project(folder))
    signed = not os.environ.get("UNSIGNED")
    if not signed:
        unsigned(wh)
    wh.refresh()
    watching = lookers(wh, folder, names, changes) if signed else []
    for looker in watching:
        looker.start()
    killer = Killer(kills)
    killer.start()
    invalid, states, entries = dict[str, int](), dict[str, int](), 0
    for turn in range(2):
        session = 2 + turn
        for looker in watching:
            looker.session = session
        before = base(folder)
        change(folder, turn * changes // 4, changes // 2)
        result = wh.bring_forward()
        failed = {name: str(o.error) for name, o in result.outcomes.items() if o.error is not None}
        assert not failed, failed
        entries += sum(outcome.rows_in for outcome in result.outcomes.values())
        time.sleep(0.3 if watching else 0)
        after = base(folder)
        for looker in watching:
            name, seen = looker.view.name, looker.sights(session)
            invalid[name] = invalid.get(name, 0) + judged(name, seen, before, after, session)
            states[name] = states.get(name, 0) + sum(map(len, seen.values()))
    killer.stopped.set()
    for looker in watching:
        looker.stopped.set()
    found = wh.verify_all()
    conflicts = {
        name: int(count)
        for name in names
        for metric, count in wh.metrics.snapshot().items()
        if metric.startswith("stillframe_record_conflicts_total") and f'"{name}"' in metric
    }
    print(
        json.dumps(
            {
                "entries": entries,
                "killed": killer.killed,
                "conflicts": conflicts,
                "states": states,
                "invalid": invalid,
                "right": {name: one.ok for name, one in found.items()},
                "wrong_rows": {name: one.missing for name, one in found.items() if one.missing},
            }
        )
    )
    wh.close()


if __name__ == "__main__":
    main()
