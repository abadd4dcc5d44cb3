"""Types, values that are not of them, reads at a state, restricted reads, and files that cannot be read."""

from __future__ import annotations

import datetime as dt
import sqlite3
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from sqlite_world import ME, World, bag, database

from stillframe.algebra.arrow import staged_schema
from stillframe.algebra.bag import Bag
from stillframe.algebra.schema import Column
from stillframe.algebra.types import BIGINT, BINARY, BOOLEAN, DATE, DOUBLE, STRING, TIMESTAMP, Type, decimal
from stillframe.errors import ProjectError, SourceError, ValueMismatch
from stillframe.sources import Keys, SourceConfig, SqliteSource, open_source
from stillframe.sources.auto import AutoSource
from stillframe.sources.sqlite import read as sqlite_read
from stillframe.sources.sqlite.types import reading_of

UTC = dt.UTC


@pytest.mark.parametrize(
    "declared, type_",
    [
        *(
            (d, BIGINT)
            for d in ("int", "INTEGER", "BigInt", "smallint", "INT2", "INT8", "unsigned  big int", "INT(11)")
        ),
        *((d, BOOLEAN) for d in ("BOOL", "boolean")),
        *(
            (d, STRING)
            for d in ("VARCHAR(20)", "TEXT", "clob", "NATIVE CHARACTER(70)", "UUID", "JSON", "", "ANY")
        ),
        *((d, BINARY) for d in ("BLOB", "VARBINARY(16)", "bytea")),
        *((d, DOUBLE) for d in ("REAL", "float", "DOUBLE PRECISION")),
        ("DECIMAL(10,2)", decimal(10, 2)),
        ("numeric( 38 , 0 )", decimal(38, 0)),
        ("DECIMAL(5)", decimal(5, 0)),
        ("DATE", DATE),
        *((d, TIMESTAMP) for d in ("DATETIME", "timestamp", "TIMESTAMP WITH TIME ZONE", "TIMESTAMP(6)")),
        *(
            (d, None)
            for d in (
                "POINT",
                "FLOATING POINT",
                "TIME",
                "NUMERIC",
                "DECIMAL",
                "DECIMAL(39,2)",
                "DECIMAL(2,5)",
            )
        ),
        *((d, None) for d in ("GEOMETRY", "INTERVAL", "CHARINT", "MONEY")),
    ],
)
def test_declared_types(declared: str, type_: Type | None) -> None:
    reading = reading_of(declared)
    if type_ is None:
        assert reading.refused and repr(declared) in reading.refused
    else:
        assert reading.type == type_ and reading.refused is None
        assert reading.as_text == (declared in ("", "ANY", "JSON"))


def test_described_schema(tmp_path: Path) -> None:
    database(
        tmp_path / "s.db",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, a TEXT UNIQUE, b TEXT NOT NULL UNIQUE, c, d INT NOT NULL,"
        " at TIMESTAMP NOT NULL UNIQUE, p POINT, UNIQUE (b, d))",
        "CREATE UNIQUE INDEX part ON t (d) WHERE b = 'x'",
        "CREATE TABLE n (k TEXT PRIMARY KEY, u NOT NULL UNIQUE)",
        "CREATE TABLE w (k TEXT PRIMARY KEY, v DECIMAL(4,1)) WITHOUT ROWID",
        "CREATE TABLE É (É TEXT, é TEXT, z TEXT)",
        "CREATE VIEW v AS SELECT 1",
        "CREATE VIRTUAL TABLE f USING fts5(x)",
        "CREATE TABLE auto (id INTEGER PRIMARY KEY AUTOINCREMENT)",
    )
    source = SqliteSource("s", tmp_path / "s.db")
    source.attach(ME, ["t"])
    relations = source.describe()
    assert sorted(relations) == ["auto", "n", "t", "w", "É"]
    t = relations["t"]
    assert t.schema.columns == (
        Column("id", BIGINT, False),
        Column("a", STRING, True),
        Column("b", STRING, False),
        Column("c", STRING, True),
        Column("d", BIGINT, False),
        Column("at", TIMESTAMP, False),
    )
    assert t.schema.keys == {frozenset({0}), frozenset({2}), frozenset({2, 4})}
    assert "POINT" in t.refused["p"]
    assert relations["n"].schema.keys == frozenset()
    assert relations["w"].schema.keys == {frozenset({0})} and not relations["w"].schema[0].nullable
    assert set(relations["É"].refused) == {"É", "é"}
    with pytest.raises(SourceError, match=r"'p' of s\.t cannot be read"):
        list(source.state("t", ["p"], source.position(ME, ["t"])))
    with pytest.raises(SourceError, match="no column 'q'"):
        list(source.state("t", ["q"], source.position(ME, ["t"])))
    with pytest.raises(SourceError, match="no table 'v'"):
        source.attach(ME, ["v"])


GOOD: list[tuple[str, Any, Any]] = [
    ("BOOLEAN", 1, True),
    ("BOOLEAN", 0, False),
    ("", 5, "5"),
    ("", 0.1, "0.1"),
    ("JSON", "[1]", "[1]"),
    ("JSON", 12, "12"),
    ("DECIMAL(10,2)", 7, Decimal("7.00")),
    ("DECIMAL(10,2)", 0.1, Decimal("0.10")),
    ("DECIMAL(10,2)", "-12345678.90", Decimal("-12345678.90")),
    ("DECIMAL(38,0)", "12345678901234567", Decimal("12345678901234567")),
    ("DECIMAL(4,2)", 1e1, Decimal("10.00")),
    ("DATE", "0001-01-01", dt.date(1, 1, 1)),
    ("DATE", "9999-12-31", dt.date(9999, 12, 31)),
    ("DATETIME", "2024-02-29 23:59:59", dt.datetime(2024, 2, 29, 23, 59, 59, tzinfo=UTC)),
    ("DATETIME", "9999-12-31T23:59:59.999999Z", dt.datetime(9999, 12, 31, 23, 59, 59, 999999, tzinfo=UTC)),
    ("DATETIME", "0001-01-01 00:00:00", dt.datetime(1, 1, 1, tzinfo=UTC)),
    ("TIMESTAMP", "2024-01-01T00:00:00.5+02:00", dt.datetime(2023, 12, 31, 22, 0, 0, 500000, tzinfo=UTC)),
    ("TIMESTAMP", "2024-01-01 00:00:00 -00:30", dt.datetime(2024, 1, 1, 0, 30, tzinfo=UTC)),
    ("REAL", 3, 3.0),
    ("REAL", float("-inf"), float("-inf")),
]


@pytest.mark.parametrize("declared, stored, read", GOOD)
def test_values(tmp_path: Path, declared: str, stored: Any, read: Any) -> None:
    con = database(tmp_path / "s.db", f"CREATE TABLE t (id INTEGER PRIMARY KEY, v {declared})")
    source = SqliteSource("s", tmp_path / "s.db")
    start = source.attach(ME, ["t"])
    con.execute("INSERT INTO t VALUES (1, ?), (2, NULL)", (stored,))
    upto = source.position(ME, ["t"])
    assert bag(source.state("t", ["v"], upto)) == Bag({(read,): 1, (None,): 1})
    assert bag(source.changes("t", ["v"], start, upto)) == Bag({(read,): 1, (None,): 1})


BAD: list[tuple[str, Any, str]] = [
    ("INTEGER", "seven", "text 'seven', which is not a BIGINT"),
    ("INTEGER", 1.5, "real 1.5"),
    ("INTEGER", b"7", "blob b'7'"),
    ("BOOLEAN", 2, "integer 2, which is not a BOOLEAN"),
    ("BOOLEAN", "true", "text 'true'"),
    ("TEXT", b"x", "blob"),
    ("", b"x", "blob"),
    ("BLOB", "x", "text 'x'"),
    ("REAL", "x" * 500, "text 'xxx"),
    ("DECIMAL(4,2)", 100, "integer 100"),
    ("DECIMAL(4,2)", 0.125, "real 0.125"),
    ("DECIMAL(4,2)", float("inf"), "real inf"),
    ("DECIMAL(4,2)", "NaN", "text 'NaN'"),
    ("DECIMAL(4,2)", "1_0", "text '1_0'"),
    ("DATE", "2024-02-30", "text '2024-02-30'"),
    ("DATE", "20240201", "integer 20240201"),
    ("DATE", "2024-W05-1", "text"),
    ("DATETIME", "2024-01-01", "text"),
    ("DATETIME", "0001-01-01 00:00:00+01:00", "text"),
    ("DATETIME", "2024-01-01 25:00:00", "text"),
    ("DATETIME", "2024-01-01 00:00:00.1234567", "text"),
]


@pytest.mark.parametrize("declared, stored, message", BAD)
def test_values_of_another_type_are_named(tmp_path: Path, declared: str, stored: Any, message: str) -> None:
    con = database(tmp_path / "s.db", f"CREATE TABLE t (id INTEGER PRIMARY KEY, v {declared})")
    source = SqliteSource("shop", tmp_path / "s.db")
    start = source.attach(ME, ["t"])
    con.execute("INSERT INTO t VALUES (1, NULL), (42, ?), (43, NULL)", (stored,))
    upto = source.position(ME, ["t"])
    for read in (source.state("t", ["v"], upto), source.changes("t", ["id", "v"], start, upto)):
        with pytest.raises(ValueMismatch) as mismatch:
            list(read)
        assert "column 'v' of shop.t" in mismatch.value.message and message in mismatch.value.message
        assert mismatch.value.detail == "in the row id = 42" and len(mismatch.value.message) < 250
    con.execute("DELETE FROM t")
    with pytest.raises(ValueMismatch) as mismatch:
        list(source.changes("t", ["id", "v"], start, upto))
    assert mismatch.value.detail.startswith("in the row (42, ")


def test_text_that_is_not_utf8_is_named(tmp_path: Path) -> None:
    con = database(tmp_path / "s.db", "CREATE TABLE t (v TEXT)", "INSERT INTO t VALUES ('fine')")
    source = SqliteSource("s", tmp_path / "s.db")
    start = source.attach(ME, ["t"])
    con.execute("INSERT INTO t VALUES (CAST(x'41ff' AS TEXT))")
    upto = source.position(ME, ["t"])
    for read in (source.state("t", ["v"], upto), source.changes("t", ["v"], start, upto)):
        with pytest.raises(ValueMismatch, match=r"not UTF-8.*xff") as mismatch:
            list(read)
        assert mismatch.value.detail == "in the row rowid = 2"


def test_empty_and_many_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_read, "BATCH_ROWS", 3)
    world = World(tmp_path / "s.db", "t", "CREATE TABLE t (a INTEGER, b TEXT)")
    assert world.state(world.position) == Bag() == world.change(world.position, world.position)
    world.run("INSERT INTO t VALUES (1, 'a'), (2, 'b'), (3, 'c'), (4, 'd')")
    world.follow()
    batches = list(world.source.state("t", ["b", "a"], world.position))
    assert [b.num_rows for b in batches] == [3, 1]
    assert all(b.schema.equals(staged_schema([STRING, BIGINT])) for b in batches)


@pytest.mark.parametrize(
    "column, wanted, found",
    [
        ("id", pa.array([2, 99, 2]), {2}),
        ("n", pa.array([30, None]), {3, 4}),
        ("code", pa.array(["a", "zz"]), {1}),
        ("folded", pa.array(["b"]), {2, 3}),
        ("loose", pa.array(["x"]), {1}),
        ("id", pa.array([], pa.int64()), set()),
    ],
)
def test_reads_restricted_to_keys(tmp_path: Path, column: str, wanted: pa.Array, found: set[int]) -> None:
    world = World(
        tmp_path / "s.db",
        "t",
        "CREATE TABLE t (id INTEGER PRIMARY KEY, code TEXT UNIQUE,"
        " folded TEXT COLLATE NOCASE, n INTEGER, loose TEXT)",
        "CREATE INDEX i1 ON t (folded)",
        "CREATE INDEX i2 ON t (n)",
        "INSERT INTO t VALUES (1, 'a', 'a', 10, 'x'), (2, 'b', 'b', 20, 'y')",
        "INSERT INTO t VALUES (3, 'c', 'B', 30, 'z'), (4, 'd', 'd', 30, '')",
    )
    assert world.source.pushable("t", column)
    keys = Keys(column, wanted)
    assert bag(world.source.state("t", ["id"], world.position, keys)) == Bag.of((i,) for i in found)
    world.run("DELETE FROM t WHERE id IN (1, 3)", "REPLACE INTO t VALUES (2, 'a', 'q', 30, 'x')")
    assert bag(world.source.state("t", ["id"], world.position, keys)) == Bag.of((i,) for i in found)
    with sqlite_read.reading("s", world.source.path, keys) as con:
        table = world.source._table(con, "t")
        query = world.source._present(table, ["id", "n"], keys)
        plan = " ".join(row[3] for row in con.execute("EXPLAIN QUERY PLAN " + query.sql))
    assert ("SEARCH t USING" in plan) == (column != "loose"), plan


def test_what_is_not_pushable(tmp_path: Path) -> None:
    con = database(tmp_path / "s.db", "CREATE TABLE t (a, b REAL, c BLOB, d DATE, e JSON, f UUID, g INT)")
    source = SqliteSource("s", tmp_path / "s.db")
    assert [c for c in "abcdefg" if source.pushable("t", c)] == ["f", "g"]
    con.close()


def test_files_that_cannot_be_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    missing = SqliteSource("s", tmp_path / "none.db")
    for use in (missing.describe, lambda: missing.attach(ME, []), lambda: missing.detach(ME)):
        with pytest.raises(SourceError) as error:
            use()
        assert error.value.code == "NO_DATABASE" and error.value.hint
    assert not (tmp_path / "none.db").exists()

    con = sqlite3.connect(tmp_path / "old.db")
    con.execute("CREATE TABLE t (a)")
    con.commit()
    for use in (lambda s: s.describe(), lambda s: s.attach(ME, ["t"])):
        with pytest.raises(SourceError) as error:
            use(SqliteSource("s", tmp_path / "old.db"))
        assert error.value.code == "NOT_WAL" and "PRAGMA journal_mode=WAL" in error.value.hint
    con.close()

    (tmp_path / "text.db").write_text("no database at all, but long enough to look like one" * 100)
    with pytest.raises(SourceError, match="cannot be used"):
        SqliteSource("s", tmp_path / "text.db").describe()

    holder = database(tmp_path / "s.db", "CREATE TABLE t (a)", "BEGIN IMMEDIATE")
    monkeypatch.setattr(sqlite_read, "BUSY_SECONDS", 0.05)
    with pytest.raises(SourceError) as error:
        SqliteSource("s", tmp_path / "s.db").attach(ME, ["t"])
    assert error.value.code == "LOCKED"
    assert "t" in SqliteSource("s", tmp_path / "s.db").describe()
    holder.close()


def test_a_database_nobody_has_open_is_read(tmp_path: Path) -> None:
    path = tmp_path / "odd name ?#%.db"
    database(path, "CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)").close()
    assert not path.with_name(path.name + "-shm").exists()
    source = SqliteSource("s", path)
    assert list(source.describe()) == ["t"]
    start = source.attach(ME, ["t"])
    assert bag(source.state("t", ["a"], start, Keys("a", pa.array([1])))) == Bag({(1,): 1})


def test_open_source(tmp_path: Path) -> None:
    relative = open_source("s", SourceConfig("sqlite:///a/b.db"), base=tmp_path, keep=tmp_path)
    assert isinstance(relative, AutoSource) and relative.chosen() == SqliteSource("s", tmp_path / "a/b.db")
    limited = SourceConfig("sqlite:////x/b.db", capture_limit=9)
    absolute = open_source("s", limited, base=tmp_path, keep=tmp_path)
    assert isinstance(absolute, AutoSource) and absolute.chosen() == SqliteSource("s", Path("/x/b.db"), 9)
    for url in ("oracle://x/y", "b.db", "sqlite://b.db", "sqlite:///:memory:", "sqlite:///"):
        with pytest.raises(ProjectError) as error:
            open_source("s", SourceConfig(url), keep=tmp_path)
        assert error.value.hint
