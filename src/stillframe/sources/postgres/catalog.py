"""What a PostgreSQL database says of its tables, as far as capture and reading need it.

The catalog is read inside the snapshot that the rows are read in, under a lock of the table where its shape
matters: what is said here holds for what is read next.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import psycopg

from stillframe.algebra.schema import Column, Schema
from stillframe.errors import SourceError
from stillframe.sources.base import Reference, Relation
from stillframe.sources.postgres.types import Declared, Reading, reading_of

OWN_SCHEMA = "_stillframe"

Connection = psycopg.Connection[tuple[Any, ...]]


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


@dataclass(frozen=True, slots=True)
class TableColumn:
    """`version` changes whenever the column is declared anew, `collation` is written as SQL has it."""

    name: str
    number: int
    declared: str
    type: int
    not_null: bool
    collation: str
    version: str
    generated: bool
    reading: Reading


@dataclass(frozen=True, slots=True)
class Table:
    """`keys` holds unique keys, as column numbers in the order of their index, the primary key first.
    `parts` are the tables that hold the rows: the partitions, or the table itself. `by_row` says that its
    changes can be seen only row by row; `refusal` says why they cannot be captured."""

    schema: str
    name: str
    oid: int
    partitioned: bool
    columns: tuple[TableColumn, ...]
    keys: tuple[tuple[int, ...], ...]
    primary: tuple[int, ...]
    parts: tuple[int, ...]
    files: tuple[int, ...]
    by_row: bool
    refusal: str | None
    references: tuple[Reference, ...] = ()

    @property
    def sql(self) -> str:
        return f"{quoted(self.schema)}.{quoted(self.name)}"

    @property
    def rows_sql(self) -> str:
        """The table's own rows, whatever inherits from it."""
        return self.sql if self.partitioned else f"ONLY {self.sql}"

    def column(self, name: str) -> TableColumn | None:
        return next((c for c in self.columns if c.name == name), None)

    def captured(self) -> tuple[TableColumn, ...]:
        """The columns that a log holds."""
        return tuple(c for c in self.columns if c.reading.refused is None)


def table_names(con: Connection, schema: str) -> list[str]:
    """Ordinary and partitioned tables. A partition is read through the table it is a part of."""
    found = con.execute(
        "SELECT relname::text FROM pg_class WHERE relnamespace = (SELECT oid FROM pg_namespace"
        " WHERE nspname = %s) AND relkind IN ('r', 'p') AND NOT relispartition ORDER BY relname",
        (schema,),
    )
    return [name for (name,) in found]


def read_table(con: Connection, source: str, schema: str, name: str) -> Table:
    return read_tables(con, source, schema, [name])[name]


def read_tables(
    con: Connection, source: str, schema: str, names: Sequence[str] | None = None
) -> dict[str, Table]:
    """The tables of these names, or all there are, with what they refer to."""
    there = table_names(con, schema)
    for name in names or ():
        if name not in there:
            raise no_relation(con, source, schema, name, there)
    if names is None and not there:
        require_schema(con, source, schema)
    wanted = there if names is None else list(names)
    heads = con.execute(_TABLES, (schema, wanted)).fetchall()
    oids = [row[1] for row in heads]
    columns = _columns(con, oids)
    keys = _keys(con, oids)
    references = _references(con, oids) if names is None else {}
    return {
        head[0]: replace(
            _table(schema, head, columns.get(head[1], ()), keys.get(head[1], [])),
            references=tuple(references.get(head[1], ())),
        )
        for head in heads
    }


def require_schema(con: Connection, source: str, schema: str) -> None:
    if con.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", (schema,)).fetchone() is None:
        raise SourceError(
            f"source {source!r} has no schema {schema!r}",
            hint="set `schema` of the source in stillframe.yml",
            code="NO_SCHEMA",
        )


def no_relation(con: Connection, source: str, schema: str, name: str, there: Sequence[str]) -> SourceError:
    require_schema(con, source, schema)
    return SourceError(
        f"source {source!r} has no table {name!r}",
        detail=f"there are in schema {schema!r}: {', '.join(there) or 'none'}",
        hint="views, foreign tables and single partitions are not relations",
        code="NO_RELATION",
    )


_TABLES = f"""
SELECT c.relname::text, c.oid::bigint, c.relkind = 'p', c.relpersistence::text,
  EXISTS (SELECT FROM pg_inherits WHERE inhparent = c.oid),
  EXISTS (SELECT FROM pg_inherits WHERE inhrelid = c.oid),
  EXISTS (SELECT FROM pg_subscription_rel WHERE srrelid = c.oid OR srrelid IN
    (SELECT relid FROM pg_partition_tree(c.oid))),
  row_security_active(c.oid),
  ARRAY(SELECT relid::oid::bigint FROM pg_partition_tree(c.oid) WHERE isleaf ORDER BY 1),
  ARRAY(SELECT p.relkind::text || p.relpersistence::text FROM pg_partition_tree(c.oid) AS t
    JOIN pg_class AS p ON p.oid = t.relid WHERE t.isleaf),
  ARRAY(SELECT coalesce(pg_relation_filenode(relid), 0)::bigint FROM pg_partition_tree(c.oid) WHERE isleaf
    ORDER BY relid::oid),
  pg_relation_filenode(c.oid)::bigint
FROM pg_class AS c JOIN pg_namespace AS n ON n.oid = c.relnamespace
WHERE n.nspname = %s AND n.nspname <> '{OWN_SCHEMA}' AND c.relname = ANY (%s)
ORDER BY c.relname
"""

_COLUMNS = """
SELECT a.attrelid::bigint, a.attname::text, a.attnum::int, format_type(a.atttypid, a.atttypmod),
  a.atttypid::bigint, a.atttypmod, a.attnotnull, a.xmin::text,
  CASE WHEN l.oid IS NULL OR l.collname = 'default' THEN ''
    ELSE quote_ident(m.nspname) || '.' || quote_ident(l.collname) END,
  coalesce(l.collisdeterministic, true), a.attgenerated <> ''
FROM pg_attribute AS a LEFT JOIN pg_collation AS l ON l.oid = a.attcollation
  LEFT JOIN pg_namespace AS m ON m.oid = l.collnamespace
WHERE a.attrelid = ANY (%s::oid[]) AND a.attnum > 0 AND NOT a.attisdropped
ORDER BY a.attrelid, a.attnum
"""

_TYPES = """
SELECT t.oid::bigint, t.typname::text, t.typtype::text, n.nspname = 'pg_catalog', t.typbasetype::bigint,
  t.typtypmod, t.typcategory = 'A'
FROM pg_type AS t JOIN pg_namespace AS n ON n.oid = t.typnamespace WHERE t.oid = ANY (%s::oid[])
"""

_KEYS = """
SELECT i.indrelid::bigint, i.indisprimary, (i.indkey::int2[])[0:i.indnkeyatts - 1]::int[]
FROM pg_index AS i WHERE i.indrelid = ANY (%s::oid[]) AND i.indisunique AND i.indisvalid AND i.indimmediate
  AND i.indpred IS NULL AND i.indexprs IS NULL
  AND NOT EXISTS (SELECT FROM pg_opclass AS o WHERE o.oid = ANY (i.indclass::oid[])
    AND o.opcnamespace <> 'pg_catalog'::regnamespace)
ORDER BY i.indisprimary DESC, i.indexrelid
"""

# Those that hold for all rows, to tables of the same schema. Triggers that are switched off keep nothing.
_REFERENCES = """
SELECT f.conrelid::bigint, r.relname::text,
  ARRAY(SELECT a.attname::text FROM unnest(f.conkey) WITH ORDINALITY AS k (n, i)
    JOIN pg_attribute AS a ON a.attrelid = f.conrelid AND a.attnum = k.n ORDER BY k.i),
  ARRAY(SELECT a.attname::text FROM unnest(f.confkey) WITH ORDINALITY AS k (n, i)
    JOIN pg_attribute AS a ON a.attrelid = f.confrelid AND a.attnum = k.n ORDER BY k.i)
FROM pg_constraint AS f JOIN pg_class AS c ON c.oid = f.conrelid JOIN pg_class AS r ON r.oid = f.confrelid
WHERE f.conrelid = ANY (%s::oid[]) AND f.contype = 'f' AND f.convalidated AND r.relnamespace = c.relnamespace
  AND NOT EXISTS (SELECT FROM pg_trigger AS t WHERE t.tgconstraint = f.oid AND t.tgenabled NOT IN ('O', 'A'))
ORDER BY f.conrelid, f.conname
"""


def _references(con: Connection, oids: Sequence[int]) -> dict[int, list[Reference]]:
    found: dict[int, list[Reference]] = {}
    for table, other, here, there in con.execute(_REFERENCES, (list(oids),)):
        found.setdefault(table, []).append(Reference(tuple(here), other, tuple(there)))
    return found


def _table(schema: str, head: tuple[Any, ...], columns: Sequence[TableColumn], keys: list[Any]) -> Table:
    name, oid, partitioned, persistence, parent, child, subscribed, hidden, leaves, kinds, files, file = head
    reasons = []
    if persistence != "p" or any(kind[1] != "p" for kind in kinds):
        reasons.append("it is unlogged: the server empties it after a crash, unseen by any trigger")
    if parent and not partitioned:
        reasons.append("other tables inherit from it")
    if any(kind[0] != "r" for kind in kinds):
        reasons.append("one of its partitions is a foreign table, which changes elsewhere")
    if hidden:
        reasons.append("row-level security hides rows of it from this account")
    return Table(
        schema,
        name,
        oid,
        partitioned,
        tuple(columns),
        tuple(tuple(key) for _, key in keys),
        next((tuple(key) for primary, key in keys if primary), ()),
        tuple(leaves) if partitioned else (oid,),
        tuple(files) if partitioned else (file or 0,),
        partitioned or child or subscribed,
        "; ".join(reasons) or None,
    )


def _columns(con: Connection, oids: Sequence[int]) -> dict[int, list[TableColumn]]:
    rows = con.execute(_COLUMNS, (list(oids),)).fetchall()
    types = _types(con, {row[4] for row in rows})
    found: dict[int, list[TableColumn]] = {}
    for row in rows:
        table, name, number, text, type_, modifier, not_null, version, collation, deterministic, made = row
        base, base_modifier = type_, modifier
        while types[base][1] == "d":
            base, base_modifier = types[base][3], types[base][4]
        typname, kind, own, _, _, array = types[base]
        reading = reading_of(Declared(text, typname, kind, own, base_modifier, array, deterministic))
        found.setdefault(table, []).append(
            TableColumn(name, number, text, type_, not_null, collation, version, made, reading)
        )
    return found


def _types(con: Connection, oids: set[int]) -> dict[int, tuple[Any, ...]]:
    """The types, and what the domains among them are made of."""
    found: dict[int, tuple[Any, ...]] = {}
    while missing := [oid for oid in oids if oid not in found]:
        found |= {row[0]: row[1:] for row in con.execute(_TYPES, (missing,))}
        oids = {row[3] for row in found.values() if row[1] == "d"}
    return found


def _keys(con: Connection, oids: Sequence[int]) -> dict[int, list[Any]]:
    found: dict[int, list[Any]] = {}
    for table, primary, numbers in con.execute(_KEYS, (list(oids),)):
        found.setdefault(table, []).append((primary, numbers))
    return found


def relation_of(table: Table) -> Relation:
    refused: dict[str, str] = {}
    columns: list[Column] = []
    kept: dict[int, int] = {}
    folded = [c.name.lower() for c in table.columns]
    for column in table.columns:
        reason = table.refusal or column.reading.refused
        if folded.count(column.name.lower()) > 1:
            reason = reason or "another column's name differs from it only in case"
        if reason:
            refused[column.name] = reason
            continue
        if column.reading.key and column.not_null:
            kept[column.number] = len(columns)
        columns.append(Column(column.name, column.reading.type, not column.not_null))
    keys = [frozenset(kept[n] for n in key) for key in table.keys if all(n in kept for n in key)]
    return Relation(table.name, Schema(tuple(columns), frozenset(keys)), refused, table.references)


def readings(source: str, table: Table, columns: Sequence[str]) -> tuple[Reading, ...]:
    """How each of the columns is read."""
    there: Mapping[str, Reading] = {c.name: c.reading for c in table.columns}
    for column in columns:
        if column not in there:
            raise SourceError(
                f"{source}.{table.name} has no column {column!r}",
                detail=f"there are: {', '.join(there)}",
                code="NO_COLUMN",
            )
        if reason := there[column].refused:
            raise SourceError(
                f"column {column!r} of {source}.{table.name} cannot be read",
                detail=reason,
                code="UNREADABLE_COLUMN",
            )
    return tuple(there[column] for column in columns)
