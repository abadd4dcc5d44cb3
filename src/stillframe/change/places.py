"""Where a plan reads its relations, and what keys tell of a change there.

Each place of a plan is a factor of its own: a relation that is read twice has two places, with other columns
read, other conditions, other partners. Three laws make a change smaller at a place before anything is asked
of other relations. R is the relation before, R' after, and dR = R' − R.

Irrelevant rows. Rows that fail a condition over this place alone, and columns that nobody reads, make no
difference: dR without them will do.

New rows of a key that others refer to. Let S, at another place of the same join, refer to R by a foreign key
that held before, let the join equate its columns with those of the key, and let N be rows of dR whose keys R
did not have. No row of S meets a row of N, so R ⋈ S = (R + N) ⋈ S, whatever else is joined. The join goes on
as if R had been R + N, and dR − N is left. Replacing R asks for S as it was: a place may have this done to it
only before it is done to the one that refers to it.

Rows that leave, by the view's own keys. Let D be rows of R whose key does not come back, and let the view
show that key. The rows of the view with these keys are all that D contributed. They are taken away from what
the view showed; the join goes on as if R had been R − D, and dR + D is left.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from stillframe.algebra import Call, Cast, Filter, Join, Plan, Project, Ref, Scalar, Scan, Schema
from stillframe.algebra.plan import map_scans, walk
from stillframe.algebra.scalar import refs, shift
from stillframe.change.columns import columns_read

Pairs = tuple[tuple[int, int], ...]


@dataclass(frozen=True)
class Refers:
    """Columns of a relation that have no values but those of the key `referenced` of `relation`."""

    columns: tuple[int, ...]
    relation: str
    referenced: tuple[int, ...]


@dataclass(frozen=True)
class Place:
    """`columns` are read there, of rows that meet `conditions`. New rows with a new `key` meet nothing that
    was there before. Rows of the view show a key of this place: its columns, each with where, in `shown`."""

    relation: str
    schema: Schema
    columns: tuple[int, ...]
    conditions: tuple[Scalar, ...] = ()
    key: tuple[int, ...] = ()
    shown: Pairs = ()


def numbered(plan: Plan) -> tuple[Plan, dict[str, Scan]]:
    """The plan with a name of its own for every place, and what was read there."""
    found: dict[str, Scan] = {}

    def named(scan: Scan, _: int | None) -> Plan:
        name = f"{scan.relation}#{len(found)}"
        found[name] = scan
        return replace(scan, relation=name)

    return map_scans(plan, named), found


def places(plan: Plan, read: Mapping[str, Scan], refers: Mapping[str, Sequence[Refers]]) -> dict[str, Place]:
    """The places of a numbered plan, by name. `refers` tells of relations what they refer to."""
    columns = columns_read(plan)
    found = {
        name: Place(scan.relation, scan.schema, tuple(sorted(columns.get(name, ()))))
        for name, scan in read.items()
    }
    for node in walk(plan):
        if isinstance(node, Join):
            for scan, conditions in _alone(node):
                found[scan.relation] = replace(found[scan.relation], conditions=conditions)
            for name, key in _referenced(node, found, refers):
                found[name] = replace(found[name], key=key)
        elif isinstance(node, Filter):
            below, met = _filtered(node)
            if isinstance(below, Scan) and len(met) > len(found[below.relation].conditions):
                found[below.relation] = replace(found[below.relation], conditions=met)
    for name, shown in _shown(plan):
        found[name] = replace(found[name], shown=shown)
    return found


def refers_through(shown: Plan, refers: Mapping[str, Sequence[Refers]]) -> Iterator[Refers]:
    """What the columns that are shown of a join refer to: every row of it holds a row of each input."""
    assert isinstance(shown, Project) and isinstance(shown.input, Join)
    join = shown.input
    where = {o.scalar.position: i for i, o in enumerate(shown.outputs) if isinstance(o.scalar, Ref)}
    for source, offset in zip(join.inputs, join.offsets, strict=True):
        for refer in refers.get(source.relation, ()) if isinstance(source, Scan) else ():
            here = [where[offset + i] for i in refer.columns if offset + i in where]
            if len(here) == len(refer.columns):
                yield replace(refer, columns=tuple(here))


def _filtered(plan: Plan) -> tuple[Plan, tuple[Scalar, ...]]:
    met: tuple[Scalar, ...] = ()
    while isinstance(plan, Filter):
        met, plan = (*met, plan.predicate), plan.input
    return plan, met


def _alone(join: Join) -> Iterator[tuple[Scan, tuple[Scalar, ...]]]:
    """The inputs that are scans, each with the conditions over it alone."""
    for source, offset in zip(join.inputs, join.offsets, strict=True):
        if isinstance(source, Scan):
            own = range(offset, offset + len(source.schema))
            yield (
                source,
                tuple(
                    shift(condition, -offset)
                    for condition in join.conditions
                    if refs(condition) and all(position in own for position in refs(condition))
                ),
            )


def _equated(join: Join) -> set[tuple[int, int]]:
    """Columns of the join that a condition sets equal, either way round."""
    found: set[tuple[int, int]] = set()
    for condition in join.conditions:
        match condition:
            case Call("=", (left, right)):
                a, b = _column(left), _column(right)
                if a is not None and b is not None:
                    found |= {(a, b), (b, a)}
    return found


def _column(side: Scalar) -> int | None:
    """A column as it is, or as a wider integer."""
    match side:
        case Ref(position):
            return position
        case Cast(Ref(position, type_), target) if type_.is_integer and target.is_integer:
            return position if type_.bits <= target.bits else None
    return None


def _referenced(
    join: Join, found: Mapping[str, Place], refers: Mapping[str, Sequence[Refers]]
) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The inputs that another one refers to by what it is joined on, with their keys. None of them rests on
    another that, through whatever chain, rests on it."""
    equated, resting = _equated(join), dict[int, int]()
    scans = {place: plan for place, plan in enumerate(join.inputs) if isinstance(plan, Scan)}
    for place, scan in scans.items():
        relation, offset = found[scan.relation].relation, join.offsets[place]
        for other, child in scans.items():
            for refer in refers.get(found[child.relation].relation, ()):
                pairs = zip(refer.columns, refer.referenced, strict=True)
                if (
                    place in resting
                    or other == place
                    or refer.relation != relation
                    or frozenset(refer.referenced) not in scan.schema.keys
                    or not all((join.offsets[other] + a, offset + b) in equated for a, b in pairs)
                    or _reaches(other, place, resting)
                ):
                    continue
                resting[place] = other
                yield scan.relation, refer.referenced


def _reaches(start: int, goal: int, resting: Mapping[int, int]) -> bool:
    while start in resting and start != goal:
        start = resting[start]
    return start == goal


def _shown(plan: Plan) -> Iterator[tuple[str, Pairs]]:
    """Of a view that shows columns of a join, the inputs of which it shows a key."""
    if not isinstance(plan, Project) or not isinstance(plan.input, Join):
        return
    join, outputs = plan.input, plan.outputs
    same = {(a, b) for a, b in _equated(join) if join.schema[a].type == join.schema[b].type}
    where: dict[int, int] = {}
    for i, output in enumerate(outputs):
        if isinstance(output.scalar, Ref):
            where.setdefault(output.scalar.position, i)
    for a, b in same:
        if b in where:
            where.setdefault(a, where[b])
    for source, offset in zip(join.inputs, join.offsets, strict=True):
        if isinstance(source, Scan):
            for key in sorted(source.schema.keys, key=lambda key: (len(key), sorted(key))):
                if all(offset + i in where and source.schema[i].type.name != "DOUBLE" for i in key):
                    yield source.relation, tuple((i, where[offset + i]) for i in sorted(key))
                    break
