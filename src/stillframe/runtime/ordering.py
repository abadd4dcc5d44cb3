"""In which order the changes of a join's inputs are propagated in one session: by the sizes of what it reads,
and the prices of the engine that computes."""

from __future__ import annotations

from dataclasses import dataclass

from stillframe.algebra import Join, Plan, relations
from stillframe.change.propagation import (
    Calibration,
    Size,
    Spark,
    Statistics,
    Tree,
    best_tree,
    join_graph,
)
from stillframe.runtime.binding import Binder

COLUMN_BYTES = 12  # of a row as it is read
UNKNOWN_ROWS = 100_000  # of a relation that only its source has: it is asked for few of them by key

PRICES = {
    "spark": Calibration(
        engine="spark",
        per_job=0.2,
        per_stage=0.05,
        per_row_made=3e-7,
        per_byte_scanned=2e-9,
        per_byte_broadcast=2e-8,
        per_byte_shuffled=2e-8,
        per_byte_written=3e-8,
        per_file_written=0.05,
        broadcast_limit=256 * 2**20,
    ),
    "sail": Calibration(
        engine="sail",
        per_job=0.02,
        per_stage=0.002,
        per_row_made=1e-7,
        per_byte_scanned=1e-9,
        per_byte_broadcast=2e-9,
        per_byte_shuffled=4e-9,
        per_byte_written=1e-8,
        per_file_written=0.005,
        broadcast_limit=1024 * 2**20,
    ),
}


@dataclass(frozen=True)
class Ordering:
    """Of one view in one session: `binder` knows what is read."""

    binder: Binder
    engine: str

    def __call__(self, join: Join, changed: frozenset[str]) -> Tree:
        known = [Statistics(self._size(plan, changed)) for plan in join.inputs]
        graph = join_graph(join, known, changed)
        return best_tree(graph, Spark(graph, PRICES.get(self.engine, PRICES["spark"]), writes_blocks=False))

    def _size(self, plan: Plan, changed: frozenset[str]) -> Size:
        rows = change = 0.0
        for relation in relations(plan):
            rows += self._rows(relation)
            change += self._change(relation) if relation in changed else 0
        leaving = min(change / 2, rows)
        return Size(rows, change - leaving, leaving, COLUMN_BYTES * max(1, len(plan.schema)))

    def _rows(self, relation: str) -> float:
        if relation in self.binder.upstream:
            return max(self.binder.upstream[relation].before.rows, 0)
        return UNKNOWN_ROWS

    def _change(self, relation: str) -> float:
        if relation in self.binder.upstream:
            change = self.binder.upstream[relation].change
            return self.binder.upstream[relation].after.rows if change is None else change.rows
        return self.binder.change_rows(relation)
