"""Three servers or one, six writers, every algorithm: the level frames claim is what the history reaches.

STILLFRAME_LONG=1 lets the writers go on for a minute each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections import Counter
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
WRITERS = 6
SEVERAL = {"pg": ("postgres", ["orders"]), "my": ("mariadb", ["customers"]), "lite": ("sqlite", ["rates"])}
ONE = {"pg": ("postgres", ["orders", "customers", "rates"])}
JOIN = "FROM {orders} o JOIN {customers} c ON c.id = o.cust JOIN {rates} r ON r.cur = o.cur"
KEYED = f"SELECT o.id, c.id AS customer, r.id AS rate_id, o.amount, c.name, r.rate {JOIN}"
BARE = f"SELECT o.amount, c.name, r.rate {JOIN} WHERE o.amount < 900"
FOR_SEVERAL = ["sc", "strobe", "t-strobe", "g-strobe", "c-strobe", "c-t-strobe", "tid"]
FOR_ONE = ["rv", "eca", "eca-key", "eca-local", "lca"]
NEED_KEYS = ("eca-key",)
UNCOMPENSATED = ("sc", "tid")  # one asks nobody, the other asks about named states


class World:
    """Tables, journals and writers at some servers."""

    def __init__(
        self, root: Path, algorithm: str, pg: servers.PostgresServer, my: servers.MariadbServer
    ) -> None:
        self.algorithm = algorithm
        self.at = ONE if algorithm in FOR_ONE else SEVERAL
        self.places = {table: source for source, (_, tables) in self.at.items() for table in tables}
        named = {table: f"{source}.{table}" for table, source in self.places.items()}
        self.texts = {"keyed": KEYED.format(**named)}
        if algorithm not in NEED_KEYS:
            self.texts["bare"] = BARE.format(**named)
        name = f"history_{algorithm.replace('-', '_')}"
        pg.database(name)
        my.database(name)
        self.urls = {"pg": pg.url(name), "my": my.url(name), "lite": str(root / "lite.db")}
        for source, (kind, tables) in self.at.items():
            database = Database(kind, self.urls[source])
            if kind == "sqlite":
                database.run("PRAGMA journal_mode=WAL")
            for table in tables:
                database.run(next(ddl for ddl in DDL if f" {table} " in ddl))
            database.run(JOURNAL.format(text="LONGTEXT" if kind == "mariadb" else "TEXT"))
            database.con.close()

    def configure(self, shop: Shop) -> None:
        urls = {**self.urls, "lite": "sqlite:///lite.db"}
        shop.configure(extra="".join(f"  {source}: {{url: '{urls[source]}'}}\n" for source in self.at))
        views = [
            f"CREATE MATERIALIZED VIEW {name} WITH (algorithm = '{self.algorithm}') AS {text};"
            for name, text in self.texts.items()
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
                [
                    *(sys.executable, script, kind, self.urls[source], ",".join(tables)),
                    *(str(writer), str(seed * 10 + writer), *pace),
                ],
                stdout=subprocess.PIPE,
                text=True,
            )
            for source, (kind, tables) in self.at.items()
            for writer in range(1, WRITERS // len(self.at) + 1)
        ]

    def journals(self) -> dict[str, Journal]:
        found = {}
        for source, (kind, _) in self.at.items():
            database = Database(kind, self.urls[source])
            found[source] = frozenset(database.run("SELECT writer, n, entry FROM journal"))
            database.con.close()
        return found

    def history(self, warehouse: Warehouse, view: str) -> list[Seen]:
        """The frames in which a view and the journals are current: they share one vector then."""
        together = [view, *(f"j_{source}" for source in self.at)]
        return [
            self._seen(warehouse, view, frame.number)
            for frame in sorted(warehouse.frames(), key=lambda frame: frame.number)
            if all(name in frame.views and frame.views[name].state == "current" for name in together)
        ]

    def _seen(self, warehouse: Warehouse, view: str, frame: int) -> Seen:
        journals = {source: frozenset(rows_of(warehouse, f"j_{source}", frame)) for source in self.at}
        return Seen(frame, frozenset(Counter(rows_of(warehouse, view, frame)).items()), journals)  # type: ignore[arg-type]


def rows_of(warehouse: Warehouse, view: str, frame: int) -> list[tuple[Any, ...]]:
    table = warehouse.arrow(view, frame)
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(name, marks=[pytest.mark.engine] if name == "t-strobe" else [])
        for name in FOR_SEVERAL + FOR_ONE
    ],
)
def test_the_history_reaches_the_level_claimed(
    algorithm: str,
    shop: Shop,
    tmp_path: Path,
    postgres_server: servers.PostgresServer,
    mariadb_server: servers.MariadbServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    seed = (FOR_SEVERAL + FOR_ONE).index(algorithm) + 1
    world = World(tmp_path, algorithm, postgres_server, mariadb_server)
    world.configure(shop)
    compensated = asked = 0
    with shop.open() as warehouse:
        warehouse.refresh()
        writers = world.start(seed)
        while any(writer.poll() is None for writer in writers):
            result = warehouse.maintain()
            assert not result.failures, {n: str(o.error) for n, o in result.failures.items()}
            compensated += sum(result.outcomes[view].compensated for view in world.texts)
            asked += sum(result.outcomes[view].asked for view in world.texts)
            time.sleep(0.05)
        assert [writer.returncode for writer in writers] == [0] * WRITERS
        warehouse.refresh()
        final = world.journals()
        checked = 0
        for view, text in world.texts.items():
            claimed = Level(warehouse.frame().views[view].level)
            history = world.history(warehouse, view)
            verdict = judged(history, final, Recomputed(text, world.places))
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
    assert checked >= 2 * len(world.texts) and transactions > 20
    if algorithm not in UNCOMPENSATED:
        assert compensated > 0, "nothing interfered"
