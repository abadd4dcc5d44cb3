"""Which expression computes the change of a join, what it costs, and what the others would have cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stillframe.change.propagation.along import good_tree
from stillframe.change.propagation.cost import CostModel, cost
from stillframe.change.propagation.expressions import Expression, Family, all_terms, propagated
from stillframe.change.propagation.optimal import optimal_tree
from stillframe.change.propagation.sizes import JoinGraph
from stillframe.change.propagation.tree import Input, Tree, n_term
from stillframe.errors import StillframeError

EXACT_INPUTS = 10  # an exact search of so many takes less than a second, and of one more four times that
ALL_TERMS_INPUTS = 10  # 1023 terms


@dataclass(frozen=True)
class Choice:
    """`costs` holds the estimates of all families, and of recomputation, in the model's unit. `exact` says
    that no tree is cheaper by the model. All terms have no tree."""

    family: Family
    expression: Expression
    tree: Tree | None
    exact: bool
    costs: Mapping[str, float]
    model: str
    unit: str

    @property
    def cost(self) -> float:
        return self.costs[self.family]

    def to_json(self) -> dict[str, Any]:
        return {
            "family": str(self.family),
            **self.expression.to_json(),
            "tree": None if self.tree is None else self.tree.to_json(),
            "reads": {
                each.name: count for each, count in sorted(self.expression.reads().items(), key=_by_place)
            },
            "exact": self.exact,
            "cost": self.cost,
            "alternatives": {name: each for name, each in self.costs.items() if name != self.family},
            "model": self.model,
            "unit": self.unit,
        }


def _by_place(read: tuple[Input, int]) -> int:
    return read[0].place


def best_tree(graph: JoinGraph, model: CostModel) -> Tree:
    search = optimal_tree if is_exact(graph) else good_tree
    return search(graph, model)


def is_exact(graph: JoinGraph) -> bool:
    return len(graph.inputs) <= EXACT_INPUTS


def choose(graph: JoinGraph, model: CostModel, family: Family = Family.TREE) -> Choice:
    """The expression of a family: n terms in the inputs' own order, or a cheapest tree, which may be n terms
    in some order."""
    inputs = graph.inputs
    trees = {Family.TREE: best_tree(graph, model), Family.N_TERM: n_term(inputs)}
    found = {each: propagated(tree) for each, tree in trees.items()}
    if len(inputs) <= ALL_TERMS_INPUTS:
        found[Family.ALL] = all_terms(inputs)
    if family not in found:
        raise StillframeError(
            f"there are too many terms to list: 2^{len(inputs)} - 1",
            detail=f"a join of {len(inputs)} inputs",
            hint="ask for n-term or tree",
            code="TOO_MANY_TERMS",
        )
    costs = {str(each): cost(expression, model) for each, expression in found.items()}
    costs["recomputation"] = model.recomputation()
    exact = family is Family.TREE and is_exact(graph)
    return Choice(family, found[family], trees.get(family), exact, costs, model.name, model.unit)
