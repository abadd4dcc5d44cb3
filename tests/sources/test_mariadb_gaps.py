"""Every way a MariaDB log can stop being what a frame takes it for, and what does it no harm."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from mariadb_world import ME, World, bag, rows, run

import servers
from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap, SourceError
from stillframe.sources.mariadb.triggers import MariadbSource

KEYED = "CREATE TABLE t (id INT PRIMARY KEY, code VARCHAR(20) UNIQUE, n INT)"
FILL = "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)"
PARENT = "CREATE TABLE p (id INT PRIMARY KEY)"


@pytest.fixture
def world(mariadb_server: servers.MariadbServer) -> World:
    return World(mariadb_server, "t", KEYED, FILL)


def run_now(*statements: str) -> Callable[[World], None]:
    return lambda world: world.run(*statements)


def detach_and_attach(world: World) -> None:
    world.source.detach(ME)
    world.source.attach(ME, ["t"])


def lose_log_row_unseen(world: World) -> None:
    world.run("INSERT INTO t VALUES (4, 'd', 40), (5, 'e', 50)")
    world.run("DELETE FROM _stillframe_log WHERE relation = 1 ORDER BY seq DESC LIMIT 1")
    world.run("INSERT INTO t VALUES (6, 'f', 60)")


def lose_log_row(world: World) -> None:
    world.run("INSERT INTO t VALUES (4, 'd', 40), (5, 'e', 50)")
    world.source.position(ME, ["t"])
    world.run("DELETE FROM _stillframe_log WHERE relation = 1 ORDER BY seq DESC LIMIT 1")


TRIGGERS = "triggers of table 't' are not as"
SILENT = "without firing a trigger"
GAPS: list[tuple[str, str, Callable[[World], None]]] = [
    ("another database", "CAPTURE_GAP", detach_and_attach),
    (TRIGGERS, "CAPTURE_GAP", run_now("DROP TABLE t", KEYED, FILL)),
    (TRIGGERS, "CAPTURE_GAP", run_now("RENAME TABLE t TO old", KEYED, "INSERT INTO t SELECT * FROM old")),
    (TRIGGERS, "CAPTURE_GAP", run_now("DROP TRIGGER _stillframe_1_delete")),
    (TRIGGERS, "CAPTURE_GAP", run_now("DROP PROCEDURE _stillframe_number")),
    (TRIGGERS, "CAPTURE_GAP", run_now("DROP PROCEDURE _stillframe_1_3", "DELETE FROM t WHERE id = 1")),
    ("table 't' is gone", "CAPTURE_GAP", run_now("ALTER TABLE t RENAME TO u")),
    ("table 't' is gone", "CAPTURE_GAP", run_now("DROP TABLE t")),
    ("column 'n' of table 't' changed", "TABLE_CHANGED", run_now("ALTER TABLE t RENAME COLUMN n TO m")),
    ("column 'n' of table 't' changed", "TABLE_CHANGED", run_now("ALTER TABLE t MODIFY n BIGINT")),
    ("column 'n' of table 't' changed", "TABLE_CHANGED", run_now("ALTER TABLE t DROP COLUMN n")),
    ("column 'n' of table 't' changed", "TABLE_CHANGED", run_now("ALTER TABLE t MODIFY n INT NOT NULL")),
    (
        "column 'code' of table 't' changed",
        "TABLE_CHANGED",
        run_now("ALTER TABLE t CONVERT TO CHARACTER SET latin1"),
    ),
    ("1 log rows are missing", "CAPTURE_GAP", lose_log_row),
    ("restored from an older copy", "CAPTURE_GAP", run_now("DELETE FROM _stillframe_log")),
    (SILENT, "TRUNCATED", run_now("TRUNCATE t")),
    (SILENT, "TRUNCATED", run_now("TRUNCATE t", FILL)),
    (
        SILENT,
        "TRUNCATED",
        run_now("TRUNCATE t", "INSERT INTO t VALUES (7, 'x', 1), (8, 'y', 2), (9, 'z', 3)"),
    ),
    (SILENT, "TRUNCATED", run_now("UPDATE t SET n = n + 1", "TRUNCATE t", FILL)),
    (SILENT, "TRUNCATED", run_now("DELETE FROM t", "INSERT INTO t VALUES (7, 'x', 1)", "TRUNCATE t")),
    (
        SILENT,
        "TRUNCATED",
        run_now("TRUNCATE t", "ALTER TABLE t ADD COLUMN extra INT", "INSERT INTO t (id) VALUES (5)"),
    ),
    (SILENT, "TRUNCATED", run_now("ALTER TABLE t DROP COLUMN n, ADD COLUMN n INT")),
    (
        "partitions",
        "CAPTURE_GAP",
        run_now("ALTER TABLE t DROP INDEX code", "ALTER TABLE t PARTITION BY HASH (id) PARTITIONS 2"),
    ),
    (
        "cannot be captured any more",
        "CASCADE_NOT_CAPTURED",
        run_now(
            PARENT,
            "INSERT INTO p VALUES (10), (20), (30)",
            "ALTER TABLE t ADD FOREIGN KEY (n) REFERENCES p (id) ON UPDATE CASCADE",
        ),
    ),
    ("cannot be captured any more", "UNCAPTURABLE_TABLE", run_now("ALTER TABLE t ENGINE=MyISAM")),
]


@pytest.mark.parametrize("message, code, happens", GAPS)
def test_capture_gap(world: World, message: str, code: str, happens: Callable[[World], None]) -> None:
    world.run("DELETE FROM t WHERE id = 3", "INSERT INTO t VALUES (3, 'c', 30)")
    world.follow()
    happens(world)
    with pytest.raises(CaptureGap, match=message) as gap:
        world.source.check(world.position, ["t"])
    assert gap.value.code == code and "refresh --full" in gap.value.hint
    with pytest.raises(CaptureGap):
        world.state(world.position)
    with pytest.raises(CaptureGap):
        upto = world.source.position(ME, ["t"])
        world.change(world.position, upto)


@pytest.mark.parametrize(
    "happens",
    [
        run_now("TRUNCATE t"),
        run_now("DROP TABLE t", KEYED),
        run_now("DROP TRIGGER _stillframe_1_delete"),
        run_now("ALTER TABLE t DROP COLUMN n"),
        run_now("ALTER TABLE t MODIFY n BIGINT"),
    ],
)
def test_attaching_again_mends_a_relation_from_now_on(world: World, happens: Callable[[World], None]) -> None:
    old = world.position
    world.run("DELETE FROM t WHERE id = 3")
    happens(world)
    world.position = world.source.attach(ME, ["t"])
    world.columns = list(world.source.describe()["t"].schema.names)
    world.rows = world.present()
    world.run("REPLACE INTO t (id, code) VALUES (9, 'a')", "INSERT IGNORE INTO t (id) VALUES (9), (10)")
    world.follow()
    with pytest.raises(CaptureGap, match="installed later"):
        world.source.check(old, ["t"])


@pytest.mark.parametrize(
    "statements",
    [
        ["ALTER TABLE t ADD COLUMN extra INT DEFAULT 5"],
        ["ALTER TABLE t ADD COLUMN extra INT FIRST"],
        ["ALTER TABLE t MODIFY COLUMN n INT FIRST"],
        ["ALTER TABLE t ADD INDEX (n)"],
        ["ALTER TABLE t DROP INDEX code"],
        ["OPTIMIZE TABLE t"],
        ["ANALYZE TABLE t"],
        ["ALTER TABLE t FORCE"],
        ["ALTER TABLE t COMMENT 'mine'"],
        ["ALTER TABLE t MODIFY n INT DEFAULT 7"],
        ["CREATE TRIGGER mine AFTER INSERT ON t FOR EACH ROW SET @x = 1"],
        ["DELETE FROM t", "TRUNCATE t"],
        [
            "DELETE FROM t",
            "INSERT INTO t VALUES (4, 'd', 1)",
            "DELETE FROM t",
            "INSERT INTO t (id) VALUES (5)",
        ],
        ["BEGIN", "UPDATE t SET n = 0", "ROLLBACK"],
    ],
)
def test_no_gap(world: World, statements: list[str]) -> None:
    world.run(*statements, "INSERT INTO t (id, code, n) VALUES (70, 'x', 1)")
    world.follow()
    world.source.acknowledge(ME, world.position)
    world.run("UPDATE t SET n = n + 1")
    world.follow()


def test_truncation_is_told_after_the_log_was_trimmed(world: World) -> None:
    """Witnesses that were deleted, and whose deletion is not in the log any more, prove nothing."""
    for i in range(100, 160):
        world.run(f"INSERT INTO t VALUES ({i}, '{i}', 1)", f"DELETE FROM t WHERE id = {i - 10}")
        if i % 4 == 0:
            world.follow()
            world.source.acknowledge(ME, world.position)
    world.follow()
    world.run("TRUNCATE t")
    with pytest.raises(CaptureGap, match=SILENT):
        world.source.position(ME, ["t"])


def test_log_rows_deleted_before_anybody_saw_them_are_missed(world: World) -> None:
    lose_log_row_unseen(world)
    with pytest.raises(CaptureGap, match="1 log rows are missing"):
        world.source.position(ME, ["t"])


def test_a_relation_nobody_looks_at_keeps_its_gap(mariadb_server: servers.MariadbServer) -> None:
    """Its gap is found when the log is about to be trimmed, which would hide it, and stays on record."""
    world = World(mariadb_server, "t", KEYED, FILL, "CREATE TABLE u (id INT PRIMARY KEY)")
    world.run("INSERT INTO u VALUES (1), (2), (3)")
    start = world.source.attach(ME, ["t", "u"])
    world.position = start
    world.run("TRUNCATE u", "INSERT INTO u VALUES (4)")
    for i in range(10, 60):
        world.run(f"INSERT INTO t VALUES ({i}, '{i}', 1)")
    world.follow()
    world.source.acknowledge(ME, world.position)
    assert world.source.log_status().rows == 0
    for relation, code in (("u", "TRUNCATED"), ("u", "TRUNCATED")):
        with pytest.raises(CaptureGap, match=SILENT) as gap:
            world.source.position(ME, [relation])
        assert gap.value.code == code
    world.run("UPDATE t SET n = 5 WHERE id < 12")
    world.follow()
    world.source.attach(ME, ["t", "u"])
    world.source.position(ME, ["u"])


@pytest.mark.parametrize(
    "ddl",
    [
        "CREATE TABLE t (s VARCHAR(10), n DOUBLE)",
        "CREATE TABLE t (s TEXT)",
        "CREATE TABLE t (a INT, b VARCHAR(300), c BLOB, PRIMARY KEY (a, b))",
        "CREATE TABLE t (b BINARY(3) PRIMARY KEY, d DATETIME(6), e ENUM('x', 'y'))",
    ],
)
def test_truncation_of_any_table(mariadb_server: servers.MariadbServer, ddl: str) -> None:
    world = World(mariadb_server, "t", ddl)
    first = world.columns[0]
    world.run("SET sql_mode = ''", *(f"INSERT INTO t ({first}) VALUES ({i % 3})" for i in range(2)))
    world.source.position(ME, ["t"])
    world.run(f"UPDATE t SET {first} = 9 LIMIT 1")
    world.source.position(ME, ["t"])
    world.run("TRUNCATE t", f"INSERT INTO t ({first}) VALUES (0)")
    with pytest.raises(CaptureGap, match=SILENT):
        world.source.position(ME, ["t"])


PARTS = (
    "CREATE TABLE t (id INT PRIMARY KEY, n INT) PARTITION BY RANGE (id)"
    " (PARTITION low VALUES LESS THAN (10), PARTITION `the rest` VALUES LESS THAN MAXVALUE)"
)
ROWS = "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3), (11, 1), (12, 2), (13, 3)"


@pytest.mark.parametrize(
    "statements",
    [
        ["TRUNCATE t", ROWS],
        ["ALTER TABLE t TRUNCATE PARTITION `the rest`"],
        ["ALTER TABLE t TRUNCATE PARTITION low", "INSERT INTO t VALUES (1, 1), (2, 2), (3, 3)"],
        ["ALTER TABLE t EXCHANGE PARTITION low WITH TABLE e"],
        ["ALTER TABLE t DROP PARTITION low"],
    ],
)
def test_partitions(mariadb_server: servers.MariadbServer, statements: list[str]) -> None:
    world = World(mariadb_server, "t", PARTS, ROWS, "CREATE TABLE e (id INT PRIMARY KEY, n INT)")
    world.run("INSERT INTO e VALUES (4, 4), (5, 5), (6, 6)")
    world.run("UPDATE t SET id = 22 WHERE id = 2", "DELETE FROM t WHERE id = 11")
    world.follow()
    world.run("INSERT INTO t VALUES (5, 5), (2, 2)", *statements)
    with pytest.raises(CaptureGap):
        world.source.position(ME, ["t"])


@pytest.mark.parametrize(
    "rule",
    [
        "ON DELETE CASCADE",
        "ON DELETE SET NULL",
        "ON UPDATE CASCADE",
        "ON DELETE NO ACTION ON UPDATE SET NULL",
    ],
)
def test_cascades_are_refused(mariadb_server: servers.MariadbServer, rule: str) -> None:
    world = World(mariadb_server, "p", PARENT, "INSERT INTO p VALUES (1), (2)")
    world.run(f"CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY fk (p) REFERENCES p (id) {rule})")
    with pytest.raises(SourceError, match="fires no trigger") as refused:
        world.source.attach(ME, ["p", "c"])
    assert refused.value.code == "CASCADE_NOT_CAPTURED" and "capture: snapshot" in refused.value.hint
    assert "to 'p' says ON" in refused.value.detail
    world.run("ALTER TABLE c DROP FOREIGN KEY " + rows(world.con, NAME_OF_KEY)[0][0])
    world.run("ALTER TABLE c ADD FOREIGN KEY (p) REFERENCES p (id) ON DELETE RESTRICT")
    world.source.attach(ME, ["p", "c"])


NAME_OF_KEY = (
    "SELECT CONSTRAINT_NAME FROM information_schema.REFERENTIAL_CONSTRAINTS"
    " WHERE CONSTRAINT_SCHEMA = DATABASE()"
)


@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "MEMORY"])
def test_tables_without_transactions_are_refused(mariadb_server: servers.MariadbServer, engine: str) -> None:
    world = World(mariadb_server, "p", PARENT)
    world.run(f"CREATE TABLE m (id INT PRIMARY KEY) ENGINE={engine}")
    with pytest.raises(SourceError, match="'m' of source 's' cannot be captured") as refused:
        world.source.attach(ME, ["m"])
    assert refused.value.code == "UNCAPTURABLE_TABLE" and "no transactions" in refused.value.detail


def test_a_read_that_a_truncation_overtakes_begins_again(world: World) -> None:
    """A snapshot begun before cannot read the table any more (error 1412); one begun after sees the gap."""
    from stillframe.sources.mariadb import database as module

    original, happened = module.begin_snapshot, []

    def overtaken(con: object) -> None:
        original(con)  # type: ignore[arg-type]
        if not happened:
            happened.append(True)
            world.run("ALTER TABLE t ADD COLUMN extra INT")

    module.begin_snapshot = overtaken  # type: ignore[assignment]
    try:
        assert world.state(world.position) == world.rows
        happened.clear()
        world.run("ALTER TABLE t DROP COLUMN extra")
        assert world.source.position(ME, ["t"]) == world.position
    finally:
        module.begin_snapshot = original


def test_an_older_source_meets_a_newer_capture(world: World) -> None:
    world.run("UPDATE _stillframe_source SET format = 99")
    with pytest.raises(SourceError, match="another version") as error:
        world.source.position(ME, ["t"])
    assert error.value.code == "CAPTURE_FORMAT"


def test_a_column_added_later_is_captured_once_asked_for(world: World) -> None:
    world.run(
        "ALTER TABLE t ADD COLUMN extra VARCHAR(9) DEFAULT 'x' FIRST", "UPDATE t SET n = 0 WHERE id = 1"
    )
    assert world.follow() == Bag({(1, "a", 10): -1, (1, "a", 0): 1})
    with pytest.raises(CaptureGap, match="'extra' was added"):
        list(world.source.changes("t", ["extra"], world.position, world.position))
    old = world.position
    world.position = world.source.attach(ME, ["t"])
    world.columns.append("extra")
    world.rows = world.present()
    world.run("UPDATE t SET extra = 'z' WHERE id = 2")
    assert world.follow() == Bag({(2, "b", 20, "x"): -1, (2, "b", 20, "z"): 1})
    assert bag(world.source.changes("t", ["id", "n"], old, world.position)) == Bag()
    world.run("ALTER TABLE t ADD COLUMN more INT", "UPDATE t SET n = 1")
    world.position = world.source.attach(ME, ["t"])
    world.columns.append("more")
    world.rows = world.present()
    world.run("UPDATE t SET more = id")
    world.follow()
    world.source.acknowledge(ME, world.position)
    assert world.source.log_status().rows == 0
    world.run("TRUNCATE t")
    with pytest.raises(CaptureGap, match=SILENT):
        world.follow()


def test_refused_accounts_and_servers_are_explained(mariadb_server: servers.MariadbServer) -> None:
    world = World(mariadb_server, "t", KEYED)
    url = world.source.url

    def told(url: str) -> SourceError:
        with pytest.raises(SourceError) as error:
            MariadbSource("s", url).describe()
        assert "s3cret" not in str(error.value) + error.value.hint
        return error.value

    assert told(url.replace("s3cret", "wrong")).code == "ACCESS_DENIED"
    assert told(url.replace("/w", "/elsewhere")).code in ("NO_DATABASE", "ACCESS_DENIED")
    assert told(mariadb_server.url("nowhere")).code == "NO_DATABASE"
    assert told(f"mariadb://app:s3cret@127.0.0.1:{servers.free_port()}/w").code == "UNREACHABLE"
    with mariadb_server.connect() as con:
        run(con, "SET GLOBAL read_only = 1")
        try:
            with pytest.raises(SourceError) as error:
                world.source.attach("other", ["t"])
            assert error.value.code == "READ_ONLY"
            triggers = next(m for m in world.source.methods() if m.capture == "triggers")
            assert any("read_only" in reason for reason in triggers.missing)
        finally:
            run(con, "SET GLOBAL read_only = 0")
