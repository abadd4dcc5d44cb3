"""In which order the changes of a join's inputs are propagated in one session: by the sizes of what it reads,
and the prices of the engine that computes."""

from __future__ import annotations

from dataclasses import dataclass, replace

from stillframe.algebra import Join, Moment
from stillframe.change.propagation import Tree
from stillframe.runtime.binding import Binder
from stillframe.runtime.estimating import Estimator, Sized, joined_size, relation_size, sized
from stillframe.runtime.statistics import Statistics


@dataclass(frozen=True)
class Ordering:
    """Of one view in one session: `binder` knows what is read."""

    binder: Binder
    estimator: Estimator
    statistics: Statistics

    def __call__(self, join: Join, changed: frozenset[str]) -> Tree:
        return self.estimator.tree(join, sized(join, self._size, changed))

    def _size(self, name: str) -> Sized:
        if name in self.binder.left:
            left = self.binder.left[name]
            return replace(self._size(left.relation), change=left.change.rows)
        if name in self.binder.blocks:
            return joined_size(
                self.binder.blocks[name][Moment.AFTER], self._size, self.binder.change_rows(name)
            )
        if name not in self.binder.upstream:
            return relation_size(self.statistics.of(name), self.binder.change_rows(name))
        view = self.binder.upstream[name]
        if view.change is None:
            change = view.after.rows if view.changed else 0
        else:
            change = view.change.rows
        return Sized(max(view.before.rows, 0), change, distinct=self.statistics.of(name).distinct)
