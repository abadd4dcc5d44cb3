"""In which order the changes of a join's inputs are propagated in one session: by the sizes of what it reads,
and the prices of the engine that computes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from stillframe.algebra import Join, Plan, relations
from stillframe.change.propagation import (
    JoinGraph,
    Size,
    Spark,
    Statistics,
    Tree,
    best_tree,
    join_graph,
)
from stillframe.runtime.binding import Binder
from stillframe.runtime.prices import prices

COLUMN_BYTES = 12  # of a row as it is read
UNKNOWN_ROWS = 100_000  # of a relation that only its source has: it is asked for few of them by key


def priced(graph: JoinGraph, engine: str, warehouse: Path | None = None) -> Spark:
    return Spark(graph, prices(engine, warehouse), writes_blocks=False)


def sized(
    join: Join,
    rows: Callable[[str], float],
    changes: Callable[[str], float],
    changed: frozenset[str],
) -> JoinGraph:
    """The join with what is known of its inputs: the rows of a relation or view, and how many changed. As
    many are taken to leave as to come."""

    def size(plan: Plan) -> Size:
        here, change = sum(map(rows, relations(plan))), sum(map(changes, relations(plan)))
        leaving = min(change / 2, here)
        return Size(here, change - leaving, leaving, COLUMN_BYTES * max(1, len(plan.schema)))

    return join_graph(join, [Statistics(size(plan)) for plan in join.inputs], changed)


@dataclass(frozen=True)
class Ordering:
    """Of one view in one session: `binder` knows what is read."""

    binder: Binder
    engine: str

    def __call__(self, join: Join, changed: frozenset[str]) -> Tree:
        graph = sized(join, self._rows, lambda name: self._change(name) if name in changed else 0, changed)
        return best_tree(graph, priced(graph, self.engine, self.binder.root))

    def _rows(self, relation: str) -> float:
        if relation in self.binder.upstream:
            return max(self.binder.upstream[relation].before.rows, 0)
        return UNKNOWN_ROWS

    def _change(self, relation: str) -> float:
        if relation in self.binder.upstream:
            change = self.binder.upstream[relation].change
            return self.binder.upstream[relation].after.rows if change is None else change.rows
        return self.binder.change_rows(relation)
