"""FindOptimalDeltaExpression (section 4), exact for every cost model of `cost.py`.

Law: the price of a term of a node over S depends on the block P it is about, on the set A of inputs before
P, and on the set B of those behind it; not on how A and B are cut into blocks. So the best ordered partition
of S is a shortest path over the sets A, from none to all, where a step from A to A ∪ P costs

    best(P) + keeping(P) + driver(P) + Σ_A partner(P, after) + Σ_B partner(P, before)

Every input is in A, in P, in B or outside S: 4^n steps in all, where all ordered partitions of all sets would
be far more. Inputs that do not change are read the same wherever they stand. Those that no block takes in
stand last, and a path ends as soon as everything that changes is in A.

Sets of inputs are whole numbers here, one bit to a place.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import inf

from stillframe.algebra import Moment
from stillframe.change.propagation.cost import CostModel
from stillframe.change.propagation.sizes import Block, JoinGraph
from stillframe.change.propagation.tree import Input, Leaf, Node, Tree

Sums = dict[int, float]


def optimal_tree(graph: JoinGraph, model: CostModel) -> Tree:
    """A tree of least cost. It takes time in proportion to 4^n."""
    return _Search(graph, model).tree()


@dataclass(frozen=True)
class _Prices:
    """What a block costs as a driver wherever it stands, and each set of partners before and behind it."""

    own: float
    after: Sums
    before: Sums


class _Search:
    def __init__(self, graph: JoinGraph, model: CostModel) -> None:
        self._inputs, self._model = graph.inputs, model
        self._all = (1 << len(graph.inputs)) - 1
        self._moving = sum(1 << each.place for each in graph.inputs if each.changes)
        self._best: dict[int, float] = {}
        self._blocks: dict[int, tuple[int, ...]] = {}
        self._prices: dict[int, _Prices] = {}

    def tree(self) -> Tree:
        if not self._moving or len(self._inputs) == 1:
            return _node([Leaf(each) for each in self._inputs])
        for block in range(1, self._all + 1):  # every block comes after its subsets
            if block & self._moving:
                self._solve(block)
                if block != self._all:
                    self._prices[block] = self._priced(block)
        return self._tree(self._all)

    def _solve(self, block: int) -> None:
        """The blocks of the shortest path."""
        if block & (block - 1) == 0:
            self._best[block], self._blocks[block] = 0.0, ()
            return
        moving, prices = block & self._moving, self._prices
        reached: Sums = {0: 0.0}
        last: dict[int, int] = {}
        best, end = inf, 0
        for done in _subsets(block):
            so_far = reached.get(done, inf)
            if so_far >= best:
                continue
            if done & moving == moving:
                best, end = so_far, done
                continue
            rest = block ^ done
            part = rest
            while part:
                price = prices.get(part)
                if price is not None:
                    total = so_far + price.own + price.after[done] + price.before[rest ^ part]
                    then = done | part
                    if total < reached.get(then, inf):
                        reached[then], last[then] = total, part
                part = (part - 1) & rest
        path = []
        while end:
            path.append(last[end])
            end ^= last[end]
        self._best[block], self._blocks[block] = best, tuple(reversed(path))

    def _priced(self, block: int) -> _Prices:
        places, model = _places(block), self._model
        own = self._best[block] + model.driver(places)
        if len(places) > 1:
            own += model.keeping(places)
        after, before = {0: 0.0}, {0: 0.0}
        for which in self._inputs:
            bit = 1 << which.place
            if bit & block:
                continue
            later = model.partner(places, which.place, Moment.AFTER)
            earlier = model.partner(places, which.place, Moment.BEFORE) if which.changes else later
            after |= {some | bit: price + later for some, price in after.items()}
            before |= {some | bit: price + earlier for some, price in before.items()}
        return _Prices(own, after, before)

    def _tree(self, block: int) -> Tree:
        taken = self._blocks[block]
        left = block ^ sum(taken)
        leaves: list[Tree] = [Leaf(each) for each in _members(self._inputs, left)]
        return _node([*(self._tree(part) for part in taken), *leaves])


def _node(blocks: list[Tree]) -> Tree:
    return blocks[0] if len(blocks) == 1 else Node(tuple(blocks))


def _subsets(whole: int) -> Iterator[int]:
    """In ascending order, so that each comes after its own subsets."""
    some = 0
    while True:
        yield some
        if some == whole:
            return
        some = (some - whole) & whole


def _places(block: int) -> Block:
    return frozenset(place for place in range(block.bit_length()) if block >> place & 1)


def _members(inputs: tuple[Input, ...], block: int) -> list[Input]:
    return [each for each in inputs if block >> each.place & 1]
