"""Transfers between accounts in two databases, each one global transaction: the two commits name the same id,
and say that it has two parts.

Run as a process: python bank_writers.py POSTGRES_URL MARIADB_URL WRITER TRANSFERS SEED PAUSE
"""

from __future__ import annotations

import sys
import time
from random import Random

from history_writers import RETRIED, Database

ACCOUNTS = 40
START = 1000
MARKS = {
    "postgres": "INSERT INTO _stillframe.global (id, parts) VALUES (?, 2)",
    "mariadb": "INSERT INTO _stillframe_global (id, parts) VALUES (?, 2)",
}


def part(database: Database, name: str, account: int, amount: int, entry: int) -> None:
    table = "debits" if database.kind == "postgres" else "credits"
    while True:
        try:
            with database.transaction():
                database.run(MARKS[database.kind], name)
                database.run("UPDATE accounts SET balance = balance + ? WHERE id = ?", amount, account)
                database.run(f"INSERT INTO {table} (id, amount) VALUES (?, ?)", entry, amount)
            return
        except RETRIED:
            time.sleep(0.005)


def main() -> None:
    postgres, mariadb, writer, transfers, seed, pause = sys.argv[1:]
    random = Random(int(seed))
    from_here, to_there = Database("postgres", postgres), Database("mariadb", mariadb)
    for n in range(int(transfers)):
        name, amount, entry = f"{writer}-{n}", random.randrange(1, 50), int(writer) * 1_000_000 + n
        parts = [(from_here, -amount), (to_there, amount)]
        if random.random() < 0.5:
            parts.reverse()
        for database, change in parts:
            part(database, name, random.randrange(ACCOUNTS), change, entry)
            time.sleep(float(pause) * random.random())


if __name__ == "__main__":
    main()
