"""Log capture as a warehouse meets it: what the servers' own logs tell, lose, or never had, in frames."""

from __future__ import annotations

import subprocess
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from history_writers import Database
from tests.room import driver_takes

import servers
from shops import Shop
from stillframe.errors import StillframeError
from stillframe.runtime import Warehouse

T = "CREATE TABLE t (id INT PRIMARY KEY, v INT)"
VIEW = "CREATE MATERIALIZED VIEW v {} AS SELECT id, v FROM s.t;\n"


@pytest.fixture(scope="module")
def postgres() -> Iterator[servers.PostgresServer]:
    with servers.postgres(max_prepared_transactions="5", max_replication_slots="60") as server:
        yield server


@pytest.fixture(scope="module")
def mariadb() -> Iterator[servers.MariadbServer]:
    with servers.mariadb(*servers.BINLOG) as server:
        yield server


@dataclass
class World:
    """One source `s`, captured by its server's log."""

    shop: Shop
    kind: str
    server: Any
    name: str

    def __post_init__(self) -> None:
        self.server.database(self.name)
        self.db = Database(self.kind, self.url)

    @property
    def url(self) -> str:
        return str(self.server.url(self.name))

    def run(self, *statements: str) -> list[tuple[Any, ...]]:
        found: list[tuple[Any, ...]] = []
        for statement in statements:
            found = self.db.run(statement)
        return found

    def capture(self, how: str = "log", extra: str = "") -> None:
        self.shop.configure(extra=f"  s: {{url: '{self.url}', capture: {how}}}\n{extra}")

    def exact(self, warehouse: Warehouse, view: str = "v", sql: str = "SELECT id, v FROM t") -> None:
        assert rows(warehouse, view) == Counter(map(tuple, self.run(sql)))


def rows(warehouse: Warehouse, view: str = "v") -> Counter[tuple[Any, ...]]:
    table = warehouse.arrow(view)
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


@pytest.fixture(params=["postgres", "mariadb"])
def world(request: pytest.FixtureRequest, shop: Shop) -> Iterator[World]:
    yield from _world(request, shop, request.param)


@pytest.fixture
def pg(request: pytest.FixtureRequest, shop: Shop) -> Iterator[World]:
    yield from _world(request, shop, "postgres")


@pytest.fixture
def my(request: pytest.FixtureRequest, shop: Shop) -> Iterator[World]:
    yield from _world(request, shop, "mariadb")


def _world(request: pytest.FixtureRequest, shop: Shop, kind: str) -> Iterator[World]:
    name = "l" + format(abs(hash(request.node.name)), "x")
    made = World(shop, kind, request.getfixturevalue(kind), name)
    made.run(T, "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)")
    made.capture()
    shop.views(VIEW.format(""))
    yield made
    made.db.con.close()


def settled(warehouse: Warehouse) -> None:
    result = warehouse.maintain()
    assert not result.failures, {n: str(o.error) for n, o in result.failures.items()}


def stopped(warehouse: Warehouse) -> StillframeError:
    """What stops the view, which `refresh --full` starts again."""
    result = warehouse.maintain()
    assert set(result.failures) == {"v"}
    error = result.failures["v"].error
    assert isinstance(error, StillframeError)
    return error


def dumped(world: World) -> str:
    """The schema as the server's own tool writes it."""
    port = str(world.server.port)
    if world.kind == "postgres":
        tool = servers.program("pg_dump", "postgresql-client")
        command = [tool, "-s", "-h", "127.0.0.1", "-p", port, "-U", "postgres", world.name]
    else:
        tool = servers.program("mariadb-dump", "mariadb-client")
        command = [tool, "--no-data", "--triggers", "--routines", "--skip-dump-date", "-h127.0.0.1"]
        command += [f"-P{port}", "-uroot", world.name]
    text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return "\n".join(line for line in text.splitlines() if not line.startswith("\\"))


# -- switching


# -- XA


def test_an_xa_transaction_that_is_committed_after_the_frame(my: World) -> None:
    other = Database("mariadb", my.url)
    with my.shop.open() as w:
        settled(w)
        for statement in ("XA START 'x'", "INSERT INTO t VALUES (9, 9)", "XA END 'x'", "XA PREPARE 'x'"):
            other.run(statement)
        w.maintain()
        w.refresh("v", full=True)
        other.run("XA COMMIT 'x'")
        other.con.close()
        result = w.maintain()
        if not result.failures:
            my.exact(w)


# -- MariaDB's statements


@pytest.mark.parametrize(
    "statement",
    [
        "TRUNCATE TABLE t",
        "SET STATEMENT max_statement_time = 10 FOR TRUNCATE TABLE t",
        'SET sql_mode = ANSI_QUOTES; TRUNCATE TABLE "t"',
        "TRUNCATE /*!50000 TABLE t */",
        "/*!50000 TRUNCATE TABLE t */",
        "EXECUTE IMMEDIATE 'TRUNCATE TABLE t'",
        "BEGIN NOT ATOMIC TRUNCATE TABLE t; END",
        "DELETE FROM t",
        "/*M! TRUNCATE TABLE t */",
    ],
)
def test_however_a_table_is_emptied(my: World, statement: str) -> None:
    with my.shop.open() as w:
        settled(w)
        other = Database("mariadb", my.url)
        for one in statement.split("; ", 1) if statement.startswith("SET sql") else [statement]:
            other.run(one)
        other.con.close()
        my.run("INSERT INTO t VALUES (7, 7)")
        settled(w)
        my.exact(w)


# -- logs that are lost


def lose(world: World, how: str) -> None:
    if how == "slot dropped":
        world.run(
            "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots"
            " WHERE database = current_database()"
        )
    elif how == "publication dropped":
        for (name,) in world.run("SELECT pubname FROM pg_publication"):
            world.run(f"DROP PUBLICATION {name}")
    elif how == "table left out":
        ((name,),) = world.run("SELECT pubname FROM pg_publication WHERE pubname <> 'stillframe_global'")
        world.run(f"ALTER PUBLICATION {name} DROP TABLE t")
    elif how == "identity":
        world.run("ALTER TABLE t REPLICA IDENTITY DEFAULT")
    elif how == "identity meanwhile":
        world.run(
            "ALTER TABLE t REPLICA IDENTITY DEFAULT",
            "UPDATE t SET v = v + 1",
            "ALTER TABLE t REPLICA IDENTITY FULL",
        )
    elif how == "schema dropped":
        world.run("DROP SCHEMA _stillframe CASCADE")
    elif how == "table anew":
        world.run("DROP TABLE t", T, "INSERT INTO t VALUES (1, 1), (5, 5)")
    elif how == "renamed twice":
        world.run("ALTER TABLE t RENAME TO old", T, "INSERT INTO t VALUES (1, 1)")
    elif how == "reset master":
        world.run("RESET MASTER")
    elif how == "reset master late":
        world.run("FLUSH BINARY LOGS", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (77, 1)", "RESET MASTER")
    elif how == "purged":
        world.run("INSERT INTO t VALUES (77, 1)", "FLUSH BINARY LOGS", "INSERT INTO t VALUES (78, 1)")
        ((file, *_),) = world.run("SHOW MASTER STATUS")
        while world.run("SHOW BINARY LOGS")[0][0] != file:  # those who read it have ended soon
            world.run(f"PURGE BINARY LOGS TO '{file}'")
    elif how == "books dropped":
        for (name,) in world.run("SHOW TABLES"):
            if name != "t":
                world.run(f"DROP TABLE {name}")
    elif how == "row image":
        world.run("SET binlog_row_image = MINIMAL", "UPDATE t SET v = v + 1", "SET binlog_row_image = FULL")
    elif how == "format":
        world.run("SET binlog_format = STATEMENT", "UPDATE t SET v = v + 1", "SET binlog_format = ROW")
    elif how == "xa":
        world.run("XA START 'y'", "UPDATE t SET v = v + 5", "XA END 'y'", "XA PREPARE 'y'", "XA COMMIT 'y'")


LOSSES = [
    *(("postgres", how) for how in ("slot dropped", "publication dropped", "table left out", "identity")),
    *(("postgres", how) for how in ("identity meanwhile", "schema dropped", "table anew", "renamed twice")),
    *(("mariadb", how) for how in ("reset master", "reset master late", "purged", "books dropped", "xa")),
    *(("mariadb", how) for how in ("table anew", "renamed twice", "row image", "format")),
]


@pytest.mark.parametrize(("kind", "how"), LOSSES, ids=[f"{k}-{h}" for k, h in LOSSES])
def test_what_is_lost_is_named_and_mended(
    request: pytest.FixtureRequest, shop: Shop, kind: str, how: str
) -> None:
    for world in _world(request, shop, kind):
        before = dumped(world)
        with shop.open() as w:
            settled(w)
            lose(world, how)
            world.run("INSERT INTO t VALUES (8, 8)")
            assert stopped(w).code == "CAPTURE_GAP"
            status = w.status()
            assert status["views"]["v"]["state"] == "stopped"
            assert stopped(w).code == "CAPTURE_GAP", "still"
            w.refresh("v", full=True)
            world.exact(w)
            world.run("UPDATE t SET v = v + 1 WHERE id = 8")
            settled(w)
            world.exact(w)
            assert w.frame().views["v"].session["mode"] != "full"
            assert w.verify("v").ok
            w.detach()
        if how not in ("renamed twice", "schema dropped"):  # which takes along what is known of identities
            assert dumped(world) == before


# -- tables that change


CHANGES = [
    ("postgres", "ALTER TABLE t ALTER v TYPE int USING v * 2"),
    ("postgres", "TRUNCATE t"),
    ("postgres", "ALTER TABLE t ADD w int DEFAULT 7"),
    (
        "postgres",
        "BEGIN; UPDATE t SET v = 5; ALTER TABLE t ADD w int DEFAULT 7; UPDATE t SET w = 8, v = 6; COMMIT",
    ),
    (
        "postgres",
        "BEGIN; UPDATE t SET v = 5; ALTER TABLE t DROP v; ALTER TABLE t ADD v int DEFAULT 3; COMMIT",
    ),
    ("postgres", "ALTER TABLE t RENAME v TO w; ALTER TABLE t RENAME w TO v"),
    ("postgres", "VACUUM FULL t; UPDATE t SET v = 4"),
    ("postgres", "CREATE UNIQUE INDEX i ON t (id); CLUSTER t USING i; UPDATE t SET v = 4"),
    ("mariadb", "ALTER IGNORE TABLE t ADD UNIQUE (v)"),
    ("mariadb", "ALTER TABLE t ADD w INT DEFAULT 7; UPDATE t SET v = 5"),
    ("mariadb", "ALTER TABLE t DROP v, ADD v INT DEFAULT 3"),
    ("mariadb", "ALTER TABLE t ADD w INT FIRST; UPDATE t SET v = 5"),
    ("mariadb", "ALTER TABLE t MODIFY v BIGINT; UPDATE t SET v = 5; ALTER TABLE t MODIFY v INT"),
    ("mariadb", "ALTER TABLE t RENAME COLUMN v TO w; ALTER TABLE t RENAME COLUMN w TO v"),
    ("mariadb", "CREATE TABLE IF NOT EXISTS t (id INT); UPDATE t SET v = 5"),
    ("mariadb", "ALTER TABLE t FORCE; OPTIMIZE TABLE t; ANALYZE TABLE t; UPDATE t SET v = 5"),
    (
        "mariadb",
        "CREATE TABLE p (id INT PRIMARY KEY); INSERT INTO p VALUES (1), (2), (3);"
        " ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (id) REFERENCES p (id) ON DELETE CASCADE;"
        " DELETE FROM p WHERE id = 1; ALTER TABLE t DROP FOREIGN KEY f",
    ),
]


@pytest.mark.parametrize(("kind", "script"), CHANGES)
def test_a_table_that_changes(request: pytest.FixtureRequest, shop: Shop, kind: str, script: str) -> None:
    """It goes on, mends itself, or is named; it never shows rows that are not there."""
    for world in _world(request, shop, kind):
        world.run("UPDATE t SET v = 1 WHERE id = 2") if "IGNORE" in script else None
        with shop.open() as w:
            settled(w)
            world.run(*script.split("; "))
            world.run("INSERT INTO t (id, v) VALUES (8, 8)")
            if w.maintain().failures:
                w.refresh("v", full=True)
            world.exact(w)
            world.run("UPDATE t SET v = v + 1 WHERE id = 8")
            settled(w)
            world.exact(w)
            assert w.frame().views["v"].session["mode"] != "full" and w.verify("v").ok


# -- size


def test_a_change_too_large_for_the_driver(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is written as it comes, and the source is asked for it once."""
    driver_takes(1000, monkeypatch.setattr)
    with world.shop.open() as w:
        settled(w)
        if world.kind == "postgres":
            world.run("INSERT INTO t SELECT i, i FROM generate_series(10, 5009) i")
        else:
            world.run("INSERT INTO t SELECT seq, seq FROM seq_10_to_5009")
        settled(w)
        world.run("UPDATE t SET v = v + 1", "DELETE FROM t WHERE id > 4000")
        settled(w)
        world.exact(w)
        assert w.verify("v").ok


# -- servers that crash, and servers that do not offer their log


@pytest.mark.parametrize("flush", [0, 1])
def test_a_crash_may_take_from_the_tables_what_the_log_has(shop: Shop, flush: int) -> None:
    durable = f"--innodb-flush-log-at-trx-commit={flush}"
    with servers.mariadb(*servers.BINLOG, durable) as server:
        world = World(shop, "mariadb", server, "crashed")
        world.run(T, "INSERT INTO t VALUES (1, 1), (2, 2)")
        world.capture()
        shop.views(VIEW.format(""))
        with shop.open() as w:
            settled(w)
            world.run("UPDATE t SET v = v + 1", "INSERT INTO t VALUES (3, 3)")
            world.db.con.close()
            server.stop(kill=True)
            assert stopped(w).code == "UNREACHABLE"
            server.start()
            world.db = Database("mariadb", world.url)
            if flush:
                settled(w)
            else:
                assert stopped(w).code == "CAPTURE_GAP"
                w.refresh("v", full=True)
            world.exact(w)
            world.run("INSERT INTO t VALUES (9, 9)")
            settled(w)
            world.exact(w)
        world.db.con.close()


def test_a_server_that_does_not_log_is_left_as_it_was(shop: Shop) -> None:
    with servers.postgres(wal_level="replica") as server:
        world = World(shop, "postgres", server, "unlogged")
        world.run(T)
        world.capture()
        shop.views(VIEW.format(""))
        before = dumped(world)
        with shop.open() as w:
            assert stopped(w).code == "CAPTURE_UNAVAILABLE"
        assert dumped(world) == before
        world.db.con.close()


# -- global transactions


@pytest.mark.parametrize("options", ["", "WITH (consistency = 'complete')"])
def test_no_frame_splits_a_global_transaction(
    shop: Shop, postgres: servers.PostgresServer, mariadb: servers.MariadbServer, options: str
) -> None:
    urls = {"a": postgres.url("parts"), "b": mariadb.url("parts")}
    postgres.database("parts")
    mariadb.database("parts")
    a, b = Database("postgres", urls["a"]), Database("mariadb", urls["b"])
    for database in (a, b):
        database.run(T)
    shop.configure(extra="".join(f"  {s}: {{url: '{url}', capture: log}}\n" for s, url in urls.items()))
    shop.views(
        "".join(f"CREATE MATERIALIZED VIEW v{s} {options} AS SELECT id, v FROM {s}.t;\n" for s in urls)
    )

    def part(database: Database, marks: str, n: int) -> None:
        database.run("BEGIN")
        database.run(f"INSERT INTO {marks} (id, parts) VALUES ('g{n}', 2)")
        database.run(f"INSERT INTO t VALUES ({n}, 0)")
        database.run("COMMIT")

    with shop.open() as w:
        settled(w)
        for n in range(3):
            part(a, "_stillframe.global", n)
            a.run(f"UPDATE t SET v = 1 WHERE id = {n}")
            settled(w)
            assert not any(row[0] == n for row in rows(w, "va"))
            part(b, "_stillframe_global", n)
            settled(w)
            settled(w)
            assert (n, 1) in rows(w, "va") and (n, 0) in rows(w, "vb")
        for frame in w.frames():
            ids = [w.arrow(view, frame.number).column("id").to_pylist() for view in ("va", "vb")]
            assert sorted(ids[0]) == sorted(ids[1])
    for database in (a, b):
        database.con.close()
