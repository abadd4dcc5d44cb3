"""The expressions, figures and costs of "Efficient Incremental View Maintenance in Data Warehouses" (Lee, Son
and Kim), under their own numbers."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from stillframe.change.propagation import (
    Expression,
    Family,
    Input,
    JoinGraph,
    Leaf,
    Linear,
    Node,
    Size,
    Tree,
    accesses,
    all_terms,
    choose,
    cost,
    n_term,
    propagated,
)

R1, R2, R3, R4, R5, R6 = (Input(place, f"R{place + 1}") for place in range(6))
LARGE_LAST = Node((Node((Leaf(R1), Leaf(R2))), Leaf(R3)))
FIGURE_1_A = Node(
    (
        Node((Node((Leaf(R1), Leaf(R2))), Leaf(R3), Node((Leaf(R4), Leaf(R5))))),
        Leaf(R6),
    )
)
FIGURE_1_B = n_term((R1, R2, R3, R4, R5, R6))


def factors(expression: Expression) -> Counter[str]:
    """How often each |R|, |R'| and |Δ| stands in the linear cost."""
    return Counter(str(f) for step in expression.steps for term in step.terms for f in term.factors)


def sizes(count: int) -> JoinGraph:
    """Sizes that tell all sums apart: nothing is half or twice anything else."""
    given = (
        Size(1009, 17),
        Size(503, 0, 11),
        Size(100_003, 101),
        Size(29, 1),
        Size(7919, 3, 5),
        Size(211, 13),
    )
    return JoinGraph((R1, R2, R3, R4, R5, R6)[:count], given[:count], {frozenset({0, 1}): 0.01})


def test_expression_1() -> None:
    assert all_terms((R1, R2, R3)).written_out().split(" + ") == [
        "ΔR1 ⋈ R2 ⋈ R3",
        "R1 ⋈ ΔR2 ⋈ R3",
        "R1 ⋈ R2 ⋈ ΔR3",
        "ΔR1 ⋈ ΔR2 ⋈ R3",
        "ΔR1 ⋈ R2 ⋈ ΔR3",
        "R1 ⋈ ΔR2 ⋈ ΔR3",
        "ΔR1 ⋈ ΔR2 ⋈ ΔR3",
    ]


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6])
def test_expression_1_reads_each_relation_2_to_the_n_minus_1_times_less_one(count: int) -> None:
    inputs = (R1, R2, R3, R4, R5, R6)[:count]
    expression = all_terms(inputs)
    assert len(expression.steps[0].terms) == 2**count - 1
    assert set(expression.reads().values()) == {2 ** (count - 1) - 1}


def test_expression_2() -> None:
    for step in propagated(FIGURE_1_B).steps:
        for number, term in enumerate(step.terms):
            after = [f"R{i + 1}'" for i in range(number)]
            before = [f"R{i + 1}" for i in range(number + 1, 6)]
            assert list(map(str, term.factors)) == [*after, f"ΔR{number + 1}", *before]
        assert len(step.terms) == 6


def test_expression_3() -> None:
    assert propagated(n_term((R1, R2, R3))).written_out() == (
        "ΔR1 ⋈ R2 ⋈ R3 + R1' ⋈ ΔR2 ⋈ R3 + R1' ⋈ R2' ⋈ ΔR3"
    )


def test_expressions_4_and_6() -> None:
    expression = propagated(LARGE_LAST)
    assert expression.written_out() == "(ΔR1 ⋈ R2 + R1' ⋈ ΔR2) ⋈ R3 + R1' ⋈ R2' ⋈ ΔR3"
    assert str(expression).splitlines() == [
        "Δ(R1⋈R2) = ΔR1 ⋈ R2 + R1' ⋈ ΔR2",
        "Δ(R1⋈R2⋈R3) = Δ(R1⋈R2) ⋈ R3 + R1' ⋈ R2' ⋈ ΔR3",
    ]
    assert expression.reads()[R3] == 1
    assert propagated(n_term((R1, R2, R3))).reads()[R3] == 2


def test_figure_1_a() -> None:
    assert str(FIGURE_1_A) == "(((R1, R2), R3, (R4, R5)), R6)"
    assert str(propagated(FIGURE_1_A)).splitlines() == [
        "Δ(R1⋈R2) = ΔR1 ⋈ R2 + R1' ⋈ ΔR2",
        "Δ(R4⋈R5) = ΔR4 ⋈ R5 + R4' ⋈ ΔR5",
        "Δ(R1⋈R2⋈R3⋈R4⋈R5) = Δ(R1⋈R2) ⋈ R3 ⋈ R4 ⋈ R5 + R1' ⋈ R2' ⋈ ΔR3 ⋈ R4 ⋈ R5"
        " + R1' ⋈ R2' ⋈ R3' ⋈ Δ(R4⋈R5)",
        "Δ(R1⋈R2⋈R3⋈R4⋈R5⋈R6) = Δ(R1⋈R2⋈R3⋈R4⋈R5) ⋈ R6 + R1' ⋈ R2' ⋈ R3' ⋈ R4' ⋈ R5' ⋈ ΔR6",
    ]


@pytest.mark.parametrize(("tree", "counts"), [(FIGURE_1_A, [4, 4, 3, 4, 4, 1]), (FIGURE_1_B, [5] * 6)])
def test_figure_1_access_counts(tree: Tree, counts: list[int]) -> None:
    inputs = (R1, R2, R3, R4, R5, R6)
    assert [accesses(tree)[each] for each in inputs] == counts
    assert [propagated(tree).reads()[each] for each in inputs] == counts


def test_expression_5() -> None:
    graph = sizes(2)
    r1, r2 = graph.sizes
    found = cost(propagated(n_term((R1, R2))), Linear(graph, constant=3))
    assert found == 3 * (r1.change + r2.rows) + 3 * (r1.after + r2.change)


def test_expression_7() -> None:
    expression, graph = propagated(n_term((R1, R2, R3))), sizes(3)
    assert factors(expression) == {"R1'": 2, "R2": 1, "R2'": 1, "R3": 2, "ΔR1": 1, "ΔR2": 1, "ΔR3": 1}
    r1, r2, r3 = graph.sizes
    changes = r1.change + r2.change + r3.change
    assert cost(expression, Linear(graph)) == 2 * r1.after + r2.rows + r2.after + 2 * r3.rows + changes


def test_expression_8() -> None:
    expression, graph = propagated(LARGE_LAST), sizes(3)
    assert factors(expression) == {
        **{"R1'": 2, "R2": 1, "R2'": 1, "R3": 1},
        **{"Δ(R1⋈R2)": 1, "ΔR1": 1, "ΔR2": 1, "ΔR3": 1},
    }
    r1, r2, r3 = graph.sizes
    changes = graph.change_rows(frozenset({0, 1})) + r1.change + r2.change + r3.change
    assert cost(expression, Linear(graph)) == 2 * r1.after + r2.rows + r2.after + r3.rows + changes


def test_expression_9_on_figure_1_a() -> None:
    graph = sizes(6)
    before, after = ([None, *(getattr(s, moment) for s in graph.sizes)] for moment in ("rows", "after"))

    def change(*numbers: int) -> float:
        return graph.change_rows(frozenset(number - 1 for number in numbers))

    pair = change(1) + before[2] + after[1] + change(2)
    other_pair = change(4) + before[5] + after[4] + change(5)
    five = (
        pair
        + other_pair
        + (change(1, 2) + before[3] + before[4] + before[5])
        + (after[1] + after[2] + change(3) + before[4] + before[5])
        + (after[1] + after[2] + after[3] + change(4, 5))
    )
    six = five + (change(1, 2, 3, 4, 5) + before[6]) + (sum(after[1:6]) + change(6))
    assert cost(propagated(FIGURE_1_A), Linear(graph)) == pytest.approx(six, rel=1e-12)


def test_section_3_2_a_large_relation_is_read_least() -> None:
    """The example below expression (8): R3 is much larger than R1 and R2."""
    graph = sizes(3)
    linear = Linear(graph)
    assert cost(propagated(LARGE_LAST), linear) < cost(propagated(n_term((R1, R2, R3))), linear)
    choice = choose(graph, linear)
    assert choice.tree is not None
    assert accesses(choice.tree)[R3] == 1
    assert choice.costs[Family.TREE] <= cost(propagated(LARGE_LAST), linear)


def test_trees_and_expressions_as_documents() -> None:
    leaf = {"place": 0, "input": "R1", "changes": True}
    document = json.loads(json.dumps(LARGE_LAST.to_json()))
    assert document["blocks"][0]["blocks"][0] == leaf
    first, last = json.loads(json.dumps(propagated(LARGE_LAST).to_json()))["steps"]
    assert first["change"] == ["R1", "R2"]
    assert first["text"] == "Δ(R1⋈R2) = ΔR1 ⋈ R2 + R1' ⋈ ΔR2"
    assert last["terms"][0] == [
        {"change": ["R1", "R2"], "places": [0, 1]},
        {"input": "R3", "place": 2, "at": "before"},
    ]
