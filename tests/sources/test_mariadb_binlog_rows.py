"""Rows of MariaDB's binary log: each value is the one the table has."""

from __future__ import annotations

import pytest
from mariadb_values import REFUSED, TYPES
from mariadb_world import ME, LogWorld, bag

import servers
from stillframe.algebra.bag import Bag
from stillframe.errors import ValueMismatch
from stillframe.sources.mariadb.rows import BYTE_SETS, CODECS


@pytest.mark.parametrize("row", [row for row in TYPES if "UUID" not in row])
def test_types(mariadb_server: servers.MariadbServer, row: str) -> None:
    """A value from the log is the value from the table."""
    declared = ", ".join(f"c{i} {how}" for i, (how, _, _) in enumerate(TYPES[row]))
    world = LogWorld(mariadb_server, "t", f"CREATE TABLE t (id INT PRIMARY KEY, {declared})")
    world.run("SET time_zone = '+00:00'", "INSERT INTO t (id) VALUES (0)")
    for i, (_, _, values) in enumerate(TYPES[row]):
        for n, (literal, _) in enumerate(values, 1):
            world.run(f"INSERT INTO t (id, c{i}) VALUES ({100 * i + n}, {literal})")
    upto = world.source.position(ME, ["t"])
    for i, (declared, _, values) in enumerate(TYPES[row]):
        expected = {n: value for n, (_, value) in enumerate(values, 100 * i + 1)}
        found = {
            r[0]: r[1]
            for r, _ in bag(world.source.changes("t", ["id", f"c{i}"], world.position, upto)).items()
        }
        assert {n: found[n] for n in expected} == expected, declared
        assert found[0] is None
    world.run("DELETE FROM t")
    assert world.state(world.position) == Bag()
    assert len(list(world.state(upto).items())) == 1 + sum(len(v) for _, _, v in TYPES[row])


@pytest.mark.parametrize(
    "declared",
    [
        *(how for kinds in REFUSED.values() for how in kinds),
        "UUID",
        "INET6",
        "TEXT CHARACTER SET sjis",
        "TEXT COMPRESSED",
    ],
)
def test_columns_the_log_does_not_tell(mariadb_server: servers.MariadbServer, declared: str) -> None:
    """They are refused by name, and those around them are read."""
    world = LogWorld(mariadb_server, "t", f"CREATE TABLE t (id INT PRIMARY KEY, x {declared}, n VARCHAR(9))")
    assert world.columns == ["id", "n"]
    assert "x" in world.source.describe()["t"].refused
    value = {"UUID": "uuid()", "INET6": "'::1'", "TIME": "'10:11:12'", "TIME(6)": "'-10:11:12.123456'"}.get(
        declared
    )
    value = value or ("'some text'" if "TEXT" in declared else "1" if "(" in declared else "NULL")
    world.run(
        f"INSERT INTO t VALUES (1, {value}, 'after'), (2, NULL, 'none')", "UPDATE t SET n = 'x' WHERE id = 1"
    )
    assert world.follow() == Bag({(1, "x"): 1, (2, "none"): 1})


def test_dates_that_are_none(mariadb_server: servers.MariadbServer) -> None:
    world = LogWorld(
        mariadb_server, "t", "CREATE TABLE t (id INT PRIMARY KEY, d DATE, e DATETIME(2), f TIMESTAMP(3) NULL)"
    )
    world.run("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'")
    world.run("INSERT INTO t VALUES (42, '2024-02-31', '0000-00-00', '0000-00-00')")
    upto = world.source.position(ME, ["t"])
    for column in "def":
        with pytest.raises(ValueMismatch) as bad:
            list(world.source.changes("t", ["id", column], world.position, upto))
        assert "id = '42'" in bad.value.detail


@pytest.mark.parametrize("charset", [*CODECS, *sorted(BYTE_SETS)])
def test_character_sets_are_decoded_as_the_server_does(
    mariadb_server: servers.MariadbServer, charset: str
) -> None:
    """Each character there is room for, from the table and from the log."""
    world = LogWorld(
        mariadb_server,
        "t",
        f"CREATE TABLE t (id INT PRIMARY KEY, s VARCHAR(9) CHARACTER SET {charset} COLLATE {charset}_bin)",
    )
    codes = [f"{code:02x}" for code in range(256)]
    if charset.startswith(("utf", "ucs")):
        codes = [chr(c).encode(CODECS[charset]).hex() for c in (0, 0x41, 0xE4, 0x20AC, 0x65E5, 0xFFFD)]
        codes += ["🙂".encode(CODECS[charset]).hex()] if charset not in ("ucs2", "utf8mb3") else []
    world.run("SET sql_mode = ''")
    for i, code in enumerate(codes):
        world.run(f"INSERT IGNORE INTO t VALUES ({i}, CONVERT(X'{code}' USING {charset}))")
    world.follow()
    assert len(list(world.rows.items())) == len(codes)
