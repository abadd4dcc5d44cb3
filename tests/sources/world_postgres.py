"""PostgreSQL as a world for the conformance checks: a database of its own, and an ordinary account."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

import psycopg
from values_of_types import DATES, DECIMALS, DOUBLES, INTEGERS, TIMESTAMPS

from servers import PostgresServer, free_port, program
from stillframe.algebra import types as t
from stillframe.sources import Source
from stillframe.sources.conformance import Conflict, Feature, Refused, Table, TypeCase, World, Writer
from stillframe.sources.postgres.triggers import PostgresSource

SECRET = "s3cr3t:/@#%?"
CONFLICTS = (
    psycopg.errors.DeadlockDetected,
    psycopg.errors.SerializationFailure,
    psycopg.errors.LockNotAvailable,
)


class PostgresWriter(Writer):
    def __init__(self, con: psycopg.Connection[Any], isolation: str = "READ COMMITTED") -> None:
        self.con = con
        self.isolation = isolation

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            cursor = self.con.execute(sql.encode())
            self.touched = cursor.rowcount
            return cursor.fetchall() if cursor.description else []
        except CONFLICTS as error:
            raise Conflict(str(error)) from error
        except psycopg.IntegrityError as error:
            raise Refused(str(error)) from error

    def begin(self) -> None:
        self.execute(f"BEGIN ISOLATION LEVEL {self.isolation}")

    def close(self) -> None:
        self.con.close()


class PostgresWorld(World):
    offers = frozenset(
        {
            Feature.SEVERAL_RELATIONS,
            Feature.LOGGED,
            Feature.OPEN_TOGETHER,
            Feature.ATTACH_BESIDE_OPEN,
            Feature.TRANSACTIONS,
            Feature.ANY_CUT,
            Feature.PENDING,
            Feature.MARKS,
            Feature.CAPTURE_LIMIT,
            Feature.TRIMS,
            Feature.UPSERT,
            Feature.TRUNCATE,
            Feature.TRUNCATE_CAPTURED,
            Feature.FOREIGN_KEYS,
            Feature.CASCADES_CAPTURED,
            Feature.SCHEMA_DUMP,
            Feature.DROP_CAPTURE,
            Feature.DISABLE_CAPTURE,
            Feature.TRIM_LOG,
            Feature.REPLACE_DATABASE,
            Feature.BACKUP,
            Feature.ADD_COLUMN,
            Feature.DROP_COLUMN,
            Feature.RENAME_COLUMN,
            Feature.RETYPE_COLUMN,
            Feature.BYTES,
            Feature.REFUSED_TYPES,
            Feature.READ_ONLY_ACCOUNT,
            Feature.SECRET,
            Feature.OTHER_ACCOUNTS,
            Feature.SESSION_SETTINGS,
            Feature.GENERATED_KEYS,
            Feature.GENERATED_COLUMNS,
            Feature.OWN_TRIGGERS,
            Feature.RESTART,
            Feature.CRASH,
        }
    )
    binary = "BYTEA"
    secret = SECRET
    ways_to_restore = 2
    generated_key = "BIGSERIAL PRIMARY KEY"
    last_key = "lastval()"
    session_settings = (
        ("SET timezone = 'Asia/Kathmandu'", "SET datestyle = 'SQL, DMY'", "SET intervalstyle = 'iso_8601'"),
        ("SET extra_float_digits = -15", "SET bytea_output = 'escape'", "SET client_encoding = 'LATIN1'"),
        ("SET search_path = pg_temp", "SET search_path = public, pg_catalog", "SET row_security = off"),
        ("SET default_transaction_isolation = 'serializable'", "SET synchronous_commit = off"),
        ("SET standard_conforming_strings = off", "SET array_nulls = off", "SET xmloption = 'document'"),
    )
    refused_types = (
        "NUMERIC",
        "NUMERIC(39,0)",
        "TIME",
        "TIMETZ",
        "INTERVAL",
        "MONEY",
        "INT[]",
        "POINT",
        "BIT(8)",
    )
    types = (
        TypeCase("BIGINT", t.BIGINT, INTEGERS[64]),
        TypeCase("INTEGER", t.INT, INTEGERS[32]),
        TypeCase("SMALLINT", t.SMALLINT, INTEGERS[16]),
        TypeCase("BOOLEAN", t.BOOLEAN, (("TRUE", True), ("FALSE", False))),
        *(TypeCase(f"NUMERIC({p},{s})", t.decimal(p, s), values) for (p, s), values in DECIMALS.items()),
        TypeCase(
            "DOUBLE PRECISION", t.DOUBLE, (*DOUBLES, ("'NaN'", float("nan")), ("'-Infinity'", float("-inf")))
        ),
        TypeCase(
            "REAL",
            t.DOUBLE,
            (("1.5", 1.5), ("3.4028235e38", 3.4028234663852886e38), ("0.1", 0.10000000149011612)),
        ),
        TypeCase("DATE", t.DATE, DATES),
        TypeCase("TIMESTAMP", t.TIMESTAMP, TIMESTAMPS),
        TypeCase(
            "TIMESTAMPTZ",
            t.TIMESTAMP,
            (
                ("'0001-01-01 00:00:00Z'", datetime(1, 1, 1, tzinfo=UTC)),
                ("'9999-12-31 23:59:59.999999Z'", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
                ("'2024-02-29 12:00:00.5+05:30'", datetime(2024, 2, 29, 6, 30, 0, 500000, UTC)),
                ("'1883-11-17 12:00:00 America/New_York'", datetime(1883, 11, 17, 16, 56, 2, tzinfo=UTC)),
            ),
        ),
        TypeCase(
            "VARCHAR(20)", t.STRING, (("''", ""), ("'trailing  '", "trailing  "), ("'ünï 日本'", "ünï 日本"))
        ),
        TypeCase("CHAR(5)", t.STRING, (("'ab'", "ab"), ("'abcde'", "abcde"), ("''", ""))),
        TypeCase(
            "JSON", t.STRING, (('\'{"b": 1,  "a": [null]}\'', '{"b": 1,  "a": [null]}'), ("'null'", "null"))
        ),
        TypeCase("JSONB", t.STRING, (('\'{"b":1,"a":[null]}\'', '{"a": [null], "b": 1}'), ("'[]'", "[]"))),
        TypeCase(
            "UUID",
            t.STRING,
            (("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),),
        ),
        TypeCase("BYTEA", t.BINARY, (("'\\x00ff'", b"\x00\xff"), ("'\\x'", b""))),
    )

    def __init__(self, server: PostgresServer, database: str) -> None:
        super().__init__()
        self.server = server
        self.database = database
        self._make()

    def _make(self) -> None:
        with self.server.connect() as con:
            con.execute(
                "DO $$ BEGIN IF NOT EXISTS (SELECT FROM pg_roles WHERE rolname = 'app') THEN"
                f" CREATE ROLE app LOGIN PASSWORD '{SECRET}'; CREATE ROLE reader LOGIN PASSWORD '{SECRET}';"
                " END IF; END $$"
            )
            con.execute(f"DROP DATABASE IF EXISTS {self.database} WITH (FORCE)")
            con.execute(f"CREATE DATABASE {self.database} OWNER app")
        with self.server.connect(self.database) as con:
            con.execute("GRANT CREATE ON SCHEMA public TO app")

    def _url(self, user: str, port: int | None = None) -> str:
        password = quote(SECRET, safe="")
        return f"postgresql://{user}:{password}@127.0.0.1:{port or self.server.port}/{self.database}"

    def source(self, capture_limit: int | None = None) -> Source:
        return PostgresSource("s", self._url("app"), "public", capture_limit)

    def read_only_source(self) -> Source:
        self.run("GRANT SELECT ON ALL TABLES IN SCHEMA public TO reader")
        return PostgresSource("s", self._url("reader"), "public", None)

    def unreachable_source(self) -> Source:
        return PostgresSource("s", self._url("app", free_port()), "public", None)

    def _connect(self) -> psycopg.Connection[Any]:
        return psycopg.connect(self._url("app"), autocommit=True)

    def writer(self) -> Writer:
        return PostgresWriter(self._connect())

    def writers(self, count: int) -> list[Writer]:
        levels = ("READ COMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE")
        return [PostgresWriter(self._connect(), levels[i % len(levels)]) for i in range(count)]

    def literal(self, value: object) -> str:
        if isinstance(value, bytes):
            return f"'\\x{value.hex()}'"
        return super().literal(value)

    def numbers(self, count: int) -> str:
        return f"generate_series(1, {count}) AS numbers(i)"

    def delete_one(self, table: str, condition: str) -> str:
        return f"DELETE FROM {table} WHERE ctid = (SELECT ctid FROM {table} WHERE {condition} LIMIT 1)"

    def upsert(self, table: Table, rows: Sequence[Sequence[object]]) -> str:
        others = [self.quoted(c) for c in table.names if c not in table.key]
        updated = ", ".join(f"{c} = excluded.{c}" for c in others)
        return f"{self.insert(table, *rows)} ON CONFLICT ({', '.join(table.key)}) DO UPDATE SET {updated}"

    def insert_new(self, table: Table, rows: Sequence[Sequence[object]]) -> str:
        return f"{self.insert(table, *rows)} ON CONFLICT DO NOTHING"

    def mark(self, group: str, parts: int) -> str:
        return f"INSERT INTO _stillframe.global (id, parts) VALUES ({self.literal(group)}, {parts})"

    def copying_trigger(self, name: str) -> tuple[str, ...]:
        copied = "INSERT INTO entries (item, n, note) VALUES (NEW.id, NEW.n, NEW.note); RETURN NULL;"
        return (
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN {copied} END'",
            f"CREATE TRIGGER {name} AFTER INSERT ON items FOR EACH ROW EXECUTE FUNCTION {name}()",
        )

    def other_writer(self, *tables: str) -> Writer:
        self.run(f"GRANT SELECT, INSERT, UPDATE, DELETE ON {', '.join(tables)} TO reader")
        return PostgresWriter(psycopg.connect(self._url("reader"), autocommit=True))

    def restart(self) -> None:
        self.close()
        self.server.stop()
        self.server.start()

    def crash(self) -> None:
        self.close()
        self.server.stop(kill=True)
        self.server.start()

    def retype(self, table: str, column: str) -> tuple[str, ...]:
        return (f"ALTER TABLE {table} ALTER COLUMN {column} TYPE text USING {column}::text",)

    def schema_dump(self) -> str:
        command = [program("pg_dump", "postgresql"), "--schema-only", self._url("app")]
        done = subprocess.run(command, check=True, capture_output=True, text=True)
        lines = done.stdout.splitlines()
        return "\n".join(each for each in lines if not each.startswith(("\\restrict", "\\unrestrict")))

    def _triggers(self, relation: str) -> list[str]:
        found = self.own.execute(
            "SELECT quote_ident(tgname) FROM pg_trigger"
            f" WHERE tgrelid = '{relation}'::regclass AND NOT tgisinternal"
        )
        return [name for (name,) in found]

    def drop_capture(self, relation: str) -> None:
        self.run(*(f"DROP TRIGGER {name} ON {relation}" for name in self._triggers(relation)))

    def disable_capture(self, relation: str) -> None:
        self.run(*(f"ALTER TABLE {relation} DISABLE TRIGGER {name}" for name in self._triggers(relation)))

    def enable_capture(self, relation: str) -> None:
        self.run(
            *(f"ALTER TABLE {relation} ENABLE ALWAYS TRIGGER {name}" for name in self._triggers(relation))
        )

    def trim_log(self) -> None:
        self.run("DELETE FROM _stillframe.log")

    def replace_database(self) -> None:
        self.close()
        self._make()

    def backup(self, way: int = 0) -> object:
        """Of the database beside it, or of the whole server as it stands on disk."""
        self.close()
        if way == 0:
            with self.server.connect() as con:
                con.execute(f"DROP DATABASE IF EXISTS {self.database}_copy WITH (FORCE)")
                con.execute(f"CREATE DATABASE {self.database}_copy TEMPLATE {self.database}")
            return 0
        self.server.stop()
        shutil.rmtree(self.server.folder / "copy", ignore_errors=True)
        self._copy("data", "copy")
        self.server.start()
        return 1

    def restore(self, copy: object) -> None:
        self.close()
        if copy == 0:
            with self.server.connect() as con:
                con.execute(f"DROP DATABASE {self.database} WITH (FORCE)")
                con.execute(f"CREATE DATABASE {self.database} TEMPLATE {self.database}_copy OWNER app")
            return
        self.server.stop()
        shutil.rmtree(self.server.folder / "data")
        self._copy("copy", "data")
        self.server.start()

    def _copy(self, one: str, other: str) -> None:
        folder = self.server.folder
        subprocess.run(["cp", "-a", str(folder / one), str(folder / other)], check=True)


@contextmanager
def postgres_world(server: PostgresServer, database: str = "conforming") -> Iterator[PostgresWorld]:
    world = PostgresWorld(server, database)
    try:
        yield world
    finally:
        world.close()
