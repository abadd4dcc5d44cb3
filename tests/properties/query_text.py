"""Queries as data, written in Spark's SQL and in DuckDB's, so that they can be run, looked into, and made
smaller. An expression is text with queries and windows in it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

SPARK, DUCKDB = "spark", "duckdb"

# Where DuckDB says it otherwise. `count_if` of no row is NULL there, 0 in Spark.
IN_DUCKDB = {
    "LEFT SEMI JOIN": "SEMI JOIN",
    "LEFT ANTI JOIN": "ANTI JOIN",
    "count_if(": "count(*) FILTER (WHERE ",
}
# GROUP BY of sets, over no rows: in Spark no group, in DuckDB one for the set without keys.
SOME_ROW = "count(*) > 0"


@dataclass(frozen=True)
class Expr:
    """`tie` is the own side of an equality with a row of the query around it."""

    parts: tuple[Part, ...]
    kind: str = ""
    tie: str = ""

    def sql(self, dialect: str = SPARK) -> str:
        return "".join(
            _words(part, dialect) if isinstance(part, str) else part.sql(dialect) for part in self.parts
        )


@dataclass(frozen=True)
class Subquery:
    """`word` is EXISTS, NOT EXISTS, IN, NOT IN, or empty for one that is a value."""

    word: str
    query: Query

    def sql(self, dialect: str = SPARK) -> str:
        return f"{self.word} ({self.query.sql(dialect)})".strip()

    @property
    def operator(self) -> str:
        tied = isinstance(self.query, Select) and any(condition.tie for condition in self.query.where)
        return self.word or ("correlated scalar subquery" if tied else "scalar subquery")


@dataclass(frozen=True)
class Window:
    call: Expr
    partition: tuple[Expr, ...]
    order: tuple[str, ...] = ()
    frame: str = ""

    def sql(self, dialect: str = SPARK) -> str:
        clauses = []
        if self.partition:
            clauses.append(f"PARTITION BY {', '.join(key.sql(dialect) for key in self.partition)}")
        if self.order:
            clauses.append(f"ORDER BY {_words(', '.join(self.order), dialect)}")
        return (
            f"{self.call.sql(dialect)} OVER ({' '.join([*clauses, *([self.frame] if self.frame else [])])})"
        )


Part = str | Subquery | Window


@dataclass(frozen=True)
class Input:
    """One item of FROM; `join` says how it follows those before it."""

    alias: str
    relation: str | Query
    join: str = "JOIN"
    on: tuple[Expr, ...] = ()

    def sql(self, dialect: str = SPARK) -> str:
        what = self.relation if isinstance(self.relation, str) else f"({self.relation.sql(dialect)})"
        return f"{what} {self.alias}"


@dataclass(frozen=True)
class Grouping:
    """`style`: plain, ordinals, ROLLUP, CUBE, or sets of the keys' numbers; no keys is one group of all."""

    keys: tuple[Expr, ...] = ()
    style: str = "plain"
    sets: tuple[tuple[int, ...], ...] = ()

    def sql(self, dialect: str = SPARK) -> str:
        keys = [key.sql(dialect) for key in self.keys]
        if not keys:
            return ""
        if self.style == "sets":
            sets = ", ".join(
                f"({', '.join(keys[i] for i in chosen if i < len(keys))})" for chosen in self.sets
            )
            return f" GROUP BY GROUPING SETS ({sets})"
        if self.style == "ordinals":
            return f" GROUP BY {', '.join(str(i + 1) for i in range(len(keys)))}"
        return (
            f" GROUP BY {', '.join(keys)}"
            if self.style == "plain"
            else f" GROUP BY {self.style} ({', '.join(keys)})"
        )

    @property
    def operator(self) -> str:
        if not self.keys:
            return "aggregate of all"
        return "GROUP BY" if self.style in ("plain", "ordinals") else "GROUPING SETS"


@dataclass(frozen=True)
class Select:
    """With a `grouping`, its keys are the first items."""

    items: tuple[tuple[str, Expr], ...]
    inputs: tuple[Input, ...]
    where: tuple[Expr, ...] = ()
    grouping: Grouping | None = None
    having: tuple[Expr, ...] = ()
    qualify: tuple[Expr, ...] = ()
    distinct: bool = False
    order: tuple[str, ...] = ()
    limit: str = ""
    ctes: tuple[tuple[str, Query], ...] = ()

    def sql(self, dialect: str = SPARK) -> str:
        items = ", ".join(f"{expr.sql(dialect)} AS {name}" for name, expr in self.items)
        having = [condition.sql(dialect) for condition in self.having]
        if dialect == DUCKDB and self.grouping and self.grouping.operator == "GROUPING SETS":
            having.append(SOME_ROW)
        return "".join(
            (
                with_sql(self.ctes, dialect),
                f"SELECT {'DISTINCT ' if self.distinct else ''}{items}",
                self.rows_sql(dialect),
                self.grouping.sql(dialect) if self.grouping else "",
                f" HAVING {' AND '.join(having)}" if having else "",
                _clause("QUALIFY", self.qualify, dialect),
                f" ORDER BY {', '.join(self.order)}" if self.order else "",
                f" LIMIT {self.limit}" if self.limit else "",
            )
        )

    def rows_sql(self, dialect: str = SPARK) -> str:
        """FROM and WHERE."""
        source = self.inputs[0].sql(dialect)
        for item in self.inputs[1:]:
            on = _clause("ON", item.on, dialect)
            source += f" {_words(item.join, dialect) if on else 'CROSS JOIN'} {item.sql(dialect)}{on}"
        return f" FROM {source}{_clause('WHERE', self.where, dialect)}"


@dataclass(frozen=True)
class SetOperation:
    word: str
    left: Query
    right: Query
    ctes: tuple[tuple[str, Query], ...] = field(default=())

    def sql(self, dialect: str = SPARK) -> str:
        sides = [_side(side, dialect) for side in (self.left, self.right)]
        return f"{with_sql(self.ctes, dialect)}{sides[0]} {self.word} {sides[1]}"

    @property
    def items(self) -> tuple[tuple[str, Expr], ...]:
        return self.left.items


Query = Select | SetOperation


def with_sql(ctes: tuple[tuple[str, Query], ...], dialect: str) -> str:
    named = ", ".join(f"{name} AS ({query.sql(dialect)})" for name, query in ctes)
    return f"WITH {named} " if named else ""


def _side(side: Query, dialect: str) -> str:
    plain = isinstance(side, Select) and not side.limit and not side.ctes
    return side.sql(dialect) if plain else f"({side.sql(dialect)})"


def _clause(word: str, conditions: tuple[Expr, ...], dialect: str) -> str:
    return f" {word} {' AND '.join(c.sql(dialect) for c in conditions)}" if conditions else ""


def _words(text: str, dialect: str) -> str:
    if dialect == DUCKDB:
        for spark, duck in IN_DUCKDB.items():
            text = text.replace(spark, duck)
    return text


def expressions(query: Query) -> Iterator[Expr]:
    """The expressions of a SELECT itself."""
    if isinstance(query, Select):
        yield from (expr for _, expr in query.items)
        yield from (on for item in query.inputs for on in item.on)
        yield from (*query.where, *query.having, *query.qualify)
        yield from query.grouping.keys if query.grouping else ()


def below(query: Query) -> Iterator[Query]:
    """The queries that stand directly in another."""
    yield from (inner for _, inner in query.ctes)
    if isinstance(query, SetOperation):
        yield from (query.left, query.right)
    else:
        yield from (item.relation for item in query.inputs if not isinstance(item.relation, str))
    for expr in expressions(query):
        yield from (part.query for part in expr.parts if isinstance(part, Subquery))


def walk(query: Query) -> Iterator[Query]:
    yield query
    for inner in below(query):
        yield from walk(inner)


def depth(query: Query) -> int:
    return 1 + max((depth(inner) for inner in below(query)), default=0)


def relations(query: Query) -> frozenset[str]:
    """All names in FROM, those of WITH among them."""
    selects = (each for each in walk(query) if isinstance(each, Select))
    return frozenset(i.relation for each in selects for i in each.inputs if isinstance(i.relation, str))
