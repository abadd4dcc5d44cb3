"""The bank: every transfer is one global transaction across two databases, and no frame shows half of one.

The naive algorithm on the same transfers shows how often a pipeline without vectors is wrong.
STILLFRAME_LONG=1 makes 20 000 transfers.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from bank_writers import ACCOUNTS, START
from history_writers import Database

import servers
from shops import Shop
from stillframe.runtime import Warehouse

LONG = os.environ.get("STILLFRAME_LONG") == "1"
TRANSFERS, PAUSE = (20_000, 0.02) if LONG else (720, 0.1)
WRITERS = 8
TOTAL = 2 * ACCOUNTS * START
MONEY = {"accounts": "balance", "debits": "amount", "credits": "amount"}
TABLES = {"pg": ("accounts", "debits"), "my": ("accounts", "credits")}


class Bank:
    def __init__(self, name: str, pg: servers.PostgresServer, my: servers.MariadbServer) -> None:
        pg.database(name)
        my.database(name)
        self.urls = {"pg": pg.url(name), "my": my.url(name)}
        for source, kind in (("pg", "postgres"), ("my", "mariadb")):
            database = Database(kind, self.urls[source])
            database.run("CREATE TABLE accounts (id INTEGER PRIMARY KEY, balance INTEGER NOT NULL)")
            database.run(
                f"CREATE TABLE {TABLES[source][1]} (id INTEGER PRIMARY KEY, amount INTEGER NOT NULL)"
            )
            for account in range(ACCOUNTS):
                database.run("INSERT INTO accounts (id, balance) VALUES (?, ?)", account, START)
            database.con.close()

    def configure(self, shop: Shop, algorithm: str) -> None:
        shop.configure(extra="".join(f"  {name}: {{url: '{url}'}}\n" for name, url in self.urls.items()))
        shop.views(
            "\n".join(
                f"CREATE MATERIALIZED VIEW {source}_{table} WITH (algorithm = '{algorithm}') AS"
                f" SELECT id, {MONEY[table]} AS money FROM {source}.{table};"
                for source, tables in TABLES.items()
                for table in tables
            )
        )

    def start(self, transfers: int) -> list[subprocess.Popen[bytes]]:
        script, each = str(Path(__file__).with_name("bank_writers.py")), str(transfers // WRITERS)
        return [
            subprocess.Popen(
                [sys.executable, script, *self.urls.values(), str(writer), each, str(writer), str(PAUSE)]
            )
            for writer in range(WRITERS)
        ]


def money(warehouse: Warehouse, frame: int, tables: tuple[str, str]) -> int:
    return sum(
        sum(warehouse.arrow(f"{source}_{table}", frame).column("money").to_pylist())
        for source, table in zip(("pg", "my"), tables, strict=True)
    )


def run(shop: Shop, bank: Bank, algorithm: str, transfers: int) -> tuple[int, int, int]:
    """Frames, those in which the books do not balance, and those that moved while writers went on."""
    bank.configure(shop, algorithm)
    with shop.open() as warehouse:
        warehouse.refresh()
        writers = bank.start(transfers)
        while any(writer.poll() is None for writer in writers):
            result = warehouse.maintain()
            assert not result.failures, {n: str(o.error) for n, o in result.failures.items()}
            time.sleep(0.02)
        assert [writer.returncode for writer in writers] == [0] * WRITERS
        warehouse.refresh()
        last = warehouse.frame().number
        wrong = moved = 0
        for frame in sorted(warehouse.frames(), key=lambda frame: frame.number):
            balances = money(warehouse, frame.number, ("accounts", "accounts"))
            entries = money(warehouse, frame.number, ("debits", "credits"))
            wrong += (balances, entries) != (TOTAL, 0)
            moved += frame.number < last and frame.views["pg_debits"].session["mode"] == "incremental"
        assert frame.views["pg_debits"].rows == frame.views["my_credits"].rows == transfers
        assert all(v.ok for v in warehouse.verify().values()) or algorithm == "basic"
    return last, wrong, moved


def test_money_is_conserved_in_every_frame(
    make_shop: object,
    postgres_server: servers.PostgresServer,
    mariadb_server: servers.MariadbServer,
    capsys: pytest.CaptureFixture[str],
) -> None:
    counts = {}
    for algorithm in ("tid", "basic"):
        bank = Bank(f"bank_{algorithm}", postgres_server, mariadb_server)
        counts[algorithm] = run(make_shop(algorithm), bank, algorithm, TRANSFERS)  # type: ignore[operator]
    with capsys.disabled():
        for algorithm, (frames, wrong, moved) in counts.items():
            print(
                f"\n{algorithm}: {TRANSFERS} transfers, {frames} frames, {wrong} in which the books do not"
                f" balance, {moved} advanced while writers went on"
            )
    frames, wrong, moved = counts["tid"]
    assert wrong == 0
    assert moved >= 3, "frames must advance under constant load"
    assert counts["basic"][1] > 0, "the naive run was not put to the test"
