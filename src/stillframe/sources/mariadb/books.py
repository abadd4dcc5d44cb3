"""What log capture keeps in the database it reads: who reads it, and how far. Writers have no part in it.

The tables are other ones than those of trigger capture, so that both can be there; the one where applications
mark global transactions is the same.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import pymysql

from stillframe.errors import SourceError
from stillframe.sources.base import Capture, Relation, named
from stillframe.sources.mariadb import catalog
from stillframe.sources.mariadb.capture import FOUNDATION, GLOBAL, SOURCE
from stillframe.sources.mariadb.catalog import OWN_PREFIX, Table, TableColumn, read_tables
from stillframe.sources.mariadb.connect import Connection, locked, transaction
from stillframe.sources.mariadb.install import define, now
from stillframe.sources.mariadb.log import still_there
from stillframe.sources.mariadb.position import gap
from stillframe.sources.mariadb.rows import ByteTables, byte_tables, refusal
from stillframe.sources.mariadb.walk import Mark, Watched

_PREFIX = f"{OWN_PREFIX}log_"
BOOK = f"{_PREFIX}source"
RELATIONS = f"{_PREFIX}relations"
CONSUMERS = f"{_PREFIX}consumers"
NEEDS = f"{_PREFIX}needs"
FORMAT = 1
_InnoDB = "ENGINE=InnoDB DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_bin"
_TABLES = (
    f"CREATE TABLE IF NOT EXISTS {BOOK} (id TINYINT PRIMARY KEY, identity VARCHAR(64), format INT NOT NULL,"
    f" settled LONGTEXT, touched BIGINT NOT NULL DEFAULT 0) {_InnoDB}",
    f"CREATE TABLE IF NOT EXISTS {RELATIONS} (name VARCHAR(64) PRIMARY KEY, since BIGINT UNSIGNED NOT NULL,"
    f" shape LONGTEXT NOT NULL) {_InnoDB}",
    f"CREATE TABLE IF NOT EXISTS {CONSUMERS} (name VARCHAR(255) PRIMARY KEY, mark LONGTEXT NOT NULL,"
    f" heartbeat VARCHAR(32) NOT NULL) {_InnoDB}",
    f"CREATE TABLE IF NOT EXISTS {NEEDS} (consumer VARCHAR(255) NOT NULL, relation VARCHAR(64) NOT NULL,"
    f" PRIMARY KEY (consumer, relation)) {_InnoDB}",
)


@dataclass(frozen=True, slots=True)
class Followed:
    """A relation under log capture: since when, its columns in the log's order, and since when those are
    there that came later."""

    name: str
    since: int
    columns: tuple[TableColumn, ...]
    added: Mapping[str, int]
    table: Table
    bytes_of: ByteTables

    def watched(self, names: Sequence[str] = ()) -> Watched:
        places = {c.name: i for i, c in enumerate(self.columns)}
        return Watched(self.columns, tuple(places[name] for name in names), self.bytes_of)

    def has(self, column: str, after: int) -> bool:
        there = {c.name for c in self.columns}
        return column in there and self.added.get(column, 0) <= after


def identity(con: Connection) -> str | None:
    if not con.one(
        "SELECT 1 FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = %s", (BOOK,)
    ):
        return None
    row = con.one(f"SELECT identity, format FROM {BOOK}")
    if row is None or row[0] is None:
        return None
    if row[1] != FORMAT:
        raise SourceError(
            "the capture installed there is of another version of stillframe",
            detail=f"format {row[1]}, this version has {FORMAT}",
            hint="detach with the version that installed it, then attach with this one",
            code="CAPTURE_FORMAT",
        )
    return str(row[0])


def required_identity(con: Connection, source: str) -> str:
    found = identity(con)
    if found is None:
        raise gap(source, "capture is not installed there (never attached, detached, or created anew)")
    return found


def found(con: Connection) -> None:
    """The books are there afterwards, without an identity if they are new."""
    if identity(con) is None:
        remove_all(con)
        for statement in (*_TABLES, next(s for s in FOUNDATION if f" {GLOBAL} " in s)):
            define(con, statement)
        con.run(f"INSERT IGNORE INTO {BOOK} (id, format) VALUES (1, {FORMAT})")


def open_books(con: Connection, mark: Mark, *, anew: bool = False) -> str:
    """The identity; a new one, from this position on, if there was none or the log was begun anew."""
    known = identity(con)
    if known is not None and not anew:
        return known
    made = named(Capture.LOG, str(uuid.uuid4()))
    with transaction(con):
        con.run(f"DELETE FROM {RELATIONS}")
        con.run(f"UPDATE {BOOK} SET identity = %s, settled = %s", (made, mark.to_text()))
    return made


def remove_all(con: Connection) -> None:
    tables = [
        name
        for (name,) in con.all(
            "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
            " AND (LEFT(TABLE_NAME, %s) = %s OR TABLE_NAME IN (%s, %s))",
            (len(_PREFIX), _PREFIX, GLOBAL, SOURCE),
        )
    ]
    if BOOK in tables:
        con.run(f"UPDATE {BOOK} SET identity = NULL")
    triggers_too = SOURCE in tables
    for name in sorted(tables, key=lambda table: table == BOOK):
        if name != SOURCE and not (name == GLOBAL and triggers_too):
            define(con, f"DROP TABLE IF EXISTS {name}")


def require_consumer(con: Connection, source: str, consumer: str) -> Mark:
    required_identity(con, source)
    row = con.one(f"SELECT mark FROM {CONSUMERS} WHERE name = %s", (consumer,))
    if row is None:
        raise gap(source, f"consumer {consumer!r} is not registered there")
    return Mark.from_text(row[0])


def register(con: Connection, consumer: str, relations: Sequence[str], mark: Mark) -> None:
    with transaction(con):
        con.run(
            f"INSERT INTO {CONSUMERS} VALUES (%s, %s, %s)"
            " ON DUPLICATE KEY UPDATE heartbeat = VALUES(heartbeat)",
            (consumer, mark.to_text(), now()),
        )
        for relation in relations:
            con.run(f"INSERT IGNORE INTO {NEEDS} VALUES (%s, %s)", (consumer, relation))


def forget_unneeded(con: Connection) -> None:
    con.run(f"DELETE FROM {RELATIONS} WHERE name NOT IN (SELECT relation FROM {NEEDS})")


def follow(con: Connection, table: Table, since: int, added: Mapping[str, int]) -> None:
    shape = {"columns": [[c.name, c.meaning] for c in table.columns], "added": dict(added)}
    con.run(f"REPLACE INTO {RELATIONS} VALUES (%s, %s, %s)", (table.name, since, json.dumps(shape)))


def followed(con: Connection, source: str, relation: str) -> Followed:
    """The relation as capture knows it, if the table still has its columns where they were. `con` is a
    snapshot."""
    row = con.one(f"SELECT since, shape FROM {RELATIONS} WHERE name = %s", (relation,))
    if row is None:
        raise gap(source, f"relation {relation!r} is not captured")
    with still_there(source, relation):
        con.all(f"SELECT 1 FROM {catalog.quoted(relation)} LIMIT 1")
    table = read_tables(con, [relation]).get(relation)
    if table is None:
        raise gap(source, f"table {relation!r} is gone")
    shape = json.loads(row[1])
    known = len(shape["columns"])
    if [[c.name, c.meaning] for c in table.columns[:known]] != shape["columns"]:
        raise gap(
            source,
            f"table {relation!r} changed its columns since capture was installed",
            code="TABLE_CHANGED",
        )
    if reason := refused(table):
        raise gap(source, f"table {relation!r} cannot be captured any more", reason[1], reason[0])
    columns = table.columns[:known]
    return Followed(relation, row[0], columns, shape["added"], table, byte_tables(con, columns))


def refused(table: Table) -> tuple[str, str] | None:
    """Why a table cannot be followed in the log, as code and reason."""
    if table.versioned:
        return "UNCAPTURABLE_TABLE", "it is versioned, and its past is in the binary log like its present"
    return table.refusal


def readable(column: TableColumn) -> str | None:
    return column.reading.refused or refusal(column)


def relation_of(table: Table) -> Relation:
    """As the table is, less what the log does not tell."""
    columns = tuple(
        replace(c, reading=replace(c.reading, refused=readable(c))) if readable(c) else c
        for c in table.columns
    )
    return catalog.relation_of(replace(table, columns=columns))


def settled(con: Connection) -> Mark:
    """The newest position that anybody fixed: a base to go on from."""
    return Mark.from_text(con.value(f"SELECT settled FROM {BOOK}"))


def settle(con: Connection, mark: Mark) -> None:
    with transaction(con):
        known = Mark.from_text(con.value(f"SELECT settled FROM {BOOK} FOR UPDATE"))
        if known.place.number < mark.place.number:
            con.run(f"UPDATE {BOOK} SET settled = %s", (mark.to_text(),))


def relations(con: Connection) -> list[str]:
    return [name for (name,) in con.all(f"SELECT name FROM {RELATIONS} ORDER BY name")]


def sweep_marks(con: Connection) -> None:
    """Marks of global transactions are in the log; their rows are of no use any more, unless to triggers."""
    if con.one(f"SHOW TABLES LIKE '{SOURCE.replace('_', chr(92) + '_')}'"):
        return
    last = con.value(f"SELECT max(seq) FROM {GLOBAL}")
    if last is None:
        return
    con.run("SET innodb_lock_wait_timeout = 0")
    try:
        con.run(f"DELETE FROM {GLOBAL} WHERE seq < {last}")
    except pymysql.err.MySQLError as error:
        if not locked(error):
            raise
    finally:
        con.run("SET innodb_lock_wait_timeout = DEFAULT")
