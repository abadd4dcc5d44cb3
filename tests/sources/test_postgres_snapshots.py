"""Snapshots of a PostgreSQL database: with read rights only, and of a replica."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from postgres_world import ME, Database, bag, close_all, running, standby_of, writer

import servers
from stillframe.algebra.bag import Bag
from stillframe.sources.postgres.snapshot_reader import PostgresSnapshotReader
from stillframe.sources.snapshots.source import SnapshotSource


@pytest.fixture(scope="module")
def server() -> Iterator[servers.PostgresServer]:
    with running() as started:
        yield started


def rows(reader: PostgresSnapshotReader, **relations: list[str]) -> dict[str, Bag]:
    found = {name: Bag() for name in relations}
    for name, batch in reader.read(relations):
        found[name] += bag([batch])
    return found


def test_an_account_that_only_reads(server: servers.PostgresServer, tmp_path: Path) -> None:
    database = Database(
        server,
        "CREATE UNLOGGED TABLE t (id int PRIMARY KEY, n int)",
        "CREATE TABLE parent (id int)",
        "CREATE TABLE heir () INHERITS (parent)",
        "INSERT INTO t VALUES (1, 1), (2, 2)",
    )
    with contextlib.suppress(psycopg.errors.DuplicateObject):
        database.run("CREATE ROLE reader LOGIN")
    database.run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
    reader = PostgresSnapshotReader("s", database.url("reader"))
    assert not reader.describe()["t"].refused
    source = SnapshotSource(reader, tmp_path / "kept")
    before = database.dump()
    start = source.attach(ME, ["t"])
    database.run("UPDATE t SET n = 5 WHERE id = 2", "DELETE FROM t WHERE id = 1")
    upto = source.position(ME, ["t"])
    assert bag(source.changes("t", ["id", "n"], start, upto)) == Bag({(1, 1): -1, (2, 2): -1, (2, 5): 1})
    assert bag(source.state("t", ["id"], start)) == Bag({(1,): 1, (2,): 1})
    assert database.dump() == before


def test_all_relations_are_of_one_moment(server: servers.PostgresServer) -> None:
    database = Database(
        server, "CREATE TABLE a (n int)", "CREATE TABLE b (n int)", "INSERT INTO a VALUES (1)"
    )
    reader = PostgresSnapshotReader("s", database.url())
    read = reader.read({"a": ["n"], "b": ["n"]})
    assert next(read)[0] == "a"
    database.run("BEGIN; DELETE FROM a; INSERT INTO b VALUES (1); COMMIT")
    assert list(read) == []
    assert rows(reader, a=["n"], b=["n"]) == {"a": Bag(), "b": Bag({(1,): 1})}


def test_the_sign_moves_with_every_commit_and_with_nothing_else(server: servers.PostgresServer) -> None:
    database = Database(server, "CREATE TABLE t (n int)")
    reader = PostgresSnapshotReader("s", database.url())
    with writer(database) as early, writer(database) as earlier:
        earlier.execute("INSERT INTO t VALUES (0)")
        early.execute("INSERT INTO t VALUES (1)")
        database.run("INSERT INTO t VALUES (2)")
        sign = reader.fingerprint(["t"])
        database.con.execute("SELECT count(*) FROM t")
        list(reader.read({"t": ["n"]}))
        assert reader.fingerprint(["t"]) == sign
        early.execute("COMMIT")
        assert (then := reader.fingerprint(["t"])) != sign
        earlier.execute("COMMIT")
        assert reader.fingerprint(["t"]) not in (sign, then)


def test_a_server_put_back_has_another_sign() -> None:
    """Also when it counts the very same numbers again."""
    with running() as server:
        database = Database(server, "CREATE TABLE t (n int)")
        reader = PostgresSnapshotReader("s", database.url())
        close_all()
        server.stop()
        subprocess.run(["cp", "-a", server.folder / "data", server.folder / "copy"], check=True)
        signs = []
        for n in (1, 2):
            server.start()
            with server.connect(database.name) as con:
                con.execute(f"INSERT INTO t VALUES ({n})".encode())
            assert rows(reader, t=["n"]) == {"t": Bag({(n,): 1})}
            signs.append(reader.fingerprint(["t"]))
            server.stop()
            shutil.rmtree(server.folder / "data")
            subprocess.run(["cp", "-a", server.folder / "copy", server.folder / "data"], check=True)
        server.start()
        assert signs[0] != signs[1]


def test_a_replica(server: servers.PostgresServer) -> None:
    """Its snapshots do not list the transactions that run; those that commit late are seen all the same."""
    database = Database(server, "CREATE TABLE t (n int)", "INSERT INTO t VALUES (1)")
    with standby_of(server) as standby:
        reader = PostgresSnapshotReader("s", standby.url(database.name))

        def settled(count: int) -> str | None:
            for _ in range(200):
                if len(rows(reader, t=["n"])["t"]) == count:
                    return reader.fingerprint(["t"])
                time.sleep(0.05)
            raise AssertionError(f"the replica never had {count} rows")

        with writer(database) as first, writer(database) as second:
            first.execute("INSERT INTO t VALUES (2)")
            second.execute("INSERT INTO t VALUES (3)")
            database.run("INSERT INTO t VALUES (4)")
            signs = [settled(2)]
            second.execute("COMMIT")
            signs.append(settled(3))
            first.execute("COMMIT")
            signs.append(settled(4))
        assert len(set(signs)) == 3
        close_all()
