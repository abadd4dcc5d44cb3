"""Making a failing case smaller: parts are dropped one by one, or put in place of what is around them, while
the case still fails the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from property_cases import Transaction
from query_cases import QueryCase, QueryView
from query_text import Expr, Input, Query, Select, SetOperation, Subquery, relations

Frames = tuple[tuple[Transaction, ...], ...]


def shrunk(case: QueryCase, fails: Callable[[QueryCase], bool], seconds: float) -> QueryCase:
    """`fails` runs a case; what it refuses (a text that no longer resolves, say) is not smaller."""
    deadline = time.monotonic() + seconds
    place = 0
    while True:
        tried = 0
        for smaller in candidates(case):
            tried += 1
            if tried <= place:  # what did not help before a part was dropped is tried again at the end
                continue
            if time.monotonic() > deadline:
                return case
            if fails(smaller):
                case, place = smaller, tried - 1
                break
        else:
            if not place:
                return case
            place = 0


def candidates(case: QueryCase) -> Iterator[QueryCase]:
    """Smaller cases, the boldest first."""
    for view in case.views:
        if len(case.views) > 1 and not any(view.name in relations(other.query) for other in case.views):
            yield replace(case, views=tuple(other for other in case.views if other != view))
    for i in range(len(case.frames)):
        yield replace(case, frames=case.frames[:i] + case.frames[i + 1 :])
    for i, view in enumerate(case.views):
        for smaller in queries(view.query):
            yield replace(case, views=_with(case.views, i, QueryView(view.name, smaller)))
    for start in _fewer(case.start):
        yield replace(case, start=start)
    for i, frame in enumerate(case.frames):
        for fewer in _fewer(frame):
            yield replace(case, frames=_with(case.frames, i, fewer))
    used = frozenset(name for view in case.views for name in relations(view.query))
    for table in case.tables:
        if table.full_name not in used and len(case.tables) > 1:
            yield _without_table(case, table.full_name)


def _without_table(case: QueryCase, name: str) -> QueryCase:
    short = f" {name.split('.')[1]} "

    def kept(transactions: tuple[Transaction, ...]) -> tuple[Transaction, ...]:
        left = (
            replace(t, statements=tuple(s for s in t.statements if short not in f"{s} "))
            for t in transactions
        )
        return tuple(t for t in left if t.statements)

    tables = tuple(table for table in case.tables if table.full_name != name)
    return replace(case, tables=tables, start=kept(case.start), frames=tuple(kept(f) for f in case.frames))


def _fewer(transactions: tuple[Transaction, ...]) -> Iterator[tuple[Transaction, ...]]:
    yield from _without_one(transactions)
    for i, transaction in enumerate(transactions):
        if len(transaction.statements) > 1:
            for statements in _without_one(transaction.statements):
                yield _with(transactions, i, replace(transaction, statements=statements))


def _without_one(parts: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for i in range(len(parts)):
        yield parts[:i] + parts[i + 1 :]


def _with(parts: tuple[Any, ...], place: int, part: Any) -> tuple[Any, ...]:
    return (*parts[:place], part, *parts[place + 1 :])


def queries(query: Query) -> Iterator[Query]:
    """Smaller ones: a query inside in place of all, without each of the parts, then with smaller parts."""
    for i, (_, inner) in enumerate(query.ctes):
        yield inner
        yield replace(query, ctes=query.ctes[:i] + query.ctes[i + 1 :])
        for smaller in queries(inner):
            yield replace(query, ctes=_with(query.ctes, i, (query.ctes[i][0], smaller)))
    if isinstance(query, SetOperation):
        yield from (query.left, query.right)
        yield from (replace(query, left=smaller) for smaller in queries(query.left))
        yield from (replace(query, right=smaller) for smaller in queries(query.right))
        return
    yield from (item.relation for item in query.inputs if not isinstance(item.relation, str))
    yield from _clauses(query)
    yield from _joins(query)
    for place, (name, item) in enumerate(query.items):
        for expr in _exprs(item):
            yield replace(query, items=_with(query.items, place, (name, expr)))
    for i, condition in enumerate(query.where):
        yield from (replace(query, where=_with(query.where, i, expr)) for expr in _exprs(condition))


def _clauses(query: Select) -> Iterator[Select]:
    for where in _without_one(query.where):
        yield replace(query, where=where)
    if query.having:
        yield replace(query, having=())
    if query.qualify:
        yield replace(query, qualify=())
    if query.distinct:
        yield replace(query, distinct=False)
    if query.limit:
        yield replace(query, order=(), limit="")
        if "OFFSET" in query.limit:
            yield replace(query, limit=query.limit.split(" OFFSET")[0])
    keys = len(query.grouping.keys) if query.grouping else 0
    if query.grouping is not None and query.grouping.style not in ("plain", "sets"):
        yield replace(query, grouping=replace(query.grouping, style="plain"))
    for place in range(len(query.items)):
        if len(query.items) == 1:
            continue
        smaller = replace(query, items=query.items[:place] + query.items[place + 1 :])
        if query.order:
            gone = query.items[place][0]
            smaller = replace(smaller, order=tuple(o for o in query.order if o.split()[0] != gone))
        if place < keys and query.grouping is not None and query.grouping.style != "sets":
            fewer = query.grouping.keys[:place] + query.grouping.keys[place + 1 :]
            smaller = replace(smaller, grouping=replace(query.grouping, keys=fewer))
        yield smaller


def _joins(query: Select) -> Iterator[Select]:
    for i, item in enumerate(query.inputs):
        if len(query.inputs) > 1:
            yield _without_input(query, i)
        for on in _without_one(item.on):
            if on:
                yield replace(query, inputs=_with(query.inputs, i, replace(item, on=on)))
        if i and item.on and item.join != "JOIN":
            yield replace(query, inputs=_with(query.inputs, i, replace(item, join="JOIN")))
        if not isinstance(item.relation, str):
            for smaller in queries(item.relation):
                yield replace(query, inputs=_with(query.inputs, i, replace(item, relation=smaller)))


def _without_input(query: Select, place: int) -> Select:
    """Without what names the input's columns; where a key does, the query is refused, and not smaller."""
    alias = f"{query.inputs[place].alias}."

    def free(expr: Expr) -> bool:
        return alias not in expr.sql()

    inputs: tuple[Input, ...] = tuple(
        replace(item, on=tuple(on for on in item.on if free(on)))
        for i, item in enumerate(query.inputs)
        if i != place
    )
    grouping = query.grouping
    if grouping is not None and grouping.style != "sets":
        grouping = replace(grouping, keys=tuple(key for key in grouping.keys if free(key)))
    items = tuple((name, item) for name, item in query.items if free(item))
    return replace(
        query,
        items=items or query.items,
        inputs=inputs,
        where=tuple(condition for condition in query.where if free(condition)),
        having=tuple(condition for condition in query.having if free(condition)),
        grouping=grouping,
    )


def _exprs(expr: Expr) -> Iterator[Expr]:
    for i, part in enumerate(expr.parts):
        if isinstance(part, Subquery):
            for smaller in queries(part.query):
                yield replace(expr, parts=_with(expr.parts, i, Subquery(part.word, smaller)))
