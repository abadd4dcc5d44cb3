"""What a MariaDB database says of its tables, as far as capture and reading need it.

Some changes fire no trigger, and whether a table is open to them is decided by its definition alone. A child
table whose foreign key says CASCADE or SET NULL is changed by InnoDB itself, beneath the triggers: it is
refused. So is a table of another engine, whose changes do not belong to transactions.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

from stillframe.algebra import types as t
from stillframe.algebra.schema import Column, Schema
from stillframe.sources.base import Reference, Relation
from stillframe.sources.mariadb.connect import Connection
from stillframe.sources.mariadb.types import Reading, reading_of

OWN_PREFIX = "_stillframe"
CASCADE = "CASCADE_NOT_CAPTURED"
# What makes a generated column change without anybody writing.
_FLEETING = re.compile(
    r"\b(now|sysdate|curdate|curtime|current_\w+|utc_\w+|localtime\w*|unix_timestamp|rand|uuid\w*|connection_id"
    r"|user|session_user|system_user|database|schema|version|last_insert_id|row_count|found_rows|sleep|benchmark"
    r"|get_lock|is_used_lock|is_free_lock|load_file)\s*\(|@",
    re.IGNORECASE,
)
_SILENT_RULES = ("CASCADE", "SET NULL", "SET DEFAULT")


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


@dataclass(frozen=True, slots=True)
class TableColumn:
    """`declared` is the type as a column of the log is given it: with character set and collation, without
    anything that constrains or computes. `meaning` also has what values rest on."""

    name: str
    declared: str
    meaning: str
    nullable: bool
    charset: str | None
    collation: str | None
    reading: Reading


@dataclass(frozen=True, slots=True)
class Table:
    """`uniques` holds column positions of the primary and unique keys, the primary one first; `partitions`
    the names of the table's parts, none if it is whole. `refusal` is why the table cannot be captured, as
    code and reason."""

    name: str
    columns: tuple[TableColumn, ...]
    uniques: tuple[tuple[int, ...], ...]
    primary: bool
    partitions: tuple[str, ...]
    refusal: tuple[str, str] | None
    versioned: bool = False
    references: tuple[Reference, ...] = ()

    def column(self, name: str) -> TableColumn | None:
        return next((c for c in self.columns if c.name == name), None)

    def captured(self) -> tuple[TableColumn, ...]:
        """The columns a log row holds: those that can be read."""
        return tuple(c for c in self.columns if c.reading.refused is None)

    def identity(self) -> tuple[TableColumn, ...]:
        """Columns of a key by which a row is found fast; none where there is no key."""
        return tuple(self.columns[i] for i in self.uniques[0]) if self.uniques else ()


def table_names(con: Connection) -> list[str]:
    """Ordinary tables of the database; not views, sequences, or anybody's bookkeeping."""
    rows = con.all(
        "SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = DATABASE()"
        " AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY TABLE_NAME"
    )
    return [name for (name,) in rows if not name.lower().startswith(OWN_PREFIX)]


def read_tables(con: Connection, names: list[str], *, linked: bool = False) -> dict[str, Table]:
    """The tables of these names that there are; if `linked`, with what they refer to."""
    if not names:
        return {}
    among, parameters = f"({', '.join(['%s'] * len(names))})", tuple(names)
    engines = {
        name: (engine, kind)
        for name, engine, kind in con.all(
            "SELECT TABLE_NAME, ENGINE, TABLE_TYPE FROM information_schema.TABLES"
            " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED')"
            f" AND TABLE_NAME IN {among}",
            parameters,
        )
    }
    described = con.all(
        "SELECT TABLE_NAME, COLUMN_NAME, DATA_TYPE, COLUMN_TYPE, IS_NULLABLE, CHARACTER_SET_NAME,"
        " COLLATION_NAME, GENERATION_EXPRESSION, EXTRA FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = DATABASE()"
        f" AND TABLE_NAME IN {among} ORDER BY TABLE_NAME, ORDINAL_POSITION",
        parameters,
    )
    columns: dict[str, list[TableColumn]] = defaultdict(list)
    for described_column in described:
        name, values = described_column[0], described_column[1:]
        zoned = [quoted(other[1]) for other in described if other[0] == name and other[2] == "timestamp"]
        columns[name].append(_column(zoned, *values))
    keys: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for name, index, column in con.all(
        "SELECT TABLE_NAME, INDEX_NAME, COLUMN_NAME FROM information_schema.STATISTICS"
        f" WHERE TABLE_SCHEMA = DATABASE() AND NON_UNIQUE = 0 AND TABLE_NAME IN {among}"
        " ORDER BY TABLE_NAME, INDEX_NAME <> 'PRIMARY', INDEX_NAME, SEQ_IN_INDEX",
        parameters,
    ):
        keys[name][index].append(column)
    parts: dict[str, list[str]] = defaultdict(list)
    for name, part in con.all(
        "SELECT DISTINCT TABLE_NAME, PARTITION_NAME FROM information_schema.PARTITIONS"
        " WHERE TABLE_SCHEMA = DATABASE() AND PARTITION_NAME IS NOT NULL"
        f" AND TABLE_NAME IN {among} ORDER BY TABLE_NAME, PARTITION_ORDINAL_POSITION",
        parameters,
    ):
        parts[name].append(part)
    cascades = _cascades(con, among, parameters)
    references = _references(con, among, parameters) if linked else {}
    return {
        name: replace(
            _table(name, engine, columns[name], keys[name], tuple(parts[name]), cascades.get(name, [])),
            versioned=kind == "SYSTEM VERSIONED",
            references=tuple(references.get(name, ())),
        )
        for name, (engine, kind) in engines.items()
    }


def _references(con: Connection, among: str, parameters: tuple[Any, ...]) -> dict[str, list[Reference]]:
    """Foreign keys to tables of the same database."""
    pairs: dict[tuple[str, str, str], list[tuple[str, str]]] = defaultdict(list)
    for name, constraint, other, here, there in con.all(
        "SELECT TABLE_NAME, CONSTRAINT_NAME, REFERENCED_TABLE_NAME, COLUMN_NAME, REFERENCED_COLUMN_NAME"
        " FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = DATABASE()"
        f" AND REFERENCED_TABLE_SCHEMA = DATABASE() AND TABLE_NAME IN {among}"
        " ORDER BY TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION",
        parameters,
    ):
        pairs[name, constraint, other].append((here, there))
    found: dict[str, list[Reference]] = defaultdict(list)
    for (name, _, other), columns in pairs.items():
        here, there = zip(*columns, strict=True)
        found[name].append(Reference(tuple(here), other, tuple(there)))
    return found


def _cascades(con: Connection, among: str, parameters: tuple[Any, ...]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = defaultdict(list)
    for name, constraint, parent, delete, update in con.all(
        "SELECT TABLE_NAME, CONSTRAINT_NAME, REFERENCED_TABLE_NAME, DELETE_RULE, UPDATE_RULE"
        " FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = DATABASE()"
        f" AND TABLE_NAME IN {among} ORDER BY TABLE_NAME, CONSTRAINT_NAME",
        parameters,
    ):
        rules = [
            f"ON {event} {rule}"
            for event, rule in (("DELETE", delete), ("UPDATE", update))
            if rule in _SILENT_RULES
        ]
        if rules:
            found[name].append(f"its foreign key {constraint!r} to {parent!r} says {' '.join(rules)}")
    return found


def _column(
    zoned: list[str],
    name: str,
    data_type: str,
    column_type: str,
    nullable: str,
    charset: str | None,
    collation: str | None,
    expression: str | None,
    extra: str,
) -> TableColumn:
    """`zoned` are the table's TIMESTAMP columns, quoted: what is computed from them goes by the session's
    time zone."""
    declared = column_type
    if charset is not None:
        declared += f" CHARACTER SET {charset} COLLATE {collation}"
    meaning = f"{declared} {'NULL' if nullable == 'YES' else 'NOT NULL'}"
    if expression is not None:
        meaning += f" AS ({expression})"
    reading = reading_of(data_type, column_type)
    virtual = "VIRTUAL" in extra.upper()
    if virtual and expression and (_FLEETING.search(expression) or any(n in expression for n in zoned)):
        why = f"its value is computed at each look, and depends on when and by whom: {expression}"
        reading = Reading(t.VOID, refused=why)
    return TableColumn(name, declared, meaning, nullable == "YES", charset, collation, reading)


def _table(
    name: str,
    engine: str | None,
    columns: list[TableColumn],
    keys: dict[str, list[str]],
    partitions: tuple[str, ...],
    cascades: list[str],
) -> Table:
    places = {column.name: i for i, column in enumerate(columns)}
    uniques = tuple(
        tuple(places[c] for c in key)
        for key in keys.values()
        if all(c in places and not columns[places[c]].nullable and _tells(columns[places[c]]) for c in key)
    )
    refusal = None
    if (engine or "").upper() != "INNODB":
        refusal = "UNCAPTURABLE_TABLE", f"its engine is {engine or 'unknown'}, which has no transactions"
    elif cascades:
        refusal = CASCADE, "; ".join(cascades)
    return Table(name, tuple(columns), uniques, "PRIMARY" in keys, partitions, refusal)


def _tells(column: TableColumn) -> bool:
    """Values of an ENUM or SET that are not of its list print like the empty one."""
    return not column.declared.lower().startswith(("enum", "set"))


def relation_of(table: Table) -> Relation:
    """Keys need no exception for collations: texts that the source takes for equal may differ in Spark, never
    the other way round, so what is unique at the source is unique in Spark. The same holds for a unique key
    over prefixes."""
    refused: dict[str, str] = {}
    columns: list[Column] = []
    kept: dict[int, int] = {}
    for i, column in enumerate(table.columns):
        if column.reading.refused:
            refused[column.name] = column.reading.refused
            continue
        kept[i] = len(columns)
        columns.append(Column(column.name, column.reading.type, column.nullable))
    keys = [frozenset(kept[i] for i in key) for key in table.uniques if all(i in kept for i in key)]
    return Relation(table.name, Schema(tuple(columns), frozenset(keys)), refused, table.references)
