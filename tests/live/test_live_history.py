"""Three servers, six writers, every algorithm: the level each frame claims is the level the history reaches.

STILLFRAME_LONG=1 lets the writers go on for a minute each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pytest
from history_checks import Journal, Recomputed, Seen, judged
from history_writers import DDL, JOURNAL, Database

import servers
from shops import Shop
from stillframe.consistency import Level
from stillframe.runtime import Warehouse

LONG = os.environ.get("STILLFRAME_LONG") == "1"
SECONDS = 60.0 if LONG else 2.0
PAUSE = 0.15
PLACES = {"orders": "pg", "customers": "my", "rates": "lite"}
KEYED = (
    "SELECT o.id, c.id AS customer, r.id AS rate_id, o.amount, c.name, r.rate FROM pg.orders o"
    " JOIN my.customers c ON c.id = o.cust JOIN lite.rates r ON r.cur = o.cur"
)
BARE = (
    "SELECT o.amount, c.name, r.rate FROM pg.orders o"
    " JOIN my.customers c ON c.id = o.cust JOIN lite.rates r ON r.cur = o.cur WHERE o.amount < 900"
)
TEXTS = {"keyed": KEYED, "bare": BARE}
ACCEPTING = ["sc", "strobe", "t-strobe", "g-strobe", "c-strobe", "c-t-strobe", "tid"]
UNCOMPENSATED = ("sc", "tid")  # one asks nobody, the other asks about named states


class World:
    """Tables, journals and writers at three servers."""

    def __init__(self, root: Path, name: str, pg: servers.PostgresServer, my: servers.MariadbServer) -> None:
        pg.database(name)
        my.database(name)
        self.at = {
            "pg": ("postgres", pg.url(name), "orders"),
            "my": ("mariadb", my.url(name), "customers"),
            "lite": ("sqlite", str(root / "lite.db"), "rates"),
        }
        for kind, url, table in self.at.values():
            database = Database(kind, url)
            if kind == "sqlite":
                database.run("PRAGMA journal_mode=WAL")
            database.run(next(ddl for ddl in DDL if f" {table} " in ddl))
            database.run(JOURNAL.format(text="LONGTEXT" if kind == "mariadb" else "TEXT"))
            database.con.close()

    def configure(self, shop: Shop, algorithm: str) -> None:
        sources = [f"  pg: {{url: '{self.at['pg'][1]}'}}", f"  my: {{url: '{self.at['my'][1]}'}}"]
        shop.configure(extra="\n".join([*sources, "  lite: {url: 'sqlite:///lite.db'}"]) + "\n")
        views = [
            f"CREATE MATERIALIZED VIEW {name} WITH (algorithm = '{algorithm}') AS {text};"
            for name, text in TEXTS.items()
        ]
        views += [
            f"CREATE MATERIALIZED VIEW j_{source} AS SELECT writer, n, entry FROM {source}.journal;"
            for source in self.at
        ]
        shop.views("\n".join(views))

    def start(self, seed: int) -> list[subprocess.Popen[str]]:
        script = str(Path(__file__).with_name("history_writers.py"))
        pace = [str(SECONDS), str(PAUSE)]
        return [
            subprocess.Popen(
                [sys.executable, script, kind, url, table, str(writer), str(seed * 10 + writer), *pace],
                stdout=subprocess.PIPE,
                text=True,
            )
            for kind, url, table in self.at.values()
            for writer in (1, 2)
        ]

    def journals(self) -> dict[str, Journal]:
        found = {}
        for source, (kind, url, _) in self.at.items():
            database = Database(kind, url)
            found[source] = frozenset(database.run("SELECT writer, n, entry FROM journal"))
            database.con.close()
        return found


def rows_of(warehouse: Warehouse, view: str, frame: int) -> list[tuple[Any, ...]]:
    table = warehouse.arrow(view, frame)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


def seen_in(warehouse: Warehouse, view: str, frame: int, sources: Iterable[str]) -> Seen:
    journals = {source: frozenset(rows_of(warehouse, f"j_{source}", frame)) for source in sources}
    return Seen(frame, frozenset(Counter(rows_of(warehouse, view, frame)).items()), journals)  # type: ignore[arg-type]


def current(warehouse: Warehouse, view: str) -> Iterator[int]:
    """The frames in which a view and the journals are current: they share one vector then."""
    for frame in sorted(warehouse.frames(), key=lambda frame: frame.number):
        states = [frame.views[name].state for name in (view, "j_pg", "j_my", "j_lite") if name in frame.views]
        if states == ["current"] * 4:
            yield frame.number


@pytest.mark.parametrize(
    "algorithm",
    [pytest.param(name, marks=[pytest.mark.engine] if name == "t-strobe" else []) for name in ACCEPTING],
)
def test_the_history_reaches_the_level_claimed(
    algorithm: str,
    shop: Shop,
    tmp_path: Path,
    postgres_server: servers.PostgresServer,
    mariadb_server: servers.MariadbServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seed = ACCEPTING.index(algorithm) + 1
    world = World(tmp_path, f"history_{algorithm.replace('-', '_')}", postgres_server, mariadb_server)
    world.configure(shop, algorithm)
    compensated = asked = 0
    with shop.open() as warehouse:
        warehouse.refresh()
        writers = world.start(seed)
        while any(writer.poll() is None for writer in writers):
            result = warehouse.maintain()
            assert not result.failures, {n: str(o.error) for n, o in result.failures.items()}
            compensated += sum(result.outcomes[view].compensated for view in TEXTS)
            asked += sum(result.outcomes[view].asked for view in TEXTS)
            time.sleep(0.05)
        assert [writer.returncode for writer in writers] == [0] * 6
        warehouse.refresh()
        final = world.journals()
        checked = 0
        for view, text in TEXTS.items():
            claimed = Level(warehouse.frame().views[view].level)
            history = [seen_in(warehouse, view, frame, PLACES.values()) for frame in current(warehouse, view)]
            verdict = judged(history, final, Recomputed(text, PLACES))
            assert verdict.level >= claimed, f"{view}: {verdict} where {claimed} is claimed (seed {seed})"
            assert verdict.level >= Level.STRONG
            checked += len(history)
        assert all(v.ok for v in warehouse.verify().values())
    transactions = sum(len(journal) for journal in final.values())
    with capsys.disabled():
        print(
            f"\n{algorithm}: {checked} states checked, {transactions} transactions, {asked} questions,"
            f" {compensated} answers needed compensation (seed {seed})"
        )
    assert checked >= 4 and transactions > 20
    if algorithm not in UNCOMPENSATED:
        assert compensated > 0, "nothing interfered"
