"""The tree that is chosen is a cheapest one: compared with all trees, priced by the paper's formula."""

from __future__ import annotations

import os
from dataclasses import replace
from math import isclose, prod
from random import Random

import pytest
from propagation_trees import as_tree, cost_by_formula_9, every_tree, members, random_graph

from stillframe.change.propagation import (
    Calibration,
    CostModel,
    Input,
    JoinGraph,
    Linear,
    Size,
    Spark,
    Tree,
    accesses,
    all_terms,
    best_tree,
    choose,
    cost,
    n_term,
    propagated,
)
from stillframe.change.propagation.along import good_tree, orders
from stillframe.change.propagation.expressions import Family
from stillframe.change.propagation.optimal import optimal_tree
from stillframe.errors import StillframeError

SEED = int(os.environ.get("STILLFRAME_SEED", "20"))
PRICES = Calibration("any", 0.2, 0.04, 1e-7, 1e-9, 1e-8, 6e-9, 1e-8, 0.02, 10 * 2**20)


def joined_change(graph: JoinGraph, block: frozenset[int]) -> float:
    """Rows gained and lost: all combinations after that hold a new row, all before that hold an old one."""
    sizes = [graph.sizes[place] for place in block]
    if len(sizes) == 1:
        return sizes[0].inserted + sizes[0].deleted
    kept = prod(size.rows - size.deleted for size in sizes)
    gained = prod(size.rows - size.deleted + size.inserted for size in sizes) - kept
    lost = prod(size.rows for size in sizes) - kept
    part = prod(part for places, part in graph.selectivities.items() if all(p in block for p in places))
    return part * (gained + lost)


def least_by_formula_9(graph: JoinGraph) -> float:
    before = [size.rows for size in graph.sizes]
    after = [size.rows + size.inserted - size.deleted for size in graph.sizes]
    moving = {each.place for each in graph.inputs if each.changes}
    places = range(len(graph.inputs))
    known = {frozenset(b): joined_change(graph, frozenset(b)) for b in _sets(len(graph.inputs))}
    return min(
        cost_by_formula_9(tree, before, after, known.__getitem__, moving) for tree in every_tree(places)
    )


def _sets(count: int) -> list[list[int]]:
    return [[place for place in range(count) if bits >> place & 1] for bits in range(1, 1 << count)]


def cost_of(tree: Tree, model: CostModel) -> float:
    return cost(propagated(tree), model)


def test_the_number_of_trees() -> None:
    assert [sum(1 for _ in every_tree(range(n))) for n in range(1, 6)] == [1, 2, 18, 264, 5400]


@pytest.mark.parametrize(("count", "cases"), [(2, 40), (3, 100), (4, 60), (5, 12)])
def test_equal_to_brute_force_under_the_linear_metric(count: int, cases: int) -> None:
    for seed in range(SEED, SEED + cases):
        graph = random_graph(Random(seed), count)
        chosen = optimal_tree(graph, Linear(graph))
        assert sorted(each.place for each in chosen.inputs) == list(range(count))
        found, least = cost_of(chosen, Linear(graph)), least_by_formula_9(graph)
        assert isclose(found, least, rel_tol=1e-9), (
            f"STILLFRAME_SEED={seed}: {chosen} {found} {least} {graph}"
        )


@pytest.mark.parametrize(("count", "cases"), [(2, 20), (3, 40), (4, 20), (5, 2)])
def test_equal_to_brute_force_under_the_engines_prices(count: int, cases: int) -> None:
    """Prices of a partner that depend on the driver."""
    for seed in range(SEED, SEED + cases):
        graph = random_graph(Random(seed), count)
        sizes = tuple(replace(size, ranges=Random(seed).choice([1, 8, 1000])) for size in graph.sizes)
        graph = JoinGraph(graph.inputs, sizes, graph.selectivities)
        model = Spark(graph, PRICES)
        found = cost_of(optimal_tree(graph, model), model)
        trees = (as_tree(tree, graph.inputs) for tree in every_tree(range(count)))
        least = min(cost_of(tree, model) for tree in trees)
        assert isclose(found, least, rel_tol=1e-9), f"STILLFRAME_SEED={seed}: {found} {least} {graph}"


@pytest.mark.parametrize("count", [2, 3, 4])
def test_a_tree_costs_what_formula_9_says(count: int) -> None:
    for seed in range(SEED, SEED + 5):
        graph = random_graph(Random(seed), count)
        before = [size.rows for size in graph.sizes]
        after = [size.after for size in graph.sizes]
        moving = {each.place for each in graph.inputs if each.changes}
        for nested in every_tree(range(count)):
            by_formula = cost_by_formula_9(nested, before, after, graph.change_rows, moving)
            found = cost_of(as_tree(nested, graph.inputs), Linear(graph))
            assert isclose(found, by_formula, rel_tol=1e-9), f"STILLFRAME_SEED={seed}: {nested}"


def test_accesses_are_counted_in_the_expression_as_in_the_tree() -> None:
    for count in (1, 2, 3, 4):
        for bits in range(1 << count):
            inputs = [Input(place, f"R{place}", bool(bits >> place & 1)) for place in range(count)]
            for nested in every_tree(range(count)):
                tree = as_tree(nested, inputs)
                reads = propagated(tree).reads()
                assert {each: reads[each] for each in inputs} == accesses(tree)


def test_theorem_2() -> None:
    """Where all inputs change, each is read at least once and at most n-1 times."""
    inputs = [Input(place, f"R{place}") for place in range(4)]
    for nested in every_tree(range(4)):
        assert all(1 <= count <= 3 for count in accesses(as_tree(nested, inputs)).values())


def test_a_change_that_is_empty_costs_nothing() -> None:
    inputs = (Input(0, "R"), Input(1, "S", False), Input(2, "T", False))
    graph = JoinGraph(inputs, (Size(10, 1), Size(20), Size(30)))
    choice = choose(graph, Linear(graph))
    assert str(choice.expression) == "Δ(R⋈S⋈T) = ΔR ⋈ S ⋈ T"
    assert choice.cost == 1 + 20 + 30
    still = JoinGraph(tuple(replace(each, changes=False) for each in inputs), (Size(1), Size(1), Size(1)))
    assert choose(still, Linear(still)).expression.steps == ()
    assert choose(still, Linear(still)).cost == 0


def test_one_input_alone() -> None:
    graph = JoinGraph((Input(0, "R"),), (Size(10, 1, 2),))
    choice = choose(graph, Linear(graph))
    assert str(choice.expression) == "ΔR = ΔR"
    assert choice.cost == 3


def test_a_large_relation_is_read_once() -> None:
    inputs = tuple(Input(place, name) for place, name in enumerate(("big", "r", "s")))
    links = {frozenset({0, 1}): 0.01, frozenset({1, 2}): 0.01}
    graph = JoinGraph(inputs, (Size(10**6, 100), Size(100, 1), Size(100, 1)), links)
    tree = best_tree(graph, Linear(graph))
    assert accesses(tree)[inputs[0]] == 1
    assert {str(tree)} <= {"(big, (r, s))", "(big, (s, r))", "((r, s), big)", "((s, r), big)"}


def test_a_cross_product_costs_what_it_is() -> None:
    """The two small ones meet only through the middle one: together without it they are a product, larger
    than the large one."""
    inputs = tuple(Input(place, name) for place, name in enumerate(("r", "s", "middle")))
    sizes = (Size(1000, 100), Size(1000, 100), Size(20_000, 10))
    apart = JoinGraph(inputs, sizes, {frozenset({0, 2}): 1e-3, frozenset({1, 2}): 1e-3})
    tied = JoinGraph(inputs, sizes, {**apart.selectivities, frozenset({0, 1}): 1e-3})
    assert "(r, s)" not in str(best_tree(apart, Linear(apart)))
    assert accesses(best_tree(tied, Linear(tied)))[inputs[2]] == 1
    assert apart.change_rows(frozenset({0, 1})) == 1100 * 1100 - 1000 * 1000


def test_the_order_of_blocks_decides_between_before_and_after() -> None:
    """The one that grows is read as it was, the one that shrinks as it is."""
    inputs = (Input(0, "grows"), Input(1, "shrinks"))
    graph = JoinGraph(inputs, (Size(100, 900), Size(1000, 0, 900)))
    assert str(propagated(best_tree(graph, Linear(graph)))) == (
        "Δ(shrinks⋈grows) = Δshrinks ⋈ grows + shrinks' ⋈ Δgrows"
    )


def test_of_ten_inputs_no_tree_is_cheaper() -> None:
    graph = random_graph(Random(SEED), 10)
    model = Linear(graph)
    choice = choose(graph, model)
    assert choice.exact and choice.tree is not None
    assert choice.cost <= cost_of(good_tree(graph, model), model) * (1 + 1e-9)


def test_a_wide_join_gets_a_good_tree() -> None:
    for seed in range(SEED, SEED + 5):
        graph = random_graph(Random(seed), 16)
        model = Linear(graph)
        tree = best_tree(graph, model)
        assert sorted(each.place for each in tree.inputs) == list(range(16))
        flat = min(cost_of(n_term(order), model) for order in orders(graph))
        assert cost_of(tree, model) <= flat * (1 + 1e-9), f"STILLFRAME_SEED={seed}"
        assert not choose(graph, model).exact


def test_the_good_tree_is_a_cheapest_one_along_its_orders() -> None:
    for seed in range(SEED, SEED + 30):
        graph = random_graph(Random(seed), 4)
        model = Linear(graph)
        found = cost_of(good_tree(graph, model), model)
        least = min(
            cost_of(as_tree(nested, graph.inputs), model)
            for nested in every_tree(range(4))
            if any(members(nested) == [each.place for each in order] for order in orders(graph))
        )
        assert isclose(found, least, rel_tol=1e-9), f"STILLFRAME_SEED={seed}: {found} {least}"


def test_all_families_are_priced() -> None:
    graph = random_graph(Random(SEED), 3)
    model = Linear(graph)
    choice = choose(graph, model, Family.ALL)
    assert choice.tree is None
    assert choice.expression == all_terms(graph.inputs)
    assert set(choice.costs) == {"all", "n-term", "tree", "recomputation"}
    assert choice.costs["tree"] <= choice.costs["n-term"]
    assert set(choice.to_json()["alternatives"]) == {"n-term", "tree", "recomputation"}


def test_all_terms_of_a_wide_join_are_refused() -> None:
    graph = random_graph(Random(SEED), 16)
    with pytest.raises(StillframeError) as refused:
        choose(graph, Linear(graph), Family.ALL)
    assert refused.value.code == "TOO_MANY_TERMS"
    assert refused.value.hint
