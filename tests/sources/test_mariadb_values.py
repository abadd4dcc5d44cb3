"""Every type of MariaDB at its extremes, from the table and from the log, and values that no type has."""

from __future__ import annotations

import pytest
from mariadb_values import REFUSED, TYPES
from mariadb_world import ME, World, bag

import servers
from stillframe.algebra.bag import Bag
from stillframe.errors import SourceError, ValueMismatch


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
