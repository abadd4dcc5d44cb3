"""Joins that several views have in common, so that their change is computed once in a session.

A core is the join of a shape (`blocks.py`), under the conditions over single relations that all of its views
ask for; of a relation to which each puts conditions of its own, rows that none of them wants are left out.
Laws: the change of a view is linear in the change of each of its joins; with X a block of a join and R the
rest of it,

    Δ(σ_more(core))  =  σ_more(Δ core)          Δ(X ⋈ R)  =  ΔX ⋈ R + X' ⋈ ΔR  =  ΔR ⋈ X + R' ⋈ ΔX

so a view reads the core's change as that of one input of its join, asks for its own conditions, and goes on
as it would with its own: the tree of the join has the block for a leaf. A whole join is a block whose R is
empty. A core has no state of its own: where a term asks for X before or after, it reads X's relations, each
an input of the term's one join (`with_states`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial, reduce

from stillframe.algebra import (
    Filter,
    Join,
    Literal,
    Moment,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    call,
    normalize,
    relations,
    scans,
)
from stillframe.algebra.plan import map_scans
from stillframe.algebra.scalar import map_refs, refs
from stillframe.change.blocks import Block, Shape, blocks, joins, swapped
from stillframe.change.columns import columns_read

_ABOVE = "#above"
MOST_ASKED = 16  # joins of one core whose own conditions are put together


@dataclass(frozen=True)
class Core:
    """`columns` of the join are read above it, by one view or another."""

    join: Join
    inside: frozenset[str]
    between: frozenset[str]
    columns: tuple[int, ...]

    @property
    def plan(self) -> Plan:
        columns = [(i, self.join.schema[i]) for i in self.columns]
        return Project(self.join, tuple(Output(f"c{n}", Ref(i, c.type)) for n, (i, c) in enumerate(columns)))

    def scan(self, name: str) -> Scan:
        """Without keys: a change may hold two rows of one key."""
        return Scan(name, Schema(self.plan.schema.columns))


@dataclass(frozen=True)
class Use:
    """A block of a plan's join, which may be read from a core."""

    plan: str
    block: Block

    def over(self, core: Core, name: str) -> Plan:
        """The block's join with the core in its place."""
        return _over(self.block.join, [(self.block, core, name)])


# Of some uses of a core, those that gain by it; it is said whether the core is computed anyway.
Worth = Callable[[Core, Sequence[Use], bool], Sequence[Use]]


def all_of_them(_core: Core, uses: Sequence[Use], _anyway: bool) -> Sequence[Use]:
    return uses


class Cores:
    """What joins of some plans have in common: the shapes that two plans or more have, largest first. Of a
    shape that is found only inside another, in the same joins, nothing is said."""

    def __init__(self, plans: Mapping[str, Plan]) -> None:
        found = {name: tuple(dict.fromkeys(joins(plan))) for name, plan in plans.items()}
        read = {name: {r for join in some for r in relations(join)} for name, some in found.items()}
        self._read: dict[Join, set[int]] = {}
        met: dict[Shape, list[Use]] = {}
        known = cache(lambda join, names: tuple(blocks(join, names)))
        for name, some in found.items():
            others = set[str]().union(*(names for other, names in read.items() if other != name))
            for join in some:
                for block in known(join, frozenset(others.intersection(relations(join)))):
                    met.setdefault(block.shape, []).append(Use(name, block))
        common = [uses for uses in met.values() if len({use.plan for use in uses}) > 1]
        common.sort(key=lambda uses: (-len(uses[0].block.places), uses[0].block.shape.text))
        self._common = tuple(_outermost(common))
        for name in {use.plan for uses in self._common for use in uses}:
            for join, columns in _read_above(plans[name]):
                self._read.setdefault(join, set()).update(columns)

    def __len__(self) -> int:
        return len(self._common)

    def chosen(self, plans: Collection[str], worth: Worth = all_of_them) -> Chosen:
        """The cores that some of the plans share. An input of a join is in one block of it at most. To share
        a whole join costs nothing beside it: where two plans have it so, they do."""
        taken: dict[Join, list[tuple[Block, Core]]] = {}
        for common in self._common:
            uses = list(_free([use for use in common if use.plan in plans], taken))
            whole = [use for use in uses if use.block.is_whole]
            anyway = _are_several(whole)
            if not _are_several(uses):
                continue
            if len(whole) < len(uses):
                more = [use for use in uses if not use.block.is_whole] if anyway else uses
                gaining = worth(self._core(uses), more, anyway)
                uses = [*(whole if anyway else ()), *gaining]
            if _are_several(uses):
                core = self._core(uses)
                for block in {(use.block.join, use.block.places): use.block for use in uses}.values():
                    taken.setdefault(block.join, []).append((block, core))
        return Chosen(taken)

    def _core(self, uses: Sequence[Use]) -> Core:
        members = [use.block for use in uses]
        first = members[0]
        inside = frozenset.intersection(*(frozenset(block.inside) for block in members))
        asked = {**first.between, **{text: first.inside[text] for text in inside}}
        conditions = (*(asked[text] for text in sorted(asked)), *_some(members, inside))
        columns = {i for block in members for i in self._needed(block, asked)}
        join = Join(first.shape.inputs, conditions)
        return Core(join, inside, first.shape.between, tuple(sorted(columns)) or (0,))

    def _needed(self, block: Block, asked: Collection[str]) -> Iterator[int]:
        """Columns that are read above the join, or by conditions of it that the core does not ask for."""
        read = set(self._read[block.join])
        for condition in block.join.conditions:
            if block.spelled(condition) not in asked:
                read |= refs(condition)
        return (block.where[i] for i in read & block.where.keys())


@dataclass(frozen=True)
class Chosen:
    """Of each join, the blocks that are read from cores."""

    taken: Mapping[Join, Sequence[tuple[Block, Core]]]

    def __len__(self) -> int:
        return len({core for each in self.taken.values() for _, core in each})

    def of(self, plan: Plan) -> tuple[Core, ...]:
        """The cores that a plan has."""
        found = (core for join in joins(plan) for _, core in self.taken.get(join, ())) if self.taken else ()
        return tuple(dict.fromkeys(found))

    def over(self, plan: Plan, names: Mapping[Core, str]) -> Plan:
        """The plan with its blocks read from cores of these names."""

        def read(join: Join) -> Plan | None:
            used = [(block, core, names[core]) for block, core in self.taken.get(join, ()) if core in names]
            return _over(join, used) if used else None

        return normalize(swapped(plan, read))


def with_states(plan: Plan, states: Callable[[str, Moment], Plan | None]) -> Plan:
    """The plan with the relations of blocks in the place of their states; of what is no block there is none
    to put in its place."""

    def state(scan: Scan) -> Plan | None:
        return None if scan.at is Moment.CHANGE else states(scan.relation, scan.at)

    if not any(state(scan) for scan in scans(plan)):
        return plan
    return normalize(map_scans(plan, lambda scan, _: state(scan) or scan))


def _outermost(common: Sequence[list[Use]]) -> Iterator[list[Use]]:
    """The larger ones come first."""
    kept: dict[frozenset[tuple[str, Join]], list[list[Use]]] = {}
    for uses in common:
        beside = kept.setdefault(frozenset((use.plan, use.block.join) for use in uses), [])
        if not any(_is_inside(uses, others) for others in beside):
            beside.append(uses)
            yield uses


def _is_inside(uses: Iterable[Use], others: Iterable[Use]) -> bool:
    return all(
        any(
            (use.plan, use.block.join) == (other.plan, other.block.join)
            and use.block.places <= other.block.places
            for other in others
        )
        for use in uses
    )


def _are_several(uses: Iterable[Use]) -> bool:
    return len({use.plan for use in uses}) > 1


def _free(uses: Iterable[Use], taken: Mapping[Join, Sequence[tuple[Block, Core]]]) -> Iterator[Use]:
    """Those that share no input with what is taken, nor with one before them."""
    here: dict[tuple[str, Join], set[int]] = {}
    for use in uses:
        known = here.setdefault((use.plan, use.block.join), set())
        before = (block.places for block, _ in taken.get(use.block.join, ()))
        if known.isdisjoint(use.block.places) and all(map(use.block.places.isdisjoint, before)):
            known |= use.block.places
            yield use


def _read_above(plan: Plan) -> Iterator[tuple[Join, frozenset[int]]]:
    """Of each join that may have a core, the columns that the plan reads above it."""
    found: dict[str, Join] = {}

    def named(join: Join) -> Plan:
        name = f"{_ABOVE}{len(found)}"
        found[name] = join
        return Scan(name, Schema(join.schema.columns))

    read = columns_read(swapped(plan, named))
    for name, join in found.items():
        yield join, read.get(name, frozenset())


def _some(members: Sequence[Block], inside: frozenset[str]) -> Iterator[Scalar]:
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


def _over(join: Join, used: Sequence[tuple[Block, Core, str]]) -> Plan:
    """A join with cores in the place of some of its blocks. Columns that nobody reads are NULL."""
    inputs: list[Plan] = []
    where: dict[int, int] = {}
    width = 0
    for block, core, name in used:
        now = {column: width + i for i, column in enumerate(core.columns)}
        where |= {here: now[there] for here, there in block.where.items() if there in now}
        inputs.append(core.scan(name))
        width += len(core.columns)
    for place, source in enumerate(join.inputs):
        if not any(place in block.places for block, _, _ in used):
            where |= {join.offsets[place] + i: width + i for i in range(len(source.schema))}
            inputs.append(source)
            width += len(source.schema)
    asked = [(block, core.inside | core.between) for block, core, _ in used]
    conditions = tuple(
        map_refs(condition, lambda ref: replace(ref, position=where[ref.position]))
        for condition in join.conditions
        if not any(block.spelled(condition) in texts for block, texts in asked)
    )
    rows = Join(tuple(inputs), conditions) if len(inputs) > 1 else reduce(Filter, conditions, inputs[0])
    outputs = []
    for i, column in enumerate(join.schema):
        known = where.get(i)
        scalar: Scalar = Literal(None, column.type) if known is None else Ref(known, column.type)
        outputs.append(Output(column.name, scalar))
    return Project(rows, tuple(outputs))
