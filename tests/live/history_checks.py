"""Is what frames showed what their level claims? The sources' side of it is the writers' journals alone.

Each transaction leaves one journal row, and each frame shows the journals beside the view; so a frame's own
rows say which transactions it claims to reflect. The rest is arithmetic: the tables of a cut are the sum of
what its transactions say they did, and DuckDB runs the view's own text over them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import duckdb
from history_writers import DDL, TABLES

from stillframe.consistency import Course, Judge, Verdict

Journal = frozenset[tuple[int, int, str]]  # writer, n, entry
Rows = Counter[tuple[Any, ...]]


@dataclass(frozen=True)
class Seen:
    """One frame: the view's rows, and each source's journal."""

    frame: int
    rows: frozenset[tuple[tuple[Any, ...], int]]
    journals: Mapping[str, Journal]


def tables_of(entries: Sequence[str]) -> dict[str, Rows]:
    tables: dict[str, Rows] = {table: Counter() for table in TABLES}
    for entry in entries:
        for table, sign, row in json.loads(entry):
            tables[table][tuple(row)] += sign
    for table, rows in tables.items():
        wrong = {row: n for row, n in rows.items() if n not in (0, 1)}
        assert not wrong, f"{table} would hold {wrong}: no cut of what happened"
        tables[table] = Counter({row: n for row, n in rows.items() if n})
    return tables


class Recomputed:
    """DuckDB runs a view's text, the sources' names being schemas."""

    def __init__(self, text: str, places: Mapping[str, str]) -> None:
        self.text, self.places = text, places

    def __call__(self, tables: Mapping[str, Rows]) -> frozenset[tuple[tuple[Any, ...], int]]:
        con = duckdb.connect()
        for table, source in self.places.items():
            con.execute(f"CREATE SCHEMA IF NOT EXISTS {source}")
            con.execute(DDL[list(TABLES).index(table)].replace("TABLE ", f"TABLE {source}."))
            if tables[table]:
                marks = ", ".join("?" * len(TABLES[table]))
                con.executemany(f"INSERT INTO {source}.{table} VALUES ({marks})", list(tables[table]))
        return frozenset(Counter(con.execute(self.text).fetchall()).items())


def judged(history: Sequence[Seen], final: Mapping[str, Journal], recomputed: Recomputed) -> Verdict:
    """`final` are the journals at the end. A source's transactions are ordered as frames first showed them,
    within one frame as their writer made them; each writer's own order must be respected by it."""
    sources = list(final)
    order: dict[str, list[tuple[int, int, str]]] = {}
    for source in sources:
        known: list[tuple[int, int, str]] = []
        for seen in history:
            known += sorted(seen.journals[source] - set(known))
        known += sorted(final[source] - set(known))
        for writer in {w for w, _, _ in known}:
            mine = [n for w, n, _ in known if w == writer]
            assert mine == list(range(1, len(mine) + 1)), f"{source}: writer {writer} was shown as {mine}"
        order[source] = known
    vectors = []
    for seen in history:
        cut = tuple(len(seen.journals[source]) for source in sources)
        for source, taken in zip(sources, cut, strict=True):
            assert seen.journals[source] == set(order[source][:taken]), (
                f"frame {seen.frame} takes {source} back"
            )
        vectors.append(cut)

    full = tuple(len(order[source]) for source in sources)

    def content(cut: tuple[int, ...]) -> frozenset[tuple[tuple[Any, ...], int]] | None:
        if cut not in vectors and cut != full:
            return None  # the order within a frame is not known: nothing is said of the cuts between
        entries = [e for source, n in zip(sources, cut, strict=True) for _, _, e in order[source][:n]]
        return recomputed(tables_of(entries))

    return Judge(Course(full), content).verify([seen.rows for seen in history], vectors)
