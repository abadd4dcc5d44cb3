"""Bound plans computed: by the engine, or by the driver where that is quick and sure to be the same."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa

from stillframe.algebra import Bag, EvaluationError, Plan, Schema, evaluate, scans
from stillframe.algebra.arrow import COUNT, internal_name
from stillframe.algebra.netting import netted
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
    write_rows,
)
from stillframe.runtime.binding import Binder, Table
from stillframe.runtime.columnar import FAILURES, is_columnar, net_rows
from stillframe.runtime.evaluating import is_exact, is_quick
from stillframe.runtime.holding import arrow_of

LIGHT_ROWS = 100_000  # of a table that is sent to every task


@dataclass(frozen=True)
class Computing:
    """`broadcast` says whether what changes is small enough to be sent to every task with all it joins; it is
    asked when a job is written. `here` says that the driver may compute what is small."""

    engine: Callable[[], Engine]
    binder: Binder
    broadcast: Callable[[], bool] = lambda: False
    here: bool = True

    def net(self, plan: Plan, folder: Path) -> Staged:
        """The net rows of a plan."""
        table, types = self._table(plan), plan.schema.types
        if table is not None:
            return staged_table(table, range(len(types)), types, folder)
        return staged_query(self.engine(), self._net_sql(plan), types, folder, self.binder.reads.room)

    def keys(self, plan: Plan, width: int, folder: Path) -> Staged:
        """What the net rows of a plan have in their first columns, each once."""
        table, schema = self._table(plan), Schema(plan.schema.columns[:width])
        if table is not None:
            return staged_table(_distinct(table, width), range(width), schema.types, folder)
        columns = ", ".join([*(internal_name(i) for i in range(width)), f"CAST(1 AS BIGINT) AS {COUNT}"])
        query = f"SELECT DISTINCT {columns} FROM ({self._net_sql(plan)})"
        return staged_query(self.engine(), query, schema.types, folder, self.binder.reads.room)

    def write(self, plan: Plan, schema: Schema, folder: Path) -> None:
        """The net rows of a plan under a view's names; there may be no file where there are none."""
        table = self._table(plan)
        if table is None:
            query = named_sql(self._net_sql(plan, sorted(schema.identity)), schema.names, count=True)
            write_query(self.engine(), query, folder)
        else:
            write_rows(table.rename_columns([*schema.names, COUNT]), folder)

    def sql(self, plan: Plan, *, plain: bool = False) -> str:
        """`plain`: every row that is read counts one."""
        engine = self.engine()
        plan = prune(plan, lambda scan: self.binder.bound[scan.relation].is_empty)
        tables = {scan.relation: self.binder.bound[scan.relation] for scan in scans(plan)}
        one_task = self._one_task(plan)
        light = None
        if not one_task and engine.kind == "spark" and self.broadcast():
            light = frozenset(name for name, table in tables.items() if table.rows <= LIGHT_ROWS)
        rows = {name: table.rows for name, table in tables.items()} if engine.kind == "sail" else None
        writer = replace(engine.writer, one_task=one_task, plain=plain, light=light, rows=rows)
        return select_sql(plan, lambda scan: tables[scan.relation].sql(), writer)

    def _net_sql(self, plan: Plan, key: Collection[int] = ()) -> str:
        """`key` of what the plan changes: a change has few rows of each, unless a row changed many times
        since the last frame."""
        rows, one_task = canonical_sql(self.sql(plan), plan.schema.types), self._one_task(plan)
        together = key if self.engine().kind == "spark" else ()
        return consolidated_sql(rows, len(plan.schema), one_task=one_task, together=together)

    def _one_task(self, plan: Plan) -> bool:
        """Small work is faster in one task than in the stages a join and a grouping would otherwise take."""
        small = all(self.binder.bound[scan.relation].small for scan in scans(plan))
        return small and self.engine().kind == "spark"

    def _table(self, plan: Plan) -> pa.Table | None:
        """The plan's net rows under staged names, if the driver computes them."""
        read = {scan.relation: self.binder.bound[scan.relation] for scan in scans(plan)}
        if not self.here or any(table.bags is None for table in read.values()):
            return None
        if is_columnar(plan):
            return self._in_columns(plan, read)
        bag = self._bag(plan, read)
        return None if bag is None else arrow_of(bag, plan.schema)

    def _in_columns(self, plan: Plan, read: Mapping[str, Table]) -> pa.Table | None:
        room = self.binder.reads.room
        is_small = all(rows.small for table in read.values() for rows, _ in table.bags or ())
        if not is_small or sum(table.rows for table in read.values()) > room.read:
            return None
        try:
            rows = net_rows(plan, lambda scan, wanted: read[scan.relation].columns(wanted, scan.schema), room)
            return netted(rows)
        except FAILURES:
            return None

    def _bag(self, plan: Plan, read: Mapping[str, Table]) -> Bag | None:
        if not is_quick(plan, {name: table.rows for name, table in read.items()}) or not is_exact(plan):
            return None
        widths = {scan.relation: len(scan.schema) for scan in scans(plan)}
        bags = {name: table.bag(widths[name]) for name, table in read.items()}
        try:
            return evaluate(plan, lambda scan: bags[scan.relation])
        except EvaluationError:
            return None


def _distinct(table: pa.Table, width: int) -> pa.Table:
    """The first columns of some rows, each once, counting one."""
    if not width:
        return (
            table.select([COUNT])
            .slice(0, 1)
            .set_column(0, table.schema.field(COUNT), [pa.array([1] * min(1, table.num_rows), pa.int64())])
        )
    names = table.column_names[:width]
    keys = table.select(names).group_by(names).aggregate([])
    return keys.append_column(table.schema.field(COUNT), pa.repeat(pa.scalar(1, pa.int64()), keys.num_rows))
