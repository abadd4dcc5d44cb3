"""What a campaign has met, counted for each kind of operator from the rows that the operators themselves got:
DuckDB is asked for the keys of an operator's input before and after each frame.

The key of a grouping is what it groups by, of a window what it partitions by, of DISTINCT, a set operation
and a LIMIT the whole row, of an outer, semi or anti join and of a subquery the partners' side of an equality.
A key has moved where, in one frame with an UPDATE, one group lost rows and another got some.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace

import duckdb
from property_cases import Transaction
from query_cases import QueryView
from query_duckdb import Duck, Rows
from query_text import (
    DUCKDB,
    Expr,
    Query,
    Select,
    SetOperation,
    Subquery,
    Window,
    depth,
    expressions,
    walk,
    with_sql,
)

EVENTS = (
    *("group born", "group emptied", "group returned", "key moved", "NULL key"),
    *("duplicate added", "duplicate removed"),
)
KEYLESS = ("aggregate of all", "scalar subquery")  # one group: no key that could move or be NULL
KEYED = (
    *("GROUP BY", "GROUPING SETS", "HAVING", "DISTINCT"),
    *("UNION", "INTERSECT", "INTERSECT ALL", "EXCEPT", "EXCEPT ALL"),
    *("LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "LEFT SEMI JOIN", "LEFT ANTI JOIN"),
    *("EXISTS", "NOT EXISTS", "IN", "NOT IN", "correlated scalar subquery"),
    *("window", "QUALIFY", "LIMIT"),
)
WORDS = (
    *("count(*)", "count(DISTINCT ", "count_if(", "sum(", "avg(", "min(", "max(", "bool_and(", "bool_or("),
    *("FILTER (WHERE", "ROLLUP", "CUBE", "GROUPING SETS", "WITH ", "UNION ALL"),
    *("row_number()", "rank()", "dense_rank()", "ntile(", "lag(", "lead(", "first_value(", "last_value("),
    *("ROWS BETWEEN", "OFFSET"),
)

Probe = tuple[str, str]  # an operator, and SQL for the keys of its input


def probes(query: Query, around: tuple[tuple[str, Query], ...] = ()) -> Iterator[Probe]:
    """`around`: the queries of WITH in sight."""
    ctes = (*around, *query.ctes)
    begin = with_sql(ctes, DUCKDB)
    for number, (_, inner) in enumerate(query.ctes):
        yield from probes(inner, (*around, *query.ctes[:number]))
    if isinstance(query, SetOperation):
        if query.word != "UNION ALL":
            sides = (f"SELECT * FROM ({side.sql(DUCKDB)})" for side in (query.left, query.right))
            yield query.word, f"{begin}{' UNION ALL '.join(sides)}"
        yield from probes(query.left, ctes)
        yield from probes(query.right, ctes)
        return
    for operator, sql in (*_of_select(query), *_of_joins(query)):
        yield operator, begin + sql
    for item in query.inputs:
        if not isinstance(item.relation, str):
            yield from probes(item.relation, ctes)
    for part in (part for expr in expressions(query) for part in expr.parts):
        if isinstance(part, Subquery):
            inner = _untied(part.query)
            seen = with_sql((*ctes, *part.query.ctes), DUCKDB)
            yield part.operator, f"{seen}{_asked(replace(part.query, ctes=()))}"
            yield from probes(inner, ctes)


def _of_select(query: Select) -> Iterator[Probe]:
    rows = query.rows_sql(DUCKDB)
    if query.grouping is not None:
        keys = f"SELECT {_listed(query.grouping.keys)}{rows}"
        yield query.grouping.operator, keys
        if query.having and query.grouping.keys:
            yield "HAVING", keys
    places = {"window": tuple(e for _, e in query.items), "QUALIFY": query.qualify}
    for operator, exprs in places.items() if query.grouping is None else ():
        for part in (part for expr in exprs for part in expr.parts):
            if isinstance(part, Window):
                yield operator, f"SELECT {_listed(part.partition)}{rows}"
    whole = replace(query, distinct=False, order=(), limit="", ctes=()).sql(DUCKDB)
    if query.distinct:
        yield "DISTINCT", whole
    if query.limit:
        yield "LIMIT", whole


def _of_joins(query: Select) -> Iterator[Probe]:
    for place, item in enumerate(query.inputs):
        if place and item.on and item.join != "JOIN" and " = " in item.on[0].sql():
            mine, theirs = item.on[0].sql(DUCKDB).split(" = ", 1)
            before = replace(query, inputs=query.inputs[:place], where=()).rows_sql(DUCKDB)
            partners = {
                "RIGHT JOIN": f"SELECT {mine}{before}",
                "FULL JOIN": f"SELECT {mine}{before} UNION ALL SELECT {theirs} FROM {item.sql(DUCKDB)}",
            }
            yield item.join, partners.get(item.join, f"SELECT {theirs} FROM {item.sql(DUCKDB)}")


def _asked(query: Query) -> str:
    """The keys by which the rows around a subquery look into it: its ties, or all it shows."""
    inner = _untied(query)
    if not isinstance(query, Select) or not isinstance(inner, Select):
        return f"SELECT * FROM ({query.sql(DUCKDB)})"
    ties = [condition.tie for condition in query.where if condition.tie]
    if ties:
        return f"SELECT {', '.join(ties)}{inner.rows_sql(DUCKDB)}"
    if query.grouping is not None and not query.grouping.keys:
        return f"SELECT 1{inner.rows_sql(DUCKDB)}"
    return f"SELECT * FROM ({inner.sql(DUCKDB)})"


def _untied(query: Query) -> Query:
    if isinstance(query, SetOperation):
        return query
    return replace(query, where=tuple(condition for condition in query.where if not condition.tie))


def _listed(keys: Sequence[Expr]) -> str:
    return ", ".join(key.sql(DUCKDB) for key in keys) or "1"


def operators(query: Query) -> frozenset[str]:
    return frozenset(operator for operator, _ in probes(query))


def has_update(transactions: Sequence[Transaction]) -> bool:
    return any(statement.startswith("UPDATE") for each in transactions for statement in each.statements)


class Coverage:
    """Counts over many cases."""

    def __init__(self) -> None:
        self.events: dict[str, Counter[str]] = defaultdict(Counter)
        self.words: Counter[str] = Counter()
        self.views = 0
        self._before: dict[tuple[str, int], Rows] = {}
        self._gone: dict[tuple[str, int], set[tuple[object, ...]]] = defaultdict(set)

    def begin(self, views: Sequence[QueryView]) -> None:
        """Another case."""
        self._before, self._gone = {}, defaultdict(set)
        self.views += len(views)
        for view in views:
            sql = view.sql
            self.words.update(word for word in WORDS if word in sql)
            self.words[f"depth {depth(view.query)}"] += 1
            self.words["views over views"] += " v" in sql
            self.words["derived tables"] += any(
                not isinstance(item.relation, str)
                for each in walk(view.query)
                if isinstance(each, Select)
                for item in each.inputs
            )

    def look(self, views: Sequence[QueryView], duck: Duck, *, updated: bool, only: str = "") -> None:
        """After a frame; at one operator only, if it is named."""
        for view in views:
            for number, (operator, sql) in enumerate(probes(view.query)):
                if only not in ("", operator):
                    continue
                try:
                    place, now = (view.name, number), duck.rows(sql)
                except duckdb.NotImplementedException:
                    continue  # what goes into an operator, asked for alone, may be more than DuckDB can run
                if place in self._before:
                    self._count(operator, self._before[place], now, self._gone[place], updated=updated)
                self._before[place] = now

    def _count(
        self, operator: str, then: Rows, now: Rows, gone: set[tuple[object, ...]], *, updated: bool
    ) -> None:
        met = self.events[operator]
        met["key moved"] += updated and bool(now - then) and bool(then - now)
        for key in {*then, *now}:
            before, after = then[key], now[key]
            met["group born"] += not before and key not in gone
            met["group returned"] += not before and key in gone
            met["group emptied"] += not after
            met["NULL key"] += None in key and before != after
            met["duplicate added"] += 0 < before < after
            met["duplicate removed"] += 0 < after < before
            if not after:
                gone.add(key)

    def missing(self) -> list[str]:
        found = [f"{op}: {event}" for op in KEYED for event in EVENTS if not self.events[op][event]]
        found += [
            f"{op}: {event}"
            for op in KEYLESS
            for event in EVENTS
            if event not in ("NULL key", "key moved") and not self.events[op][event]
        ]
        words = (*WORDS, "depth 4", "views over views", "derived tables")
        found += [word for word in words if not self.words[word]]
        return found

    def report(self) -> str:
        lines = [f"  {'':27}" + "".join(f"{event:>19}" for event in EVENTS)]
        for operator in (*KEYED, *KEYLESS):
            counts = self.events[operator]
            lines.append(f"  {operator:27}" + "".join(f"{counts[event]:>19}" for event in EVENTS))
        lines.append(
            "  views with " + ", ".join(f"{word.strip()} {n}" for word, n in sorted(self.words.items()))
        )
        return "\n".join(lines)
