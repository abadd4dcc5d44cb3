"""Four writer processes at once: every position is a committed prefix, and stays readable as it was."""

from __future__ import annotations

import multiprocessing
import random
import sqlite3
from pathlib import Path

from sqlite_world import ME, bag, database

from stillframe.algebra.bag import Bag
from stillframe.sources import SqliteSource

WRITERS, TRANSACTIONS, SEED = 4, 60, 20240229


def write(path: str, seed: int) -> None:
    """Transactions that each keep the sum of n at zero; some roll back."""
    chance = random.Random(seed)
    con = sqlite3.connect(path, isolation_level=None, timeout=60)
    con.execute("PRAGMA synchronous=OFF")
    for _ in range(TRANSACTIONS):
        con.execute("BEGIN IMMEDIATE")
        n = chance.randrange(1, 100)
        for amount in (n, -n):
            con.execute("INSERT INTO t (who, n) VALUES (?, ?)", (seed, amount))
        if chance.random() < 0.3:
            con.execute("UPDATE t SET who = -who WHERE id % 5 = ?", (chance.randrange(5),))
        if chance.random() < 0.3:
            con.execute("DELETE FROM t WHERE abs(n) = ?", (n,))
        con.execute("ROLLBACK" if chance.random() < 0.2 else "COMMIT")
    con.close()


def test_positions_are_committed_prefixes_under_four_writers(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    database(path, "CREATE TABLE t (id INTEGER PRIMARY KEY, who INTEGER, n INTEGER)").close()
    source = SqliteSource("s", path)
    columns = ["id", "who", "n"]
    positions = [source.attach(ME, ["t"])]
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=write, args=(str(path), SEED + i)) for i in range(WRITERS)]
    for writer in writers:
        writer.start()
    states = [bag(source.state("t", columns, positions[0]))]
    while any(writer.is_alive() for writer in writers):
        position = source.position(ME, ["t"])
        if position != positions[-1]:
            positions.append(position)
            states.append(bag(source.state("t", columns, position)))
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    positions.append(source.position(ME, ["t"]))
    states.append(bag(source.state("t", columns, positions[-1])))
    assert len(positions) > 4, f"seed {SEED}"
    for (before, old), (after, new) in zip(
        zip(positions, states, strict=True), zip(positions[1:], states[1:], strict=True), strict=False
    ):
        assert new.is_state and sum(row[2] * count for row, count in new.items()) == 0, f"seed {SEED}"
        assert old + bag(source.changes("t", columns, before, after)) == new, f"seed {SEED}"
    for position, state in zip(positions, states, strict=True):
        assert bag(source.state("t", columns, position)) == state, f"seed {SEED}"
    with sqlite3.connect(path) as con:
        assert states[-1] == Bag.of(con.execute("SELECT id, who, n FROM t"))
