"""SQLite as a world for the conformance checks."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

from stillframe.algebra import types as t
from stillframe.sources import Source, SqliteSource
from stillframe.sources.conformance import (
    INTEGER,
    TEXT,
    Conflict,
    Feature,
    Refused,
    Table,
    TypeCase,
    World,
    Writer,
)

BIG = "9" * 38


class SqliteWriter(Writer):
    def __init__(self, path: Path) -> None:
        self.con = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
        self.con.execute("PRAGMA synchronous = OFF")
        self.con.execute("PRAGMA foreign_keys = ON")

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            cursor = self.con.execute(sql)
            self.touched = cursor.rowcount
            return cursor.fetchall()
        except sqlite3.IntegrityError as error:
            raise Refused(str(error)) from error
        except sqlite3.OperationalError as error:
            if "locked" in str(error):
                raise Conflict(str(error)) from error
            raise

    def begin(self) -> None:
        self.execute("BEGIN IMMEDIATE")

    def rollback(self) -> None:
        if self.con.in_transaction:
            self.execute("ROLLBACK")

    def close(self) -> None:
        self.con.close()


class SqliteWorld(World):
    """Triggers cannot be switched off here; who drops them and creates the very same ones again is a writer
    that switches triggers off, which the source says is out of reach."""

    offers = frozenset(
        {
            Feature.SEVERAL_RELATIONS,
            Feature.LOGGED,
            Feature.MARKS,
            Feature.BYTES,
            Feature.PENDING,
            Feature.CAPTURE_LIMIT,
            Feature.TRIMS,
            Feature.UPSERT,
            Feature.REPLACE,
            Feature.FOREIGN_KEYS,
            Feature.CASCADES_CAPTURED,
            Feature.SCHEMA_DUMP,
            Feature.DROP_CAPTURE,
            Feature.TRIM_LOG,
            Feature.REPLACE_DATABASE,
            Feature.BACKUP,
            Feature.ADD_COLUMN,
            Feature.DROP_COLUMN,
            Feature.RENAME_COLUMN,
            Feature.RETYPE_COLUMN,
            Feature.REFUSED_TYPES,
            Feature.SESSION_SETTINGS,
            Feature.GENERATED_KEYS,
            Feature.GENERATED_COLUMNS,
            Feature.OWN_TRIGGERS,
        }
    )
    declared: ClassVar[dict[str, str]] = {INTEGER: "INTEGER", TEXT: "TEXT"}
    for_update = ""
    pause = 0.06
    nul_in_text = True
    generated_key = "INTEGER PRIMARY KEY AUTOINCREMENT"
    last_key = "last_insert_rowid()"
    session_settings = (
        ("PRAGMA recursive_triggers = ON", "PRAGMA reverse_unordered_selects = ON"),
        ("PRAGMA foreign_keys = OFF", "PRAGMA count_changes = ON", "PRAGMA case_sensitive_like = ON"),
    )
    refused_types = ("NUMERIC", "DECIMAL", "TIME", "POINT", "DECIMAL(39,0)", "INTERVAL")
    types = (
        TypeCase(
            "BIGINT", t.BIGINT, (("9223372036854775807", 2**63 - 1), (f"({-(2**63) + 1} - 1)", -(2**63)))
        ),
        TypeCase("SMALLINT", t.BIGINT, (("0", 0), ("-32768", -32768))),
        TypeCase("BOOLEAN", t.BOOLEAN, (("1", True), ("0", False))),
        TypeCase("VARCHAR(10)", t.STRING, (("''", ""), ("'longer than ten'", "longer than ten"))),
        TypeCase("JSON", t.STRING, (("'{\"a\": [1, null]}'", '{"a": [1, null]}'), ("'[]'", "[]"))),
        TypeCase("BLOB", t.BINARY, (("X'00FF'", b"\x00\xff"), ("X''", b""))),
        TypeCase(
            "DOUBLE",
            t.DOUBLE,
            (
                ("1.7976931348623157e308", 1.7976931348623157e308),
                ("5e-324", 5e-324),
                ("-0.1", -0.1),
                ("9e999", float("inf")),
                ("-9e999", float("-inf")),
            ),
        ),
        TypeCase("DECIMAL(15,2)", t.decimal(15, 2), (("1234567890123.45", Decimal("1234567890123.45")),)),
        TypeCase("DECIMAL(38,0)", t.decimal(38, 0), (("0", Decimal(0)), ("-1", Decimal(-1)))),
        TypeCase(
            "DATE",
            t.DATE,
            (
                ("'0001-01-01'", date(1, 1, 1)),
                ("'9999-12-31'", date(9999, 12, 31)),
                ("'2024-02-29'", date(2024, 2, 29)),
            ),
        ),
        TypeCase(
            "TIMESTAMP",
            t.TIMESTAMP,
            (
                ("'0001-01-01 00:00:00'", datetime(1, 1, 1, tzinfo=UTC)),
                ("'9999-12-31T23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
                ("'2024-02-29T12:00:00.5+05:30'", datetime(2024, 2, 29, 6, 30, 0, 500000, UTC)),
                ("'1969-12-31 23:59:59.999999Z'", datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
            ),
        ),
        TypeCase("", t.STRING, (("1", "1"), ("'x'", "x"), ("1.5", "1.5"))),
    )

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self._make()

    def _make(self) -> None:
        con = sqlite3.connect(self.path)
        con.execute("PRAGMA journal_mode = WAL")
        con.close()

    def source(self, capture_limit: int | None = None) -> Source:
        return SqliteSource("s", self.path, capture_limit)

    def writer(self) -> Writer:
        return SqliteWriter(self.path)

    def literal(self, value: object) -> str:
        if isinstance(value, str) and "\0" in value:
            return f"CAST(X'{value.encode().hex()}' AS TEXT)"
        return super().literal(value)

    def numbers(self, count: int) -> str:
        counted = f"n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {count})"
        return f"(WITH RECURSIVE {counted} SELECT i FROM n) AS numbers"

    def delete_one(self, table: str, condition: str) -> str:
        return f"DELETE FROM {table} WHERE rowid = (SELECT min(rowid) FROM {table} WHERE {condition})"

    def upsert(self, table: Table, rows: Sequence[Sequence[object]]) -> str:
        others = [self.quoted(c) for c in table.names if c not in table.key]
        updated = ", ".join(f"{c} = excluded.{c}" for c in others)
        return f"{self.insert(table, *rows)} ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {updated}"

    def insert_new(self, table: Table, rows: Sequence[Sequence[object]]) -> str:
        return f"INSERT OR IGNORE INTO {self.quoted(table.name)} {self.values(table, rows)}"

    def replace(self, table: Table, rows: Sequence[Sequence[object]]) -> str:
        return f"REPLACE INTO {self.quoted(table.name)} {self.values(table, rows)}"

    def mark(self, group: str, parts: int) -> str:
        return f"INSERT INTO _stillframe_global VALUES ({self.literal(group)}, {parts})"

    def copying_trigger(self, name: str) -> tuple[str, ...]:
        copied = "INSERT INTO entries (item, n, note) VALUES (NEW.id, NEW.n, NEW.note)"
        return (f"CREATE TRIGGER {name} AFTER INSERT ON items FOR EACH ROW BEGIN {copied}; END",)

    def drop_column(self, table: str, column: str) -> tuple[str, ...]:
        """SQLite drops no column that a trigger names: the table is made anew, as its manual says."""
        return self._made_anew(table, {column: None})

    def retype(self, table: str, column: str) -> tuple[str, ...]:
        return self._made_anew(table, {column: "TEXT"})

    def _made_anew(self, table: str, changes: dict[str, str | None]) -> tuple[str, ...]:
        columns = self.own.execute(f"SELECT name, type FROM pragma_table_info('{table}')")
        kept = [(n, changes.get(n, declared)) for n, declared in columns if changes.get(n, declared)]
        names = ", ".join(n for n, _ in kept)
        body = ", ".join(f"{n} {declared}" for n, declared in kept)
        return (
            f"CREATE TABLE made_anew ({body}, PRIMARY KEY (id))",
            f"INSERT INTO made_anew SELECT {names} FROM {table}",
            f"DROP TABLE {table}",
            f"ALTER TABLE made_anew RENAME TO {table}",
        )

    def schema_dump(self) -> str:
        rows = self.own.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid")
        return "\n".join(map(repr, rows))

    def _triggers(self, relation: str) -> list[str]:
        found = self.own.execute(
            f"SELECT name FROM sqlite_master WHERE type = 'trigger' AND tbl_name = '{relation}'"
        )
        return [name for (name,) in found]

    def drop_capture(self, relation: str) -> None:
        self.run(*(f"DROP TRIGGER {self.quoted(name)}" for name in self._triggers(relation)))

    def trim_log(self) -> None:
        self.run("DELETE FROM _stillframe_log")

    def replace_database(self) -> None:
        self.close()
        for file in self.path.parent.glob(self.path.name + "*"):
            file.unlink()
        self._make()

    def backup(self, way: int = 0) -> object:
        copy = sqlite3.connect(":memory:")
        with sqlite3.connect(self.path) as con:
            con.backup(copy)
        con.close()
        return copy

    def restore(self, copy: object) -> None:
        self.close()
        assert isinstance(copy, sqlite3.Connection)
        with sqlite3.connect(self.path) as con:
            copy.backup(con)
        con.close()


@contextmanager
def sqlite_world(folder: Path) -> Iterator[SqliteWorld]:
    folder.mkdir(parents=True, exist_ok=True)
    world = SqliteWorld(folder / "s.db")
    try:
        yield world
    finally:
        world.close()
