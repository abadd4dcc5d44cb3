"""Trigger capture for PostgreSQL, kind of statement by kind of statement."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Iterator

import psycopg
import pytest
from postgres_world import ME, World, bag, running, writer

import servers
from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap, SourceError
from stillframe.sources.postgres.triggers import PostgresSource


@pytest.fixture(scope="module")
def server() -> Iterator[servers.PostgresServer]:
    with running() as started:
        yield started


KEYED = "CREATE TABLE t (id int PRIMARY KEY, code text UNIQUE, n int)"
FILL = "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)"
A, B, C = (1, "a", 10), (2, "b", 20), (3, "c", 30)


@pytest.mark.parametrize(
    "statement, change",
    [
        ("INSERT INTO t VALUES (4, 'd', 40), (5, 'e', 50)", {(4, "d", 40): 1, (5, "e", 50): 1}),
        ("UPDATE t SET n = 21 WHERE id = 2", {B: -1, (2, "b", 21): 1}),
        ("UPDATE t SET n = n", {}),
        ("UPDATE t SET n = 1 WHERE id = 99", {}),
        ("UPDATE t SET id = 9 WHERE id = 1", {A: -1, (9, "a", 10): 1}),
        ("DELETE FROM t", {A: -1, B: -1, C: -1}),
        (
            "INSERT INTO t VALUES (1, 'q', 7), (4, 'd', 4) ON CONFLICT (id) DO UPDATE SET n = excluded.n",
            {A: -1, (1, "a", 7): 1, (4, "d", 4): 1},
        ),
        ("INSERT INTO t VALUES (1, 'q', 7), (5, 'e', 5) ON CONFLICT DO NOTHING", {(5, "e", 5): 1}),
        (
            "MERGE INTO t USING (VALUES (1, 0), (2, 5), (7, 7)) AS s (k, v) ON t.id = s.k"
            " WHEN MATCHED AND v = 0 THEN DELETE WHEN MATCHED THEN UPDATE SET n = v"
            " WHEN NOT MATCHED THEN INSERT VALUES (k, 'm', v)",
            {A: -1, B: -1, (2, "b", 5): 1, (7, "m", 7): 1},
        ),
        (
            "WITH gone AS (DELETE FROM t WHERE id = 1 RETURNING *), new AS (INSERT INTO t SELECT id + 10,"
            " 'x', n FROM gone RETURNING *), more AS (INSERT INTO t SELECT id + 20, 'y', n FROM gone)"
            " UPDATE t SET n = 0 WHERE id = 2",
            {A: -1, (11, "x", 10): 1, (21, "y", 10): 1, B: -1, (2, "b", 0): 1},
        ),
        ("TRUNCATE t", {A: -1, B: -1, C: -1}),
        ("BEGIN; TRUNCATE t; INSERT INTO t VALUES (1, 'a', 10); COMMIT", {B: -1, C: -1}),
        ("BEGIN; DELETE FROM t; TRUNCATE t; ROLLBACK", {}),
        ("BEGIN; UPDATE t SET n = 0; SAVEPOINT x; DELETE FROM t; ROLLBACK TO x; COMMIT",
         {A: -1, B: -1, C: -1, (1, "a", 0): 1, (2, "b", 0): 1, (3, "c", 0): 1}),
        ("BEGIN; SAVEPOINT x; DELETE FROM t WHERE id = 1; RELEASE x;"
         " INSERT INTO t VALUES (1, 'a', 10); COMMIT", {}),
        ("SET session_replication_role = replica; DELETE FROM t WHERE id = 1; RESET session_replication_role",
         {A: -1}),
        ("DO $$ BEGIN FOR i IN 1..3 LOOP BEGIN INSERT INTO t VALUES (i + 2, 'z' || i, i);"
         " EXCEPTION WHEN unique_violation THEN NULL; END; END LOOP; END $$",
         {(4, "z2", 2): 1, (5, "z3", 3): 1}),
    ],
)  # fmt: skip
def test_statements(
    server: servers.PostgresServer, statement: str, change: dict[tuple[object, ...], int]
) -> None:
    world = World(server, "t", KEYED, FILL)
    world.run(statement)
    assert world.follow() == Bag(change)


def test_copy(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    with world.con.cursor() as cursor, cursor.copy("COPY t FROM STDIN") as copy:
        for i in range(10, 15):
            copy.write_row((i, None, i))
    assert world.follow() == Bag({(i, None, i): 1 for i in range(10, 15)})


def test_failed_statements_leave_nothing(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    with pytest.raises(psycopg.errors.UniqueViolation):
        world.run("INSERT INTO t VALUES (9, 'z', 0), (1, 'y', 0)")
    assert world.follow() == Bag()


def test_cascades(server: servers.PostgresServer) -> None:
    world = World(
        server,
        "child",
        "CREATE TABLE p (id int PRIMARY KEY)",
        "CREATE TABLE child (id int PRIMARY KEY, p int REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE,"
        " q int REFERENCES p ON DELETE SET NULL, self int REFERENCES child ON DELETE CASCADE)",
        "INSERT INTO p SELECT generate_series(0, 9)",
        "INSERT INTO child VALUES (1, 1, 2, NULL), (2, 2, 1, 1), (3, 3, 3, 2), (4, 4, 5, NULL), (5, 6, 5, 4)",
    )
    world.run("DELETE FROM p WHERE id = 1", "UPDATE p SET id = 44 WHERE id = 4", "DELETE FROM p WHERE id = 5")
    change = world.follow()
    assert change == Bag(
        {
            (1, 1, 2, None): -1,
            (2, 2, 1, 1): -1,
            (3, 3, 3, 2): -1,
            (4, 4, 5, None): -1,
            (4, 44, None, None): 1,
            (5, 6, 5, 4): -1,
            (5, 6, None, 4): 1,
        }
    )
    world.run("TRUNCATE p CASCADE")
    assert len(world.follow()) == 2


def test_triggers_of_the_user(server: servers.PostgresServer) -> None:
    """They rewrite rows before, skip them, and write to the same table after, earlier and later than ours."""
    world = World(
        server,
        "t",
        KEYED,
        "CREATE FUNCTION clamp() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF NEW.n < 0 THEN RETURN NULL;"
        " END IF; NEW.n := least(NEW.n, 100); RETURN NEW; END $$",
        "CREATE TRIGGER clamp BEFORE INSERT OR UPDATE ON t FOR EACH ROW EXECUTE FUNCTION clamp()",
        "CREATE FUNCTION echo() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN IF pg_trigger_depth() < 2 THEN"
        " INSERT INTO t SELECT max(id) + 100, NULL, 1 FROM t; UPDATE t SET n = n + 1 WHERE id = 1; END IF;"
        " RETURN NULL; END $$",
        'CREATE TRIGGER "A first" AFTER INSERT ON t EXECUTE FUNCTION echo()',
        "CREATE TRIGGER zlast AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION echo()",
    )
    world.run("INSERT INTO t VALUES (1, 'a', 500), (2, 'b', -1)", "UPDATE t SET n = n + 5 WHERE id < 50")
    assert world.follow()
    world.run("DELETE FROM t WHERE id > 100", "INSERT INTO t VALUES (3, 'c', 3) ON CONFLICT DO NOTHING")
    world.follow()


PARTED = (
    "CREATE TABLE t (id int, at date, n int, PRIMARY KEY (id, at)) PARTITION BY RANGE (at)",
    "CREATE TABLE t_1 (n int, gone int, at date NOT NULL, id int NOT NULL)",
    "ALTER TABLE t_1 DROP COLUMN gone",
    "ALTER TABLE t ATTACH PARTITION t_1 FOR VALUES FROM ('2024-01-01') TO ('2024-07-01')",
    "CREATE TABLE t_2 PARTITION OF t FOR VALUES FROM ('2024-07-01') TO ('2025-01-01') PARTITION BY LIST (id)",
    "CREATE TABLE t_2_1 PARTITION OF t_2 FOR VALUES IN (1, 2, 3)",
    "CREATE TABLE t_2_x PARTITION OF t_2 DEFAULT",
    "INSERT INTO t SELECT i, date '2024-01-01' + i * 30, i FROM generate_series(0, 11) AS i",
)


def test_partitions(server: servers.PostgresServer) -> None:
    world = World(server, "t", *PARTED)
    assert list(world.s.describe()) == ["t"]
    world.run(
        "UPDATE t SET at = at + 180 WHERE id IN (1, 2)",
        "INSERT INTO t_1 (id, at, n) VALUES (70, '2024-02-02', 7)",
        "DELETE FROM t_2 WHERE id = 8",
        "UPDATE t_2_x SET n = -1",
    )
    assert world.follow()
    world.run("TRUNCATE t_2_x", "INSERT INTO t VALUES (3, '2024-08-01', 1)")
    assert world.follow()
    world.run("TRUNCATE t_2")
    assert world.follow()
    world.run("TRUNCATE t", "INSERT INTO t VALUES (3, '2024-08-01', 1)")
    assert world.follow()
    world.run("SET session_replication_role = replica", "UPDATE t SET n = 9")
    assert world.follow() == Bag({(3, dt.date(2024, 8, 1), 1): -1, (3, dt.date(2024, 8, 1), 9): 1})


@pytest.mark.parametrize(
    "code, happens",
    [
        ("TABLE_CHANGED", "CREATE TABLE t_3 PARTITION OF t FOR VALUES FROM ('2025-01-01') TO ('2026-01-01')"),
        ("TABLE_CHANGED", "ALTER TABLE t DETACH PARTITION t_1"),
        ("CAPTURE_GAP", "ALTER TABLE t_1 DISABLE TRIGGER _stillframe_truncate"),
        (
            "CAPTURE_GAP",
            "ALTER TABLE t_1 DISABLE TRIGGER _stillframe_row;"
            " ALTER TABLE t_1 ENABLE ALWAYS TRIGGER _stillframe_row",
        ),
    ],
)
def test_partitions_that_come_and_go_are_gaps(
    server: servers.PostgresServer, code: str, happens: str
) -> None:
    world = World(server, "t", *PARTED)
    world.run(happens)
    with pytest.raises(CaptureGap) as gap:
        world.s.check(world.position, ["t"])
    assert gap.value.code == code
    world.start()
    world.run("UPDATE t SET n = 5", "INSERT INTO t VALUES (3, '2024-12-01', 1)")
    assert world.follow()
    world.s.detach(ME)


def test_heirs(server: servers.PostgresServer) -> None:
    """A statement on the parent writes to its heirs without naming them."""
    world = World(
        server, "heir", "CREATE TABLE parent (a int, b text)", "CREATE TABLE heir (c int) INHERITS (parent)"
    )
    world.run("INSERT INTO heir VALUES (1, 'x', 2), (2, 'y', 3)", "UPDATE parent SET b = 'z' WHERE a = 1")
    assert world.follow() == Bag({(1, "z", 2): 1, (2, "y", 3): 1})
    world.run("DELETE FROM parent", "INSERT INTO parent VALUES (5, 'p')")
    assert world.follow() == Bag({(1, "z", 2): -1, (2, "y", 3): -1})
    with pytest.raises(SourceError, match="inherit from it") as refused:
        world.s.attach(ME, ["parent"])
    assert refused.value.code == "UNCAPTURABLE_TABLE"
    assert "inherit" in world.s.describe()["parent"].refused["a"]


@pytest.mark.parametrize("isolation", ["REPEATABLE READ", "SERIALIZABLE"])
def test_truncate_that_may_not_see_all_rows_asks_for_a_reload(
    server: servers.PostgresServer, isolation: str
) -> None:
    world = World(server, "t", KEYED, FILL)
    before = world.position
    with writer(world, isolation) as other:
        other.execute("SELECT 1")
        world.run("INSERT INTO t VALUES (4, 'unseen', 4)")
        other.execute("TRUNCATE t")
        world_open = world.s.position(ME, ["t"])
        assert world.change(before, world_open) == Bag({(4, "unseen", 4): 1})
        other.execute("COMMIT")
    upto = world.s.position(ME, ["t"])
    for act in (
        lambda: world.s.check(before, ["t"]),
        lambda: world.change(before, upto),
        lambda: world.state(world_open),
        lambda: world.s.transactions(["t"], before, upto),
        lambda: world.s.behind(["t"], before),
    ):
        with pytest.raises(CaptureGap, match="'t' was emptied by TRUNCATE") as gap:
            act()
        assert gap.value.code == "TRUNCATED"
    assert world.state(upto) == Bag() == world.present()
    world.position, world.rows = upto, Bag()
    world.run("INSERT INTO t VALUES (1, 'a', 1)")
    assert world.follow() == Bag({(1, "a", 1): 1})


def test_a_read_does_not_see_a_table_emptied_after_its_snapshot(server: servers.PostgresServer) -> None:
    """TRUNCATE does not keep to snapshots. The read is held up where it could be caught by one."""
    world = World(server, "t", KEYED, FILL)
    caught = []

    class Meddling(PostgresSource):
        def _present(self, *arguments: object) -> object:  # type: ignore[override]
            with writer(world) as other:
                other.execute("SET lock_timeout = 200")
                try:
                    other.execute("TRUNCATE t")
                    other.execute("COMMIT")
                except psycopg.errors.LockNotAvailable:
                    caught.append("waits")
            return super()._present(*arguments)  # type: ignore[arg-type]

    source = Meddling("s", world.url())
    assert bag(source.state("t", world.columns, world.position)) == world.rows
    assert caught == ["waits"]


CHANGES = [
    ("ALTER TABLE t DROP COLUMN n", "column 'n' of table 't' was dropped"),
    ("ALTER TABLE t RENAME n TO m", "column 'n' of table 't' was renamed to 'm'"),
    ("ALTER TABLE t ALTER n TYPE text", "column 'n' of table 't' changed its type"),
    ("ALTER TABLE t ALTER n TYPE bigint", "column 'n' of table 't' changed its type"),
    ("ALTER TABLE t ALTER code TYPE varchar(9)", "column 'code' of table 't' changed its type"),
    ("ALTER TABLE t RENAME TO u; CREATE VIEW t AS TABLE u", "'t' is gone"),
    ("ALTER TABLE t ALTER n TYPE int USING n + 1", "'t' was rewritten"),
    ("ALTER TABLE t SET UNLOGGED", "cannot be captured any more"),
    ("CREATE TABLE heir () INHERITS (t)", "cannot be captured any more"),
]
BY_ROW = "CREATE TABLE parent (id int); ALTER TABLE t INHERIT parent"


@pytest.mark.parametrize(
    "happens, message, by_row",
    [(*c, b) for c in CHANGES for b in (False, True) if not (b and "INHERITS" in c[0])],
)
def test_a_changed_table_is_a_gap_and_no_writer_fails(
    server: servers.PostgresServer, happens: str, message: str, by_row: bool
) -> None:
    world = World(server, "t", KEYED, FILL, "CREATE TABLE o (id int)", *([BY_ROW] if by_row else []))
    both = world.s.attach(ME, ["t", "o"])
    world.position = both
    old = world.connect()
    write = (
        "INSERT INTO {} (id, code) VALUES ({}, '5')",
        "UPDATE {} SET code = '6' WHERE id = {}",
        "DELETE FROM {} WHERE id = {}",
    )
    for session in (old, world.con):
        for number, statement in enumerate(write * 2):
            session.execute(statement.format("t", 100 + number // 3).encode())
    world.run(happens)
    name = "u" if "RENAME TO" in happens else "t"
    for session in (old, world.con, world.connect()):
        for number, statement in enumerate(write * 2):
            session.execute(statement.format(name, 200 + number // 3).encode())
    world.run("INSERT INTO o VALUES (1)", f"TRUNCATE {name}")
    for act in (lambda: world.s.position(ME, ["t"]), lambda: world.s.check(both, ["t"])):
        with pytest.raises(CaptureGap, match=message) as gap:
            act()
        mended = "gone" not in message and "any more" not in message
        assert gap.value.code == ("TABLE_CHANGED" if mended else "CAPTURE_GAP")
    upto = world.s.position(ME, ["o"])
    assert bag(world.s.changes("o", ["id"], both, upto)) == Bag({(1,): 1})
    if name == "t" and "UNLOGGED" not in happens and "INHERITS" not in happens:
        world.start()
        world.run("INSERT INTO t (id, code) VALUES (9, 'z')")
        assert len(world.follow()) == 1
        with pytest.raises(CaptureGap, match="installed later"):
            world.s.check(both, ["t"])
    world.s.detach(ME)


@pytest.mark.parametrize(
    "there, back",
    [
        ("RENAME n TO m", "RENAME m TO n"),
        ("ALTER n TYPE text", "ALTER n TYPE int USING n::int"),
        ("RENAME TO u", ""),
    ],
)
def test_changed_and_changed_back(server: servers.PostgresServer, there: str, back: str) -> None:
    world = World(server, "t", KEYED, FILL)
    back_again = f"ALTER TABLE t {back}" if back else "ALTER TABLE u RENAME TO t"
    world.run(f"ALTER TABLE t {there}")
    world.run(f"DELETE FROM {'t' if back else 'u'} WHERE id = 1", back_again)
    with pytest.raises(CaptureGap, match=r"for a while|rewritten") as gap:
        world.s.check(world.position, ["t"])
    assert gap.value.code == "TABLE_CHANGED"
    world.start()
    world.run("DELETE FROM t")
    assert len(world.follow()) == 2


def test_what_changes_nothing_is_no_gap(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    world.run(
        "VACUUM FULL t",
        "CREATE INDEX ON t (n)",
        "ANALYZE t",
        "CREATE VIEW v AS SELECT * FROM t",
        "GRANT SELECT ON t TO PUBLIC",
        "ALTER TABLE t ADD CHECK (n < 1000)",
        "COMMENT ON TABLE t IS 'x'",
        "DELETE FROM t WHERE id = 1",
    )
    assert world.follow() == Bag({A: -1})
    world.run("CLUSTER t USING t_pkey", "REINDEX TABLE t", "DELETE FROM t WHERE id = 2")
    assert world.follow() == Bag({B: -1})


def test_a_column_added_later_leaves_the_others_captured(server: servers.PostgresServer) -> None:
    world = World(server, "t", KEYED, FILL)
    old = world.position
    world.run(
        "ALTER TABLE t ADD COLUMN extra text DEFAULT 'x'", "UPDATE t SET extra = 'y', n = 0 WHERE id = 1"
    )
    assert world.follow() == Bag({A: -1, (1, "a", 0): 1})
    with pytest.raises(CaptureGap, match="'extra' was added"):
        list(world.s.changes("t", ["extra"], world.position, world.position))
    before = world.position
    world.start()
    world.run("UPDATE t SET extra = 'z' WHERE id = 2")
    assert world.follow() == Bag({(2, "b", 20, "x"): -1, (2, "b", 20, "z"): 1})
    world.s.check(old, ["t"])
    assert bag(world.s.changes("t", ["id", "n"], old, world.position)) == Bag({(1, 10): -1, (1, 0): 1})
    with pytest.raises(CaptureGap, match="'extra' was added"):
        list(world.s.state("t", ["extra"], before))


def test_a_column_is_captured_from_a_moment_without_writers(server: servers.PostgresServer) -> None:
    """One who wrote before it was, and commits after, is waited for."""
    world = World(server, "t", KEYED, FILL)
    world.run("ALTER TABLE t ADD COLUMN extra text")
    with writer(world) as other:
        other.execute("INSERT INTO t VALUES (50, 'w', 1, 'e')")
        thread = threading.Thread(target=world.start)
        thread.start()
        time.sleep(0.4)
        assert thread.is_alive()
        other.execute("UPDATE t SET extra = 'f' WHERE id = 50")
        other.execute("COMMIT")
        thread.join(60)
    assert world.columns[-1] == "extra" and (50, "w", 1, "f") in world.state(world.position)
    world.run("UPDATE t SET extra = 'g' WHERE id = 50")
    assert world.follow() == Bag({(50, "w", 1, "f"): -1, (50, "w", 1, "g"): 1})


def test_columns_that_cannot_be_read_do_not_matter(server: servers.PostgresServer) -> None:
    world = World(
        server,
        "t",
        "CREATE TYPE pair AS (a int, b int)",
        "CREATE TABLE t (id int, p pair, q int[], r tsrange)",
    )
    assert set(world.s.describe()["t"].refused) == {"p", "q", "r"}
    world.run(
        "INSERT INTO t VALUES (1, (1, 2), '{1}', NULL)", "ALTER TABLE t DROP COLUMN p", "DROP TYPE pair"
    )
    assert world.follow() == Bag({(1,): 1})


def test_the_users_types_can_be_dropped(server: servers.PostgresServer) -> None:
    world = World(
        server,
        "t",
        "CREATE TYPE mood AS ENUM ('ok', 'bad')",
        "CREATE DOMAIN small AS int CHECK (VALUE < 100)",
        "CREATE TABLE t (m mood, s small)",
    )
    world.run("INSERT INTO t VALUES ('ok', 5)", "ALTER TYPE mood ADD VALUE 'new'", "UPDATE t SET m = 'new'")
    assert world.follow() == Bag({("new", 5): 1})
    world.run("DROP TABLE t", "DROP TYPE mood", "DROP DOMAIN small")
    with pytest.raises(CaptureGap, match="'t' is gone"):
        world.s.position(ME, ["t"])
    world.s.detach(ME)


def test_any_name_will_do(server: servers.PostgresServer) -> None:
    table, column = 'It\'s "a" %s {x} $1 tåble', 'sel ect"; -- %(a)s'
    sql = ['"' + name.replace('"', '""') + '"' for name in (table, column)]
    world = World(server, table, f"CREATE TABLE {sql[0]} (id int PRIMARY KEY, {sql[1]} text)")
    world.run(f"INSERT INTO {sql[0]} VALUES (1, 'a')", f"UPDATE {sql[0]} SET {sql[1]} = '%s'")
    assert world.follow() == Bag({(1, "%s"): 1})
    world.run(f"TRUNCATE {sql[0]}")
    assert world.follow() == Bag({(1, "%s"): -1})


def test_writers_with_other_rights_and_another_search_path(server: servers.PostgresServer) -> None:
    """Capture works with the rights of its owner, whatever the writer may do or has put in its way."""
    world = World(server, "t", KEYED, FILL)
    world.run(
        "DO $$ BEGIN CREATE ROLE clerk LOGIN; EXCEPTION WHEN duplicate_object THEN NULL; END $$",
        "GRANT SELECT, INSERT, UPDATE, DELETE, TRUNCATE ON t TO clerk",
        "CREATE SCHEMA trap AUTHORIZATION clerk",
    )
    clerk = world.connect("clerk")
    for statement in (
        "CREATE FUNCTION trap.nextval(regclass) RETURNS bigint LANGUAGE sql AS 'SELECT -1::bigint'",
        "CREATE FUNCTION trap.fake(int, int) RETURNS boolean LANGUAGE sql AS 'SELECT false'",
        "CREATE OPERATOR trap.= (LEFTARG = int, RIGHTARG = int, FUNCTION = trap.fake)",
        "CREATE TABLE trap._stillframe_new (id int, code text, n int)",
        "CREATE TEMP TABLE _stillframe_old (id int, code text, n int)",
        "SET search_path = trap, pg_catalog, public",
        "INSERT INTO public.t VALUES (4, 'd', 40)",
        "UPDATE public.t SET n = 41 WHERE code = 'd'",
        "INSERT INTO _stillframe.global (id, parts) VALUES ('g', 2)",
    ):
        clerk.execute(statement.encode())
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        clerk.execute("SELECT * FROM _stillframe.log")
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        clerk.execute("INSERT INTO _stillframe.global (id, parts, xid) VALUES ('g', 2, 3)")
    assert world.follow() == Bag({(4, "d", 41): 1})
    clerk.execute("TRUNCATE public.t")
    assert world.follow()


def test_writers_see_nothing_of_capture(server: servers.PostgresServer) -> None:
    """Neither in the numbers they were given, nor where they publish all their tables."""
    world = World(server, "t", "CREATE TABLE t (id serial PRIMARY KEY, n int)")
    world.run("CREATE PUBLICATION everything FOR ALL TABLES")
    world.run("INSERT INTO t (n) VALUES (7)", "UPDATE t SET n = 8")
    assert world.con.execute("SELECT lastval(), currval('t_id_seq')").fetchone() == (1, 1)
    world.run("INSERT INTO _stillframe.global (id, parts) VALUES ('g', 1)")
    assert world.con.execute("SELECT lastval()").fetchone() == (1,)
    assert world.follow() == Bag({(1, 8): 1})
    world.s.acknowledge(ME, world.position)
    world.run("TRUNCATE t")
    assert world.follow() == Bag({(1, 8): -1})
    world.s.acknowledge(ME, world.position)
    world.s.attach(ME, ["t"])
    world.s.beat(ME)
    assert world.s.log_status().rows == 1
    world.s.detach(ME)


def test_logical_replication_fires_row_triggers_only(server: servers.PostgresServer) -> None:
    """A table that a subscription writes to is captured row by row."""
    publisher = World(server, "t", KEYED, FILL, "CREATE PUBLICATION p FOR TABLE t")
    world = World(server, "t", KEYED)
    plain = world.position
    slot = f"slot_{world.name}"
    publisher.run(f"SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')")
    world.run(
        f"CREATE SUBSCRIPTION sub CONNECTION 'host=127.0.0.1 port={server.port} user=postgres"
        f" dbname={publisher.name}' PUBLICATION p WITH (create_slot = false, slot_name = '{slot}',"
        " copy_data = false, synchronous_commit = on)"
    )
    try:
        with pytest.raises(CaptureGap, match="made up otherwise"):
            world.s.check(plain, ["t"])
        world.start()
        publisher.run(
            "INSERT INTO t VALUES (7, 'g', 7)", "UPDATE t SET n = 8 WHERE id = 7", "INSERT INTO t VALUES (8)"
        )
        for _ in range(200):
            if len(world.present()) == 2:
                break
            world.con.execute("SELECT pg_sleep(0.05)")
        assert world.follow() == Bag({(7, "g", 8): 1, (8, None, None): 1})
    finally:
        world.run("ALTER SUBSCRIPTION sub DISABLE", "DROP SUBSCRIPTION sub")
