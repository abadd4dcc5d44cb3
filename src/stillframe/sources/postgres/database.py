"""A PostgreSQL database's tables: what a source can say and read of them, however changes are captured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from psycopg.errors import InvalidSchemaName, UndefinedTable, WrongObjectType

from stillframe.postgres_url import place_of
from stillframe.sources.base import Keys, Method, Range, Relation
from stillframe.sources.postgres.catalog import (
    Connection,
    Table,
    TableColumn,
    quoted,
    read_table,
    read_tables,
    readings,
    relation_of,
)
from stillframe.sources.postgres.read import (
    KeyList,
    Query,
    begin_snapshot,
    parts_of,
    reading,
    within_condition,
)
from stillframe.sources.postgres.rights import methods

COUNTED_ROWS = 200_000  # up to about so many rows are counted, of more the statistics are asked
_SAMPLED = 200  # rows looked at for each bound between two ranges


@dataclass(frozen=True)
class PostgresTables:
    """`capture_limit` bounds the log in rows: when it is longer, consumers further behind than that are
    dropped, and meet CAPTURE_GAP when they come back. None: the log waits for everyone."""

    name: str
    url: str = field(repr=False)
    schema: str = "public"
    capture_limit: int | None = None

    @property
    def address(self) -> str:
        return f"postgresql:{place_of(parts_of(self.name, self.url))}"

    def methods(self) -> tuple[Method, ...]:
        with reading(self.name, self.url) as con:
            return methods(con, self.name, self.schema)

    def describe(self) -> dict[str, Relation]:
        with reading(self.name, self.url) as con:
            tables = read_tables(con, self.name, self.schema)
            return {name: relation_of(self._as_captured(table)) for name, table in tables.items()}

    def pushable(self, relation: str, column: str) -> bool:
        with reading(self.name, self.url) as con:
            (how,) = readings(self.name, self._table(con, relation), [column])
        return bool(how.pushed)

    def rows(self, relation: str) -> int:
        with reading(self.name, self.url) as con:
            return _rows(con, self._table(con, relation))

    def ranges(self, relation: str, rows: int) -> tuple[Range, ...]:
        """By the first column of the primary key. The bounds of a large table come from a sample."""
        with reading(self.name, self.url) as con:
            table = self._table(con, relation)
            column = _range_column(table)
            if column is None:
                return ()
            bounds = [None, *_bounds(con, table, column, max(1, rows)), None]
            return tuple(Range(column.name, *pair) for pair in pairwise(bounds))

    def _table(self, con: Connection, relation: str) -> Table:
        return self._as_captured(read_table(con, self.name, self.schema, relation))

    def _as_captured(self, table: Table) -> Table:
        """The table, with what this way to capture cannot see of it refused."""
        return table

    def _quoted(self, relation: str) -> str:
        return f"{quoted(self.schema)}.{quoted(relation)}"

    def _keys(self, con: Connection, relation: str, keys: Keys | None) -> KeyList | None:
        if keys is None:
            return None
        (how,) = readings(self.name, self._table(con, relation), [keys.column])
        return KeyList(con, keys.column, how, keys.values)

    def _begin_snapshot(self, con: Connection, relation: str) -> None:
        """A table that is not there any more is found missing later, with what is known of it."""
        try:
            begin_snapshot(con, self._quoted(relation))
        except (UndefinedTable, WrongObjectType, InvalidSchemaName):
            con.execute("ROLLBACK")
            begin_snapshot(con)

    def _present(
        self,
        con: Connection,
        table: Table,
        columns: Sequence[str],
        keys: KeyList | None,
        within: Range | None,
    ) -> Query:
        """The rows there are now."""
        conditions = []
        if keys:
            conditions.append(keys.condition(con, quoted(keys.column)))
        if within:
            readings(self.name, table, [within.column])
            conditions.append(within_condition(con, within, table, quoted(within.column)))
        return Query(
            f"FROM {table.rows_sql} WHERE {' AND '.join(conditions) or 'true'}",
            table,
            tuple(columns),
            tuple(quoted(c) for c in columns),
            readings(self.name, table, columns),
        )


def _rows(con: Connection, table: Table) -> int:
    parts = list(table.parts)
    estimate, size, known = con.execute(
        "SELECT sum(reltuples)::bigint, sum(pg_relation_size(oid))::bigint, bool_and(reltuples >= 0)"
        " FROM pg_class WHERE oid = ANY (%s::oid[])",
        (parts,),
    ).fetchone() or (0, 0, True)
    if not parts:
        return 0
    if (size or 0) < 100 * COUNTED_ROWS and (not known or estimate <= COUNTED_ROWS):
        (count,) = con.execute(f"SELECT count(*) FROM {table.rows_sql}").fetchone() or (0,)
        return int(count)
    return int(estimate) if known else int(size // 100)


def _range_column(table: Table) -> TableColumn | None:
    """Its order must be one that bounds can be told in, and hold for equal values."""
    if not table.primary:
        return None
    column = next(c for c in table.columns if c.number == table.primary[0])
    return column if column.reading.pushed not in ("", "bool") else None


def _bounds(con: Connection, table: Table, column: TableColumn, rows: int) -> list[int | str]:
    there = _rows(con, table)
    if there <= rows:
        return []
    name = quoted(column.name)
    source, step = table.rows_sql, rows
    if there > COUNTED_ROWS:
        step = min(_SAMPLED, rows)
        source += f" TABLESAMPLE SYSTEM ({min(100.0, 100.0 * step / rows):.6f}) REPEATABLE (1)"
    found = con.execute(
        f"SELECT DISTINCT {name} AS bound FROM (SELECT {name}, row_number() OVER (ORDER BY {name}) AS n"
        f" FROM {source}) AS numbered WHERE n % {step} = 0 ORDER BY bound"
    )
    number = column.reading.type.is_integer
    return [int(bound) if number else str(bound) for (bound,) in found]
