"""The queries that read a relation: its rows as they are, and its rows in the log.

Both are restricted alike. A restriction that let a row pass in one and not in the other would leave half of a
change in the state they add up to.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

from stillframe.algebra.selection import Selection, said
from stillframe.errors import SourceError
from stillframe.sources.base import Range
from stillframe.sources.mariadb.capture import value_name, values_name
from stillframe.sources.mariadb.catalog import Table, TableColumn, quoted
from stillframe.sources.mariadb.connect import Connection
from stillframe.sources.mariadb.log import Captured
from stillframe.sources.mariadb.position import Mark, gap
from stillframe.sources.mariadb.read import KeySet, Query, between, selected
from stillframe.sources.mariadb.segments import of_log
from stillframe.sources.mariadb.selecting import in_mariadb


def no_relation(source: str, relation: str, names: Sequence[str]) -> SourceError:
    return SourceError(
        f"source {source!r} has no table {relation!r}",
        detail=f"there are: {', '.join(names) or 'none'}",
        hint="views and sequences are not relations",
        code="NO_RELATION",
    )


def columns_of(source: str, table: Table, names: Sequence[str]) -> tuple[TableColumn, ...]:
    found = []
    for name in names:
        column = table.column(name)
        if column is None:
            raise SourceError(
                f"{source}.{table.name} has no column {name!r}",
                detail=f"there are: {', '.join(c.name for c in table.columns)}",
                code="NO_COLUMN",
            )
        if column.reading.refused:
            raise SourceError(
                f"column {name!r} of {source}.{table.name} cannot be read",
                detail=column.reading.refused,
                code="UNREADABLE_COLUMN",
            )
        found.append(column)
    return tuple(found)


def present(
    source: str, table: Table, names: Sequence[str], keys: Sequence[KeySet] = (), within: Range | None = None
) -> Query:
    columns = columns_of(source, table, names)
    places = {c.name: f"r.{quoted(c.name)}" for c in table.columns}
    picked = ", ".join(selected(columns, [places[n] for n in names])) or "1"
    where, parameters = _restricted(places, keys, within)
    sql = f"SELECT {picked} FROM {quoted(table.name)} AS r WHERE {where}"
    return Query(sql, parameters, table, columns, counted=False)


def logged(
    con: Connection,
    source: str,
    capture: Captured,
    names: Sequence[str],
    count: str,
    after: Mark,
    where: str,
    keys: Sequence[KeySet] = (),
    within: Range | None = None,
    *,
    tagged: bool = False,
    wanted: Selection | None = None,
) -> Query:
    """Log rows, restricted exactly as the present rows are: by keys, and to a range. Those that are not
    `wanted` are left out as far as the server can tell."""
    columns = columns_of(source, capture.table, names)
    limits = [*(k.column.name for k in keys), *([within.column] if within else [])]
    for name in (*names, *limits):
        if not capture.has(name, after.high):
            raise gap(source, f"column {name!r} was added to {capture.table.name!r} after capture")
    places = {name: f"v.{value_name(i)}" for i, name in enumerate(capture.columns)}
    picked = ", ".join(
        [*selected(columns, [places[n] for n in names]), count, *(["l.trx"] if tagged else [])]
    )
    own = f"{where} AND l.relation = {capture.id} AND l.sign <> 0"
    rows = of_log(con, own, f"STRAIGHT_JOIN {values_name(capture.id)} AS v ON v.seq = l.seq")
    condition, parameters = _restricted(places, keys, within)
    known = {column.name: column for column in columns}
    if wanted is not None and (asked := said(wanted, partial(in_mariadb, places, known))):
        condition, parameters = f"{condition} AND {asked[0]}", (*parameters, *asked[1])
    sql = f"SELECT {picked} {rows} AND {condition} ORDER BY l.seq"
    return Query(sql, parameters, capture.table, columns, counted=True, tagged=tagged)


def _restricted(
    places: dict[str, str], keys: Sequence[KeySet], within: Range | None
) -> tuple[str, tuple[Any, ...]]:
    terms: list[str] = ["TRUE"]
    parameters: tuple[Any, ...] = ()
    for limit in keys:
        text, values = limit.condition(places[limit.column.name])
        terms, parameters = [*terms, text], (*parameters, *values)
    if within:
        text, values = between(within, places[within.column])
        terms, parameters = [*terms, text], (*parameters, *values)
    return " AND ".join(terms), parameters
