"""Making a failing case smaller: parts are dropped one by one, while the case still fails the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from property_cases import Case, FromItem, Select, Session, Transaction, View


def shrunk(case: Case, fails: Callable[[Case], bool], seconds: float) -> Case:
    """`fails` runs a case; what it refuses (a text that no longer resolves, say) is not smaller."""
    deadline = time.monotonic() + seconds
    progress = True
    while progress:
        progress = False
        for smaller in candidates(case):
            if time.monotonic() > deadline:
                return case
            if fails(smaller):
                case, progress = smaller, True
                break
    return case


def candidates(case: Case) -> Iterator[Case]:
    """Smaller cases, the boldest first."""
    for sessions in _without_one(case.sessions):
        if sessions:
            yield replace(case, sessions=sessions)
    for view in case.views:
        if not any(view.name in other.upstream for other in case.views):
            kept = tuple(other for other in case.views if other != view)
            if kept:
                yield replace(case, views=kept, sessions=tuple(_forget(s, view.name) for s in case.sessions))
    for i, session in enumerate(case.sessions):
        for smaller in _sessions(session):
            yield replace(case, sessions=_with(case.sessions, i, smaller))
    for i, view in enumerate(case.views):
        for fewer in _views(view):
            yield replace(case, views=_with(case.views, i, fewer))
    texts = " ".join(view.sql for view in case.views)
    for tables in _without_one(case.tables):
        gone = next(table for table in case.tables if table not in tables)
        if gone.full_name not in texts and tables:
            yield replace(case, tables=tables)


def _without_one(parts: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    for i in range(len(parts)):
        yield parts[:i] + parts[i + 1 :]


def _with(parts: tuple[Any, ...], place: int, part: Any) -> tuple[Any, ...]:
    return (*parts[:place], part, *parts[place + 1 :])


def _forget(session: Session, view: str) -> Session:
    return replace(session, views=tuple(name for name in session.views if name != view))


def _sessions(session: Session) -> Iterator[Session]:
    for before in _without_one(session.before):
        yield replace(session, before=before)
    for amid in _without_one(session.amid):
        yield replace(session, amid=amid)
    for flag in ("settle", "full", "verify"):
        if getattr(session, flag):
            yield replace(session, **{flag: False})
    if session.views:
        yield replace(session, views=())
    for i, transaction in enumerate(session.before):
        for smaller in _transactions(transaction):
            yield replace(session, before=_with(session.before, i, smaller))
    for i, (step, transaction) in enumerate(session.amid):
        for smaller in _transactions(transaction):
            yield replace(session, amid=_with(session.amid, i, (step, smaller)))


def _transactions(transaction: Transaction) -> Iterator[Transaction]:
    for statements in _without_one(transaction.statements):
        if statements:
            yield replace(transaction, statements=statements)


def _views(view: View) -> Iterator[View]:
    if view.since:
        yield replace(view, since=0)
    for branches in _without_one(view.branches):
        if branches:
            yield replace(view, branches=branches)
    for i, branch in enumerate(view.branches):
        for smaller in _selects(branch):
            # A branch of a union must keep the columns of the others.
            if len(view.branches) == 1 or len(smaller.items) == len(branch.items):
                yield replace(view, branches=_with(view.branches, i, smaller))


def _selects(select: Select) -> Iterator[Select]:
    for item in select.inputs:
        if len(select.inputs) > 1:
            smaller = _without_input(select, item)
            if smaller.items:
                yield smaller
    for items in _without_one(select.items):
        if items:
            yield replace(select, items=items)
    for where in _without_one(select.where):
        yield replace(select, where=where)
    for i, item in enumerate(select.inputs):
        for on in _without_one(item.on):
            yield replace(select, inputs=_with(select.inputs, i, replace(item, on=on)))


def _without_input(select: Select, item: FromItem) -> Select:
    def free(expression: str) -> bool:
        return f"{item.alias}." not in expression

    inputs = tuple(
        replace(other, on=tuple(condition for condition in other.on if free(condition)))
        for other in select.inputs
        if other != item
    )
    return Select(
        tuple((name, expression) for name, expression in select.items if free(expression)),
        inputs,
        tuple(condition for condition in select.where if free(condition)),
    )
