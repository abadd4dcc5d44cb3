"""What a SQLite database says of its tables, as far as capture and reading need it.

A row can leave a table without firing a delete trigger when a REPLACE conflict pushes it out. Which rows
that can be is decided by the table's unique keys alone, so they are read here with the collation each one
compares by. A table whose keys cannot be compared inside a trigger is refused, with the reason.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from stillframe.algebra.schema import Column, Schema
from stillframe.sources.base import Reference, Relation
from stillframe.sources.sqlite.types import Reading, reading_of

OWN_PREFIX = "_stillframe"
BUILT_IN_COLLATIONS = ("BINARY", "NOCASE", "RTRIM")
_ROWID_NAMES = ("rowid", "_rowid_", "oid")
_CONSTANT = re.compile(
    r"[+-]?\s*(\d+(\.\d*)?|\.\d+)(e[+-]?\d+)?|0x[0-9a-f]+|x?'([^']|'')*'|null|true|false"
    r"|current_(time|date|timestamp)",
    re.IGNORECASE,
)
# Texts that differ can be equal as these types, so a unique index over the text is no key of the values.
_NO_KEY = ("DECIMAL", "TIMESTAMP")

_AFTER = re.compile(
    r"\bAFTER\s+(DELETE|INSERT|UPDATE)\b", re.IGNORECASE
)  # BEFORE is what goes without saying
_BLANK = r"(\s|--[^\n]*\n|/\*.*?\*/)*"
_RAISE_IGNORE = re.compile(rf"\bRAISE{_BLANK}\({_BLANK}IGNORE\b", re.IGNORECASE | re.DOTALL)


T = TypeVar("T")
_MASTER = (  # as bytes: a name or a text that nobody reads may be no UTF-8
    "SELECT rowid, type, CAST(name AS BLOB), CAST(tbl_name AS BLOB), CAST(sql AS BLOB) FROM sqlite_master"
)
_MOST_SCHEMAS = 16
_known: dict[tuple[object, ...], dict[tuple[object, ...], Any]] = {}


def per_schema(con: sqlite3.Connection, what: tuple[object, ...], find: Callable[[], T]) -> T:
    """Something that follows from the schema alone, found once. Law: all that SQLite says of tables, indexes
    and triggers of the main database is in the texts of sqlite_master; the same texts, the same answer."""
    schema = tuple(con.execute(_MASTER))
    known = _known.get(schema)
    if known is None:
        if len(_known) >= _MOST_SCHEMAS:
            _known.clear()
        known = _known.setdefault(schema, {})
    if what not in known:
        known[what] = find()
    return cast(T, known[what])


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class TableColumn:
    name: str
    declared: str
    not_null: bool
    default: str | None
    generated: bool


@dataclass(frozen=True, slots=True)
class UniqueKey:
    """Column positions, each with the collation it is compared by."""

    parts: tuple[tuple[int, str], ...]
    partial: bool
    primary: bool


@dataclass(frozen=True, slots=True)
class Table:
    """`rowid` is a name that reaches the row id (None for a WITHOUT ROWID table); `alias` is the position
    of the INTEGER PRIMARY KEY. `collations` gives, for columns that lead an index, that index's collation.
    `refusal` says why the table cannot be captured."""

    name: str
    columns: tuple[TableColumn, ...]
    rowid: str | None
    alias: int | None
    uniques: tuple[UniqueKey, ...]
    collations: tuple[tuple[int, str], ...]
    refusal: str | None
    references: tuple[Reference, ...] = ()

    @property
    def identity(self) -> UniqueKey | None:
        """The primary key that identifies a row of a WITHOUT ROWID table."""
        return None if self.rowid else next((u for u in self.uniques if u.primary), None)

    def shape(self) -> dict[str, Any]:
        """What the triggers rest on; another shape needs other triggers."""
        shape = {
            "columns": [[c.name, c.declared] for c in self.columns],
            "rowid": self.rowid,
            "uniques": sorted([list(part) for part in u.parts] for u in self.uniques),
        }
        partial = sorted([list(part) for part in u.parts] for u in self.uniques if u.partial)
        return shape | {"partial": partial} if partial else shape

    def position(self, column: str) -> int:
        return next(i for i, c in enumerate(self.columns) if c.name == column)

    def readings(self) -> dict[str, Reading]:
        """How each column is read."""
        return {c.name: reading_of(c.declared) for c in self.columns}


def table_names(con: sqlite3.Connection) -> list[str]:
    """Ordinary tables of the main database; not views, virtual tables, or anybody's bookkeeping."""
    listed = con.execute("SELECT name FROM pragma_table_list WHERE schema = 'main' AND type = 'table'")
    names = sorted(name for (name,) in listed)
    return [n for n in names if not n.lower().startswith(("sqlite_", OWN_PREFIX))]


def read_table(con: sqlite3.Connection, name: str) -> Table:
    columns = tuple(
        TableColumn(column, declared or "", bool(not_null), default, hidden in (2, 3))
        for _, column, declared, not_null, default, _, hidden in con.execute(
            "SELECT * FROM pragma_table_xinfo(?)", (name,)
        )
    )
    primary = [
        cid
        for (cid,) in con.execute("SELECT cid FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (name,))
    ]
    (without_rowid,) = con.execute(
        "SELECT wr FROM pragma_table_list WHERE schema = 'main' AND name = ?", (name,)
    ).fetchone()
    reasons: list[str] = []
    uniques: list[UniqueKey] = []
    collations: dict[int, str] = {}
    indexes = con.execute(
        'SELECT name, "unique", origin, partial FROM pragma_index_list(?)', (name,)
    ).fetchall()
    for index, unique, origin, partial in indexes:
        parts = con.execute(
            "SELECT cid, coll FROM pragma_index_xinfo(?) WHERE key ORDER BY seqno", (index,)
        ).fetchall()
        if parts[0][0] >= 0 and not partial and parts[0][1].upper() in BUILT_IN_COLLATIONS:
            collations.setdefault(parts[0][0], parts[0][1].upper())
        if unique:
            reasons += _unfit(index, parts, columns)
            uniques.append(UniqueKey(tuple(parts), bool(partial), origin == "pk"))
    alias = None
    if len(primary) == 1 and columns[primary[0]].declared.upper() == "INTEGER":
        alias = None if any(u.primary for u in uniques) else primary[0]
    if alias is not None:
        collations[alias] = "BINARY"
    rowid = None
    if not without_rowid:
        taken = {c.name.lower() for c in columns}
        free = [n for n in _ROWID_NAMES if n not in taken]
        rowid = quoted(columns[alias].name) if alias is not None else free[0] if free else None
        if rowid is None:
            reasons.append("its columns hide the row id under all of its three names")
    reasons += [
        f"its trigger {trigger!r} writes to the table before the statement that fires it does"
        for trigger in self_writing(con, name, before_only=True)
    ]
    return Table(
        name,
        columns,
        rowid,
        alias,
        tuple(uniques),
        tuple(sorted(collations.items())),
        "; ".join(reasons) or None,
    )


def references(con: sqlite3.Connection, table: str, tables: Mapping[str, str]) -> tuple[Reference, ...]:
    """Those whose tables and columns are there, as these are spelled. A foreign key that names no columns of
    the other table means its primary key. `tables` are the names there are, by their lower case."""
    found: dict[int, tuple[str, list[tuple[str, str | None]]]] = {}
    for number, other, here, there in con.execute(
        'SELECT id, "table", "from", "to" FROM pragma_foreign_key_list(?) ORDER BY id, seq', (table,)
    ):
        found.setdefault(number, (other, []))[1].append((here, there))
    kept: list[Reference] = []
    for other, pairs in found.values():
        name = tables.get(other.lower())
        if name is None:
            continue
        ours, theirs = (_spelled(con, each) for each in (table, name))
        keys = con.execute("SELECT name FROM pragma_table_info(?) WHERE pk > 0 ORDER BY pk", (name,))
        named = [there for _, there in pairs if there is not None] or [key for (key,) in keys]
        here = [ours.get(column.lower()) for column, _ in pairs]
        there = [theirs.get(column.lower()) for column in named]
        if len(here) == len(there) and None not in (*here, *there):
            kept.append(Reference(tuple(map(str, here)), name, tuple(map(str, there))))
    return tuple(kept)


def _spelled(con: sqlite3.Connection, table: str) -> dict[str, str]:
    names = con.execute("SELECT name FROM pragma_table_xinfo(?)", (table,))
    return {name.lower(): name for (name,) in names}


def _unfit(index: str, parts: Sequence[tuple[int, str]], columns: Sequence[TableColumn]) -> list[str]:
    """Why rows that collide on this unique index cannot be found before they are replaced."""
    if any(cid < 0 or columns[cid].generated for cid, _ in parts):
        return [f"its unique index {index!r} is over an expression"]
    reasons = [
        f"its unique index {index!r} uses the collation {collation}, which only its own program knows"
        for _, collation in parts
        if collation.upper() not in BUILT_IN_COLLATIONS
    ]
    for cid, _ in parts:
        column = columns[cid]
        if column.not_null and column.default is not None and not _CONSTANT.fullmatch(column.default):
            reasons.append(f"its unique column {column.name!r} has a computed default")
    return reasons


def self_writing(
    con: sqlite3.Connection, table: str, *, before_only: bool = False, younger_than: int = -1
) -> list[str]:
    """The user's triggers on a table that write to that same table.

    SQLite leaves undefined what a statement does to rows its BEFORE triggers changed; and triggers fire
    newest first, so one made after ours would write between a change and its capture.
    """
    name = "|".join(re.escape(q) for q in (quoted(table), f"[{table}]", f"`{table}`", f"'{table}'", table))
    writes = re.compile(rf"\b(INTO|UPDATE(\s+OR\s+\w+)?|DELETE\s+FROM)\s+({name})(?!\w)", re.IGNORECASE)
    found = con.execute(
        "SELECT name, sql FROM sqlite_master"
        " WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE AND rowid > ?",
        (table, younger_than),
    )
    return [
        trigger
        for trigger, sql in found
        if not trigger.startswith(OWN_PREFIX)
        and writes.search(_body(sql))
        and (not before_only or not _AFTER.search(sql[: -len(_body(sql))]))
    ]


def silencing(con: sqlite3.Connection, table: str, younger_than: int) -> list[str]:
    """The user's triggers that can keep ours from firing after a change was made.

    RAISE(IGNORE) abandons all triggers still to fire for the row, which are the older ones. In a BEFORE
    trigger it abandons the change as well; one that does not say BEFORE is taken for the other kind.
    """
    found = con.execute(
        "SELECT name, sql FROM sqlite_master"
        " WHERE type = 'trigger' AND tbl_name = ? COLLATE NOCASE AND rowid > ?",
        (table, younger_than),
    )
    return [
        trigger
        for trigger, sql in found
        if not trigger.startswith(OWN_PREFIX)
        and _RAISE_IGNORE.search(sql)
        and not _only_before(sql[: -len(_body(sql))])
    ]


def _body(sql: str) -> str:
    """A trigger's statements."""
    parts = re.split(r"\bBEGIN\b", sql, maxsplit=1, flags=re.IGNORECASE)
    return parts[-1]


def _only_before(head: str) -> bool:
    return bool(re.search(r"\bBEFORE\b", head, re.IGNORECASE)) and not re.search(
        r"\bAFTER\b", head, re.IGNORECASE
    )


def relation_of(table: Table) -> Relation:
    refused: dict[str, str] = {}
    columns: list[Column] = []
    kept: dict[int, int] = {}
    folded = [c.name.lower() for c in table.columns]
    primary = table.identity.parts if table.identity else ()
    never_null = {cid for cid, _ in primary} | {table.alias}
    unusable: set[int] = set()
    for i, column in enumerate(table.columns):
        reading = reading_of(column.declared)
        reason = table.refusal or reading.refused
        if folded.count(folded[i]) > 1:
            reason = reason or "another column's name differs from it only in case"
        if reason:
            refused[column.name] = reason
            continue
        kept[i] = len(columns)
        if reading.as_text or reading.type.name in _NO_KEY:
            unusable.add(i)
        columns.append(Column(column.name, reading.type, not (column.not_null or i in never_null)))
    keys = {frozenset(cid for cid, _ in u.parts) for u in table.uniques if not u.partial}
    if table.alias is not None:
        keys.add(frozenset({table.alias}))
    usable = [
        frozenset(kept[i] for i in key)
        for key in keys
        if all(i in kept and i not in unusable and not columns[kept[i]].nullable for i in key)
    ]
    return Relation(table.name, Schema(tuple(columns), frozenset(usable)), refused, table.references)
