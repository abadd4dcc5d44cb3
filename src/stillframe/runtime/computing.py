"""Bound plans computed: by the engine, or by the driver where that is quick and sure to be the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow.parquet as pq

from stillframe.algebra import Bag, EvaluationError, Plan, Schema, evaluate, scans
from stillframe.algebra.arrow import COUNT, internal_name
from stillframe.algebra.prune import prune
from stillframe.engine import (
    Engine,
    Staged,
    canonical_sql,
    consolidated_sql,
    named_sql,
    select_sql,
    staged_query,
    staged_table,
    write_query,
)
from stillframe.runtime.binding import Binder
from stillframe.runtime.evaluating import is_exact, is_quick
from stillframe.runtime.holding import arrow_of

LIGHT_ROWS = 100_000  # of a table that is sent to every task


@dataclass(frozen=True)
class Computing:
    """`broadcast` says that what changes is small enough to be sent to every task with all it joins; `here`
    that the driver may compute what is small."""

    engine: Callable[[], Engine]
    binder: Binder
    broadcast: bool = False
    here: bool = True

    def net(self, plan: Plan, folder: Path) -> Staged:
        """The net rows of a plan."""
        bag, types = self._bag(plan), plan.schema.types
        if bag is not None:
            return staged_table(arrow_of(bag, plan.schema), range(len(types)), types, folder)
        return staged_query(self.engine(), self._net_sql(plan), types, folder)

    def keys(self, plan: Plan, width: int, folder: Path) -> Staged:
        """What the net rows of a plan have in their first columns, each once."""
        bag, schema = self._bag(plan), Schema(plan.schema.columns[:width])
        if bag is not None:
            keys = Bag((row, 1) for row in {row[:width] for row in bag})
            return staged_table(arrow_of(keys, schema), range(width), schema.types, folder)
        columns = ", ".join([*(internal_name(i) for i in range(width)), f"CAST(1 AS BIGINT) AS {COUNT}"])
        query = f"SELECT DISTINCT {columns} FROM ({self._net_sql(plan)})"
        return staged_query(self.engine(), query, schema.types, folder)

    def write(self, plan: Plan, schema: Schema, folder: Path) -> None:
        """The net rows of a plan under a view's names; there may be no file where there are none."""
        bag = self._bag(plan)
        if bag is None:
            query = named_sql(self._net_sql(plan), schema.names, count=True)
            write_query(self.engine(), query, folder)
        elif bag:
            folder.mkdir(parents=True)
            pq.write_table(arrow_of(bag, schema, schema.names), folder / "part-0.parquet")

    def sql(self, plan: Plan, *, plain: bool = False) -> str:
        """`plain`: every row that is read counts one."""
        engine = self.engine()
        plan = prune(plan, lambda scan: self.binder.bound[scan.relation].is_empty)
        tables = {scan.relation: self.binder.bound[scan.relation] for scan in scans(plan)}
        one_task = self._one_task(plan)
        light = None
        if self.broadcast and not one_task and engine.kind == "spark":
            light = frozenset(name for name, table in tables.items() if table.rows <= LIGHT_ROWS)
        writer = replace(engine.writer, one_task=one_task, plain=plain, light=light)
        return select_sql(plan, lambda scan: tables[scan.relation].sql(), writer)

    def _net_sql(self, plan: Plan) -> str:
        rows = canonical_sql(self.sql(plan), plan.schema.types)
        return consolidated_sql(rows, len(plan.schema), one_task=self._one_task(plan))

    def _one_task(self, plan: Plan) -> bool:
        """Small work is faster in one task than in the stages a join and a grouping would otherwise take."""
        small = all(self.binder.bound[scan.relation].small for scan in scans(plan))
        return small and self.engine().kind == "spark"

    def _bag(self, plan: Plan) -> Bag | None:
        """The plan's rows, if the driver computes them."""
        if not self.here:
            return None
        read = {scan.relation: self.binder.bound[scan.relation] for scan in scans(plan)}
        if any(table.bags is None for table in read.values()):
            return None
        if not is_quick(plan, {name: table.rows for name, table in read.items()}) or not is_exact(plan):
            return None
        widths = {scan.relation: len(scan.schema) for scan in scans(plan)}
        bags = {name: table.bag(widths[name]) for name, table in read.items()}
        try:
            return evaluate(plan, lambda scan: bags[scan.relation])
        except EvaluationError:
            return None
