"""Reads in parts and by keys, rights, and servers that cannot be used."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

import psycopg
import pyarrow as pa
import pytest
from postgres_world import ME, Database, World, bag, running, standby_of

import servers
from stillframe.algebra.bag import Bag
from stillframe.errors import SourceError
from stillframe.sources import Capture, Keys, Position, Range
from stillframe.sources.postgres import database as postgres_tables
from stillframe.sources.postgres import read as postgres_read
from stillframe.sources.postgres.triggers import PostgresSource


@pytest.fixture(scope="module")
def server() -> Iterator[servers.PostgresServer]:
    with running() as started:
        yield started


def pieces(source: PostgresSource, column: str, at: Position, ranges: tuple[Range, ...]) -> list[Bag]:
    return [bag(source.state("t", [column], at, None, each)) for each in ranges]


KEYS = [
    ("int", "i"),
    ("bigint", "i * 10000000000"),
    ("text", "'k' || chr(65 + i % 50) || i"),
    ('text COLLATE "en-x-icu"', "chr(65 + i % 58) || i"),
    ("char(9)", "'x' || i"),
    ("uuid", "md5(i::text)::uuid"),
    ("date", "date '2000-01-01' + i"),
    ("timestamptz", "timestamptz '2000-01-01' + i * interval '1 us'"),
    ("numeric(12,3)", "i / 8.0"),
]


@pytest.mark.parametrize("declared, value", KEYS)
def test_ranges_cover_a_table_that_changes(server: servers.PostgresServer, declared: str, value: str) -> None:
    world = World(server, "t", f"CREATE TABLE t (k {declared}, n int, PRIMARY KEY (k, n))")
    world.run(f"INSERT INTO t SELECT {value}, i FROM generate_series(1, 500) AS i")
    world.position, world.rows = world.s.position(ME, ["t"]), world.present()
    ranges = world.s.ranges("t", 100)
    assert len(ranges) == 6 and ranges[0].above is None and ranges[-1].upto is None
    assert all(a.upto == b.above for a, b in pairwise(ranges))
    assert all(isinstance(r.upto, int | str) for r in ranges[:-1])
    world.run("DELETE FROM t WHERE n % 3 = 0", "UPDATE t SET n = -n WHERE n % 5 = 0")
    world.run(f"INSERT INTO t SELECT {value}, i FROM generate_series(600, 700) AS i")
    parts = pieces(world.s, "n", world.position, ranges)
    assert sum(parts, Bag()) == Bag.of((i,) for i in range(1, 501))
    assert all(0 < len(part) <= 150 for part in parts[:-1])


def test_ranges_of_a_large_table_come_from_a_sample(
    server: servers.PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(postgres_tables, "COUNTED_ROWS", 1000)
    world = World(server, "t", "CREATE TABLE t (id int PRIMARY KEY, pad text)")
    world.run("INSERT INTO t SELECT i, repeat('x', 50) FROM generate_series(1, 100000) AS i", "ANALYZE t")
    assert abs(world.s.rows("t") - 100_000) < 5000
    upto = world.s.position(ME, ["t"])
    ranges = world.s.ranges("t", 20_000)
    assert 3 <= len(ranges) <= 9
    parts = pieces(world.s, "id", upto, ranges)
    assert sum(len(part) for part in parts) == 100_000 == len(sum(parts, Bag()))
    assert max(len(part) for part in parts) < 60_000


@pytest.mark.parametrize(
    "ddl, count",
    [
        ("CREATE TABLE t (id int)", 0),
        ("CREATE TABLE t (id int PRIMARY KEY)", 1),
        ("CREATE TABLE t (id time PRIMARY KEY)", 0),
        ("CREATE TABLE t (id boolean PRIMARY KEY)", 0),
        ("CREATE TABLE t (id int UNIQUE NOT NULL)", 0),
    ],
)
def test_tables_without_ranges(server: servers.PostgresServer, ddl: str, count: int) -> None:
    database = Database(server, ddl)
    assert len(database.source().ranges("t", 10)) == count
    assert database.source().rows("t") == 0


def test_many_keys_by_index(server: servers.PostgresServer) -> None:
    """An array when they are few, a table when many: the plan looks rows up by the index either way."""
    world = World(server, "t", "CREATE TABLE t (id int PRIMARY KEY, code text, pad text)")
    world.run(
        "INSERT INTO t SELECT i, 'c' || i, repeat('x', 100) FROM generate_series(1, 60000) AS i",
        "CREATE INDEX ON t (code)",
        "ANALYZE t",
    )
    upto = world.s.position(ME, ["t"])
    for count in (5, 1000, 3000):
        ids = pa.array([*range(1, 2 * count, 2), 10**12, None], pa.int64())
        found = bag(world.s.state("t", ["id"], upto, Keys("id", ids)))
        assert found == Bag.of((i,) for i in range(1, 2 * count, 2))
        codes = pa.array([*(f"c{i}" for i in range(1, 2 * count, 2)), "C1", "nul\0", "it's"], pa.string())
        assert bag(world.s.state("t", ["id"], upto, Keys("code", codes))) == found
    with postgres_read.connected("s", world.url()) as con:
        how = world.s._table(con, "t").columns[0].reading
        for size in (10, 5000):
            con.execute("DROP TABLE IF EXISTS pg_temp.stillframe_keys")
            keys = postgres_read.KeyList(con, "id", how, pa.array(range(size), pa.int64()))
            plan = con.execute(f"EXPLAIN SELECT * FROM public.t WHERE {keys.condition(con, 'id')}").fetchall()
            assert "t_pkey" in str(plan) or size > 10, plan


def test_keys_of_another_kind_restrict_nothing(server: servers.PostgresServer) -> None:
    world = World(server, "t", "CREATE TABLE t (id int PRIMARY KEY, u uuid)", "INSERT INTO t VALUES (1), (2)")
    for column, values in (("id", pa.array([1.0])), ("id", pa.array(["1"])), ("u", pa.array([1]))):
        assert len(bag(world.s.state("t", ["id"], world.position, Keys(column, values)))) == 2
    assert not bag(world.s.state("t", ["id"], world.position, Keys("u", pa.array(["no uuid", "A" * 36]))))


def test_text_of_char_n_is_compared_as_postgres_does(server: servers.PostgresServer) -> None:
    """Padding is no part of the value: what a join in Spark compares is what PostgreSQL compares."""
    world = World(server, "t", "CREATE TABLE t (c char(4) PRIMARY KEY)", "INSERT INTO t VALUES ('a'), ('ab')")
    assert bag(world.s.state("t", ["c"], world.position)) == Bag({("a",): 1, ("ab",): 1})
    for text, found in (("a", 1), ("a   ", 1), (" a", 0)):
        keys = Keys("c", pa.array([text]))
        assert len(bag(world.s.state("t", ["c"], world.position, keys))) == found


def test_equality_by_collation_is_not_sent(server: servers.PostgresServer) -> None:
    database = Database(
        server,
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TABLE t (a text COLLATE ci, b text)",
    )
    source = database.source()
    assert not source.pushable("t", "a") and source.pushable("t", "b")


def test_without_the_right_to_make_a_temporary_table(server: servers.PostgresServer) -> None:
    world = World(
        server, "t", "CREATE TABLE t (id int PRIMARY KEY)", "INSERT INTO t SELECT generate_series(1, 3000)"
    )
    role(world, "plain", f"REVOKE TEMP ON DATABASE {world.name} FROM PUBLIC", "ALTER TABLE t OWNER TO plain")
    for each in ("SCHEMA", "ALL TABLES IN SCHEMA", "ALL SEQUENCES IN SCHEMA"):
        world.run(f"GRANT ALL ON {each} _stillframe TO plain")
    source = PostgresSource("s", world.url("plain"))
    keys = Keys("id", pa.array(range(2000), pa.int64()))
    assert len(bag(source.state("t", ["id"], world.position, keys))) == 1999


def test_batches_are_bounded(server: servers.PostgresServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(postgres_read, "BATCH_ROWS", 100)
    monkeypatch.setattr(postgres_read, "BATCH_BYTES", 20_000)
    world = World(server, "t", "CREATE TABLE t (id int, pad text)")
    world.run("INSERT INTO t SELECT i, repeat('x', i) FROM generate_series(1, 1000) AS i")
    upto = world.s.position(ME, ["t"])
    for batches in (
        world.s.state("t", ["id", "pad"], upto),
        world.s.changes("t", ["pad"], world.position, upto),
    ):
        sizes = [(b.num_rows, b.nbytes) for b in batches]
        assert sum(rows for rows, _ in sizes) == 1000
        assert max(rows for rows, _ in sizes) <= 100 and max(size for _, size in sizes) < 40_000


def test_a_read_that_is_given_up_leaves_nothing_behind(server: servers.PostgresServer) -> None:
    world = World(server, "t", "CREATE TABLE t (id int)", "INSERT INTO t SELECT generate_series(1, 300000)")
    batches = world.s.state("t", ["id"], world.position)
    next(batches)
    batches.close()  # type: ignore[attr-defined]
    found = world.con.execute(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'stillframe' AND state <> 'idle'"
        " AND datname = current_database()"
    ).fetchone()
    assert found == (0,)


def role(database: Database, name: str, *statements: str) -> None:
    with contextlib.suppress(psycopg.errors.DuplicateObject):
        database.run(f"CREATE ROLE {name} LOGIN PASSWORD 'hush-hush'")
    database.run(*statements)


def missing(source: PostgresSource) -> dict[Capture, str]:
    return {method.capture: "\n".join(method.missing) for method in source.methods()}


def test_what_an_account_may_do(server: servers.PostgresServer) -> None:
    """Each statement that is named mends what it is named for."""
    database = Database(server, "CREATE TABLE t (id int)", "CREATE TABLE u (id int)")
    role(database, "clerk", "DROP OWNED BY clerk", "REVOKE ALL ON SCHEMA public FROM PUBLIC")
    source = PostgresSource("s", database.url("clerk"))
    assert list(missing(source)) == [Capture.LOG, Capture.TRIGGERS, Capture.SNAPSHOT]
    steps = []
    for _ in range(8):
        lacking = [(capture, text) for capture, text in missing(source).items() if text]
        if not lacking:
            break
        capture, text = lacking[-1]
        steps.append(capture)
        statement = text.splitlines()[0].partition(": ")[2].partition(", and")[0]
        if statement.startswith("GRANT postgres"):
            statement = "ALTER TABLE t OWNER TO clerk"
        database.run(statement)
    assert missing(source) == {Capture.LOG: "", Capture.TRIGGERS: "", Capture.SNAPSHOT: ""}
    assert steps[0] is Capture.SNAPSHOT and steps[-1] is Capture.LOG
    source.attach(ME, ["t"])
    with pytest.raises(SourceError, match="belongs to another account") as refused:
        source.attach(ME, ["u"])
    assert refused.value.code == "NOT_PERMITTED" and "GRANT postgres TO clerk" in refused.value.hint
    role(database, "other", "GRANT USAGE ON SCHEMA public TO other")
    other = PostgresSource("s", database.url("other"))
    assert (
        "the role that owns the schema _stillframe: GRANT clerk TO other" in missing(other)[Capture.TRIGGERS]
    )
    with pytest.raises(SourceError) as refused:
        other.attach("x", [])
    assert refused.value.code == "NOT_PERMITTED"
    source.detach(ME)


def test_wal_level_is_named() -> None:
    with running(wal_level="replica", max_wal_senders="5") as server:
        source = Database(server, "CREATE TABLE t (id int)").source()
        assert "ALTER SYSTEM SET wal_level = logical" in missing(source)[Capture.LOG]
        assert not missing(source)[Capture.TRIGGERS]


def test_a_replica_offers_snapshots_only(server: servers.PostgresServer) -> None:
    world = World(server, "t", "CREATE TABLE t (id int)", "INSERT INTO t VALUES (1)")
    with standby_of(server) as standby:
        source = PostgresSource("s", standby.url(world.name))
        usable = [method.capture for method in source.methods() if not method.missing]
        assert usable == [Capture.SNAPSHOT]
        assert "read-only replica" in missing(source)[Capture.TRIGGERS]
        assert list(source.describe()) == ["t"] and source.rows("t") == 1
        for act in (
            lambda: source.attach(ME, ["t"]),
            lambda: source.position(ME, ["t"]),
            lambda: list(source.state("t", ["id"], world.position)),
            lambda: source.detach(ME),
        ):
            with pytest.raises(SourceError) as refused:
                act()
            assert refused.value.code == "READ_ONLY_REPLICA"


def refuse(url: str) -> SourceError:
    with pytest.raises(SourceError) as error:
        PostgresSource("s", url).describe()
    told = error.value
    assert "hush" not in repr((told.message, told.detail, told.hint, str(told)))
    return told


def test_servers_that_cannot_be_used(server: servers.PostgresServer) -> None:
    database = Database(server, "CREATE TABLE t (id int)")
    role(database, "clerk")
    hba = server.folder / "data" / "pg_hba.conf"
    text = hba.read_text()
    hba.write_text("host all clerk 127.0.0.1/32 scram-sha-256\nhost all nobody 127.0.0.1/32 reject\n" + text)
    database.run("SELECT pg_reload_conf()")
    try:
        assert PostgresSource("s", database.url("clerk", "hush-hush")).describe()
        assert refuse(database.url("clerk", "hush-wrong")).code == "LOGIN_REFUSED"
        assert refuse(database.url("clerk")).code == "LOGIN_REFUSED"
        assert refuse(database.url("nobody", "hush")).code == "LOGIN_REFUSED"
        assert refuse(database.url("ghost", "hush")).code == "LOGIN_REFUSED"
        assert refuse(server.url("nowhere", "postgres", "hush")).code == "NO_DATABASE"
        unreachable = refuse(f"postgresql://clerk:hush@127.0.0.1:{servers.free_port()}/x")
        assert unreachable.code == "UNREACHABLE" and "127.0.0.1" in unreachable.detail
        assert refuse("postgresql://clerk:hush@127.0.0.1:port/x").code == "BAD_URL"
        assert refuse("postgresql://clerk:hu%sh@hush").code == "BAD_URL"
        assert refuse("hush hush = hush").code == "BAD_URL"
        for password in ("p@hush", "12/hush", "p/hush", "p?hush", "p#hush", "p:hush@"):
            assert refuse(f"postgresql://clerk:{password}@127.0.0.1:1/x").code in ("BAD_URL", "UNREACHABLE")
        source = PostgresSource("s", database.url("clerk", "hush-hush"))
        assert "hush" not in repr(source) and "hush" not in source.address
        assert source.address == replace(source, url=database.url()).address
    finally:
        hba.write_text(text)
        database.run("SELECT pg_reload_conf()")


def test_a_cancelled_statement_is_told(server: servers.PostgresServer) -> None:
    world = World(server, "t", "CREATE TABLE t (id int)", "INSERT INTO t SELECT generate_series(1, 200000)")
    url = world.url() + "?options=-c%20statement_timeout%3D20"
    with pytest.raises(SourceError) as told:
        source = PostgresSource("s", url)
        for _ in range(50):
            list(source.state("t", ["id"], world.position))
    assert told.value.code == "STATEMENT_TIMEOUT" and "statement_timeout" in told.value.hint
