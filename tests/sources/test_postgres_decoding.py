"""Capture from PostgreSQL's own log: what logical decoding tells, and every way it can stop telling."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pyarrow as pa
import pytest
from postgres_world import ME, Database, LogWorld, World, bag, close_all, running, writer
from test_postgres_types import DDL, READ

import servers
from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap, SourceError
from stillframe.sources import Capture, Keys, Range
from stillframe.sources.postgres import publish as postgres_publish
from stillframe.sources.postgres.decoded import Begin
from stillframe.sources.postgres.logical import PostgresLogSource


@pytest.fixture(scope="module")
def server() -> Iterator[servers.PostgresServer]:
    with running(max_replication_slots="100", max_prepared_transactions="5") as started:
        yield started


KEYED = "CREATE TABLE t (id int PRIMARY KEY, code text UNIQUE, n int)"
FILL = "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)"


def test_what_it_says_of_itself(server: servers.PostgresServer) -> None:
    source = LogWorld(server, "t", KEYED).s
    assert (source.capture, source.transactional, source.commit_order) == (Capture.LOG, True, True)


def test_every_type(server: servers.PostgresServer) -> None:
    columns = ", ".join(f"c{i} {declared}" for i, (declared, _, _) in enumerate(READ))
    world = LogWorld(server, "t", *DDL, f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    number = 0
    for i, (_, _, values) in enumerate(READ):
        for text, _ in values:
            number += 1
            world.run(f"INSERT INTO t (id, c{i}) VALUES ({number}, {text})")
    upto = world.s.position(ME, ["t"])
    told = bag(world.s.changes("t", world.columns, world.position, upto))
    assert told == bag(world.s.state("t", world.columns, upto)) and len(told) == number
    world.run("DELETE FROM t")
    last = world.s.position(ME, ["t"])
    assert told + bag(world.s.changes("t", world.columns, upto, last)) == Bag()
    assert bag(world.s.state("t", world.columns, upto)) == told
    for i, (_, _, values) in enumerate(READ):
        read = bag(world.s.changes("t", [f"c{i}"], world.position, upto))
        assert all((value,) in read for _, value in values)


def test_large_values_that_did_not_change(server: servers.PostgresServer) -> None:
    world = LogWorld(server, "t", "CREATE TABLE t (id int PRIMARY KEY, big text, other text, n int)")
    world.run(
        "ALTER TABLE t ALTER big SET STORAGE EXTERNAL", "ALTER TABLE t ALTER other SET STORAGE EXTERNAL"
    )
    world.run("INSERT INTO t VALUES (1, repeat('x', 100000), repeat('y', 50000), 1), (2, NULL, '', 1)")
    world.follow()
    world.run("UPDATE t SET n = 2")
    change = world.follow()
    assert change[(1, "x" * 100000, "y" * 50000, 1)] == -1 and change[(1, "x" * 100000, "y" * 50000, 2)] == 1
    world.run(
        "UPDATE t SET other = 'short' WHERE id = 1", "UPDATE t SET big = repeat('z', 99999) WHERE id = 1"
    )
    world.follow()
    world.run("DELETE FROM t")
    world.follow()


def test_commit_order_and_what_does_not_count(server: servers.PostgresServer) -> None:
    world = LogWorld(server, "t", KEYED, FILL, "CREATE TABLE other (id int)")
    start = world.position
    with writer(world) as first, writer(world) as second:
        first.execute("INSERT INTO t VALUES (10, 'first', 0)")
        first.execute("INSERT INTO _stillframe.global (id, parts) VALUES ('g', 3)")
        second.execute("INSERT INTO t VALUES (11, 'second', 0)")
        second.execute("SAVEPOINT s")
        second.execute("INSERT INTO t VALUES (12, 'gone', 0)")
        second.execute("ROLLBACK TO s")
        world.run("INSERT INTO other VALUES (1)", "CREATE TABLE another (id int)")
        second.execute("COMMIT")
        first.execute("COMMIT")
    world.run("INSERT INTO _stillframe.global (id, parts) VALUES ('elsewhere', 2)")
    upto = world.s.position(ME, ["t"])
    told = world.s.transactions(["t"], start, upto)
    assert [(dict(t.rows), t.group, t.parts) for t in told] == [
        ({"t": 1}, "", 0),
        ({"t": 1}, "g", 3),
        ({}, "elsewhere", 2),
    ]
    assert told[0].number < told[1].number < told[2].number
    (batch,) = world.s.changes("t", ["code"], start, upto, tagged=True)
    assert batch.column(2).to_pylist() == [t.number for t in told[:2]]
    assert batch.column(0).to_pylist() == ["second", "first"]
    world.follow()


def test_prepared_transactions_count_when_they_are_committed(server: servers.PostgresServer) -> None:
    world = LogWorld(server, "t", KEYED, FILL)
    world.run("BEGIN", "INSERT INTO t VALUES (4, 'two-phase', 0)", "PREPARE TRANSACTION 'p'")
    world.run("DELETE FROM t WHERE id = 1")
    assert world.follow() == Bag({(1, "a", 10): -1})
    world.s.acknowledge(ME, world.position)
    world.run("COMMIT PREPARED 'p'")
    assert world.follow() == Bag({(4, "two-phase", 0): 1})


def test_a_commit_that_stands_in_the_log_and_is_not_seen_yet() -> None:
    """A commit that waits for a standby is such a one, for as long as one likes. It belongs to the position;
    what others see is brought up to it; and acknowledging does not make the slot forget it."""
    with running() as server:
        world = LogWorld(server, "t", KEYED, FILL)
        with server.connect() as con:
            con.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
            con.execute("SELECT pg_reload_conf()")
        waiting = world.connect()
        world.run("SET synchronous_commit = local")
        time.sleep(0.5)

        def commit() -> None:
            with contextlib.suppress(psycopg.Error):
                waiting.execute("INSERT INTO t VALUES (4, 'waits', 0)")

        thread = threading.Thread(target=commit)
        thread.start()
        while (
            world.con.execute("SELECT 1 FROM pg_stat_activity WHERE wait_event = 'SyncRep'").fetchone()
            is None
        ):
            time.sleep(0.02)
        upto = world.s.position(ME, ["t"])
        assert world.present() == world.rows
        row = Bag({(4, "waits", 0): 1})
        assert world.change(world.position, upto) == row
        for _ in range(2):
            assert world.state(upto) == world.rows + row
            world.s.acknowledge(ME, upto)
        upto_again = world.s.position(ME, ["t"])
        assert world.state(upto_again) == world.rows + row and world.change(upto, upto_again) == Bag()
        with server.connect() as con:
            con.execute("ALTER SYSTEM RESET synchronous_standby_names")
            con.execute("SELECT pg_reload_conf()")
        thread.join(30)
        world.position, world.rows = upto, world.rows + row
        world.run("DELETE FROM t WHERE id = 4")
        assert world.follow() == Bag({(4, "waits", 0): -1})


def test_commits_that_nobody_waited_for_are_told() -> None:
    with running(fsync="on", synchronous_commit="off", wal_writer_delay="10s") as server:
        world = LogWorld(server, "t", KEYED)
        for i in range(5):
            world.run(f"INSERT INTO t VALUES ({i}, 'x{i}', 0)")
            assert world.follow() == Bag({(i, f"x{i}", 0): 1})


def test_truncate_is_named(server: servers.PostgresServer) -> None:
    world = LogWorld(server, "t", KEYED, FILL, "CREATE TABLE u (id int)")
    start = world.s.attach(ME, ["t", "u"])
    world.run("INSERT INTO u VALUES (1)", "BEGIN; TRUNCATE t; ROLLBACK")
    world.s.check(start, ["t"])
    world.run("TRUNCATE t", "INSERT INTO t VALUES (9, 'after', 9)")
    upto = world.s.position(ME, ["t", "u"])
    for act in (
        lambda: world.s.check(start, ["t"]),
        lambda: world.change(start, upto),
        lambda: world.state(start),
        lambda: world.s.transactions(["t"], start, upto),
    ):
        with pytest.raises(CaptureGap, match="'t' was emptied by TRUNCATE") as gap:
            act()
        assert gap.value.code == "TRUNCATED"
    assert bag(world.s.changes("u", ["id"], start, upto)) == Bag({(1,): 1})
    world.start()
    assert world.state(world.position) == Bag({(9, "after", 9): 1})
    world.run("DELETE FROM t")
    assert world.follow() == Bag({(9, "after", 9): -1})


PARTED = (
    "CREATE TABLE t (id int, at int, n int, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
    "CREATE TABLE t_1 (n int, gone int, at int NOT NULL, id int NOT NULL)",
    "ALTER TABLE t_1 DROP COLUMN gone",
    "ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES FROM (0) TO (10)",
    "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM (10) TO (20)",
    "INSERT INTO t SELECT i, i, i FROM generate_series(0, 19) AS i",
)


def test_partitions(server: servers.PostgresServer) -> None:
    world = LogWorld(server, "t", *PARTED)
    world.run(
        "UPDATE t SET at = at + 10 WHERE id < 3", "DELETE FROM t_2 WHERE id = 15", "UPDATE t_1 SET n = -n"
    )
    world.follow()
    start = world.position
    world.run("TRUNCATE t_1")
    with pytest.raises(CaptureGap) as gap:
        world.s.check(start, ["t"])
    assert gap.value.code == "TRUNCATED"
    world.start()
    world.run(
        "CREATE TABLE t_3 PARTITION OF t FOR VALUES FROM (20) TO (30)",
        "INSERT INTO t VALUES (25, 25, 25)",
        "UPDATE t SET n = 26 WHERE id = 25",
        "DELETE FROM t_3",
    )
    with pytest.raises(CaptureGap, match="made up otherwise") as gap:
        world.s.check(world.position, ["t"])
    assert gap.value.code == "TABLE_CHANGED"
    world.start()
    world.run("INSERT INTO t VALUES (25, 25, 25)", "UPDATE t SET n = 1")
    world.follow()
    world.s.detach(ME)
    with pytest.raises(SourceError, match="no primary key") as refused:
        world.run("CREATE TABLE p (id int) PARTITION BY LIST (id)")
        world.s.attach(ME, ["p"])
    assert refused.value.code == "UNCAPTURABLE_TABLE"


def test_last_detach_leaves_no_trace(server: servers.PostgresServer) -> None:
    database = Database(
        server,
        "CREATE TABLE a (id int PRIMARY KEY)",
        "CREATE TABLE b (id int)",
        "ALTER TABLE b REPLICA IDENTITY NOTHING",
        'CREATE TABLE c (id int NOT NULL); CREATE UNIQUE INDEX "odd.""name" ON c (id)',
        'ALTER TABLE c REPLICA IDENTITY USING INDEX "odd.""name"',
        "CREATE TABLE d (id int); ALTER TABLE d REPLICA IDENTITY FULL",
        *PARTED[:5],
    )
    before = database.dump()
    source = PostgresLogSource("s", database.url())
    names = ["a", "b", "c", "d", "t"]
    source.attach("one", names)
    source.attach("two", names[:2])
    database.run("INSERT INTO b VALUES (1)", "UPDATE b SET id = 2", "DELETE FROM c")
    source.release("one", ["a"])
    assert "USING INDEX" in database.dump() and "ONLY public.b REPLICA IDENTITY FULL" in database.dump()
    source.detach("one")
    source.detach("two")
    assert database.dump() == before
    slots = database.con.execute(
        "SELECT count(*) FROM pg_replication_slots WHERE database = current_database()"
    )
    assert slots.fetchone() == (0,)
    source.detach("two")
    assert source.log_status().rows == 0


def test_both_ways_at_once(server: servers.PostgresServer) -> None:
    """One warehouse by triggers and another from the log share the marks and nothing else."""
    world = World(server, "t", KEYED, FILL)
    before = world.position
    other = PostgresLogSource("s", world.url())
    start = other.attach("other", ["t"])
    world.run(
        "BEGIN", "INSERT INTO _stillframe.global (id, parts) VALUES ('g', 2)", "DELETE FROM t", "COMMIT"
    )
    upto = other.position("other", ["t"])
    assert [t.group for t in other.transactions(["t"], start, upto)] == ["g"]
    other.acknowledge("other", upto)
    newest = world.s.position(ME, ["t"])
    assert [t.group for t in world.s.transactions(["t"], before, newest)] == ["g"]
    world.follow()
    world.s.detach(ME)
    assert other.transactions(["t"], upto, other.position("other", ["t"])) == ()
    world.start()
    other.detach("other")
    world.run("INSERT INTO t VALUES (7, 'x', 7)")
    world.follow()
    world.s.detach(ME)
    assert "_stillframe" not in world.dump() and "PUBLICATION" not in world.dump()


def test_two_consumers_and_the_limit(server: servers.PostgresServer) -> None:
    world = LogWorld(server, "t", KEYED, FILL)
    source = world.source(4)
    dead = source.attach("dead", ["t"])
    for i in range(10, 14):
        world.run(f"INSERT INTO t VALUES ({i}, 'x{i}', 0)")
    world.follow()
    source.acknowledge(ME, world.position)
    assert bag(source.changes("t", ["id"], dead, source.position("dead", ["t"]))) == Bag.of(
        (i,) for i in range(10, 14)
    )
    status = source.log_status()
    assert status.bytes > 0 and {c.name: c.behind for c in status.consumers} == {ME: 0, "dead": 4}
    world.run("DELETE FROM t WHERE id = 1")
    world.follow()
    source.acknowledge(ME, world.position)
    with pytest.raises(CaptureGap, match=r"'dead' was dropped.*capture limit"):
        source.position("dead", ["t"])
    with pytest.raises(CaptureGap):
        source.check(dead, ["t"])
    back = source.attach("dead", ["t"])
    source.check(back, ["t"])
    with pytest.raises(CaptureGap, match="trimmed too far"):
        source.check(dead, ["t"])


def drop_slots(world: World) -> None:
    world.run(
        "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
        " WHERE database = current_database()"
    )


def make_slot_again(world: World) -> None:
    (name,) = world.con.execute(
        "SELECT slot_name FROM pg_replication_slots WHERE database = current_database()"
    ).fetchone() or ("",)
    world.run("DELETE FROM t WHERE id = 2")
    drop_slots(world)
    world.run(f"SELECT pg_create_logical_replication_slot('{name}', 'pgoutput')")


def publication(statement: str) -> Callable[[World], None]:
    def happens(world: World) -> None:
        (name,) = world.con.execute(
            "SELECT pubname FROM pg_publication WHERE pubname <> 'stillframe_global'"
        ).fetchone() or ("",)
        world.run(*(part.format(name) for part in statement.split(";")))

    return happens


def run_now(*statements: str) -> Callable[[World], None]:
    return lambda world: world.run(*statements)


GAPS: list[tuple[str, str, Callable[[World], None]]] = [
    ("CAPTURE_GAP", "slot of consumer 'warehouse' is gone", drop_slots),
    ("CAPTURE_GAP", "trimmed too far", make_slot_again),
    ("CAPTURE_GAP", "publication of table 't' is not as", publication("ALTER PUBLICATION {} DROP TABLE t")),
    ("CAPTURE_GAP", "publication of table 't' is not as",
     publication("ALTER PUBLICATION {0} DROP TABLE t;DELETE FROM t;ALTER PUBLICATION {0} ADD TABLE t")),
    ("CAPTURE_GAP", "publication of table 't' is not as", publication("DROP PUBLICATION {}")),
    ("CAPTURE_GAP", "publication of table 't' is not as",
     publication("ALTER PUBLICATION {} SET (publish = 'insert')")),
    ("CAPTURE_GAP", "replica identity of table 't' is not FULL any more",
     run_now("ALTER TABLE t REPLICA IDENTITY DEFAULT")),
    ("CAPTURE_GAP", "was not FULL for a while",
     run_now("ALTER TABLE t REPLICA IDENTITY DEFAULT", "UPDATE t SET n = 5",
             "ALTER TABLE t REPLICA IDENTITY FULL")),
    ("CAPTURE_GAP", "publication of table 't' is not as", run_now("DROP TABLE t", KEYED)),
    ("CAPTURE_GAP", "'t' is gone", run_now("DROP TABLE t")),
    ("CAPTURE_GAP", "not installed", run_now("DROP SCHEMA _stillframe CASCADE")),
    ("TABLE_CHANGED", "column 'n' of table 't' was dropped", run_now("ALTER TABLE t DROP COLUMN n")),
    ("TABLE_CHANGED", "changed its type", run_now("ALTER TABLE t ALTER n TYPE bigint")),
    ("TABLE_CHANGED", "was rewritten", run_now("ALTER TABLE t ALTER n TYPE int USING n + 1")),
]  # fmt: skip


@pytest.mark.parametrize("code, message, happens", GAPS)
def test_capture_gap(
    server: servers.PostgresServer, code: str, message: str, happens: Callable[[World], None]
) -> None:
    world = LogWorld(server, "t", KEYED, FILL)
    world.run("DELETE FROM t WHERE id = 3")
    world.follow()
    happens(world)
    for act in (lambda: world.s.check(world.position, ["t"]), lambda: world.state(world.position)):
        with pytest.raises(CaptureGap, match=message) as gap:
            act()
        assert gap.value.code == code
    if "gone" not in message or "slot" in message:
        old = world.position
        world.start()
        world.run("INSERT INTO t (id, code) VALUES (77, 'w')")
        assert len(world.follow()) == 1
        with pytest.raises(CaptureGap):
            world.s.check(old, ["t"])
        world.s.detach(ME)


def test_a_slot_that_the_server_gave_up() -> None:
    with running(max_slot_wal_keep_size="1MB", max_wal_size="32MB", min_wal_size="32MB") as server:
        world = LogWorld(server, "t", KEYED, FILL)
        for _ in range(4):
            world.run("CREATE TABLE junk AS SELECT repeat('x', 1000) FROM generate_series(1, 20000)")
            world.run("DROP TABLE junk", "SELECT pg_switch_wal()", "CHECKPOINT")
        with pytest.raises(CaptureGap, match="gave up the replication slot") as gap:
            world.s.check(world.position, ["t"])
        assert "max_slot_wal_keep_size" in gap.value.detail
        world.start()
        world.run("DELETE FROM t")
        world.follow()


def test_a_slot_is_not_held_back_by_what_others_write(server: servers.PostgresServer) -> None:
    world = LogWorld(server, "t", KEYED, FILL)
    world.run("CREATE TABLE junk AS SELECT repeat('x', 1000) FROM generate_series(1, 5000)")
    before = world.s.log_status().bytes
    world.run("CHECKPOINT")
    for _ in range(3):
        world.s.acknowledge(ME, world.s.position(ME, ["t"]))
        world.run("CHECKPOINT")
    assert before > 1_000_000 and world.s.log_status().bytes < before / 2


@pytest.mark.parametrize("acknowledged", [False, True])
@pytest.mark.parametrize("writes, promote", [(0, False), (60, False), (0, True)])
def test_a_server_put_back_to_an_older_copy(writes: int, promote: bool, acknowledged: bool) -> None:
    with running() as server:
        world = LogWorld(server, "t", KEYED, FILL)
        world.run("INSERT INTO t VALUES (4, 'd', 40)")
        world.follow()
        world.s.acknowledge(ME, world.position)
        close_all()
        server.stop()
        subprocess.run(["cp", "-a", server.folder / "data", server.folder / "copy"], check=True)
        server.start()
        world.con = world.connect()
        world.run("INSERT INTO t VALUES (5, 'e', 50)")
        world.follow()
        if acknowledged:
            world.s.acknowledge(ME, world.position)
        close_all()
        server.stop()
        shutil.rmtree(server.folder / "data")
        (server.folder / "copy").rename(server.folder / "data")
        if promote:
            (server.folder / "data" / "standby.signal").touch()
        server.start()
        world.con = world.connect()
        if promote:
            world.run("SELECT pg_promote()")
        for i in range(writes):
            world.run(f"INSERT INTO t VALUES ({100 + i}, 'r{i}', 0)")
        for act in (lambda: world.s.check(world.position, ["t"]), lambda: world.state(world.position)):
            with pytest.raises(CaptureGap, match=r"restored from|taken its place|gone"):
                act()


def test_reads_by_key_and_in_parts(server: servers.PostgresServer) -> None:
    """What is told is restricted by the server itself, in the column's own order and sense."""
    world = LogWorld(server, "t", 'CREATE TABLE t (k text COLLATE "en-x-icu" PRIMARY KEY, c char(3), n int)')
    world.run("INSERT INTO t SELECT chr(65 + i % 58) || i, 'c' || i % 9, i FROM generate_series(1, 300) AS i")
    start = world.s.position(ME, ["t"])
    rows = Bag.of((i,) for i in range(1, 301))
    ranges = world.s.ranges("t", 60)
    world.run("DELETE FROM t WHERE n % 3 = 0", "UPDATE t SET c = 'x', k = k || 'z' WHERE n % 2 = 0")
    assert len(ranges) > 3
    parts = [bag(world.s.state("t", ["n"], start, None, each)) for each in ranges]
    assert sum(parts, Bag()) == rows and all(0 <= len(part) <= 60 for part in parts)
    assert bag(world.s.state("t", ["n"], start, None, Range("k"))) == rows
    found = bag(world.s.state("t", ["n"], start, Keys("c", pa.array(["c3", "c4 "]))))
    assert found == Bag.of((i,) for i in range(1, 301) if i % 9 in (3, 4))


def test_readers_of_one_slot_wait_for_each_other(server: servers.PostgresServer) -> None:
    world = LogWorld(server, "t", "CREATE TABLE t (id int)")
    world.run("INSERT INTO t SELECT generate_series(1, 50000)")
    upto = world.s.position(ME, ["t"])
    counts: list[int] = []

    def read() -> None:
        counts.append(sum(b.num_rows for b in world.s.changes("t", ["id"], world.position, upto)))

    threads = [threading.Thread(target=read) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert counts == [50_000] * 6


def test_an_attach_cut_off_half_way(server: servers.PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    database = Database(server, KEYED, "CREATE TABLE u (id int)")
    before = database.dump()
    source = PostgresLogSource("s", database.url())
    make = postgres_publish.Publisher._make_slot
    publish = postgres_publish.Publisher._publish

    def no_slot(self: postgres_publish.Publisher, con: object, slot: str) -> tuple[int]:
        make(self, con, slot)  # type: ignore[arg-type]
        raise KeyboardInterrupt

    def no_table(self: postgres_publish.Publisher, con: object, consumer: str, relation: str) -> None:
        publish(self, con, consumer, relation)  # type: ignore[arg-type]
        if relation == "u":
            raise KeyboardInterrupt

    for name, patched in (("_make_slot", no_slot), ("_publish", no_table)):
        for then in ("attach", "detach"):
            with monkeypatch.context() as patch:
                patch.setattr(postgres_publish.Publisher, name, patched)
                with pytest.raises(KeyboardInterrupt):
                    source.attach(ME, ["t", "u"])
            if then == "attach":
                source.check(source.attach(ME, ["t", "u"]), ["t", "u"])
            source.detach(ME)
            assert database.dump() == before


def test_a_transaction_that_stays_open_is_told(
    server: servers.PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_publish, "ATTACH_SECONDS", 1)
    database = Database(server, KEYED, "CREATE TABLE elsewhere (id int)")
    source = PostgresLogSource("s", database.url())
    with writer(database) as other:
        other.execute("INSERT INTO elsewhere VALUES (1)")
        with pytest.raises(SourceError, match="a transaction open for long") as told:
            source.attach(ME, ["t"])
        assert told.value.code == "LOCKED"
        other.execute("COMMIT")
    source.check(source.attach(ME, ["t"]), ["t"])
    source.detach(ME)


def test_no_slot_left() -> None:
    with running(max_replication_slots="1") as server:
        source = Database(server, KEYED).source()
        first = PostgresLogSource("s", source.url)
        first.attach("one", ["t"])
        with pytest.raises(SourceError) as told:
            first.attach("two", ["t"])
        assert told.value.code == "NO_SLOT_LEFT" and "max_replication_slots" in told.value.hint
        first.detach("two")
        first.detach("one")


def test_generated_columns_are_refused_by_name(server: servers.PostgresServer) -> None:
    world = LogWorld(server, "t", "CREATE TABLE t (id int, twice int GENERATED ALWAYS AS (id * 2) STORED)")
    assert "generated" in world.s.describe()["t"].refused["twice"]
    world.run("INSERT INTO t VALUES (1)", "UPDATE t SET id = 2")
    assert world.follow() == Bag({(2,): 1})


@pytest.mark.parametrize(
    "next_, low, whole", [(100, 99, 99), (2**32 + 5, 3, 2**32 + 3), (2**32 + 5, 2**32 - 1, 2**32 - 1)]
)
def test_numbers_of_transactions_are_made_whole(next_: int, low: int, whole: int) -> None:
    assert Begin(0, 0, low).full_xid(next_) == whole


def test_an_account_without_the_right(server: servers.PostgresServer) -> None:
    database = Database(server, KEYED, "ALTER TABLE t OWNER TO pg_database_owner")
    database.run(
        "DO $$ BEGIN CREATE ROLE plain LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        f"ALTER DATABASE {database.name} OWNER TO plain",
    )
    source = PostgresLogSource("s", database.url("plain"))
    with pytest.raises(SourceError) as told:
        source.attach(ME, ["t"])
    assert told.value.code == "NOT_PERMITTED"
    source.detach(ME)
    assert "_stillframe" not in database.dump()
