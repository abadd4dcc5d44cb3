"""Reading MariaDB: keys, ranges, batches, and names that are not there."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from mariadb_world import ME, World, bag, run

import servers
from stillframe.algebra.bag import Bag
from stillframe.errors import ProjectError, SourceError
from stillframe.sources import Keys
from stillframe.sources.mariadb import read as reading
from stillframe.sources.mariadb.binlog import MariadbLogSource
from stillframe.sources.mariadb.triggers import MariadbSource


def test_nullable_columns_and_keys(mariadb_server: servers.MariadbServer) -> None:
    world = World(
        mariadb_server,
        "t",
        "CREATE TABLE t (a INT NOT NULL, b VARCHAR(10) NOT NULL COLLATE utf8mb4_general_ci, c INT UNIQUE,"
        " d TIME NOT NULL, e ENUM('x') NOT NULL, PRIMARY KEY (a, b), UNIQUE (b(3)), UNIQUE (d), UNIQUE (e))",
    )
    schema = world.source.describe()["t"].schema
    assert [c.nullable for c in schema] == [False, False, True, False]
    # Not c, which may be NULL; not d, which cannot be read; not e, whose bad values look alike.
    assert schema.keys == frozenset({frozenset({0, 1}), frozenset({1})})


def read_by_keys(world: World, column: str, values: Sequence[object], type_: pa.DataType) -> Bag:
    keys = Keys(column, pa.array(values, type_))
    return bag(world.source.state("t", ["id", column], world.position, keys))


@pytest.mark.parametrize("few", [True, False])
@pytest.mark.parametrize("may_create", [True, False])
@pytest.mark.parametrize(
    "declared, present, asked, type_",
    [
        ("INT", ["1", "2", "3"], [2, 3, 2**40], pa.int64()),
        ("TINYINT UNSIGNED", ["0", "255"], [255, -1, 256], pa.int16()),
        ("BIGINT UNSIGNED", ["18446744073709551615", "1"], [Decimal(2**64 - 1)], pa.decimal128(20, 0)),
        ("DATE", ["'2024-02-29'", "'2024-03-01'"], [date(2024, 2, 29)], pa.date32()),
        ("VARCHAR(5) COLLATE utf8mb4_general_ci", ["'abc'", "'ABC'", "'abc '", "'x'"], ["abc"], pa.string()),
        ("VARCHAR(5) COLLATE utf8mb4_nopad_bin", ["'abc'", "'ABC'", "'abc '"], ["abc ", "ABC"], pa.string()),
        ("VARCHAR(5) CHARACTER SET latin1", ["'ä'", "'?'", "'b'"], ["ä", "日本", "b", "🙂"], pa.string()),
        ("VARCHAR(9) CHARACTER SET utf8mb3", ["'日'", "'?'"], ["日", "🙂", "a" * 50], pa.string()),
        ("CHAR(4)", ["'a'", "'a b'", "''"], ["a", "a b", "", "a b   c"], pa.string()),
        ("VARCHAR(9)", ["'it''s'", "'a\\\\b'", "'%s'", "NULL"], ["it's", "a\\b", "%s"], pa.string()),
    ],
)
def test_keys_find_at_least_what_spark_would(
    mariadb_server: servers.MariadbServer,
    monkeypatch: pytest.MonkeyPatch,
    declared: str,
    present: list[str],
    asked: list[object],
    type_: pa.DataType,
    may_create: bool,
    few: bool,
) -> None:
    world = World(
        mariadb_server, "t", f"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, k {declared}, KEY (k))"
    )
    world.run(*(f"INSERT INTO t (k) VALUES ({literal})" for literal in present))
    world.position = world.source.position(ME, ["t"])
    everything = bag(world.source.state("t", ["id", "k"], world.position))
    world.run("DELETE FROM t WHERE id = 1", "UPDATE t SET k = NULL WHERE id = 2")
    if not few:
        monkeypatch.setattr(reading, "FEW_KEYS", 0)
    if not may_create:
        run(mariadb_server.connect(), "REVOKE CREATE TEMPORARY TABLES ON w.* FROM app@'127.0.0.1'")
    assert world.source.pushable("t", "k")
    found = read_by_keys(world, "k", asked, type_)
    wanted = {row: count for row, count in everything.items() if row[1] in asked}
    assert wanted and all(found[row] == count for row, count in wanted.items())
    assert all(everything[row] == count for row, count in found.items()), "a row that is not there"
    assert read_by_keys(world, "k", [], type_) == Bag()


def test_columns_that_are_not_pushed(mariadb_server: servers.MariadbServer) -> None:
    world = World(
        mariadb_server,
        "t",
        "CREATE TABLE t (a TEXT, b DOUBLE, c DECIMAL(9,2), d DATETIME, e ENUM('x'), f BLOB, g UUID,"
        " h BIT(1))",
    )
    assert [c for c in world.columns if world.source.pushable("t", c)] == []


@pytest.mark.parametrize(
    "declared, literal",
    [
        ("INT PRIMARY KEY", "seq"),
        ("BIGINT UNSIGNED PRIMARY KEY", "seq + 18446744073709550000"),
        ("VARCHAR(9) COLLATE utf8mb4_general_ci PRIMARY KEY", "concat(char(97 + seq mod 26), seq)"),
        ("VARCHAR(9) CHARACTER SET latin1 PRIMARY KEY", "concat('ä', seq)"),
        ("INT, b INT DEFAULT 1, PRIMARY KEY (k, b)", "seq"),
    ],
)
def test_ranges_cover_the_relation(
    mariadb_server: servers.MariadbServer, declared: str, literal: str
) -> None:
    world = World(mariadb_server, "t", f"CREATE TABLE t (k {declared})")
    world.run(f"INSERT INTO t (k) SELECT {literal} FROM seq_1_to_500")
    world.position = world.source.position(ME, ["t"])
    ranges = world.source.ranges("t", 60)
    assert len(ranges) == 9 and ranges[0].above is None and ranges[-1].upto is None
    world.run("DELETE FROM t LIMIT 70", f"INSERT INTO t (k) SELECT {literal} FROM seq_501_to_600")
    parts = [bag(world.source.state("t", ["k"], world.position, within=within)) for within in ranges]
    assert [sum(count for _, count in part.items()) for part in parts] == [60] * 8 + [20]
    total = Bag()
    for part in parts:
        total += part
    assert total == bag(world.source.state("t", ["k"], world.position))
    assert all(count == 1 for _, count in total.items())


@pytest.mark.parametrize("ddl", ["CREATE TABLE t (k INT)", "CREATE TABLE t (k DOUBLE PRIMARY KEY)"])
def test_tables_without_ranges(mariadb_server: servers.MariadbServer, ddl: str) -> None:
    assert World(mariadb_server, "t", ddl).source.ranges("t", 10) == ()


def test_a_read_is_in_batches_however_wide_rows_are(
    mariadb_server: servers.MariadbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    world = World(mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY, b LONGBLOB)")
    with mariadb_server.connect() as con:
        run(con, "SET GLOBAL max_allowed_packet = 67108864")
    con = world.connect()
    run(con, "INSERT INTO t SELECT seq, repeat(char(seq), 10000) FROM seq_1_to_200")
    run(con, "INSERT INTO t VALUES (1000, repeat('z', 17000000)), (1001, repeat('y', 16777215 - 9))")
    run(con, "INSERT INTO t VALUES (1002, repeat('w', 16777215 - 8)), (1003, ''), (1004, repeat('v', 65536))")
    upto = world.source.position(ME, ["t"])
    monkeypatch.setattr(reading, "BATCH_BYTES", 100_000)
    sizes = {}
    batches = 0
    for batch in world.source.state("t", ["id", "b"], upto):
        batches += 1
        sizes |= dict(zip(batch.column(0).to_pylist(), map(len, batch.column(1).to_pylist()), strict=True))
    assert batches > 20
    assert sizes == dict.fromkeys(range(1, 201), 10000) | {
        1000: 17000000, 1001: 16777206, 1002: 16777207, 1003: 0, 1004: 65536,
    }  # fmt: skip


def test_a_read_left_early_leaves_nothing_open(mariadb_server: servers.MariadbServer) -> None:
    world = World(mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY)")
    world.run("INSERT INTO t SELECT seq FROM seq_1_to_200000")
    upto = world.source.position(ME, ["t"])
    read = world.source.state("t", ["id"], upto)
    next(read)
    read.close()
    world.run("SET lock_wait_timeout = 5", "ALTER TABLE t ADD COLUMN n INT")


@pytest.mark.parametrize("log", [False, True])
def test_names_that_look_like_parameters(mariadb_server: servers.MariadbServer, log: bool) -> None:
    world = World(
        mariadb_server,
        "a %d",
        "CREATE TABLE `a %d` (`100%` INT PRIMARY KEY, `%s` VARCHAR(9), `x``y` ENUM('50%', 'it''s'),"
        " KEY (`%s`))",
        "INSERT INTO `a %d` VALUES (1, 'a', '50%'), (2, 'b', 'it''s')",
    )
    if log:
        world.source.detach(ME)
        grant = "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO app@'127.0.0.1'"
        run(mariadb_server.connect(), grant)
        world.source = MariadbLogSource("s", world.source.url)  # type: ignore[assignment]
        world.position = world.source.attach(ME, ["a %d"])
    world.columns = ["100%", "%s", "x`y"]
    world.run("UPDATE `a %d` SET `%s` = 'c' WHERE `100%` = 1", "DELETE FROM `a %d` WHERE `100%` = 2")
    for keys in (Keys("100%", pa.array([1, 2])), Keys("%s", pa.array(["a", "b"]))):
        assert bag(world.source.state("a %d", world.columns, world.position, keys)) == world.rows
    (within, *_) = world.source.ranges("a %d", 1)
    assert bag(world.source.state("a %d", ["100%"], world.position, within=within)) == Bag({(1,): 1})
    upto = world.source.position(ME, ["a %d"])
    change = bag(world.source.changes("a %d", ["x`y", "%s"], world.position, upto))
    assert change == Bag({("50%", "a"): -1, ("50%", "c"): 1, ("it's", "b"): -1})


def test_no_columns_are_rows_all_the_same(mariadb_server: servers.MariadbServer) -> None:
    world = World(mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY)")
    world.run("INSERT INTO t VALUES (1), (2)")
    upto = world.source.position(ME, ["t"])
    assert bag(world.source.state("t", [], upto)) == Bag({(): 2})
    assert bag(world.source.state("t", [], world.position)) == Bag()
    assert world.source.rows("t") == 2


@pytest.mark.parametrize(
    "url",
    [
        "mariadb://u:s3cret@host",
        "mariadb://u:s3cret@/db",
        "mariadb://u:s3cret@host:none/db",
        "mariadb://u:s3cret@host/db?charset=latin1",
        "mariadb://u:s3cret@host/db/more",
    ],
)
def test_urls_that_say_too_little(url: str) -> None:
    with pytest.raises(ProjectError) as error:
        MariadbSource("s", url).describe()
    assert "s3cret" not in str(error.value) + error.value.hint
    assert "s3cret" not in repr(MariadbSource("s", url))


def test_names_that_are_not_there(mariadb_server: servers.MariadbServer) -> None:
    world = World(
        mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE VIEW v AS SELECT 1 AS x"
    )
    assert set(world.source.describe()) == {"t"}
    for relation in ("v", "nothing", "_stillframe_log"):
        with pytest.raises(SourceError, match=f"has no table '{relation}'") as error:
            world.source.attach(ME, [relation])
        assert error.value.code == "NO_RELATION" and "there are: t" in error.value.detail
    with pytest.raises(SourceError, match="has no column 'x'") as error:
        list(world.source.state("t", ["x"], world.position))
    assert error.value.code == "NO_COLUMN"


def test_a_session_of_the_server_in_another_time_zone(mariadb_server: servers.MariadbServer) -> None:
    """What is read does not depend on the server's time zone."""
    con = mariadb_server.connect()
    run(con, "SET GLOBAL time_zone = '+05:00'")
    try:
        world = World(
            mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY, a TIMESTAMP NULL, b DATETIME)"
        )
        world.run("INSERT INTO t VALUES (1, '2024-01-01 05:00:00', '2024-01-01 05:00:00')")
        upto = world.source.position(ME, ["t"])
        ((row, _),) = bag(world.source.changes("t", ["a", "b"], world.position, upto)).items()
        assert row == (datetime(2024, 1, 1, 0, tzinfo=UTC), datetime(2024, 1, 1, 5, tzinfo=UTC))
        since = world.source.waiting_since(["t"], world.position)
        assert since is not None and abs((datetime.now(UTC) - since).total_seconds()) < 600
    finally:
        run(con, "SET GLOBAL time_zone = 'SYSTEM'")
