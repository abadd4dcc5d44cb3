"""From an expression to plans: one for each term, steps in order.

Invariant: the change of a block holds the columns of its inputs side by side, by place, and only rows for
which all conditions inside the block hold. A term asks for the conditions that no block of it has asked for
yet. So the change of the whole has the join's own columns.

A step reads the change of an earlier one as a relation, at the moment of change, by the name of that step.
Every step but the last is read in one place. So whoever runs the plans may hold each result until then, or
let it flow on inside one plan (`nested`); it is computed once either way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from stillframe.algebra import Join, Moment, Output, Plan, Project, Ref, Scalar, Scan, Schema, UnionAll
from stillframe.algebra.plan import map_scans
from stillframe.algebra.scalar import map_refs, refs
from stillframe.change.linear import terms
from stillframe.change.propagation.expressions import Change, Expression, Factor, State, Term
from stillframe.change.states import at


@dataclass(frozen=True)
class PlannedStep:
    """The result is the sum of the terms."""

    name: str
    schema: Schema
    terms: tuple[Plan, ...]


def step_name(change: Change) -> str:
    """Unique among the blocks of one join."""
    return f"Δ({','.join(map(str, sorted(change.places)))})"


def planned(
    join: Join,
    expression: Expression,
    changed: frozenset[str],
    change_of: Callable[[Plan], Plan | None],
) -> tuple[PlannedStep, ...]:
    """`change_of` gives the change of an input. The expression is over the join's inputs by their places."""
    maker = _Maker(join, changed, change_of)
    return tuple(
        PlannedStep(
            step_name(step.change),
            maker.schema(step.change.places),
            tuple(plan for term in step.terms for plan in maker.plans(term)),
        )
        for step in expression.steps
    )


def nested(steps: Sequence[PlannedStep]) -> tuple[Plan, ...]:
    """The terms of the last step, each block's own terms in the place where its change is read."""
    made: dict[str, Plan] = {}
    found: tuple[Plan, ...] = ()
    for step in steps:
        found = tuple(map_scans(plan, lambda scan, _: made.get(scan.relation, scan)) for plan in step.terms)
        made[step.name] = found[0] if len(found) == 1 else UnionAll(found)
    return found


@dataclass(frozen=True)
class _Maker:
    join: Join
    changed: frozenset[str]
    change_of: Callable[[Plan], Plan | None]

    def schema(self, places: frozenset[int]) -> Schema:
        """Without keys: a change may hold two rows of one key."""
        columns = self.join.schema.columns
        return Schema(tuple(columns[position] for position in self._positions(places)))

    def plans(self, term: Term) -> Iterator[Plan]:
        """One plan, or one for each term of the input's own change."""
        factors = sorted(term.factors, key=lambda factor: min(_places(factor)))
        layout = [position for factor in factors for position in self._positions(_places(factor))]
        where = {position: now for now, position in enumerate(layout)}
        conditions = tuple(_moved(condition, where) for condition in self._asked(term))
        for inputs in self._inputs(factors):
            joined = inputs[0] if len(inputs) == 1 and not conditions else Join(inputs, conditions)
            yield joined if layout == sorted(layout) else self._by_place(joined, where)

    def _inputs(self, factors: list[Factor]) -> Iterator[tuple[Plan, ...]]:
        found: list[tuple[Plan, ...]] = [()]
        for factor in factors:
            found = [(*before, plan) for before in found for plan in self._factor(factor)]
        yield from found

    def _factor(self, factor: Factor) -> tuple[Plan, ...]:
        match factor:
            case State(which, moment):
                return (at(self.join.inputs[which.place], moment, self.changed),)
            case Change((which,)):
                return terms(self.change_of(self.join.inputs[which.place]))
        return (Scan(step_name(factor), self.schema(factor.places), Moment.CHANGE),)

    def _asked(self, term: Term) -> Iterator[Scalar]:
        everything = frozenset(place for factor in term.factors for place in _places(factor))
        blocks = [change.places for change in term.changes if len(change.places) > 1]
        for condition in self.join.conditions:
            places = frozenset(map(self.join.input_of, refs(condition)))
            if places <= everything and not any(places <= block for block in blocks):
                yield condition

    def _positions(self, places: frozenset[int]) -> list[int]:
        """The columns of some inputs, as positions of the join's."""
        found: list[int] = []
        for place in sorted(places):
            offset = self.join.offsets[place]
            found += range(offset, offset + len(self.join.inputs[place].schema))
        return found

    def _by_place(self, joined: Plan, where: dict[int, int]) -> Plan:
        columns = self.join.schema.columns
        outputs = [
            Output(
                columns[position].name, Ref(where[position], columns[position].type, columns[position].name)
            )
            for position in sorted(where)
        ]
        return Project(joined, tuple(outputs))


def _places(factor: Factor) -> frozenset[int]:
    return factor.places if isinstance(factor, Change) else frozenset({factor.input.place})


def _moved(condition: Scalar, where: dict[int, int]) -> Scalar:
    return map_refs(condition, lambda ref: replace(ref, position=where[ref.position]))
