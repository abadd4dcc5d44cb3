"""Every type of PostgreSQL that has a row in docs/types.md, and what is refused."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from postgres_world import ME, Database, World, bag, running

import servers
from stillframe.algebra.arrow import staged_schema
from stillframe.algebra.bag import Bag
from stillframe.algebra.schema import Column
from stillframe.algebra.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    Type,
    decimal,
)
from stillframe.errors import SourceError, ValueMismatch
from stillframe.sources import Keys
from stillframe.sources.postgres import read as postgres_read


@pytest.fixture(scope="module")
def server() -> Iterator[servers.PostgresServer]:
    with running() as started:
        yield started


def at(*parts: int) -> dt.datetime:
    return dt.datetime(*parts, tzinfo=dt.UTC)  # type: ignore[arg-type,misc]


DDL = (
    "CREATE EXTENSION IF NOT EXISTS citext",
    "CREATE TYPE mood AS ENUM ('sad', 'ok')",
    "CREATE DOMAIN price AS numeric(10,2) CHECK (VALUE >= 0)",
    "CREATE DOMAIN low AS price",
    "CREATE TYPE pair AS (a int, b int)",
)
# Declared, what it becomes, and values as SQL writes them with what they are read as.
READ: list[tuple[str, Type, list[tuple[str, Any]]]] = [
    ("smallint", SMALLINT, [("-32768", -32768), ("32767", 32767)]),
    ("integer", INT, [("-2147483648", -(2**31)), ("2147483647", 2**31 - 1)]),
    ("bigint", BIGINT, [("-9223372036854775808", -(2**63)), ("9223372036854775807", 2**63 - 1)]),
    ("numeric(10,2)", decimal(10, 2), [("-12345678.90", Decimal("-12345678.90")), ("0", Decimal("0.00"))]),
    (
        "numeric(38,0)",
        decimal(38, 0),
        [("9" * 38, Decimal("9" * 38)), ("-" + "9" * 38, Decimal("-" + "9" * 38))],
    ),
    ("numeric(38,38)", decimal(38, 38), [("0." + "9" * 38, Decimal("0." + "9" * 38))]),
    ("numeric(5)", decimal(5, 0), [("12345", Decimal(12345))]),
    (
        "real",
        DOUBLE,
        [("0.1", 0.10000000149011612), ("'-Infinity'", float("-inf")), ("1e-45", 1.401298464324817e-45)],
    ),
    (
        "double precision",
        DOUBLE,
        [
            ("0.1", 0.1),
            ("5e-324", 5e-324),
            ("1.7976931348623157e308", 1.7976931348623157e308),
            ("'Infinity'", float("inf")),
            ("'-0'", -0.0),
        ],
    ),
    ("boolean", BOOLEAN, [("true", True), ("false", False)]),
    (
        "text",
        STRING,
        [
            ("''", ""),
            ("'NULL'", "NULL"),
            ("'a,b'", "a,b"),
            ("E'q\"u\\no\\rte\\\\.'", 'q"u\no\rte\\.'),
            ("'\\.'", "\\."),
            ("'ünï 日本 😀'", "ünï 日本 😀"),
            ("' x '", " x "),
            ("E'\\ufeffbom'", "\ufeffbom"),
            ("'1'", "1"),
            ("'t'", "t"),
            ("'nan'", "nan"),
        ],
    ),
    ("varchar(9)", STRING, [("'trail  '", "trail  ")]),
    ("char(5)", STRING, [("'ab'", "ab"), ("' ab'", " ab"), ("''", "")]),
    ('text COLLATE "en-x-icu"', STRING, [("'Zürich'", "Zürich")]),
    ("uuid", STRING, [("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11")]),
    (
        "json",
        STRING,
        [('\'{"b": 1,  "a": 1.0}\'', '{"b": 1,  "a": 1.0}'), ("'null'", "null"), ("'\"\"'", '""')],
    ),
    ("jsonb", STRING, [('\'{"b":1,"a":1.0}\'', '{"a": 1.0, "b": 1}'), ("'null'", "null")]),
    ("bytea", BINARY, [("'\\x00ff0a'", b"\x00\xff\n"), ("''", b"")]),
    ("date", DATE, [("'0001-01-01'", dt.date(1, 1, 1)), ("'9999-12-31'", dt.date(9999, 12, 31))]),
    (
        "timestamp",
        TIMESTAMP,
        [
            ("'0001-01-01 00:00:00.000001'", at(1, 1, 1, 0, 0, 0, 1)),
            ("'2024-02-29 23:59:59.5'", at(2024, 2, 29, 23, 59, 59, 500000)),
            ("'9999-12-31 23:59:59.999999'", at(9999, 12, 31, 23, 59, 59, 999999)),
        ],
    ),
    (
        "timestamptz",
        TIMESTAMP,
        [
            ("'2024-01-01 00:00:00+05:30'", at(2023, 12, 31, 18, 30)),
            ("'0001-01-01 00:00:00Z'", at(1, 1, 1)),
            ("'9999-12-31 23:59:59.999999Z'", at(9999, 12, 31, 23, 59, 59, 999999)),
        ],
    ),
    ("mood", STRING, [("'sad'", "sad"), ("'ok'", "ok")]),
    ("citext", STRING, [("'Ab'", "Ab")]),
    ("price", decimal(10, 2), [("1.5", Decimal("1.50"))]),
    ("low", decimal(10, 2), [("1.5", Decimal("1.50"))]),
]
REFUSED = [
    "numeric",
    "numeric(39,2)",
    "numeric(3,-2)",
    "numeric(2,5)",
    "time",
    "timetz",
    "interval",
    "money",
    "integer[]",
    "int4range",
    "pair",
    "point",
    "inet",
    "cidr",
    "macaddr",
    "bit(8)",
    "bit varying(8)",
    "xml",
    "tsvector",
    "oid",
    "name",
    '"char"',
    "pg_lsn",
    "xid8",
]
BAD: list[tuple[str, str, str]] = [
    ("numeric(5,2)", "'NaN'", "'NaN', which is not a DECIMAL(5,2)"),
    ("date", "'infinity'", "'infinity', which is not a DATE"),
    ("date", "'0044-03-15 BC'", "'0044-03-15 BC', which is not a DATE"),
    ("date", "'10000-01-01'", "'10000-01-01', which is not a DATE"),
    ("timestamp", "'-infinity'", "'-infinity', which is not a TIMESTAMP"),
    ("timestamp", "'0001-12-31 00:00:00 BC'", "BC', which is not a TIMESTAMP"),
    ("timestamptz", "'infinity'", "'infinity', which is not a TIMESTAMP"),
    ("timestamptz", "'9999-12-31 23:59:59-12'", "'10000-01-01 11:59:59', which is not a TIMESTAMP"),
]


@pytest.fixture(scope="module")
def wide(server: servers.PostgresServer) -> World:
    """One table with a column of each type that is read; each value in a row of its own."""
    columns = ", ".join(f"c{i} {declared}" for i, (declared, _, _) in enumerate(READ))
    world = World(server, "t", *DDL, f"CREATE TABLE t (id int PRIMARY KEY, {columns})")
    number = 0
    for i, (_, _, values) in enumerate(READ):
        for text, _ in values:
            number += 1
            world.run(f"INSERT INTO t (id, c{i}) VALUES ({number}, {text})")
    return world


@pytest.mark.parametrize("place", range(len(READ)), ids=[declared for declared, _, _ in READ])
def test_types_that_are_read(wide: World, place: int) -> None:
    _, type_, values = READ[place]
    assert wide.schema[place + 1] == Column(f"c{place}", type_)
    name, expected = f"c{place}", Bag.of((value,) for _, value in values)
    nulls = Bag({(None,): sum(len(v) for _, _, v in READ) - len(values)})
    upto = wide.s.position(ME, ["t"])
    batches = list(wide.s.state("t", [name], upto))
    assert batches[0].schema == staged_schema([type_])
    assert bag(batches) == expected + nulls
    assert bag(wide.s.changes("t", [name], wide.position, upto)) == expected + nulls
    assert bag(wide.s.state("t", [name], wide.position)) == Bag()
    if type_ == DOUBLE:
        texts = {str(v) for batch in batches for v in batch.column(0).to_pylist()}
        assert all(str(value) in texts for _, value in values)


@pytest.fixture(scope="module")
def database(server: servers.PostgresServer) -> Database:
    return Database(server, *DDL)


@pytest.mark.parametrize("declared", REFUSED)
def test_types_that_are_refused(database: Database, declared: str) -> None:
    database.run("DROP TABLE IF EXISTS r", f"CREATE TABLE r (id int, v {declared})")
    relation = database.source().describe()["r"]
    assert relation.schema.names == ("id",)
    (said,) = database.con.execute(
        "SELECT format_type(atttypid, atttypmod) FROM pg_attribute WHERE attrelid = 'r'::regclass"
        " AND attname = 'v'"
    ).fetchone() or ("",)
    assert f"{said}' cannot be read" in relation.refused["v"]


@pytest.mark.parametrize("declared, text, said", BAD)
def test_values_that_have_no_counterpart(
    server: servers.PostgresServer, declared: str, text: str, said: str
) -> None:
    world = World(server, "t", f"CREATE TABLE t (id int PRIMARY KEY, v {declared}, w int)")
    world.run(f"INSERT INTO t VALUES (1, NULL, 1), (2, {text}, 2)")
    upto = world.s.position(ME, ["t"])
    for read in (
        lambda: list(world.s.state("t", ["v"], upto)),
        lambda: list(world.s.changes("t", ["w", "v"], world.position, upto)),
    ):
        with pytest.raises(ValueMismatch) as wrong:
            read()
        assert wrong.value.code == "VALUE_MISMATCH"
        assert said in wrong.value.message and "column 'v' of s.t" in wrong.value.message
        assert "id = '2'" in wrong.value.detail
        assert (wrong.value.relation, wrong.value.column) == ("t", "v")
    assert bag(world.s.state("t", ["w"], upto)) == Bag({(1,): 1, (2,): 1})
    world.run("DELETE FROM t WHERE id = 2")
    with pytest.raises(ValueMismatch, match=r"in the row \("):
        list(world.s.changes("t", ["v"], world.position, world.s.position(ME, ["t"])))


def test_described_schema(server: servers.PostgresServer) -> None:
    database = Database(
        server,
        *DDL,
        "CREATE COLLATION ci (provider = icu, locale = 'und-u-ks-level2', deterministic = false)",
        "CREATE TABLE t (id bigint PRIMARY KEY, a text UNIQUE, b text NOT NULL UNIQUE, d int NOT NULL,"
        " e int NOT NULL UNIQUE DEFERRABLE, f text COLLATE ci NOT NULL UNIQUE, g citext NOT NULL UNIQUE,"
        " h jsonb NOT NULL UNIQUE, i float8 NOT NULL UNIQUE, j char(3) NOT NULL UNIQUE, k time UNIQUE,"
        " l uuid NOT NULL, m timestamptz NOT NULL, UNIQUE (b, d), UNIQUE (l, m))",
        "CREATE UNIQUE INDEX partial ON t (d) WHERE b = 'x'",
        "CREATE UNIQUE INDEX expression ON t ((d + 1))",
        "CREATE UNIQUE INDEX including ON t (d, m) INCLUDE (a)",
        'CREATE TABLE "É" ("É" text, "é" text, z text)',
        "CREATE TABLE nothing ()",
        "CREATE VIEW v AS SELECT 1",
        "CREATE MATERIALIZED VIEW mv AS SELECT 1",
        "CREATE TABLE gone (a int, b int, PRIMARY KEY (b)); ALTER TABLE gone DROP COLUMN a",
    )
    relations = database.source().describe()
    assert sorted(relations) == ["gone", "nothing", "t", "É"]
    t = relations["t"]
    names = t.schema.names
    assert {tuple(sorted(names[i] for i in key)) for key in t.schema.keys} == {
        ("id",),
        ("b",),
        ("b", "d"),
        ("j",),
        ("l", "m"),
        ("d", "m"),
    }
    assert t.schema[0] == Column("id", BIGINT, False) and t.schema[1].nullable
    assert set(t.refused) == {"k"}
    assert set(relations["É"].refused) == {"É", "é"}
    assert relations["gone"].schema.keys == {frozenset({0})}
    source = database.source()
    source.attach(ME, ["t", "nothing"])
    database.run("INSERT INTO nothing DEFAULT VALUES")
    assert bag(source.state("nothing", [], source.position(ME, ["nothing"]))) == Bag({(): 1})
    for column, code in (("k", "UNREADABLE_COLUMN"), ("q", "NO_COLUMN")):
        with pytest.raises(SourceError, match=f"{column!r}") as refused:
            list(source.state("t", [column], source.position(ME, ["t"])))
        assert refused.value.code == code
    for name in ("v", "mv", "ghost"):
        with pytest.raises(SourceError, match=f"no table '{name}'") as refused:
            source.attach(ME, [name])
        assert refused.value.code == "NO_RELATION"
    with pytest.raises(SourceError, match="no schema 'elsewhere'"):
        database.source(schema="elsewhere").describe()


PUSHABLE = {
    "smallint",
    "integer",
    "bigint",
    "numeric(10,2)",
    "numeric(38,0)",
    "numeric(38,38)",
    "numeric(5)",
    "boolean",
    "text",
    "varchar(9)",
    "char(5)",
    'text COLLATE "en-x-icu"',
    "uuid",
    "date",
    "timestamp",
    "timestamptz",
    "price",
    "low",
}


@pytest.mark.parametrize("place", range(len(READ)), ids=[declared for declared, _, _ in READ])
@pytest.mark.parametrize("many", [False, True])
def test_keys(wide: World, place: int, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every row whose value equals a key in Spark comes, by index or by table of keys."""
    if many:
        monkeypatch.setattr(postgres_read, "FEW_KEYS", 0)
    declared, _, values = READ[place]
    name = f"c{place}"
    assert wide.s.pushable("t", name) == (declared in PUSHABLE)
    if declared not in PUSHABLE:
        return
    upto = wide.s.position(ME, ["t"])
    asked = next(wide.s.state("t", [name], upto)).column(0).drop_null().slice(0, 1)
    found = bag(wide.s.state("t", [name], upto, Keys(name, asked)))
    assert found[(asked[0].as_py(),)] >= 1 and (None,) not in found
    assert len(found) < len(values) or len(values) == 1
    assert bag(wide.s.state("t", [name], wide.position, Keys(name, asked))) == Bag()
    assert not bag(wide.s.state("t", [name], upto, Keys(name, pa.array([], asked.type))))
    assert not bag(wide.s.state("t", [name], upto, Keys(name, pa.array([]))))
