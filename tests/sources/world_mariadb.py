"""MariaDB as a world for the conformance checks: a database of its own, and an ordinary account."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import quote

import pymysql
from values_of_types import DATES, DECIMALS, DOUBLES, INTEGERS, TIMESTAMPS

from servers import MariadbServer, free_port, program
from stillframe.algebra import types as t
from stillframe.sources import Source
from stillframe.sources.conformance import Conflict, Feature, Refused, Table, TypeCase, World, Writer
from stillframe.sources.mariadb.triggers import MariadbSource

SECRET = "s3cr3t:/@#%?"
# Deadlock, lock wait timeout, record or table definition changed since the snapshot.
CONFLICTS = (1213, 1205, 1020, 1412)


class MariadbWriter(Writer):
    def __init__(self, con: pymysql.Connection[Any], isolation: str = "REPEATABLE READ") -> None:
        self.con = con
        self.execute(f"SET SESSION TRANSACTION ISOLATION LEVEL {isolation}")

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        try:
            with self.con.cursor() as cursor:
                self.touched = cursor.execute(sql)
                return list(cursor.fetchall())
        except pymysql.IntegrityError as error:
            raise Refused(str(error)) from error
        except pymysql.MySQLError as error:
            if error.args and error.args[0] in CONFLICTS:
                raise Conflict(str(error)) from error
            raise

    def close(self) -> None:
        self.con.close()


class MariadbWorld(World):
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
            Feature.REPLACE,
            Feature.TRUNCATE,
            Feature.FOREIGN_KEYS,
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
    long_text = "LONGTEXT"
    binary = "LONGBLOB"
    nul_in_text = True
    secret = SECRET
    generated_key = "BIGINT AUTO_INCREMENT PRIMARY KEY"
    last_key = "LAST_INSERT_ID()"
    session_settings = (
        ("SET time_zone = '+05:45'", "SET NAMES latin1", "SET lc_time_names = 'de_DE'"),
        ("SET sql_mode = ''", "SET auto_increment_increment = 10, auto_increment_offset = 7"),
        (
            "SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT,NO_BACKSLASH_ESCAPES,PAD_CHAR_TO_FULL_LENGTH,"
            "NO_UNSIGNED_SUBTRACTION,HIGH_NOT_PRECEDENCE,IGNORE_SPACE,TIME_ROUND_FRACTIONAL'",
        ),
        ("SET unique_checks = 0, foreign_key_checks = 0", "SET timestamp = 1000000000"),
        (
            "SET sql_mode = 'TRADITIONAL,NO_AUTO_VALUE_ON_ZERO,SIMULTANEOUS_ASSIGNMENT'",
            "SET sql_safe_updates = 0",
        ),
        ("SET autocommit = 0", "SET SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE"),
    )
    refused_types = ("TIME", "TIME(6)", "BIT(8)", "DECIMAL(39,0)", "DECIMAL(65,30)", "POINT")
    types = (
        TypeCase("BIGINT", t.BIGINT, INTEGERS[64]),
        TypeCase(
            "BIGINT UNSIGNED", t.decimal(20, 0), ((str(2**64 - 1), Decimal(2**64 - 1)), ("0", Decimal(0)))
        ),
        TypeCase("INT", t.INT, INTEGERS[32]),
        TypeCase("INT UNSIGNED", t.BIGINT, ((str(2**32 - 1), 2**32 - 1), ("0", 0))),
        TypeCase("SMALLINT", t.SMALLINT, INTEGERS[16]),
        TypeCase("SMALLINT UNSIGNED", t.INT, (("65535", 65535),)),
        TypeCase("TINYINT", t.TINYINT, (("-128", -128), ("127", 127))),
        TypeCase("TINYINT UNSIGNED", t.SMALLINT, (("255", 255),)),
        TypeCase("MEDIUMINT", t.INT, (("-8388608", -8388608), ("8388607", 8388607))),
        TypeCase("INT(6) ZEROFILL", t.BIGINT, (("42", 42),)),
        TypeCase("BOOLEAN", t.TINYINT, (("TRUE", 1), ("FALSE", 0))),
        TypeCase("BIT(1)", t.BOOLEAN, (("b'1'", True), ("b'0'", False))),
        *(TypeCase(f"DECIMAL({p},{s})", t.decimal(p, s), values) for (p, s), values in DECIMALS.items()),
        TypeCase("DOUBLE", t.DOUBLE, DOUBLES),
        TypeCase("FLOAT", t.DOUBLE, (("1.5", 1.5), ("0.1", 0.10000000149011612), ("16777217", 16777216.0))),
        TypeCase("DATE", t.DATE, DATES),
        TypeCase("DATETIME(6)", t.TIMESTAMP, TIMESTAMPS),
        TypeCase(
            "TIMESTAMP(6) NULL",
            t.TIMESTAMP,
            (
                ("'1970-01-01 00:00:01'", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
                ("'2038-01-19 03:14:07.999999'", datetime(2038, 1, 19, 3, 14, 7, 999999, UTC)),
                ("'2024-03-31 02:30:00'", datetime(2024, 3, 31, 2, 30, tzinfo=UTC)),
            ),
        ),
        TypeCase("YEAR", t.SMALLINT, (("1901", 1901), ("2155", 2155))),
        TypeCase(
            "VARCHAR(20)", t.STRING, (("''", ""), ("'trailing  '", "trailing  "), ("'ünï 日本'", "ünï 日本"))
        ),
        TypeCase("CHAR(5)", t.STRING, (("'ab'", "ab"), ("'abcde'", "abcde"), ("''", ""))),
        TypeCase("VARCHAR(20) CHARACTER SET latin1", t.STRING, (("'äöü ß'", "äöü ß"),)),
        TypeCase("ENUM('x', 'Y z')", t.STRING, (("'x'", "x"), ("'Y z'", "Y z"))),
        TypeCase("SET('a', 'b', 'c')", t.STRING, (("'a,c'", "a,c"), ("''", ""))),
        TypeCase(
            "JSON", t.STRING, (('\'{"b": 1,  "a": [null]}\'', '{"b": 1,  "a": [null]}'), ("'null'", "null"))
        ),
        TypeCase(
            "UUID",
            t.STRING,
            (("'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'", "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11"),),
        ),
        TypeCase("VARBINARY(20)", t.BINARY, (("X'00FF'", b"\x00\xff"), ("X''", b""))),
        TypeCase("BINARY(3)", t.BINARY, (("X'00'", b"\x00\x00\x00"), ("X'616263'", b"abc"))),
    )

    def __init__(self, server: MariadbServer, database: str) -> None:
        super().__init__()
        self.server = server
        self.database = database
        self._make()

    def _make(self) -> None:
        self.server.database(self.database)
        with self.server.connect() as con, con.cursor() as cursor:
            cursor.execute(f"ALTER DATABASE {self.database} CHARACTER SET utf8mb4")
            for user, rights in (("app", "ALL"), ("reader", "SELECT")):
                cursor.execute(f"CREATE USER IF NOT EXISTS {user}@'%%' IDENTIFIED BY %s", (SECRET,))
                cursor.execute(f"GRANT {rights} ON {self.database}.* TO {user}@'%'")

    def _url(self, user: str, port: int | None = None) -> str:
        password = quote(SECRET, safe="")
        return f"mariadb://{user}:{password}@127.0.0.1:{port or self.server.port}/{self.database}"

    def source(self, capture_limit: int | None = None) -> Source:
        return MariadbSource("s", self._url("app"), capture_limit)

    def read_only_source(self) -> Source:
        return MariadbSource("s", self._url("reader"), None)

    def unreachable_source(self) -> Source:
        return MariadbSource("s", self._url("app", free_port()), None)

    def _connect(self) -> pymysql.Connection[Any]:
        con = self.server.connect(self.database, "app", SECRET)
        with con.cursor() as cursor:
            cursor.execute("SET time_zone = '+00:00'")
        return con

    def writer(self) -> Writer:
        return MariadbWriter(self._connect())

    def writers(self, count: int) -> list[Writer]:
        levels = ("READ COMMITTED", "REPEATABLE READ", "READ COMMITTED", "SERIALIZABLE")
        return [MariadbWriter(self._connect(), levels[i % len(levels)]) for i in range(count)]

    def quoted(self, name: str) -> str:
        return "`" + name.replace("`", "``") + "`"

    def literal(self, value: object) -> str:
        if isinstance(value, str):
            return "'" + value.replace("\\", "\\\\").replace("'", "''").replace("\0", "\\0") + "'"
        return super().literal(value)

    def numbers(self, count: int) -> str:
        return f"(SELECT seq AS i FROM seq_1_to_{count}) AS numbers"

    def delete_one(self, table: str, condition: str) -> str:
        return f"DELETE FROM {table} WHERE {condition} LIMIT 1"

    def upsert(self, table: Table, rows: Sequence[Sequence[object]]) -> str:
        others = [self.quoted(c) for c in table.names if c not in table.key]
        updated = ", ".join(f"{c} = VALUES({c})" for c in others)
        return f"{self.insert(table, *rows)} ON DUPLICATE KEY UPDATE {updated}"

    def insert_new(self, table: Table, rows: Sequence[Sequence[object]]) -> str:
        return f"INSERT IGNORE INTO {self.quoted(table.name)} {self.values(table, rows)}"

    def replace(self, table: Table, rows: Sequence[Sequence[object]]) -> str:
        return f"REPLACE INTO {self.quoted(table.name)} {self.values(table, rows)}"

    def mark(self, group: str, parts: int) -> str:
        return f"INSERT INTO _stillframe_global (id, parts) VALUES ({self.literal(group)}, {parts})"

    def copying_trigger(self, name: str) -> tuple[str, ...]:
        copied = "INSERT INTO entries (item, n, note) VALUES (NEW.id, NEW.n, NEW.note)"
        return (f"CREATE TRIGGER {name} AFTER INSERT ON items FOR EACH ROW {copied}",)

    def other_writer(self, *tables: str) -> Writer:
        with self.server.connect() as con, con.cursor() as cursor:
            cursor.execute("CREATE USER IF NOT EXISTS clerk@'%%' IDENTIFIED BY %s", (SECRET,))
            rights = "SELECT, INSERT, UPDATE, DELETE"
            for table in tables:
                cursor.execute(f"GRANT {rights} ON {self.database}.{table} TO clerk@'%'")
            cursor.execute(f"GRANT INSERT ON {self.database}._stillframe_global TO clerk@'%'")
        return MariadbWriter(self.server.connect(self.database, "clerk", SECRET))

    def restart(self) -> None:
        self.close()
        self.server.stop()
        self.server.start()

    def crash(self) -> None:
        self.close()
        self.server.stop(kill=True)
        self.server.start()

    def retype(self, table: str, column: str) -> tuple[str, ...]:
        return (f"ALTER TABLE {table} MODIFY COLUMN {column} VARCHAR(200)",)

    def _client(self, name: str, *arguments: str) -> list[str]:
        login = ["--host=127.0.0.1", f"--port={self.server.port}", "--user=root", "--protocol=tcp"]
        return [program(name, "mariadb-client"), "--no-defaults", *login, *arguments]

    def schema_dump(self) -> str:
        command = self._client("mariadb-dump", "--no-data", "--routines", "--events", "--skip-dump-date")
        done = subprocess.run([*command, self.database], check=True, capture_output=True, text=True)
        return done.stdout

    def _triggers(self, relation: str) -> list[str]:
        found = self.own.execute(
            "SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = DATABASE()"
            f" AND EVENT_OBJECT_TABLE = '{relation}'"
        )
        return [name for (name,) in found]

    def drop_capture(self, relation: str) -> None:
        self.run(*(f"DROP TRIGGER {self.quoted(name)}" for name in self._triggers(relation)))

    def disable_capture(self, relation: str) -> None:
        """Triggers cannot be switched off; who loads much drops them, and creates them again after."""
        names = self._triggers(relation)
        self.dropped = [self.own.execute(f"SHOW CREATE TRIGGER {self.quoted(n)}")[0][2] for n in names]
        self.drop_capture(relation)

    def enable_capture(self, relation: str) -> None:
        self.run(*self.dropped)

    def trim_log(self) -> None:
        self.run("DELETE FROM _stillframe_log")

    def replace_database(self) -> None:
        self.close()
        self._make()

    def backup(self, way: int = 0) -> object:
        command = self._client("mariadb-dump", "--single-transaction", "--routines", self.database)
        return subprocess.run(command, check=True, capture_output=True).stdout

    def restore(self, copy: object) -> None:
        self.close()
        assert isinstance(copy, bytes)
        self._make()
        subprocess.run(self._client("mariadb", self.database), check=True, input=copy, capture_output=True)


@contextmanager
def mariadb_world(server: MariadbServer, database: str = "conforming") -> Iterator[MariadbWorld]:
    world = MariadbWorld(server, database)
    try:
        yield world
    finally:
        world.close()
