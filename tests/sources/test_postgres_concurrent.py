"""Writers at once: who commits late under a low number, who was there before capture, who waits for whom."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from postgres_world import ME, Database, World, bag, running, writer

import servers
from stillframe.algebra.bag import Bag
from stillframe.sources import Position
from stillframe.sources.postgres.seen import Snapshot


@pytest.fixture(scope="module")
def server() -> Iterator[servers.PostgresServer]:
    with running(max_prepared_transactions="10") as started:
        yield started


KEYED = "CREATE TABLE t (id int PRIMARY KEY, code text UNIQUE, n int)"
FILL = "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)"


def test_a_transaction_that_commits_late_is_taken_once(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    with writer(world) as early:
        early.execute("INSERT INTO t VALUES (4, 'early', 0)")
        for i in range(10, 13):
            world.run(f"INSERT INTO t VALUES ({i}, 'x{i}', 0)")
            assert world.follow() == Bag({(i, f"x{i}", 0): 1})
            world.s.acknowledge(ME, world.position)
        early.execute("UPDATE t SET n = 5 WHERE id = 4")
        early.execute("COMMIT")
    assert world.follow() == Bag({(4, "early", 5): 1})
    world.s.acknowledge(ME, world.position)
    assert world.follow() == Bag()


def test_a_prepared_transaction_is_one_that_commits_late(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    for name, end in (("gone", "ROLLBACK PREPARED"), ("kept", "COMMIT PREPARED")):
        world.run("BEGIN", f"INSERT INTO t VALUES (4, '{name}', 0)", f"PREPARE TRANSACTION '{name}'")
        world.run(f"UPDATE t SET code = '{name}' || code WHERE id = 1")
        assert len(world.follow()) == 2
        world.s.acknowledge(ME, world.position)
        world.run(f"{end} '{name}'")
        assert len(world.follow()) == (1 if name == "kept" else 0)


def test_a_writer_from_before_the_triggers_is_not_lost(server: servers.PostgresServer) -> None:
    """Attaching waits for it; what it wrote is in the state at the position that comes back."""
    database = Database(server, KEYED, FILL, "CREATE TABLE u (id int)")
    source = database.source()
    start: list[Position] = []
    with writer(database) as old, writer(database, "REPEATABLE READ") as older:
        older.execute("SELECT 1")
        old.execute("INSERT INTO t VALUES (4, 'old', 0)")
        older.execute("INSERT INTO u VALUES (1)")
        thread = threading.Thread(target=lambda: start.append(source.attach(ME, ["t", "u"])))
        thread.start()
        time.sleep(0.5)
        assert thread.is_alive()
        old.execute("INSERT INTO t VALUES (5, 'old too', 0)")
        old.execute("COMMIT")
        time.sleep(0.3)
        older.execute("INSERT INTO t VALUES (6, 'older', 0)")
        older.execute("COMMIT")
        thread.join(60)
    upto = source.position(ME, ["t", "u"])
    state = bag(source.state("t", ["id"], start[0]))
    assert state + bag(source.changes("t", ["id"], start[0], upto)) == Bag.of((i,) for i in range(1, 7))
    assert bag(source.state("t", ["id"], upto)) == Bag.of((i,) for i in range(1, 7))
    assert bag(source.state("u", ["id"], upto)) == Bag({(1,): 1})


def test_no_writer_is_ended_for_an_attach(server: servers.PostgresServer) -> None:
    """Writers who lock the tables in the order opposite to ours."""
    database = Database(server, "CREATE TABLE a (n int)", "CREATE TABLE b (n int)", "CREATE TABLE c (n int)")
    source, done, failures = database.source(), threading.Event(), []

    def write() -> None:
        con = database.connect()
        try:
            while not done.is_set():
                con.execute("BEGIN")
                for table in "cba":
                    con.execute(f"INSERT INTO {table} VALUES (1)".encode())
                    time.sleep(0.02)
                con.execute("COMMIT")
        except psycopg.Error as error:
            failures.append(error)

    threads = [threading.Thread(target=write) for _ in range(3)]
    for thread in threads:
        thread.start()
    for _ in range(2):
        source.attach(ME, ["a", "b", "c"])
        source.detach(ME)
    done.set()
    for thread in threads:
        thread.join()
    assert not failures


def test_order_and_groups_of_transactions(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL, "CREATE TABLE u (id int)")
    start = world.s.attach(ME, ["t", "u"])
    with writer(world) as first, writer(world) as second, writer(world) as third:
        numbers = {
            name: con.execute("SELECT pg_current_xact_id()::text::bigint").fetchone()[0]  # type: ignore[index]
            for name, con in (("third", third), ("second", second), ("first", first))
        }
        third.execute("INSERT INTO u VALUES (0)")
        first.execute("INSERT INTO _stillframe.global (id, parts) VALUES ('transfer 1', 2), ('again', 9)")
        first.execute("UPDATE t SET n = 1 WHERE id = 1")
        first.execute("SAVEPOINT s")
        first.execute("INSERT INTO u VALUES (1), (2)")
        first.execute("COMMIT")
        second.execute("UPDATE t SET n = 2 WHERE id = 1")
        second.execute("COMMIT")
        third.execute("UPDATE t SET n = 3 WHERE id = 1")
        third.execute("COMMIT")
    world.run("BEGIN", "INSERT INTO _stillframe.global (id, parts) VALUES ('elsewhere', 3)", "COMMIT")
    world.run("CREATE TABLE nobody (id int)")
    upto = world.s.position(ME, ["t", "u"])
    told = world.s.transactions(["t", "u"], start, upto)
    assert [t.number for t in told[:3]] == [numbers["first"], numbers["second"], numbers["third"]]
    assert [(dict(t.rows), t.group, t.parts) for t in told] == [
        ({"t": 2, "u": 2}, "transfer 1", 2),
        ({"t": 2}, "", 0),
        ({"t": 2, "u": 1}, "", 0),
        ({}, "elsewhere", 3),
    ]
    only = world.s.transactions(["u"], start, upto)
    assert [dict(t.rows) for t in only] == [{"u": 2}, {"u": 1}, {}]
    (batch,) = world.s.changes("t", ["n"], start, upto, tagged=True)
    tagged = list(zip(*(c.to_pylist() for c in batch.columns), strict=True))
    assert (1, 1, numbers["first"]) in tagged and (3, 1, numbers["third"]) in tagged
    for mark in ("('', 2)", "('x', 0)", "(NULL, 2)"):
        with pytest.raises(psycopg.errors.IntegrityError):
            world.run(f"INSERT INTO _stillframe.global (id, parts) VALUES {mark}")


def test_states_that_lack_some(server: servers.PostgresServer) -> None:
    """A later position takes what an earlier one left out, also after that one was acknowledged."""
    world = World(server, "t", KEYED)
    start = world.position
    for i in range(1, 7):
        world.run(f"INSERT INTO t VALUES ({i}, 'x', {i})".replace("'x'", "NULL"))
    upto = world.s.position(ME, ["t"])
    numbers = [t.number for t in world.s.transactions(["t"], start, upto)]
    cut = world.s.without(start, upto, [numbers[1], numbers[4]])
    assert world.state(cut) == Bag.of((i, None, i) for i in (1, 3, 4, 6))
    assert world.change(start, cut) == world.state(cut)
    assert start.sequence < cut.sequence < upto.sequence
    assert [t.number for t in world.s.transactions(["t"], cut, upto)] == [numbers[1], numbers[4]]
    assert world.s.behind(["t"], cut) == 2
    world.s.acknowledge(ME, cut)
    world.run("DELETE FROM t WHERE id = 2")
    last = world.s.position(ME, ["t"])
    assert world.change(cut, last) == Bag({(5, None, 5): 1})
    again = world.s.without(cut, last, [numbers[4]])
    assert world.state(again) == Bag.of((i, None, i) for i in (1, 3, 4, 6))
    world.s.acknowledge(ME, again)
    assert world.change(again, last) == Bag({(5, None, 5): 1})
    world.s.acknowledge(ME, last)
    assert world.s.log_status().rows == 1
    assert world.s.without(last, last, []) == last


def test_waiting_since_and_behind(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    assert world.s.behind(["t"], world.position) == 0
    assert world.s.waiting_since(["t"], world.position) is None
    (low,) = world.con.execute("SELECT date_trunc('second', clock_timestamp())").fetchone() or (None,)
    world.run("UPDATE t SET n = 0 WHERE id < 3")
    (high,) = world.con.execute("SELECT clock_timestamp()").fetchone() or (None,)
    assert world.s.behind(["t"], world.position) == 4
    since = world.s.waiting_since(["t"], world.position)
    assert since is not None and low <= since <= high and since.microsecond == 0


numbers_near = st.frozensets(st.integers(1, 12), max_size=6)
snapshots = st.builds(
    lambda xmax, out: Snapshot(xmax, frozenset(x for x in out if x < xmax)), st.integers(1, 14), numbers_near
)


def members(snapshot: Snapshot) -> set[int]:
    return {x for x in range(0, 20) if snapshot.has(x)}


@given(snapshots, snapshots, numbers_near)
def test_snapshots_are_sets(a: Snapshot, b: Snapshot, out: frozenset[int]) -> None:
    assert members(a & b) == members(a) & members(b)
    assert members(a | b) == members(a) | members(b)
    assert (a <= b) == (members(a) <= members(b))
    assert members(a.without(out)) == members(a) - out
    assert a.size == len(members(a)) and Snapshot.parse(str(a)) == a


def test_snapshots_mean_what_the_server_means(server: servers.PostgresServer) -> None:
    chance = random.Random(seed := int.from_bytes(os.urandom(4), "big"))
    print(f"seed {seed}")
    with server.connect() as con:
        for _ in range(200):
            xmax = chance.randrange(1, 30)
            out = frozenset(chance.sample(range(1, 30), chance.randrange(0, 6)))
            snapshot = Snapshot(xmax, frozenset(x for x in out if x < xmax))
            wrong = con.execute(
                f"SELECT x FROM generate_series(1, 40) AS x WHERE {snapshot.condition('x')} <>"
                " pg_visible_in_snapshot(x::text::xid8, %s::pg_snapshot)"
                f" OR {snapshot.condition('x')} = {snapshot.beyond('x')}".encode(),
                (str(snapshot),),
            ).fetchall()
            assert not wrong, snapshot


SCRIPT = st.lists(
    st.tuples(
        st.integers(0, 2),
        st.sampled_from(
            [
                "INSERT INTO t VALUES ({}, NULL, 1) ON CONFLICT DO NOTHING",
                "INSERT INTO t VALUES ({}, NULL, 1) ON CONFLICT (id) DO UPDATE SET n = t.n + 1",
                "UPDATE t SET n = n + 1 WHERE id = {}",
                "UPDATE t SET id = id + 10 WHERE id = {}",
                "DELETE FROM t WHERE id = {}",
                "UPDATE t SET n = -n",
                "TRUNCATE t; COMMIT",
                "SAVEPOINT s",
                "ROLLBACK TO s",
                "COMMIT",
                "COMMIT",
                "ROLLBACK",
                "look",
                "look",
                "acknowledge",
                "cut",
            ]
        ),
        st.integers(1, 4),
    ),
    min_size=5,
    max_size=25,
)


@pytest.fixture(scope="module")
def ground(server: servers.PostgresServer) -> World:
    return World(server, "t", KEYED)


@settings(
    max_examples=20,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(script=SCRIPT)
def test_any_interleaving(ground: World, script: list[tuple[int, str, int]]) -> None:
    play(ground, script)


@pytest.mark.long
@settings(max_examples=1500, deadline=None, print_blob=True, suppress_health_check=list(HealthCheck))
@given(script=SCRIPT)
def test_any_interleaving_long(ground: World, script: list[tuple[int, str, int]]) -> None:
    play(ground, script)


def play(world: World, script: list[tuple[int, str, int]]) -> None:
    """Three sessions; a statement that would wait is given up, and none holds a table that others read. At
    every look the log leads from the last state to this one, and any cut is the state without the
    transactions it leaves out."""
    note("\n".join(f"{session}: {sql.format(n)}" for session, sql, n in script))
    world.run("TRUNCATE t")
    world.position, world.rows = world.s.position(ME, ["t"]), Bag()
    sessions = [world.server.connect(world.name) for _ in range(3)]
    try:
        for session in sessions:
            session.execute("SET lock_timeout = 30")
        for number, sql, key in script:
            session = sessions[number]
            if sql == "look":
                world.follow()
            elif sql == "acknowledge":
                world.s.acknowledge(ME, world.position)
            elif sql == "cut":
                _cut(world, key)
            else:
                if session.info.transaction_status is psycopg.pq.TransactionStatus.IDLE:
                    session.execute("BEGIN")
                try:
                    session.execute(sql.format(key).encode())
                except psycopg.Error:
                    session.execute("ROLLBACK")
        for session in sessions:
            session.execute("COMMIT")
    finally:
        for session in sessions:
            session.close()
    world.follow()
    _cut(world, 1)


def _cut(world: World, seed: int) -> None:
    upto = world.s.position(ME, ["t"])
    chance = random.Random(seed)
    made: dict[int, Bag] = {}
    for batch in world.s.changes("t", world.columns, world.position, upto, tagged=True):
        *columns, counts, tags = (c.to_pylist() for c in batch.columns)
        for row, count, tag in zip(zip(*columns, strict=True), counts, tags, strict=True):
            made[tag] = made.get(tag, Bag()) + Bag({row: count})
    told = [t.number for t in world.transactions(upto)]
    assert set(made) == set(told)
    out = [number for number in told if chance.random() < 0.5]
    cut = world.s.without(world.position, upto, out)
    expected = world.present() - sum((made[number] for number in out), Bag())
    assert world.state(cut) == expected
    assert world.change(cut, upto) == sum((made[number] for number in out), Bag())
