"""A random case as data: tables, views, the rows they start with, and what is written before each frame."""

from __future__ import annotations

from dataclasses import dataclass

from property_cases import Table, Transaction
from query_text import DUCKDB, Query, relations

# Few values each, the first ones most often: groups are uneven, rows repeat and joins meet.
VALUES = {
    "int": ("1", "1", "1", "2", "2", "0", "3", "-1"),
    "text": ("'a'", "'a'", "'a'", "'b'", "'b'", "'ab'", "''", "'A'"),
    "money": ("1.50", "1.50", "0", "-2.25", "10"),
    "date": ("'2024-02-29'", "'2024-02-29'", "'2024-03-01'", "'1969-12-31'"),
    "flag": ("1", "1", "0"),
}
LITERALS = {
    **{kind: VALUES[kind] for kind in ("int", "text")},
    "money": ("1.50", "0.00", "-2.25"),
    "date": ("DATE '2024-02-29'", "DATE '2024-03-01'"),
    "flag": ("true", "false"),
}


@dataclass(frozen=True)
class QueryView:
    name: str
    query: Query

    @property
    def sql(self) -> str:
        return self.query.sql()


@dataclass(frozen=True)
class QueryCase:
    """`start` is written before the first frame, `frames[n]` before the one after that, and so on."""

    seed: int
    tables: tuple[Table, ...]
    views: tuple[QueryView, ...]
    start: tuple[Transaction, ...]
    frames: tuple[tuple[Transaction, ...], ...]

    @property
    def sources(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(table.source for table in self.tables))

    def upstream(self, view: QueryView) -> frozenset[str]:
        """The views that a view reads, and those that they read."""
        named = {other.name: other for other in self.views}
        found: set[str] = set()
        pending = [view.name]
        while pending:
            above = relations(named[pending.pop()].query) & named.keys()
            pending += above - found
            found |= above
        return frozenset(found)


def shown(case: QueryCase) -> str:
    """The case as a person reads it and types it in."""
    lines = [f"case {case.seed}"]
    lines += [f"  {table.source}: {table.ddl};" for table in case.tables]
    for view in case.views:
        lines.append(f"  CREATE MATERIALIZED VIEW {view.name} AS {view.sql};")
        if view.query.sql(DUCKDB) != view.sql:
            lines.append(f"    in DuckDB: {view.query.sql(DUCKDB)}")
    for number, transactions in enumerate((case.start, *case.frames)):
        lines += [f"  {each.source}: {'; '.join(each.statements)};" for each in transactions]
        lines.append(f"  frame {number + 1}")
    return "\n".join(lines)
