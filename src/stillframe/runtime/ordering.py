"""In which order the changes of a join's inputs are propagated in one session, and whether they are sent to
every task: by the sizes of what it reads, and the prices of the engine that computes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from stillframe.algebra import Join, Moment, Plan, relations
from stillframe.algebra.plan import walk
from stillframe.change.propagation import Tree
from stillframe.runtime.binding import Binder
from stillframe.runtime.estimating import (
    Estimator,
    Sized,
    joined_size,
    relation_size,
    sized,
    view_size,
    with_texts,
)
from stillframe.runtime.statistics import Statistics
from stillframe.runtime.widths import texts_read

BROADCAST_ROWS = 200_000  # changed rows that are sent to every task


@dataclass(frozen=True)
class Ordering:
    """Of one plan in one session: `binder` knows what is read."""

    plan: Plan
    binder: Binder
    estimator: Estimator
    statistics: Statistics

    def __call__(self, join: Join, changed: frozenset[str]) -> Tree:
        return self.estimator.tree(join, sized(join, self._size, changed))

    def can_be_sent(self) -> bool:
        """Whether what changed may be sent to every task with all that comes of it: few rows may meet
        many."""
        if sum(self._size(name).change for name in relations(self.plan)) > BROADCAST_ROWS:
            return False
        joins = (node for node in walk(self.plan) if isinstance(node, Join) and len(node.inputs) > 1)
        most = self.estimator.prices.broadcast_limit
        return all(self.estimator.changed_bytes(join, self._size) <= most for join in joins)

    @cached_property
    def _texts(self) -> dict[str, dict[str, int]]:
        return texts_read([self.plan])

    def _size(self, name: str) -> Sized:
        if name in self.binder.left:
            left = self.binder.left[name]
            return replace(self._size(left.relation), change=left.change.rows)
        if name in self.binder.blocks:
            return joined_size(
                self.binder.blocks[name][Moment.AFTER], self._size, self.binder.change_rows(name)
            )
        return with_texts(self._of_relation(name), self._texts.get(name, {}))

    def _of_relation(self, name: str) -> Sized:
        if name not in self.binder.upstream:
            return relation_size(self.statistics.of(name), self.binder.change_rows(name))
        view = self.binder.upstream[name]
        if view.change is None:
            change = view.after.rows if view.changed else 0
        else:
            change = view.change.rows
        return view_size(self.statistics.of(name), max(view.before.rows, 0), change)
