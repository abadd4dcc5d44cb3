"""Writer processes at once, some slow to commit: every position is an exact set of whole transactions, and
stays readable as it was."""

from __future__ import annotations

import json
import multiprocessing
from concurrent.futures import ThreadPoolExecutor

from mariadb_world import ME, account, bag, rows, run
from mariadb_writer import write

import servers
from stillframe.algebra.bag import Bag
from stillframe.sources.mariadb.triggers import MariadbSource

WRITERS, TRANSACTIONS, SEED = 5, 150, 20240229


def test_positions_are_sets_of_transactions_under_writers(mariadb_server: servers.MariadbServer) -> None:
    server = mariadb_server
    server.database("c")
    con = server.connect("c")
    for table in "ab":
        run(con, f"CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY, who INT, n INT, KEY (n))")
    run(con, "CREATE TABLE journal (who INT, i INT)")
    source = MariadbSource("s", account(server, "c"))
    tables = {"a": ["id", "who", "n"], "b": ["id", "who", "n"], "journal": ["who", "i"]}
    positions = [source.attach(ME, list(tables))]
    spawn = multiprocessing.get_context("spawn")
    writers = [
        spawn.Process(target=write, args=(server.port, SEED + i, TRANSACTIONS)) for i in range(WRITERS)
    ]
    for writer in writers:
        writer.start()
    seen = [{table: bag(source.state(table, columns, positions[0])) for table, columns in tables.items()}]
    while any(writer.is_alive() for writer in writers):
        position = source.position(ME, list(tables))
        if position != positions[-1]:
            positions.append(position)
            seen.append({t: bag(source.state(t, columns, position)) for t, columns in tables.items()})
    for writer in writers:
        writer.join()
        assert writer.exitcode == 0
    positions.append(source.position(ME, list(tables)))
    seen.append(
        {table: bag(source.state(table, columns, positions[-1])) for table, columns in tables.items()}
    )
    assert len(positions) > 4, f"seed {SEED}"
    late = sum(bool(json.loads(position.mark)[2]) for position in positions)
    print(f"seed {SEED}: {len(positions)} positions, {late} with transactions in flight")
    assert late, "no position had a transaction in flight: nothing was tested"
    told = []
    for (before, old), (after, new) in zip(
        zip(positions, seen, strict=True), zip(positions[1:], seen[1:], strict=True), strict=False
    ):
        total = sum(row[2] * count for t in "ab" for row, count in new[t].items())
        assert total == 0 and all(state.is_state for state in new.values()), f"seed {SEED}"
        committed = source.transactions(list(tables), before, after)
        told += committed
        for table, columns in tables.items():
            change = bag(source.changes(table, columns, before, after))
            assert old[table] + change == new[table], f"seed {SEED}"
        # One journal row a transaction: as many transactions as journal rows, each with its own.
        lines = bag(source.changes("journal", ["who", "i"], before, after))
        assert all(count == 1 for _, count in lines.items())
        assert len(committed) == len(dict(lines.items()))
        assert all(transaction.rows["journal"] == 1 for transaction in committed)
    assert len({t.number for t in told}) == len(told), f"seed {SEED}"
    for position, state in zip(positions, seen, strict=True):
        assert {t: bag(source.state(t, c, position)) for t, c in tables.items()} == state, f"seed {SEED}"
    for table, columns in tables.items():
        assert seen[-1][table] == Bag.of(rows(con, f"SELECT {', '.join(columns)} FROM {table}"))
    assert sum(t.rows["journal"] for t in told) == len(rows(con, "SELECT * FROM journal"))


def test_those_who_fix_positions_at_once_take_nobody_elses_witnesses(
    mariadb_server: servers.MariadbServer,
) -> None:
    """A table whose rows all leave is short of witnesses: everyone who comes by copies new ones."""
    server = mariadb_server
    server.database("w")
    con = server.connect("w")
    run(con, "CREATE TABLE t (id INT PRIMARY KEY, n INT)", "CREATE TABLE u (id INT PRIMARY KEY, n INT)")
    source = MariadbSource("s", account(server, "w"))
    consumers = [f"consumer {i}" for i in range(4)]
    begun = {consumer: source.attach(consumer, ["t", "u"]) for consumer in consumers}
    with ThreadPoolExecutor(len(consumers)) as pool:
        for i in range(12):
            run(con, "DELETE FROM t", "DELETE FROM u")
            run(con, f"INSERT INTO t VALUES ({i}, 1)", f"INSERT INTO u VALUES ({i}, 1)")
            found = list(pool.map(lambda consumer: source.position(consumer, ["t", "u"]), consumers))
    for consumer, position in zip(consumers, found, strict=True):
        change = bag(source.changes("t", ["id", "n"], begun[consumer], position))
        assert change == Bag.of(rows(con, "SELECT * FROM t"))
