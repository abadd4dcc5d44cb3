"""What an expression costs, by a model that prices its factors.

Law: the price of an expression is the sum of the prices of its steps, that of a step is what keeping its
change costs and the prices of its terms, and that of a term is the sum of the prices of its factors. A price
may depend on which change drives the term, and on nothing else of the term or of the tree around it. So a
block costs the same wherever it stands, and the best tree of a block is part of the best tree above it.
"""

from __future__ import annotations

from typing import Protocol

from stillframe.algebra import Moment
from stillframe.change.propagation.expressions import Change, Expression, Term
from stillframe.change.propagation.sizes import Block


class CostModel(Protocol):
    """Prices over one join graph, in one unit. None is negative."""

    @property
    def name(self) -> str: ...

    @property
    def unit(self) -> str: ...

    def driver(self, block: Block) -> float:
        """A term that begins with Δ(⋈block): the term itself, and reading that change."""
        ...

    def partner(self, block: Block, place: int, moment: Moment) -> float:
        """Joining the input at `place`, as it is at `moment`, in a term that begins with Δ(⋈block)."""
        ...

    def keeping(self, block: Block) -> float:
        """Holding Δ(⋈block), a sum of terms, until the step that uses it; of the whole, handing it over."""
        ...

    def recomputation(self) -> float:
        """The whole join, from the states after."""
        ...


def cost(expression: Expression, model: CostModel) -> float:
    total = 0.0
    for step in expression.steps:
        total += model.keeping(step.change.places)
        total += sum(term_cost(term, model) for term in step.terms)
    return total


def term_cost(term: Term, model: CostModel) -> float:
    """The first change drives the term; other changes, which only expression (1) has, are its partners."""
    driver, *others = term.changes
    block = driver.places
    changes = sum(model.partner(block, _place(other), Moment.CHANGE) for other in others)
    states = sum(model.partner(block, state.input.place, state.moment) for state in term.states)
    return model.driver(block) + changes + states


def _place(change: Change) -> int:
    (only,) = change.places
    return only
