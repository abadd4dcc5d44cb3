"""Blocks: inputs of a join that conditions connect, spelled so that a block of another join is known again.

Two blocks have one shape if they read the same relations and ask for the same conditions between them, in
whatever order they are written. A whole join that conditions connect is a block of its own. Conditions over
single relations are no part of a shape: Δ(σ_more(X)) = σ_more(Δ X).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from stillframe.algebra import (
    Aggregate,
    Call,
    Filter,
    Join,
    Negate,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Semi,
    Times,
    UnionAll,
    Window,
)
from stillframe.algebra.scalar import map_refs, refs

_LINEAR = Project | Filter | UnionAll | Negate | Times
_KEYWISE = Aggregate | Semi | Window
MOST_INPUTS = 8  # of a join, that blocks are made of: 247 of them at most


@dataclass(frozen=True)
class Shape:
    """What blocks of one core have in common: relations by name, and the conditions between them, spelled."""

    inputs: tuple[Scan, ...]
    between: frozenset[str]

    @property
    def text(self) -> tuple[object, ...]:
        return (tuple(scan.relation for scan in self.inputs), sorted(self.between))


@dataclass(frozen=True)
class Block:
    """The inputs of a join at `places`, in the order of their names. `where` tells for each of their columns
    the place it has in that order, `inside` and `between` are the conditions over one of them and over
    several, by how they are spelled there."""

    join: Join
    places: frozenset[int]
    shape: Shape
    where: Mapping[int, int]
    inside: Mapping[str, Scalar]
    between: Mapping[str, Scalar]

    @property
    def is_whole(self) -> bool:
        return len(self.places) == len(self.join.inputs)

    def spelled(self, condition: Scalar) -> str | None:
        """How a condition of the join is spelled here; None where it is not the block's."""
        read = refs(condition)
        return repr(_moved(condition, self.where)) if read and read <= self.where.keys() else None


def joins(plan: Plan) -> Iterator[Join]:
    """Those whose change the plan's change is linear in, or that of a key-wise operator's input."""
    if isinstance(plan, Join):
        if _is_of_scans(plan):
            yield plan
    elif isinstance(plan, _LINEAR | _KEYWISE):
        for source in plan.inputs:
            yield from joins(source)


def swapped(plan: Plan, other: Callable[[Join], Plan | None]) -> Plan:
    """The plan with something else in the place of these joins."""
    if isinstance(plan, Join):
        return (other(plan) if _is_of_scans(plan) else None) or plan
    if not isinstance(plan, _LINEAR | _KEYWISE):
        return plan
    changes: dict[str, Any] = {}
    for each in fields(plan):
        value = getattr(plan, each.name)
        if isinstance(value, Plan):
            changes[each.name] = swapped(value, other)
        elif isinstance(plan, UnionAll):
            changes[each.name] = tuple(swapped(source, other) for source in value)
    return replace(plan, **changes)


def blocks(join: Join, relations: Collection[str]) -> Iterator[Block]:
    """The blocks of these relations; of more than a few, and of what conditions do not connect, only the
    whole join."""
    read = [scan.relation for scan in _scans(join)]
    among = [place for place, relation in enumerate(read) if relation in relations]
    everything = frozenset(range(len(read)))
    found = set(connected(join, among)) if len(among) <= MOST_INPUTS else set[frozenset[int]]()
    if len(among) == len(read):
        found.add(everything)
    for places in sorted(found, key=lambda some: (-len(some), sorted(some))):
        yield _block(join, places)


def connected(join: Join, among: Collection[int]) -> Iterator[frozenset[int]]:
    """Every set of two of these inputs or more that conditions between members connect."""
    asked = [frozenset(map(join.input_of, refs(condition))) for condition in join.conditions]
    asked = [places for places in asked if len(places) > 1 and places <= set(among)]
    found = set(asked)
    grown = list(found)
    while grown:
        some = grown.pop()
        for places in asked:
            more = some | places
            if some & places and more not in found:
                found.add(more)
                grown.append(more)
    yield from found


def _is_of_scans(join: Join) -> bool:
    return len(join.inputs) > 1 and all(isinstance(source, Scan) for source in join.inputs)


def _scans(join: Join) -> list[Scan]:
    return [source for source in join.inputs if isinstance(source, Scan)]


def _block(join: Join, places: frozenset[int]) -> Block:
    """Inputs of one name stay in the order written."""
    inputs = _scans(join)
    order = sorted(places, key=lambda place: (inputs[place].relation, place))
    where: dict[int, int] = {}
    for place in order:
        for i in range(len(inputs[place].schema)):
            where[join.offsets[place] + i] = len(where)
    inside: dict[str, Scalar] = {}
    between: dict[str, Scalar] = {}
    for condition in join.conditions:
        read = refs(condition)
        if read and read <= where.keys():
            moved = _moved(condition, where)
            (inside if len(set(map(join.input_of, read))) < 2 else between)[repr(moved)] = moved
    shape = Shape(tuple(inputs[place] for place in order), frozenset(between))
    return Block(join, places, shape, where, inside, between)


def _moved(condition: Scalar, where: Mapping[int, int]) -> Scalar:
    return _one_way(map_refs(condition, lambda ref: Ref(where[ref.position], ref.type)))


def _one_way(condition: Scalar) -> Scalar:
    match condition:
        case Call("=" | "<=>" | "<>" as word, (left, right)) if repr(right) < repr(left):
            return Call(word, (right, left))
    return condition
