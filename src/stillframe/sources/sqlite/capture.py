"""The tables and triggers of capture, as SQL text.

Each change is logged as whole rows: +NEW for an insert, −OLD for a delete, both for an update. A row that a
REPLACE conflict pushes out fires no delete trigger (unless its writer has recursive_triggers on), so it is
caught in two steps. Before an insert or update, rows that collide with NEW on a unique key are put in the
relation's *stash*; after it, stashed rows that are gone are logged as −row. The laws:

- a stash entry always holds the present content of the row it names: updates rewrite it, deletes remove it;
- after an insert or update succeeded, a stashed row that collides with NEW and is not in the table, or
  whose place NEW has taken, was replaced.

So an entry left behind (OR IGNORE and upserts fire BEFORE INSERT without AFTER INSERT) is harmless, and
statements nested in triggers do not disturb those around them. What is left is swept on acknowledgement.

The writer's conflict clause governs also what triggers do, so nothing below may ever conflict.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterable
from datetime import UTC, datetime

from stillframe.sources.sqlite.catalog import OWN_PREFIX, Table, UniqueKey, quoted

LOG = f"{OWN_PREFIX}_log"
SOURCE = f"{OWN_PREFIX}_source"
RELATIONS = f"{OWN_PREFIX}_relations"
CONSUMERS = f"{OWN_PREFIX}_consumers"
NEEDS = f"{OWN_PREFIX}_needs"
GLOBAL = f"{OWN_PREFIX}_global"
FORMAT = 3

_TABLES = (
    f"CREATE TABLE {SOURCE} (identity TEXT NOT NULL, format INTEGER NOT NULL)",
    f"CREATE TABLE {RELATIONS} (id INTEGER PRIMARY KEY, name TEXT NOT NULL, since INTEGER NOT NULL,"
    " shape TEXT NOT NULL, triggers TEXT NOT NULL)",
    # A consumer without a position was dropped for being too far behind.
    f"CREATE TABLE {CONSUMERS} (name TEXT PRIMARY KEY, position INTEGER, heartbeat TEXT, registered TEXT)",
    f"CREATE TABLE {NEEDS} (consumer TEXT, relation TEXT, PRIMARY KEY (consumer, relation))",
    # Not AUTOINCREMENT, which would leave sqlite_sequence behind: the row at the lowest position is always
    # kept, so numbers never come again. Value columns have no type: every value is stored as it was.
    f"CREATE TABLE {LOG} (seq INTEGER PRIMARY KEY, relation INTEGER, sign INTEGER, mark INTEGER, v0, v1)",
    # Where an application says, before it writes anything else, that it writes a part of something global.
    f"CREATE TABLE {GLOBAL} (id TEXT NOT NULL, parts INTEGER NOT NULL)",
)

MARKER = 0  # what stands in the place of a relation where a global transaction is marked

# The second a log row was written in, then 31 random bits. Every SQLite that a writer may use has strftime.
MARK = "(strftime('%s', 'now') << 31) | (random() & 2147483647)"

FOUNDATION = (
    *_TABLES,
    f"CREATE TRIGGER {GLOBAL}_marked AFTER INSERT ON {GLOBAL} FOR EACH ROW BEGIN"
    f" INSERT INTO {LOG} (relation, sign, mark, v0, v1) VALUES ({MARKER}, 0, {MARK}, NEW.id, NEW.parts); END",
)


def marked_at(mark: int) -> datetime:
    return datetime.fromtimestamp(mark >> 31, UTC)


def stash_name(relation: int) -> str:
    return f"{OWN_PREFIX}_stash_{relation}"


def value_name(position: int) -> str:
    return f"v{position}"


def values(count: int, prefix: str = "") -> str:
    return ", ".join(prefix + value_name(i) for i in range(count))


def installation(table: Table, relation: int) -> list[str]:
    """Everything that captures one table, in order."""
    return [*_stash(table, relation), *_Triggers(table, relation).all()]


def removal(relation: int) -> list[str]:
    triggers = [f"DROP TRIGGER IF EXISTS {name}" for name in trigger_names(relation)]
    return [*triggers, f"DROP TABLE IF EXISTS {stash_name(relation)}"]


_EVENTS = ("before_insert", "before_update", "after_insert", "after_update", "after_delete")


def trigger_names(relation: int) -> list[str]:
    return [f"{OWN_PREFIX}_{relation}_{event}" for event in _EVENTS]


def installed_digest(con: sqlite3.Connection, table: str, relation: int) -> str:
    """What of a table's triggers is there now. Dropping, re-creating or renaming changes it."""
    names = trigger_names(relation)
    found = con.execute(
        "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?"
        f" AND name IN ({', '.join('?' * len(names))}) ORDER BY name",
        (table, *names),
    )
    return digest("\n".join(parts) for parts in found)


def digest(texts: Iterable[str]) -> str:
    return hashlib.sha256("\0".join(texts).encode()).hexdigest()


def first_trigger_rowid(con: sqlite3.Connection, relation: int) -> int:
    (rowid,) = con.execute(
        "SELECT min(rowid) FROM sqlite_master WHERE type = 'trigger' AND name = ?",
        trigger_names(relation)[:1],
    ).fetchone()
    return -1 if rowid is None else int(rowid)


def _identity_columns(table: Table) -> list[tuple[str, str]]:
    """Expressions that identify a row of the table, with their collations."""
    if table.rowid:
        return [(table.rowid, "BINARY")]
    assert table.identity is not None
    return [(quoted(table.columns[cid].name), collation) for cid, collation in table.identity.parts]


def _stash(table: Table, relation: int) -> list[str]:
    name = stash_name(relation)
    identity = _identity_columns(table)
    columns = [f"i{n}" for n in range(len(identity))] + [value_name(i) for i in range(len(table.columns))]
    indexed = [[(f"i{n}", collation) for n, (_, collation) in enumerate(identity)]]
    indexed += [[(value_name(cid), collation) for cid, collation in u.parts] for u in table.uniques]
    return [
        f"CREATE TABLE {name} ({', '.join(columns)})",
        *(
            f"CREATE INDEX {name}_{n} ON {name} ({', '.join(f'{c} COLLATE {coll}' for c, coll in parts)})"
            for n, parts in enumerate(indexed)
        ),
    ]


class _Triggers:
    """The five triggers of one table. `r` stands for a row of the table, `s` for an entry of its stash."""

    def __init__(self, table: Table, relation: int) -> None:
        self.table = table
        self.relation = relation
        self.name = quoted(table.name)
        self.stash = stash_name(relation)
        self.identity = _identity_columns(table)
        self.columns = [quoted(c.name) for c in table.columns]
        self.vs = values(len(self.columns))
        self.ids = ", ".join(f"i{n}" for n in range(len(self.identity)))

    def all(self) -> list[str]:
        bodies = {
            "before_insert": ("", self.stash_colliding("")),
            "before_update": (
                self.when_key_changes(),
                self.stash_colliding(f" AND NOT ({self.is_row('r', 'OLD')})"),
            ),
            "after_insert": ("", [*self.log_gone(""), self.log(1, "NEW")]),
            "after_update": (
                "",
                [
                    *self.log_gone(f" AND NOT ({self.is_entry('OLD')})"),
                    self.log(-1, "OLD"),
                    self.log(1, "NEW"),
                    *self.refresh_stash(),
                ],
            ),
            "after_delete": (
                "",
                [f"DELETE FROM {self.stash} WHERE {self.is_entry('OLD')}", self.log(-1, "OLD")],
            ),
        }
        return [
            f"CREATE TRIGGER {name} {event.upper().replace('_', ' ')} ON {self.name} FOR EACH ROW"
            f"{bodies[event][0]} BEGIN {' '.join(statement + ';' for statement in bodies[event][1])} END"
            for name, event in zip(trigger_names(self.relation), _EVENTS, strict=True)
        ]

    def log(self, sign: int, row: str) -> str:
        of_row = ", ".join(f"{row}.{column}" for column in self.columns)
        return (
            f"INSERT INTO {LOG} (relation, sign, mark, {self.vs})"
            f" VALUES ({self.relation}, {sign}, {MARK}, {of_row})"
        )

    def stash_colliding(self, but_not: str) -> list[str]:
        row = ", ".join(f"r.{column}" for column, _ in self.identity)
        row += "".join(f", r.{column}" for column in self.columns)
        known = " AND ".join(
            f"s.i{n} = +r.{column} COLLATE {collation}" for n, (column, collation) in enumerate(self.identity)
        )
        collisions = [self.collides_in_table(u) for u in self.table.uniques]
        if self.table.rowid:
            collisions.insert(0, self.is_row("r", "NEW"))
        return [
            f"INSERT INTO {self.stash} ({self.ids}, {self.vs}) SELECT {row} FROM {self.name} AS r"
            f" WHERE {collision}{but_not} AND NOT EXISTS (SELECT 1 FROM {self.stash} AS s WHERE {known})"
            for collision in collisions
        ]

    def collides_in_table(self, unique: UniqueKey) -> str:
        """REPLACE puts the default in place of a NULL that a NOT NULL column is given, after BEFORE
        triggers ran."""
        terms = []
        for cid, collation in unique.parts:
            column = self.table.columns[cid]
            new = f"NEW.{self.columns[cid]}"
            if column.not_null and column.default is not None:
                new = f"coalesce({new}, {column.default})"
            terms.append(f"r.{self.columns[cid]} = {new} COLLATE {collation}")
        return " AND ".join(terms)

    def collides_in_stash(self, unique: UniqueKey) -> str:
        # The plus sign takes the column's affinity away: entries hold values as stored, and are indexed so.
        return " AND ".join(
            f"{value_name(cid)} = +NEW.{self.columns[cid]} COLLATE {collation}"
            for cid, collation in unique.parts
        )

    def log_gone(self, but_not: str) -> list[str]:
        entry = " AND ".join(
            f"r.{column} = {self.stash}.i{n} COLLATE {collation}"
            for n, (column, collation) in enumerate(self.identity)
        )
        absent = f"NOT EXISTS (SELECT 1 FROM {self.name} AS r WHERE {entry})"
        gone = [
            self.is_entry("NEW"),
            *(f"{self.collides_in_stash(u)} AND {absent}" for u in self.table.uniques),
        ]
        where = " OR ".join(f"({condition}{but_not})" for condition in gone)
        return [
            f"INSERT INTO {LOG} (relation, sign, mark, {self.vs})"
            f" SELECT {self.relation}, -1, {MARK}, {self.vs} FROM {self.stash} WHERE {where}",
            f"DELETE FROM {self.stash} WHERE {where}",
        ]

    def refresh_stash(self) -> list[str]:
        """The row is read again: a statement nested in this one may have changed it since. An entry of
        other content than OLD is not this row but one it replaced."""
        moved_to = ", ".join(f"i{n} = NEW.{column}" for n, (column, _) in enumerate(self.identity))
        content = ", ".join(f"r.{column}" for column in self.columns)
        present = f"FROM {self.name} AS r WHERE {self.is_row('r', 'NEW')}"
        same = "".join(
            f" AND {value_name(i)} IS +OLD.{column} COLLATE BINARY" for i, column in enumerate(self.columns)
        )
        return [
            f"UPDATE {self.stash} SET {moved_to}, ({self.vs}) = (SELECT {content} {present})"
            f" WHERE {self.is_entry('OLD')}{same} AND EXISTS (SELECT 1 {present})"
        ]

    def when_key_changes(self) -> str:
        """A row may also come into a partial index, by columns that are not of its key."""
        if any(u.partial for u in self.table.uniques):
            return ""
        keys = {self.columns[cid] for u in self.table.uniques for cid, _ in u.parts}
        keys |= {column for column, _ in self.identity}
        return " WHEN " + " OR ".join(f"NEW.{k} IS NOT OLD.{k} COLLATE BINARY" for k in sorted(keys))

    def is_row(self, row: str, image: str) -> str:
        return " AND ".join(f"{row}.{c} = {image}.{c} COLLATE {collation}" for c, collation in self.identity)

    def is_entry(self, image: str) -> str:
        return " AND ".join(
            f"i{n} = +{image}.{column} COLLATE {collation}"
            for n, (column, collation) in enumerate(self.identity)
        )
