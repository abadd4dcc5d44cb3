"""Joins that several views have in common, so that their change is computed once in a session.

Two joins have one shape if they read the same relations and ask for the same conditions between them, in
whatever order they write them. A core is a join of that shape under the conditions over single relations that
all of its views ask for; of a relation to which each puts conditions of its own, rows that none of them wants
are left out. Law: the change of a view is linear in the change of each of its joins, and

    Δ(σ_more(core))  =  σ_more(Δ core),

so a view reads the core's change, asks for its own conditions, and goes on as it would with its own. What a
view needs of states, before or after, it reads as if nothing were shared: a core has no state.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial, reduce
from typing import Any

from stillframe.algebra import (
    Aggregate,
    Call,
    Filter,
    Join,
    Literal,
    Negate,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    Semi,
    Times,
    UnionAll,
    Window,
    call,
)
from stillframe.algebra.scalar import map_refs, refs
from stillframe.change.columns import columns_read

_LINEAR = Project | Filter | UnionAll | Negate | Times
_KEYWISE = Aggregate | Semi | Window
_ABOVE = "#above"
MOST_ASKED = 16  # joins of one core whose own conditions are put together


@dataclass(frozen=True)
class Shape:
    """What joins of one core have in common: relations by name, and the conditions between them, spelled."""

    inputs: tuple[Scan, ...]
    between: frozenset[str]


@dataclass(frozen=True)
class _Spelled:
    """A join with its inputs in the order of their names. `where` tells for each of its columns the place it
    has in that order, `inside` and `between` are its conditions by how they are spelled there."""

    shape: Shape
    where: tuple[int, ...]
    inside: Mapping[str, Scalar]
    between: Mapping[str, Scalar]


@dataclass(frozen=True)
class Core:
    """`columns` of the join are read above it, by one view or another."""

    join: Join
    inside: frozenset[str]
    columns: tuple[int, ...]

    @property
    def plan(self) -> Plan:
        columns = [(i, self.join.schema[i]) for i in self.columns]
        return Project(self.join, tuple(Output(f"c{n}", Ref(i, c.type)) for n, (i, c) in enumerate(columns)))


class Cores:
    """The cores of some plans, by their shapes: of each there are two plans or more that have it."""

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        met: dict[Shape, dict[str, list[_Spelled]]] = {}
        for name, plan in plans.items():
            for join in _joins(plan):
                spelled = _spelled(join)
                met.setdefault(spelled.shape, {}).setdefault(name, []).append(spelled)
        common = {shape: by_plan for shape, by_plan in met.items() if len(by_plan) > 1}
        inside = {
            shape: frozenset.intersection(
                *(frozenset(each.inside) for found in by_plan.values() for each in found)
            )
            for shape, by_plan in common.items()
        }
        columns: dict[Shape, set[int]] = {shape: set() for shape in common}
        for name in {name for by_plan in common.values() for name in by_plan}:
            for shape, read in _read_above(plans[name]):
                if shape in common:
                    columns[shape] |= read
        for shape, by_plan in common.items():
            for each in (each for found in by_plan.values() for each in found):
                for text, condition in each.inside.items():
                    columns[shape] |= refs(condition) if text not in inside[shape] else set()
        self._cores = {
            shape: _core(
                [each for found in by_plan.values() for each in found], inside[shape], columns[shape]
            )
            for shape, by_plan in common.items()
        }

    def __len__(self) -> int:
        return len(self._cores)

    def of(self, plan: Plan) -> dict[Shape, Core]:
        """The cores that a plan has."""
        if not self._cores:
            return {}
        shapes = (_spelled(join).shape for join in _joins(plan))
        return {shape: self._cores[shape] for shape in shapes if shape in self._cores}

    def over(self, plan: Plan, names: Mapping[Shape, str]) -> Plan:
        """The plan with its joins of some shapes read from cores of these names."""

        def read(join: Join) -> Plan | None:
            spelled = _spelled(join)
            name = names.get(spelled.shape)
            return None if name is None else _from(self._cores[spelled.shape], name, spelled, join)

        return _swapped(plan, read)


def _joins(plan: Plan) -> Iterator[Join]:
    """Those whose change the plan's change is linear in, or that of a key-wise operator's input."""
    if isinstance(plan, Join):
        if len(plan.inputs) > 1 and all(isinstance(source, Scan) for source in plan.inputs):
            yield plan
    elif isinstance(plan, _LINEAR | _KEYWISE):
        for source in plan.inputs:
            yield from _joins(source)


def _swapped(plan: Plan, other: Callable[[Join], Plan | None]) -> Plan:
    if isinstance(plan, Join):
        shareable = len(plan.inputs) > 1 and all(isinstance(source, Scan) for source in plan.inputs)
        return (other(plan) if shareable else None) or plan
    if not isinstance(plan, _LINEAR | _KEYWISE):
        return plan
    changes: dict[str, Any] = {}
    for each in fields(plan):
        value = getattr(plan, each.name)
        if isinstance(value, Plan):
            changes[each.name] = _swapped(value, other)
        elif isinstance(plan, UnionAll):
            changes[each.name] = tuple(_swapped(source, other) for source in value)
    return replace(plan, **changes)


def _spelled(join: Join) -> _Spelled:
    """Inputs of one name stay in the order written."""
    inputs = [source for source in join.inputs if isinstance(source, Scan)]
    order = sorted(range(len(inputs)), key=lambda i: (inputs[i].relation, i))
    where, width = [0] * len(join.schema), 0
    for place in order:
        for i in range(len(inputs[place].schema)):
            where[join.offsets[place] + i] = width
            width += 1
    inside: dict[str, Scalar] = {}
    between: dict[str, Scalar] = {}
    for condition in join.conditions:
        moved = _one_way(map_refs(condition, lambda ref: Ref(where[ref.position], ref.type)))
        alone = len({join.input_of(position) for position in refs(condition)}) < 2
        (inside if alone else between)[repr(moved)] = moved
    shape = Shape(tuple(inputs[i] for i in order), frozenset(between))
    return _Spelled(shape, tuple(where), inside, between)


def _one_way(condition: Scalar) -> Scalar:
    match condition:
        case Call("=" | "<=>" | "<>" as word, (left, right)) if repr(right) < repr(left):
            return Call(word, (right, left))
    return condition


def _read_above(plan: Plan) -> Iterator[tuple[Shape, set[int]]]:
    """Of each join that may have a core, the columns that the plan reads above it."""
    found: dict[str, _Spelled] = {}

    def named(join: Join) -> Plan:
        name = f"{_ABOVE}{len(found)}"
        found[name] = _spelled(join)
        return Scan(name, Schema(join.schema.columns))

    read = columns_read(_swapped(plan, named))
    for name, spelled in found.items():
        yield spelled.shape, {spelled.where[i] for i in read.get(name, ())}


def _core(members: Sequence[_Spelled], inside: frozenset[str], columns: set[int]) -> Core:
    first = members[0]
    conditions = {**first.between, **{text: first.inside[text] for text in inside}}
    some = tuple(_some(members, inside))
    join = Join(first.shape.inputs, (*(conditions[text] for text in sorted(conditions)), *some))
    return Core(join, inside, tuple(sorted(columns)) or (0,))


def _some(members: Sequence[_Spelled], inside: frozenset[str]) -> Iterator[Scalar]:
    """Of each input of which every join asks for something of its own, what one or another asks for."""
    join = Join(members[0].shape.inputs)
    if len(members) > MOST_ASKED:
        return
    for place in range(len(join.inputs)):
        asked = [
            {
                text: condition
                for text, condition in each.inside.items()
                if text not in inside and {join.input_of(i) for i in refs(condition)} == {place}
            }
            for each in members
        ]
        if all(asked):
            each = {" ".join(sorted(own)): [own[text] for text in sorted(own)] for own in asked}
            every = [reduce(partial(call, "and"), each[text]) for text in sorted(each)]
            yield reduce(partial(call, "or"), every)


def _from(core: Core, name: str, spelled: _Spelled, join: Join) -> Plan:
    """A join's rows from those of its core. Columns that nobody reads are NULL."""
    place = {column: i for i, column in enumerate(core.columns)}
    rows: Plan = Scan(name, Schema(core.plan.schema.columns))
    for text, condition in spelled.inside.items():
        if text not in core.inside:
            moved = map_refs(condition, lambda ref: replace(ref, position=place[ref.position]))
            rows = Filter(rows, moved)
    outputs = []
    for i, column in enumerate(join.schema):
        at = place.get(spelled.where[i])
        scalar: Scalar = Literal(None, column.type) if at is None else Ref(at, column.type)
        outputs.append(Output(column.name, scalar))
    return Project(rows, tuple(outputs))
