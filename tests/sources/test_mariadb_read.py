"""Reading MariaDB: every type at its extremes, keys and ranges, and values that no type has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from mariadb_world import ME, World, bag, run

import servers
from stillframe.algebra import types as t
from stillframe.algebra.bag import Bag
from stillframe.algebra.types import Type
from stillframe.errors import ProjectError, SourceError, ValueMismatch
from stillframe.sources import Keys
from stillframe.sources import mariadb_read as reading
from stillframe.sources.mariadb import MariadbSource

NINES = "9" * 38
Case = tuple[str, Type, tuple[tuple[str, Any], ...]]

# The rows of docs/types.md, by their first column, and what exercises each.
TYPES: dict[str, tuple[Case, ...]] = {
    "`TINYINT`, `SMALLINT`": (
        ("TINYINT", t.TINYINT, (("-128", -128), ("127", 127))),
        ("SMALLINT", t.SMALLINT, (("-32768", -32768), ("32767", 32767))),
    ),
    "`BOOLEAN`, `BOOL`, `TINYINT(1)`": (
        ("BOOLEAN", t.TINYINT, (("TRUE", 1), ("FALSE", 0), ("2", 2))),
        ("TINYINT(1)", t.TINYINT, (("-5", -5),)),
    ),
    "`MEDIUMINT`, `INT`": (
        ("MEDIUMINT", t.INT, (("-8388608", -8388608), ("8388607", 8388607))),
        ("INT", t.INT, ((str(-(2**31)), -(2**31)), (str(2**31 - 1), 2**31 - 1))),
    ),
    "`BIGINT`": (("BIGINT", t.BIGINT, ((str(-(2**63)), -(2**63)), (str(2**63 - 1), 2**63 - 1))),),
    "`TINYINT UNSIGNED`": (("TINYINT UNSIGNED", t.SMALLINT, (("255", 255), ("0", 0))),),
    "`SMALLINT UNSIGNED`, `MEDIUMINT UNSIGNED`": (
        ("SMALLINT UNSIGNED", t.INT, (("65535", 65535),)),
        ("MEDIUMINT UNSIGNED", t.INT, (("16777215", 16777215),)),
    ),
    "`INT UNSIGNED`": (
        ("INT UNSIGNED", t.BIGINT, ((str(2**32 - 1), 2**32 - 1),)),
        ("INT(9) ZEROFILL", t.BIGINT, (("7", 7),)),
    ),
    "`BIGINT UNSIGNED`": (
        ("BIGINT UNSIGNED", t.decimal(20, 0), ((str(2**64 - 1), Decimal(2**64 - 1)), ("0", Decimal(0)))),
    ),
    "`DECIMAL(p,s)`, p ≤ 38": (
        ("DECIMAL(38,0)", t.decimal(38, 0), ((NINES, Decimal(NINES)), (f"-{NINES}", Decimal(f"-{NINES}")))),
        ("DECIMAL(38,38)", t.decimal(38, 38), ((f"0.{NINES}", Decimal(f"0.{NINES}")),)),
        ("DECIMAL(5,2) ZEROFILL", t.decimal(5, 2), (("1.5", Decimal("1.50")),)),
        ("NUMERIC", t.decimal(10, 0), (("7", Decimal(7)),)),
    ),
    "`DOUBLE`": (
        (
            "DOUBLE",
            t.DOUBLE,
            (
                *((repr(x), x) for x in (0.1, 1.7976931348623157e308, 2.2250738585072014e-308, 5e-324)),
                ("-0e0", 0.0),
            ),
        ),
    ),
    "`FLOAT`": (
        (
            "FLOAT",
            t.DOUBLE,
            (("0.1", 0.10000000149011612), ("16777217", 16777216.0), ("3.4e38", 3.3999999521443642e38)),
        ),
    ),
    "`BIT(1)`": (("BIT(1)", t.BOOLEAN, (("b'1'", True), ("b'0'", False))),),
    "`CHAR(n)`": (
        ("CHAR(5)", t.STRING, (("'ab   '", "ab"), ("''", ""), ("' a'", " a"), ("'日本'", "日本"))),
    ),
    "`VARCHAR(n)`, `TINYTEXT`, `TEXT`, `MEDIUMTEXT`, `LONGTEXT`": (
        ("VARCHAR(20)", t.STRING, (("'trailing  '", "trailing  "), ("'🙂 é'", "🙂 é"), ("'a\\0b'", "a\0b"))),
        ("VARCHAR(20) CHARACTER SET latin1", t.STRING, (("'äöü €'", "äöü €"),)),
        ("VARCHAR(20) CHARACTER SET utf16", t.STRING, (("'🙂'", "🙂"),)),
        ("TINYTEXT", t.STRING, (("''", ""),)),
        ("TEXT", t.STRING, (("repeat('ü', 30000)", "ü" * 30000),)),
        ("MEDIUMTEXT", t.STRING, (("repeat('x', 70000)", "x" * 70000),)),
        ("LONGTEXT", t.STRING, (("'x'", "x"),)),
    ),
    "`ENUM`, `SET`": (
        ("ENUM('x', 'Y z')", t.STRING, (("'x'", "x"), ("2", "Y z"))),
        ("SET('a', 'b', 'c')", t.STRING, (("'c,a'", "a,c"), ("''", ""))),
    ),
    "`JSON`": (("JSON", t.STRING, (('\'{"b": 1,  "a": [null]}\'', '{"b": 1,  "a": [null]}'),)),),
    "`UUID`, `INET4`, `INET6`": (
        (
            "UUID",
            t.STRING,
            (("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),),
        ),
        ("INET4", t.STRING, (("'192.168.0.1'", "192.168.0.1"),)),
        ("INET6", t.STRING, (("'2001:DB8:0::1'", "2001:db8::1"),)),
    ),
    "`BINARY(n)`": (("BINARY(3)", t.BINARY, (("X'00'", b"\0\0\0"), ("'abc'", b"abc"))),),
    "`VARBINARY(n)`, `TINYBLOB`, `BLOB`, `MEDIUMBLOB`, `LONGBLOB`": (
        ("VARBINARY(9)", t.BINARY, (("X'00FF'", b"\0\xff"), ("''", b""))),
        ("TINYBLOB", t.BINARY, (("X'FE'", b"\xfe"),)),
        ("BLOB", t.BINARY, (("repeat(X'FF', 300)", b"\xff" * 300),)),
        ("MEDIUMBLOB", t.BINARY, (("X'00'", b"\0"),)),
        ("LONGBLOB", t.BINARY, (("X'C328'", b"\xc3\x28"),)),
    ),
    "`DATE`": (("DATE", t.DATE, (("'0001-01-01'", date(1, 1, 1)), ("'9999-12-31'", date(9999, 12, 31)))),),
    "`DATETIME(p)`": (
        (
            "DATETIME(6)",
            t.TIMESTAMP,
            (
                ("'0001-01-01 00:00:00'", datetime(1, 1, 1, tzinfo=UTC)),
                ("'9999-12-31 23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
            ),
        ),
        ("DATETIME", t.TIMESTAMP, (("'2024-02-29 12:00:00'", datetime(2024, 2, 29, 12, tzinfo=UTC)),)),
    ),
    "`TIMESTAMP(p)`": (
        (
            "TIMESTAMP(6) NULL",
            t.TIMESTAMP,
            (
                ("'1970-01-01 00:00:01'", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
                ("'2038-01-19 03:14:07.999999'", datetime(2038, 1, 19, 3, 14, 7, 999999, UTC)),
            ),
        ),
    ),
    "`YEAR`": (("YEAR", t.SMALLINT, (("1901", 1901), ("2155", 2155), ("'0000'", 0))),),
}
REFUSED = {
    "`DECIMAL(p,s)`, p > 38": ("DECIMAL(39,0)", "DECIMAL(65,30)"),
    "`BIT(n)`, n > 1": ("BIT(2)", "BIT(64)"),
    "`TIME(p)`": ("TIME", "TIME(6)"),
    "`GEOMETRY`, `POINT`, …": ("GEOMETRY", "POINT", "POLYGON"),
}


@pytest.mark.parametrize("row", TYPES)
def test_types(mariadb_server: servers.MariadbServer, row: str) -> None:
    """Read as the table has it, and from the log, and as NULL."""
    declared = ", ".join(f"c{i} {how}" for i, (how, _, _) in enumerate(TYPES[row]))
    world = World(mariadb_server, "t", f"CREATE TABLE t (id INT PRIMARY KEY, {declared})")
    schema = world.source.describe()["t"].schema
    assert schema.types[1:] == tuple(type_ for _, type_, _ in TYPES[row])
    world.run("SET time_zone = '+00:00'", "INSERT INTO t (id) VALUES (0)")
    for i, (_, _, values) in enumerate(TYPES[row]):
        for n, (literal, _) in enumerate(values, 1):
            world.run(f"INSERT INTO t (id, c{i}) VALUES ({100 * i + n}, {literal})")
    upto = world.source.position(ME, ["t"])
    for i, (declared, _, values) in enumerate(TYPES[row]):
        expected = {n: value for n, (_, value) in enumerate(values, 100 * i + 1)}
        for batches in (
            world.source.state("t", ["id", f"c{i}"], upto),
            world.source.changes("t", ["id", f"c{i}"], world.position, upto),
        ):
            found = {row[0]: row[1] for row, _ in bag(batches).items()}
            assert {n: found[n] for n in expected} == expected, declared
            assert found[0] is None
            assert all(type(found[n]) is type(expected[n]) for n in expected), declared
    world.run("DELETE FROM t")
    after = world.source.position(ME, ["t"])
    for i in range(len(TYPES[row])):
        gone = bag(world.source.changes("t", ["id", f"c{i}"], world.position, after))
        assert gone == Bag(), "a row that was deleted is not the one that was inserted"
        assert bag(world.source.state("t", [f"c{i}"], world.position)) == Bag()


@pytest.mark.parametrize("row", REFUSED)
def test_types_without_counterpart(mariadb_server: servers.MariadbServer, row: str) -> None:
    declared = ", ".join(f"c{i} {how}" for i, how in enumerate(REFUSED[row]))
    world = World(mariadb_server, "t", f"CREATE TABLE t (id INT PRIMARY KEY, {declared})")
    relation = world.source.describe()["t"]
    assert relation.schema.names == ("id",)
    assert set(relation.refused) == {f"c{i}" for i in range(len(REFUSED[row]))}
    with pytest.raises(SourceError, match="cannot be read") as refused:
        list(world.source.state("t", ["c0"], world.position))
    assert refused.value.code == "UNREADABLE_COLUMN"
    world.run("INSERT INTO t (id) VALUES (1)", "UPDATE t SET id = 2")
    world.follow()


@pytest.mark.parametrize(
    "declared, value",
    [
        ("DATE", "'0000-00-00'"),
        ("DATE", "'2024-00-10'"),
        ("DATE", "'2024-02-31'"),
        ("DATE", "'0000-05-05'"),
        ("DATETIME(3)", "'0000-00-00'"),
        ("DATETIME", "'0000-01-01 10:00:00'"),
        ("TIMESTAMP NULL", "'0000-00-00'"),
    ],
)
def test_dates_that_are_none(mariadb_server: servers.MariadbServer, declared: str, value: str) -> None:
    world = World(mariadb_server, "t", f"CREATE TABLE t (id INT PRIMARY KEY, d {declared})")
    world.run("SET sql_mode = 'ALLOW_INVALID_DATES'", f"INSERT INTO t VALUES (1, NULL), (42, {value})")
    upto = world.source.position(ME, ["t"])
    for read in (
        lambda: list(world.source.state("t", ["d", "id"], upto)),
        lambda: list(world.source.changes("t", ["id", "d"], world.position, upto)),
    ):
        with pytest.raises(ValueMismatch, match=r"column 'd' of s\.t holds '(0000|2024)") as bad:
            read()
        assert "id = '42'" in bad.value.detail and bad.value.code == "VALUE_MISMATCH"
    assert bag(world.source.state("t", ["id"], upto)) == Bag({(1,): 1, (42,): 1})


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
