"""What a term has to read, in which order, and by which keys.

A term joins one change with states. The change is small and known; each state is asked only for the rows
that can join what is known already: rows whose join column holds a value seen in the column it is joined
with. More rows than that are harmless (the join drops them), fewer never come. A state that no equality
connects to what is known is read whole.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from stillframe.algebra import Call, Cast, Filter, Join, Moment, Plan, Project, Ref, Scalar, Scan, scans


@dataclass(frozen=True)
class Link:
    """`column` of the fetched relation equals `known_column` of the input at `known`."""

    column: int
    known: int
    known_column: int


@dataclass(frozen=True)
class Fetch:
    """Read `scan`, the join's input number `place`; `links` are the equalities that may restrict it."""

    scan: Scan
    place: int
    links: tuple[Link, ...]


def body(term: Plan) -> Plan:
    """The join (or leaf) below a term's projections and filters."""
    while isinstance(term, Project | Filter):
        term = term.input
    return term


def driver(join: Join) -> int:
    """The place of the input whose change a term is about; 0 where there is none."""
    for place, plan in enumerate(join.inputs):
        if any(scan.at is Moment.CHANGE for scan in scans(plan)):
            return place
    return 0


def is_driven(join: Join) -> bool:
    """Whether a join is a term of a change."""
    return any(scan.at is Moment.CHANGE for plan in join.inputs for scan in scans(plan))


def fetches(term: Plan) -> tuple[Fetch, ...]:
    """The states a term reads, nearest first."""
    join = body(term)
    if not isinstance(join, Join):
        return tuple(Fetch(scan, 0, ()) for scan in scans(term) if scan.at is not Moment.CHANGE)
    first = driver(join)
    found = [Fetch(scan, first, ()) for scan in scans(join.inputs[first]) if scan.at is not Moment.CHANGE]
    for place in join_order(join)[1:]:
        plan = join.inputs[place]
        if isinstance(plan, Scan):
            known = {first, *(fetch.place for fetch in found)}
            found.append(Fetch(plan, place, tuple(links(join, place, known))))
        else:
            found += [Fetch(scan, place, ()) for scan in scans(plan)]
    return tuple(found)


def join_order(join: Join) -> tuple[int, ...]:
    """The driver first, then always an input that an equality connects to those before, if there is one."""
    order = [driver(join)]
    left = [place for place in range(len(join.inputs)) if place not in order]
    while left:
        near = next((place for place in left if any(links(join, place, set(order)))), left[0])
        order.append(near)
        left.remove(near)
    return tuple(order)


def links(join: Join, place: int, known: set[int]) -> Iterator[Link]:
    """The equalities between an input and those known."""
    for condition in join.conditions:
        match condition:
            case Call("=", (left, right)):
                a, b = column_of(left), column_of(right)
                for here, there in ((a, b), (b, a)) if a is not None and b is not None else ():
                    other = join.input_of(there)
                    if join.input_of(here) == place and other in known:
                        yield Link(here - join.offsets[place], other, there - join.offsets[other])


def column_of(side: Scalar) -> int | None:
    """The column one side of an equality is: as it is, or as a wider integer, which changes no value."""
    match side:
        case Ref(position):
            return position
        case Cast(Ref(position, type_), target) if type_.is_integer and target.is_integer:
            return position if type_.bits <= target.bits else None
    return None
