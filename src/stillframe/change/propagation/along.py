"""A good tree of a join too wide for an exact search.

Guarantee: of all trees whose blocks are neighbours in one of a few orders of the inputs, a cheapest one. The
n terms in each of these orders are among them, so it is never dearer than those. It takes time in proportion
to n^4, and is the search of `optimal.py` with stretches of an order in the place of sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from math import inf

from stillframe.algebra import Moment
from stillframe.change.propagation.cost import CostModel, cost
from stillframe.change.propagation.expressions import propagated
from stillframe.change.propagation.sizes import JoinGraph
from stillframe.change.propagation.tree import Input, Leaf, Node, Tree


def good_tree(graph: JoinGraph, model: CostModel) -> Tree:
    trees = [tree_along(order, model) for order in orders(graph)]
    return min(trees, key=lambda tree: cost(propagated(tree), model))


def orders(graph: JoinGraph) -> tuple[tuple[Input, ...], ...]:
    """As written; by size, the largest last, since what stands high in a tree is read least; and by size
    where a condition connects each input to those before it, as long as there is one."""
    by_size = sorted(graph.inputs, key=lambda each: graph.sizes[each.place].rows)
    connected: list[Input] = []
    left = list(by_size)
    while left:
        known = {each.place for each in connected}
        near = [each for each in left if _is_near(graph, each.place, known)]
        connected.append((near or left)[0])
        left.remove(connected[-1])
    return tuple(dict.fromkeys((graph.inputs, tuple(by_size), tuple(connected))))


def _is_near(graph: JoinGraph, place: int, known: set[int]) -> bool:
    return any(place in block and block & known for block in graph.selectivities)


def tree_along(order: Sequence[Input], model: CostModel) -> Tree:
    """A cheapest tree whose blocks are stretches of the order."""
    count = len(order)
    if count == 1:
        return Leaf(order[0])
    own: dict[tuple[int, int], float] = {}
    trees: dict[tuple[int, int], Tree] = {}
    partners: dict[tuple[int, int], tuple[list[float], list[float]]] = {}
    for length in range(1, count + 1):
        for start in range(count - length + 1):
            stretch = (start, start + length)
            price, trees[stretch] = _best(order, stretch, own, trees, partners)
            block = frozenset(each.place for each in order[slice(*stretch)])
            if any(each.changes for each in order[slice(*stretch)]) and length < count:
                kept = model.keeping(block) if length > 1 else 0
                own[stretch] = price + kept + model.driver(block)
                partners[stretch] = (
                    _sums(order, stretch, block, model, Moment.AFTER),
                    _sums(order, stretch, block, model, Moment.BEFORE),
                )
    return trees[0, count]


def _best(
    order: Sequence[Input],
    stretch: tuple[int, int],
    own: dict[tuple[int, int], float],
    trees: dict[tuple[int, int], Tree],
    partners: dict[tuple[int, int], tuple[list[float], list[float]]],
) -> tuple[float, Tree]:
    first, end = stretch
    if end - first == 1:
        return 0.0, Leaf(order[first])
    reached = {first: 0.0}
    path: dict[int, tuple[Tree, ...]] = {first: ()}
    for here in range(first, end):
        for there in range(here + 1, end + 1):
            part = (here, there)
            if part == stretch:
                continue
            total = reached[here]
            if part in own:
                after, before = partners[part]
                total += own[part] + after[here] - after[first] + before[end] - before[there]
            elif there > here + 1:
                continue  # inputs that do not change are leaves
            if total < reached.get(there, inf):
                reached[there], path[there] = total, (*path[here], trees[part])
    return reached[end], Node(path[end])


def _sums(
    order: Sequence[Input], stretch: tuple[int, int], block: frozenset[int], model: CostModel, moment: Moment
) -> list[float]:
    """The price of all partners up to each point of the order; the block itself costs nothing."""
    prices = [
        0.0
        if each.place in block
        else model.partner(block, each.place, moment if each.changes else Moment.AFTER)
        for each in order
    ]
    return list(accumulate(prices, initial=0.0))
