"""Expressions for the change of a join, as values.

Law (definition 1, over an ordered partition P1, …, Pm of P):
    Δ(⋈P)  =  Σ_i  ⋈P1' ⋈ … ⋈ ⋈P(i-1)' ⋈ Δ(⋈Pi) ⋈ ⋈P(i+1) ⋈ … ⋈ ⋈Pm
It telescopes: term i turns block i from before to after. A partition into single inputs gives the n terms of
expression (2); nested partitions give every propagation tree.

Law (expression (1)): expanding ⋈(R + ΔR) over the states before gives one term for every set of inputs that
is not empty, with their changes in it, and all other inputs as they were.

An expression is a sequence of steps. Each computes the change of one block, once; later steps name it. A
block that does not change has no step, and no term is about it. A state of an input that does not change is
always the one after, so that all terms share one read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from typing import Any

from stillframe.algebra import Moment
from stillframe.change.propagation.tree import Input, Leaf, Node, Tree, changing


class Family(StrEnum):
    """Expression (1), expression (2), and definition 1."""

    ALL = "all"
    N_TERM = "n-term"
    TREE = "tree"


@dataclass(frozen=True)
class State:
    """An input as it was before the session, or is after it."""

    input: Input
    moment: Moment

    def __str__(self) -> str:
        return (
            f"{self.input.name}'" if self.moment is Moment.AFTER and self.input.changes else self.input.name
        )

    def to_json(self) -> dict[str, Any]:
        return {"input": self.input.name, "place": self.input.place, "at": str(self.moment)}


@dataclass(frozen=True)
class Change:
    """The change of the join of some inputs: of one, as captured; of several, as a step computed it."""

    inputs: tuple[Input, ...]

    @property
    def places(self) -> frozenset[int]:
        return frozenset(each.place for each in self.inputs)

    def __str__(self) -> str:
        names = "⋈".join(each.name for each in self.inputs)
        return f"Δ{names}" if len(self.inputs) == 1 else f"Δ({names})"

    def to_json(self) -> dict[str, Any]:
        return {"change": [each.name for each in self.inputs], "places": [each.place for each in self.inputs]}


Factor = State | Change


@dataclass(frozen=True)
class Term:
    """A join. Its factors together hold every input of its step once."""

    factors: tuple[Factor, ...]

    @property
    def changes(self) -> tuple[Change, ...]:
        return tuple(factor for factor in self.factors if isinstance(factor, Change))

    @property
    def states(self) -> tuple[State, ...]:
        return tuple(factor for factor in self.factors if isinstance(factor, State))

    def __str__(self) -> str:
        return " ⋈ ".join(map(str, self.factors))


@dataclass(frozen=True)
class Step:
    """`change` is the sum of the terms."""

    change: Change
    terms: tuple[Term, ...]

    def __str__(self) -> str:
        return f"{self.change} = {' + '.join(map(str, self.terms))}"

    def to_json(self) -> dict[str, Any]:
        return {
            **self.change.to_json(),
            "terms": [[factor.to_json() for factor in term.factors] for term in self.terms],
            "text": str(self),
        }


@dataclass(frozen=True)
class Expression:
    """The last step is the change asked for; without steps nothing changes."""

    steps: tuple[Step, ...]

    def reads(self) -> Counter[Input]:
        """How often each input's state is read, before or after."""
        states = (state for step in self.steps for term in step.terms for state in term.states)
        return Counter(state.input for state in states)

    def written_out(self) -> str:
        """In one line, with each block's terms in the place of its name."""
        inner: dict[Change, str] = {}
        text = ""
        for step in self.steps:
            terms = [" ⋈ ".join(_inner(f, inner) for f in term.factors) for term in step.terms]
            text = " + ".join(terms)
            inner[step.change] = f"({text})" if len(terms) > 1 else text
        return text

    def __str__(self) -> str:
        return "\n".join(map(str, self.steps))

    def to_json(self) -> dict[str, Any]:
        return {"steps": [step.to_json() for step in self.steps]}


def propagated(tree: Tree) -> Expression:
    """The expression of a propagation tree."""
    if isinstance(tree, Leaf):
        change = Change(tree.inputs)
        return Expression((Step(change, (Term((change,)),)),) if tree.changes else ())
    return Expression(tuple(_step(node) for node in changing(tree) if isinstance(node, Node)))


def all_terms(inputs: Sequence[Input]) -> Expression:
    """All terms over the states before: fewest changes first."""
    moving = [each for each in inputs if each.changes]
    chosen = (some for size in range(1, len(moving) + 1) for some in combinations(moving, size))
    terms = tuple(
        Term(tuple(Change((i,)) if i in some else _state(i, Moment.BEFORE) for i in inputs))
        for some in chosen
    )
    return Expression((Step(Change(tuple(inputs)), terms),) if terms else ())


def _step(node: Node) -> Step:
    places = [place for place, block in enumerate(node.blocks) if block.changes]
    return Step(Change(node.inputs), tuple(_term(node.blocks, place) for place in places))


def _term(blocks: Sequence[Tree], place: int) -> Term:
    after = [_state(each, Moment.AFTER) for block in blocks[:place] for each in block.inputs]
    before = [_state(each, Moment.BEFORE) for block in blocks[place + 1 :] for each in block.inputs]
    return Term((*after, Change(blocks[place].inputs), *before))


def _state(which: Input, moment: Moment) -> State:
    return State(which, moment if which.changes else Moment.AFTER)


def _inner(factor: Factor, inner: dict[Change, str]) -> str:
    return inner.get(factor, str(factor)) if isinstance(factor, Change) else str(factor)
