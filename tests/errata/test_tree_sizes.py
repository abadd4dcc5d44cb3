"""Errata 18 to 21 and 30, what they say of propagation trees: the printed size formula, run beside ours."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import comb, prod
from typing import Any

import pytest
from propagation_trees import as_tree, every_tree, members, ordered_partitions

from stillframe.algebra import Bag
from stillframe.change.propagation import Input, JoinGraph, Linear, Size, best_tree, cost, n_term, propagated

HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Case:
    before: tuple[int, ...]
    after: tuple[int, ...]
    change: tuple[int, ...]
    selectivity: dict[tuple[int, int], Fraction]

    def printed_size(self, tree: Any, *, twice: bool = True) -> Fraction:
        """Section 4, for the partition that a tree gives. Without `twice`, a term leaves the pairs inside the
        block whose change it reads to the size of that change."""
        if isinstance(tree, int):
            return Fraction(self.change[tree])
        pairs = set(combinations(sorted(members(tree)), 2))
        total = Fraction(0)
        for i, block in enumerate(tree):
            inside = set(combinations(sorted(members(block)), 2))
            part = prod(self.selectivity.get(p, 1) for p in (pairs if twice else pairs - inside))
            after = prod(self.after[place] for earlier in tree[:i] for place in members(earlier))
            before = prod(self.before[place] for later in tree[i + 1 :] for place in members(later))
            total += part * self.printed_size(block, twice=twice) * after * before
        return total

    def printed_cost(self, tree: Any) -> Fraction:
        """Formula (9) with these sizes."""
        if isinstance(tree, int):
            return Fraction(0)
        total = Fraction(0)
        for i, block in enumerate(tree):
            total += self.printed_cost(block) + self.printed_size(block)
            total += sum(self.after[place] for earlier in tree[:i] for place in members(earlier))
            total += sum(self.before[place] for later in tree[i + 1 :] for place in members(later))
        return total

    def figure_3(self) -> list[Any]:
        """All trees that the algorithm may return, however it decides between equal costs."""
        places = range(len(self.before))
        best: dict[frozenset[int], list[Any]] = {frozenset({place}): [place] for place in places}
        for size in range(2, len(places) + 1):
            for chosen in combinations(places, size):
                trees = [
                    tree
                    for blocks in ordered_partitions(chosen)
                    if len(blocks) > 1
                    for tree in product(*(best[frozenset(block)] for block in blocks))
                ]
                least = min(map(self.printed_cost, trees))
                best[frozenset(chosen)] = [tree for tree in trees if self.printed_cost(tree) == least]
        return best[frozenset(places)]

    def graph(self) -> JoinGraph:
        inputs = tuple(Input(place, f"R{place + 1}", bool(rows)) for place, rows in enumerate(self.change))
        sizes = []
        for before, after, change in zip(self.before, self.after, self.change, strict=True):
            sizes.append(Size(before, (change + after - before) / 2, (change - after + before) / 2))
        return JoinGraph(inputs, tuple(sizes), {frozenset(p): float(s) for p, s in self.selectivity.items()})


def test_18_selectivities_inside_a_block_count_twice() -> None:
    case = Case((2, 2, 1), (3, 2, 1), (1, 0, 0), {(0, 1): HALF})
    assert case.printed_size((0, 1, 2)) == 1
    assert case.printed_size(((0, 1), 2)) == HALF
    r1, r2, r3 = [1, 2], [1, 2], ["x"]
    before = Bag.of((a, c) for a in r1 for b in r2 for c in r3 if a == b)
    after = Bag.of((a, c) for a in [*r1, 1] for b in r2 for c in r3 if a == b)
    assert sum((after - before).values()) == 1
    assert case.graph().change_rows(frozenset({0, 1, 2})) == 1


def test_18_the_algorithm_of_figure_3_is_not_exact_with_printed_sizes() -> None:
    case = Case((1, 1, 1, 4), (2, 2, 3, 6), (1, 1, 2, 2), {(0, 1): HALF})
    found = case.figure_3()
    assert (3, (0, 1, 2)) in found
    assert {case.printed_cost(tree) for tree in found} == {Fraction("29.5")}
    assert case.printed_cost((3, (2, (0, 1)))) == Fraction("27.75")
    assert min(map(case.printed_cost, every_tree(range(4)))) == Fraction("27.75")
    graph = case.graph()
    linear = Linear(graph)
    least = min(cost(propagated(as_tree(tree, graph.inputs)), linear) for tree in every_tree(range(4)))
    assert cost(propagated(best_tree(graph, linear)), linear) == least


def test_18_where_rows_are_deleted_the_order_counts() -> None:
    case = Case((1, 1), (1, 2), (2, 1), {})
    assert case.printed_size((0, 1)) == 3
    assert case.printed_size((1, 0)) == 5
    before = Bag.of([("old", "x")])
    after = Bag.of([("new", "x"), ("new", "y")])
    assert sum(map(abs, (after - before).values())) == 3
    assert case.graph().change_rows(frozenset({0, 1})) == 3


def test_18_without_deletes_and_counted_once_all_trees_agree_with_ours() -> None:
    case = Case((3, 5, 2, 7), (4, 7, 5, 8), (1, 2, 3, 1), {(0, 1): HALF, (1, 2): HALF / 2, (0, 3): HALF / 5})
    found = {case.printed_size(tree, twice=False) for tree in every_tree(range(4))}
    assert len(found) == 1
    assert case.graph().change_rows(frozenset(range(4))) == pytest.approx(float(found.pop()), rel=1e-12)
    assert len({case.printed_size(tree) for tree in every_tree(range(4))}) > 1


def test_19_the_order_of_two_blocks() -> None:
    graph = Case((0, 1), (1, 0), (1, 1), {}).graph()
    r1, r2 = graph.inputs
    assert cost(propagated(n_term((r1, r2))), Linear(graph)) == 4
    assert cost(propagated(n_term((r2, r1))), Linear(graph)) == 2
    assert best_tree(graph, Linear(graph)) == n_term((r2, r1))


def bell(n: int) -> int:
    return 1 if n == 0 else sum(comb(n - 1, k) * bell(k) for k in range(n))


def ordered_bell(n: int) -> int:
    counts = [1]
    for size in range(1, n + 1):
        counts.append(sum(comb(size, first) * counts[size - first] for first in range(1, size + 1)))
    return counts[n]


def test_19_and_22_numbers_of_partitions() -> None:
    assert [sum(1 for _ in ordered_partitions(range(n))) for n in (1, 2, 3, 4)] == [1, 3, 13, 75]
    assert [ordered_bell(n) for n in (1, 2, 3, 4, 10)] == [1, 3, 13, 75, 102_247_563]
    assert bell(10) == 115_975
    assert all(sum(comb(n, i) * bell(i) for i in range(1, n + 1)) == bell(n + 1) - 1 for n in range(1, 11))


def test_20_no_expression_is_cheaper_than_recomputation() -> None:
    graph = Case((1, 1), (2, 2), (1, 1), {}).graph()
    assert cost(propagated(best_tree(graph, Linear(graph))), Linear(graph)) == 5
    assert Linear(graph).recomputation() == 4
    links = {(0, 1): HALF / 50, (1, 2): HALF}
    for grown in product([0, 1, 5], repeat=4):
        if sum(map(bool, grown)) < 2:
            continue
        after = tuple(before + more for before, more in zip((100, 2, 30, 7), grown, strict=True))
        graph = Case((100, 2, 30, 7), after, grown, links).graph()
        linear = Linear(graph)
        assert cost(propagated(best_tree(graph, linear)), linear) >= linear.recomputation()


def test_21_a_large_relation_last() -> None:
    graph = Case((2, 2, 4), (3, 3, 5), (1, 1, 1), {}).graph()
    assert graph.change_rows(frozenset({0, 1})) == 5
    linear = Linear(graph)
    last = cost(propagated(as_tree(((0, 1), 2), graph.inputs)), linear)
    assert last == cost(propagated(n_term(graph.inputs)), linear) + 1
