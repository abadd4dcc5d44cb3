"""The shape of a join for Sail, which joins in the order it is told.

Law: a row finds at most one partner by the partner's key. Let R refer to S by a key of S, and a larger L to R
by a key of R. Then R ⋈ S has no more rows than R, and

    (L ⋈ R) ⋈ S  =  L ⋈ (R ⋈ S)

carries rows of L through one join less. So S is gathered to R first, and whatever S refers to, to S. Where
conditions on the rest of the join leave few rows of L, nobody knows how few, and it stays as it was written;
so it does on Spark, which sends small relations to every task and would take R ⋈ S for as large as all pairs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from stillframe.algebra import Call, Join, Output, Plan, Project, Ref, Scalar, Scan, relations
from stillframe.algebra.scalar import map_refs, refs
from stillframe.change import column_of, links

MOST_INPUTS = 20
Member = int | tuple["Member", ...]  # an input, or several that are joined first


def gathered(join: Join, rows: Mapping[str, float]) -> Plan:
    """The same rows in the same columns; the join itself where there is nothing to gather, or more inputs
    than people write. `rows` tells of relations how many they have."""
    if len(join.inputs) > MOST_INPUTS:
        return join
    shape = _Shape(join, rows)
    members = shape.members()
    if all(isinstance(member, int) for member in members):
        return join
    whole, layout = shape.joined(members, shape.remaining(members))
    where = {position: now for now, position in enumerate(layout)}
    outputs = (Output(c.name, Ref(where[i], c.type, c.name)) for i, c in enumerate(join.schema.columns))
    return Project(whole, tuple(outputs))


@dataclass(frozen=True)
class _Shape:
    join: Join
    rows: Mapping[str, float]

    def members(self) -> tuple[Member, ...]:
        """What is joined at last: nearly in the order written."""
        roots = [place for place in range(len(self.join.inputs)) if place not in self._refers]
        return tuple(sorted((each for root in roots for each in self._beside(root)), key=_first))

    def joined(self, members: Sequence[Member], conditions: Sequence[Scalar]) -> tuple[Plan, list[int]]:
        """And where its columns are in the whole join."""
        inputs, layout = list[Plan](), list[int]()
        for member in members:
            if isinstance(member, int):
                plan, start = self.join.inputs[member], self.join.offsets[member]
                columns = list(range(start, start + len(plan.schema)))
            else:
                plan, columns = self.joined(member, self._within(member))
            inputs.append(plan)
            layout += columns
        where = {position: now for now, position in enumerate(layout)}

        def moved(ref: Ref) -> Scalar:
            return replace(ref, position=where[ref.position])

        return Join(tuple(inputs), tuple(map_refs(each, moved) for each in conditions)), layout

    def remaining(self, members: Sequence[Member]) -> list[Scalar]:
        """The conditions that none of the members has. Only equalities of columns are asked early, and they
        stand before all others: what may fail is asked of no row that it would not have been asked of."""
        held = [each for one in members if not isinstance(one, int) for each in self._equalities(one)]
        left = [condition for condition in self.join.conditions if condition not in held]
        return sorted(left, key=lambda condition: not _is_equality(condition))

    def _within(self, member: tuple[Member, ...]) -> list[Scalar]:
        remaining = self.remaining(member)
        return [condition for condition in self._equalities(member) if condition in remaining]

    def _equalities(self, member: Member) -> Iterator[Scalar]:
        there = _places(member)
        for condition in self.join.conditions:
            if _is_equality(condition) and self._reads(condition) <= there:
                yield condition

    def _beside(self, head: int) -> Iterator[Member]:
        """An input, and whatever it refers to."""
        yield head
        for place, other in self._refers.items():
            if other == head:
                found = tuple(self._beside(place))
                smaller = self._rows(place) < self._rows(head)
                yield from (found,) if len(found) > 1 and smaller and self._rest_is_whole(found) else found

    @cached_property
    def _refers(self) -> dict[int, int]:
        """Inputs that are found by a key of theirs, each with one that refers to it; never in a circle."""
        found, everything = dict[int, int](), set(range(len(self.join.inputs)))
        for place, source in enumerate(self.join.inputs):
            columns: dict[int, set[int]] = {}
            for link in links(self.join, place, everything - {place}):
                columns.setdefault(link.known, set()).add(link.column)
            for other, read in sorted(columns.items()):
                if any(key <= read for key in source.schema.keys) and not _leads(other, place, found):
                    found[place] = other
                    break
        return found

    def _rows(self, place: int) -> float:
        return sum(self.rows[name] for name in relations(self.join.inputs[place]))

    def _rest_is_whole(self, member: Member) -> bool:
        """Whether nothing but equalities of columns keeps rows of the other inputs away."""
        inside = _places(member)
        others = (source for place, source in enumerate(self.join.inputs) if place not in inside)
        asked = (condition for condition in self.join.conditions if not _is_equality(condition))
        return all(map(_is_whole, others)) and all(self._reads(condition) <= inside for condition in asked)

    def _reads(self, condition: Scalar) -> frozenset[int]:
        return frozenset(map(self.join.input_of, refs(condition)))


def _is_whole(source: Plan) -> bool:
    while isinstance(source, Project):
        source = source.input
    return isinstance(source, Scan)


def _is_equality(condition: Scalar) -> bool:
    match condition:
        case Call("=", (left, right)):
            return column_of(left) is not None and column_of(right) is not None
    return False


def _first(member: Member) -> int:
    return min(_places(member))


def _places(member: Member) -> frozenset[int]:
    return frozenset({member}) if isinstance(member, int) else frozenset().union(*map(_places, member))


def _leads(start: int, goal: int, refers: Mapping[int, int]) -> bool:
    while start in refers and start != goal:
        start = refers[start]
    return start == goal
