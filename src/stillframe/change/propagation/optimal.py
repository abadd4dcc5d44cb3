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

from collections.abc import Iterable, Iterator
from math import inf

from stillframe.algebra import Moment
from stillframe.change.propagation.cost import CostModel
from stillframe.change.propagation.sizes import Block, JoinGraph
from stillframe.change.propagation.tree import Input, Leaf, Node, Tree


def optimal_tree(graph: JoinGraph, model: CostModel) -> Tree:
    """A tree of least cost. It takes time in proportion to 4^n, and room in proportion to 4^n numbers."""
    return _Search(graph, model).tree()


class _Search:
    def __init__(self, graph: JoinGraph, model: CostModel) -> None:
        self._inputs, self._model = graph.inputs, model
        self._moving = sum(1 << each.place for each in graph.inputs if each.changes)
        self._blocks: dict[int, tuple[int, ...]] = {}
        count = 1 << len(graph.inputs)
        # By A, then by P: best(P) + keeping(P) + driver(P) + Σ_A partner(P, after).
        self._ahead = [[inf] * count for _ in range(count)]
        # By P ∪ B, for every P in it that changes and is solved: P, and Σ_B partner(P, before).
        self._behind: list[list[tuple[int, float]]] = [[] for _ in range(count)]

    def tree(self) -> Tree:
        if not self._moving or len(self._inputs) == 1:
            return _node([Leaf(each) for each in self._inputs])
        everything = len(self._ahead) - 1
        for block in range(1, everything + 1):  # every block comes after its subsets
            if block & self._moving:
                self._price(block, self._solve(block))
        return self._tree(everything)

    def _solve(self, block: int) -> float:
        """The shortest path."""
        if block & (block - 1) == 0:
            self._blocks[block] = ()
            return 0.0
        moving = block & self._moving
        reached = [inf] * (block + 1)
        reached[0] = 0.0
        last: dict[int, int] = {}
        best, end = inf, 0
        for done in _subsets(block):
            so_far = reached[done]
            if so_far >= best:
                continue
            if done & moving == moving:
                best, end = so_far, done
                continue
            ahead = self._ahead[done]
            for part, behind in self._behind[block ^ done]:
                total = so_far + ahead[part] + behind
                if total < reached[done | part]:
                    reached[done | part] = total
                    last[done | part] = part
        path = []
        while end:
            path.append(last[end])
            end ^= last[end]
        self._blocks[block] = tuple(reversed(path))
        return best

    def _price(self, block: int, below: float) -> None:
        """What a term about the block costs beside all sets of partners, given what is paid below it."""
        places = _places(block)
        own = below + self._model.driver(places)
        if len(places) > 1:
            own += self._model.keeping(places)
        for partners, price in self._partners(block, places, Moment.AFTER):
            self._ahead[partners][block] = own + price
        for partners, price in self._partners(block, places, Moment.BEFORE):
            self._behind[partners | block].append((block, price))

    def _partners(self, block: int, places: Block, moment: Moment) -> Iterable[tuple[int, float]]:
        sums = {0: 0.0}
        for which in self._inputs:
            bit = 1 << which.place
            if not bit & block:
                price = self._model.partner(places, which.place, moment if which.changes else Moment.AFTER)
                sums |= {some | bit: total + price for some, total in sums.items()}
        return sums.items()

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
