"""Attaching, detaching, several consumers, and every way a log can stop being what a frame takes it for."""

from __future__ import annotations

import pickle
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator

import pytest
from postgres_world import ME, Database, World, close_all, running, writer

import servers
from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap, SourceError
from stillframe.sources import Position
from stillframe.sources.postgres import install as postgres_install
from stillframe.sources.postgres.triggers import PostgresSource


@pytest.fixture(scope="module")
def server() -> Iterator[servers.PostgresServer]:
    with running(max_prepared_transactions="5") as started:
        yield started


KEYED = "CREATE TABLE t (id int PRIMARY KEY, code text UNIQUE, n int)"
FILL = "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)"


def test_last_detach_leaves_no_trace(server: servers.PostgresServer) -> None:
    database = Database(
        server,
        "CREATE TABLE t (id serial PRIMARY KEY, a text UNIQUE)",
        "CREATE TABLE w (a int) PARTITION BY LIST (a)",
        "CREATE TABLE w1 PARTITION OF w FOR VALUES IN (1)",
        "CREATE FUNCTION f() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NEW; END'",
        "CREATE TRIGGER mine BEFORE INSERT ON t FOR EACH ROW EXECUTE FUNCTION f()",
        "CREATE SCHEMA other CREATE TABLE t (id int)",
    )
    before = database.dump()
    source = database.source()
    source.attach("one", ["t"])
    source.attach("two", ["t", "w"])
    source.attach("one", ["t", "w"])
    database.source(schema="other").attach("one", ["t"])
    database.run("INSERT INTO t (a) VALUES ('x')", "DELETE FROM t", "INSERT INTO other.t VALUES (1)")
    source.detach("one")
    assert [c.name for c in source.log_status().consumers] == ["one (schema other)", "two"]
    database.source(schema="other").detach("one")
    source.detach("two")
    assert database.dump() == before
    source.detach("two")
    assert source.log_status().rows == 0
    assert pickle.loads(pickle.dumps(source)) == source
    assert "postgres@" not in repr(source) and "url" not in repr(source)


def test_two_consumers_at_different_speeds(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    slow_start = world.s.attach("slow", ["t"])
    total = Bag()
    for i in range(10, 15):
        world.run(f"INSERT INTO t VALUES ({i}, 'x{i}', 0)")
        total += world.follow()
        world.s.acknowledge(ME, world.position)
    status = world.s.log_status()
    assert status.bytes > 0
    assert {c.name: c.behind for c in status.consumers} == {ME: 0, "slow": 5}
    assert world.change(slow_start, world.position) == total
    world.s.acknowledge("slow", world.position)
    assert world.s.log_status().rows == 1
    with pytest.raises(CaptureGap, match="trimmed too far"):
        world.change(slow_start, world.position)
    world.run("DELETE FROM t")
    world.follow()


def test_two_schemas_of_one_consumer_are_two(server: servers.PostgresServer) -> None:
    """What one of a warehouse's sources acknowledges does not trim what its other one needs."""
    world = World(server, "t", KEYED, FILL, "CREATE SCHEMA other CREATE TABLE t (id int)")
    other = world.source(schema="other")
    start = other.attach(ME, ["t"])
    assert other.address == world.s.address
    world.run("INSERT INTO other.t VALUES (1)", "DELETE FROM t WHERE id = 1")
    world.follow()
    world.s.acknowledge(ME, world.position)
    upto = other.position(ME, ["t"])
    assert sum(b.num_rows for b in other.changes("t", ["id"], start, upto)) == 1
    world.s.detach(ME)
    other.check(start, ["t"])


def test_nothing_trimmed_is_nothing_lost(server: servers.PostgresServer) -> None:
    """An older position stays good as long as no row behind it was removed, whatever goes on elsewhere."""
    world = World(server, "t", KEYED, FILL)
    old = world.position
    world.s.acknowledge(ME, old)
    world.run("CREATE TABLE elsewhere AS SELECT 1 AS a")
    world.s.acknowledge(ME, world.s.position(ME, ["t"]))
    world.s.check(old, ["t"])


def test_capture_limit_drops_those_left_behind(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    source = world.source(4)
    dead = source.attach("dead", ["t"])
    for i in range(10, 14):
        world.run(f"INSERT INTO t VALUES ({i}, 'x{i}', 0)")
    world.follow()
    source.acknowledge(ME, world.position)
    source.position("dead", ["t"])
    world.run("DELETE FROM t WHERE id = 1")
    world.follow()
    world.s.acknowledge(ME, world.position)
    source.position("dead", ["t"])
    source.acknowledge(ME, world.position)
    with pytest.raises(CaptureGap, match=r"'dead' was dropped.*capture limit"):
        source.position("dead", ["t"])
    with pytest.raises(CaptureGap, match="trimmed too far"):
        source.check(dead, ["t"])
    assert source.log_status().rows == 1
    back = source.attach("dead", ["t"])
    source.check(back, ["t"])
    source.position("dead", ["t"])
    source.detach(ME)
    source.detach("dead")
    assert source.log_status().rows == 0


def run_now(*statements: str) -> Callable[[World], None]:
    return lambda world: world.run(*statements)


def reattach(world: World) -> None:
    world.s.detach(ME)
    world.s.attach(ME, ["t"])


OFF_AND_ON = "ALTER TABLE t DISABLE TRIGGER USER; DELETE FROM t; ALTER TABLE t ENABLE TRIGGER USER"
GAPS: list[tuple[str, Callable[[World], None]]] = [
    ("another database", reattach),
    ("not installed", run_now("DROP SCHEMA _stillframe CASCADE")),
    ("triggers of table 't' are not as", run_now("DROP TRIGGER _stillframe_delete ON t")),
    ("triggers of table 't' are not as", run_now("DROP TABLE t", KEYED, FILL)),
    ("triggers of table 't' are not as", run_now(OFF_AND_ON)),
    ("triggers of table 't' are not as", run_now("ALTER TABLE t ENABLE REPLICA TRIGGER _stillframe_insert",
        "ALTER TABLE t ENABLE ALWAYS TRIGGER _stillframe_insert")),
    ("triggers of table 't' are not as", run_now("CREATE OR REPLACE FUNCTION _stillframe.insert_1() RETURNS"
        " trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'")),
    ("log rows were removed", run_now("DELETE FROM _stillframe.log")),
]  # fmt: skip


@pytest.mark.parametrize("message, happens", GAPS)
def test_capture_gap(server: servers.PostgresServer, message: str, happens: Callable[[World], None]) -> None:
    world = World(server, "t", KEYED, FILL)
    world.run("DELETE FROM t WHERE id = 3")
    world.follow()
    happens(world)
    with pytest.raises(CaptureGap, match=message) as gap:
        world.s.check(world.position, ["t"])
    assert gap.value.code == "CAPTURE_GAP" and "refresh --full" in gap.value.hint
    with pytest.raises(CaptureGap, match=message):
        world.state(world.position)
    with pytest.raises(CaptureGap):
        world.change(world.position, world.s.position(ME, ["t"]))
    old = world.position
    world.start()
    world.run("INSERT INTO t VALUES (77, 'w', 7)")
    assert world.follow() == Bag({(77, "w", 7): 1})
    with pytest.raises(CaptureGap):
        world.s.check(old, ["t"])


def test_unknown_consumer(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED)
    for act in (
        lambda: world.s.position("ghost", ["t"]),
        lambda: world.s.acknowledge("ghost", world.position),
        lambda: world.s.beat("ghost"),
        lambda: world.s.release("ghost", ["t"]),
    ):
        with pytest.raises(CaptureGap, match="'ghost' is not registered"):
            act()
    with pytest.raises(CaptureGap, match="'u' is not captured"):
        world.s.position(ME, ["u"])
    world.s.detach(ME)
    with pytest.raises(CaptureGap, match="not installed"):
        world.s.position(ME, ["t"])


def test_a_restored_dump_is_another_database(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    copy = Database(server)
    dumped = subprocess.run(
        [servers.program("pg_dump", "postgresql-client"), world.url()], check=True, capture_output=True
    )
    restore = [servers.program("psql", "postgresql-client"), "-q", "-v", "ON_ERROR_STOP=1", copy.url()]
    subprocess.run(restore, input=dumped.stdout, check=True, capture_output=True)
    source = copy.source()
    for act in (lambda: source.check(world.position, ["t"]), lambda: source.position(ME, ["t"])):
        with pytest.raises(CaptureGap, match="restored from a dump"):
            act()
    assert source.log_status().consumers == ()
    start = source.attach(ME, ["t"])
    copy.run("DELETE FROM t WHERE id = 1")
    upto = source.position(ME, ["t"])
    assert sum(b.num_rows for b in source.changes("t", ["id"], start, upto)) == 1
    source.detach(ME)
    world.follow()


def test_a_copied_database_is_another_one(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    close_all()
    copy = f"{world.name}_copy"
    with server.connect() as con:
        con.execute(f"CREATE DATABASE {copy} TEMPLATE {world.name}".encode())
    source = PostgresSource("s", server.url(copy))
    with pytest.raises(CaptureGap, match="not installed there"):
        source.check(world.position, ["t"])


def _restored(
    world: World, writes: Callable[[World], object], *, promote: bool = False
) -> tuple[Position, World]:
    """A position of after the copy that the server is put back to, and written to again."""
    server = world.server
    close_all()
    server.stop()
    shutil.rmtree(server.folder / "copy", ignore_errors=True)
    subprocess.run(["cp", "-a", server.folder / "data", server.folder / "copy"], check=True)
    server.start()
    world.con = world.connect()
    world.run("INSERT INTO t VALUES (4, 'd', 40), (5, 'e', 50)")
    world.follow()
    close_all()
    server.stop()
    shutil.rmtree(server.folder / "data")
    (server.folder / "copy").rename(server.folder / "data")
    if promote:
        (server.folder / "data" / "standby.signal").touch()
    server.start()
    if promote:
        with server.connect(world.name) as con:
            con.execute("SELECT pg_promote()")
    world.con = world.connect()
    writes(world)
    return world.position, world


@pytest.mark.parametrize("writes", [0, 1, 2, 40])
def test_a_server_put_back_to_an_older_copy(writes: int) -> None:
    with running() as server:
        world = World(server, "t", KEYED, FILL)
        old, world = _restored(
            world,
            lambda w: [w.run(f"INSERT INTO t VALUES ({100 + i}, 'r{i}', 0)") for i in range(writes)],
        )
        for act in (
            lambda: world.s.check(old, ["t"]),
            lambda: world.state(old),
            lambda: world.s.acknowledge(ME, old),
            lambda: world.change(old, world.s.position(ME, ["t"])),
        ):
            with pytest.raises(CaptureGap, match="restored from an older copy"):
                act()


def test_a_standby_that_took_over() -> None:
    with running() as server:
        world = World(server, "t", KEYED, FILL)
        before = world.position
        old, world = _restored(world, lambda w: None, promote=True)
        for position in (before, old):
            with pytest.raises(CaptureGap, match="another one has taken its place"):
                world.s.check(position, ["t"])
        world.start()
        world.run("DELETE FROM t")
        world.follow()


def test_a_crash_loses_nothing_that_a_position_holds() -> None:
    """Not even what writers did not wait for to be on disk."""
    with running(fsync="on", wal_writer_delay="10s", synchronous_commit="off") as server:
        world = World(server, "t", KEYED)
        for i in range(8):
            world.run(f"INSERT INTO t VALUES ({i}, 'x{i}', 0)")
        world.position, world.rows = world.s.position(ME, ["t"]), world.present()
        crash(server)
        world.con = world.connect()
        assert world.state(world.position) == world.rows == world.present()
        world.run("DELETE FROM t")
        world.follow()


def crash(server: servers.PostgresServer) -> None:
    """Its processes may outlive their parent for a moment, in which no other takes its place."""
    server.stop(kill=True)
    close_all()
    for _ in range(100):
        try:
            server.start()
            return
        except RuntimeError:
            time.sleep(0.1)
    raise AssertionError("the server does not start again")


def test_locked_tables_are_told(server: servers.PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Attaching gives up in the end, and holds nobody up meanwhile; the locker's own work goes on."""
    monkeypatch.setattr(postgres_install, "ATTACH_SECONDS", 2.0)
    database = Database(server, KEYED, FILL)
    source, told = database.source(), []
    with writer(database) as other, database.connect() as bystander:
        other.execute("DELETE FROM t WHERE id = 1")

        def attach() -> None:
            try:
                source.attach(ME, ["t"])
            except SourceError as error:
                told.append(error.code)

        thread = threading.Thread(target=attach)
        thread.start()
        written = 0
        while thread.is_alive():
            bystander.execute("UPDATE t SET n = n + 1 WHERE id = 2")
            other.execute("UPDATE t SET n = n + 1 WHERE id = 3")
            written += 1
        thread.join()
        assert told == ["LOCKED"] and written > 2
        other.execute("COMMIT")
    start = source.attach(ME, ["t"])
    source.check(start, ["t"])
    source.detach(ME)


def test_an_attach_cut_off_half_way_is_mended_by_attaching_or_detaching(
    server: servers.PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    database = Database(server, KEYED, "CREATE TABLE u (id int)")
    before = database.dump()
    source = database.source()
    capture = postgres_install.Installer._capture

    def cut_off(self: postgres_install.Installer, con: object, relation: str) -> None:
        capture(self, con, relation)  # type: ignore[arg-type]
        if relation == "u":
            raise KeyboardInterrupt

    for then in ("detach", "attach"):
        with monkeypatch.context() as patch:
            patch.setattr(postgres_install.Installer, "_capture", cut_off)
            with pytest.raises(KeyboardInterrupt):
                source.attach(ME, ["t", "u"])
        with pytest.raises(CaptureGap, match="'u' is not captured"):
            source.position(ME, ["t", "u"])
        if then == "attach":
            source.check(source.attach(ME, ["t", "u"]), ["t", "u"])
        source.detach(ME)
        assert database.dump() == before


def test_attaching_needs_no_lock_where_all_stands(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    with writer(world) as other:
        other.execute("DELETE FROM t WHERE id = 1")
        world.s.attach(ME, ["t"])
        world.s.attach("other", ["t"])
        other.execute("COMMIT")
    world.follow()


@pytest.mark.parametrize("wrong, hint", [("UNLOGGED", "unlogged"), ("TEMP", "")])
def test_tables_that_cannot_be_captured(server: servers.PostgresServer, wrong: str, hint: str) -> None:
    database = Database(server, f"CREATE {wrong} TABLE t (id int)")
    with pytest.raises(SourceError) as refused:
        database.source().attach(ME, ["t"])
    assert refused.value.code == ("UNCAPTURABLE_TABLE" if hint else "NO_RELATION")
    assert hint in str(refused.value)
    assert "_stillframe" not in database.dump()


def test_row_security_never_hides_rows_silently(server: servers.PostgresServer) -> None:
    database = Database(
        server,
        "DO $$ BEGIN CREATE ROLE owner LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        "CREATE TABLE t (id int); ALTER TABLE t OWNER TO owner; INSERT INTO t VALUES (1)",
        "ALTER TABLE t ENABLE ROW LEVEL SECURITY",
    )
    database.run(f"GRANT CREATE ON DATABASE {database.name} TO owner")
    source = PostgresSource("s", database.url("owner"))
    start = source.attach(ME, ["t"])
    database.run("INSERT INTO t VALUES (2)")
    upto = source.position(ME, ["t"])
    assert sum(b.num_rows for b in source.state("t", ["id"], upto)) == 2
    database.run("ALTER TABLE t FORCE ROW LEVEL SECURITY")
    with pytest.raises(CaptureGap, match="cannot be captured any more"):
        source.check(start, ["t"])
    owner = database.connect("owner")
    owner.execute("TRUNCATE t")
    database.run("ALTER TABLE t NO FORCE ROW LEVEL SECURITY")
    with pytest.raises(CaptureGap) as gap:
        source.check(start, ["t"])
    assert gap.value.code == "TRUNCATED"


def test_a_connection_lost_is_told(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    world.run("INSERT INTO t SELECT i, NULL, i FROM generate_series(10, 300000) AS i")
    batches = world.s.state("t", ["id", "n"], world.position)
    next(batches)
    world.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'stillframe'")
    with pytest.raises(SourceError, match="cannot be used"):
        list(batches)
