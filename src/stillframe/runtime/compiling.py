"""Plans over what a session reads, as queries of the engine; and the change of a key-wise operator as one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from stillframe.algebra import Moment, Negate, Plan, Scalar, Scan, UnionAll
from stillframe.algebra.arrow import COUNT, internal_name
from stillframe.change import (
    TOUCHED,
    Keywise,
    at,
    in_touched,
    keyed_inputs,
    over,
    shown_keys,
    terms,
    touched_keys,
)
from stillframe.engine import Engine, Staged, canonical_sql, consolidated_sql, select_sql, staged_query
from stillframe.lake.frame import ViewState
from stillframe.runtime.reads import Binder, Upstream


@dataclass(frozen=True)
class Compiler:
    engine: Engine
    binder: Binder

    def query(self, plans: Iterable[Plan], *, plain: bool = False) -> str:
        """The sum of some plans. `plain`: every row that is read counts one."""
        return self._sql(self._bound(plans), plain=plain)

    def _bound(self, plans: Iterable[Plan]) -> Plan:
        bound = tuple(self.binder.bind(plan) for plan in plans)
        return bound[0] if len(bound) == 1 else UnionAll(bound)

    def _sql(self, bound: Plan, *, plain: bool = False) -> str:
        writer = replace(self.engine.writer, one_task=self.binder.tables.one_task, plain=plain)
        return select_sql(bound, lambda scan: self.binder.bound[scan.relation], writer)

    def keywise(
        self, name: str, plan: Keywise, former: ViewState, changed: frozenset[str], folder: Path
    ) -> str | None:
        """The groups that a change touched as they are now, less as they were published; None where none
        was. Their keys are left in `folder`."""
        touched = self._touched(plan, changed, folder)
        if touched is None:
            return None
        self.binder.staged[TOUCHED] = touched
        self.binder.upstream[name] = Upstream(former, former, None, changed=False)
        scan, null = touched_keys(plan), touched.with_null()

        def bound(rows: Plan, keys: tuple[Scalar, ...]) -> Plan:
            return self._bound(in_touched(rows, keys, scan, null))

        now = tuple(bound(at(each.plan, Moment.AFTER, changed), each.keys) for each in keyed_inputs(plan))
        then = bound(Scan(name, former.schema), shown_keys(plan))
        return self._sql(UnionAll((over(plan, now), Negate(then))))

    def _touched(self, plan: Keywise, changed: frozenset[str], folder: Path) -> Staged | None:
        """The keys of what has a net count, each once."""
        types = [key.type for key in shown_keys(plan)]
        columns = ", ".join([*(internal_name(i) for i in range(len(types))), f"CAST(1 AS BIGINT) AS {COUNT}"])
        found = []
        for each in keyed_inputs(plan):
            change = terms(each.change(changed))
            if change:
                seen = [scalar.type for scalar in (*each.keys, *each.read)]
                rows = canonical_sql(self.query(change), seen)
                net = consolidated_sql(rows, len(seen), one_task=self.binder.tables.one_task)
                found.append(f"SELECT {columns} FROM ({net})")
        if not found:
            return None
        query = f"SELECT DISTINCT * FROM ({' UNION ALL '.join(found)})"
        touched = staged_query(self.engine, query, types, folder)
        return touched if touched.rows else None
