"""Relational expressions over signed bags. Nodes are frozen, refuse nonsense when they are built, and
derive their schema from what they stand on.

Filter, Project, UnionAll and Negate are linear in their input; Join is linear in each of its inputs.
So every node also means something on signed bags that still contain rows which cancel. KeyDelete is linear
in what it deletes from; Distinct and Aggregate are not linear at all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import cached_property

from stillframe.algebra.aggregates import AGGREGATIONS, SPREADS
from stillframe.algebra.bag import Row
from stillframe.algebra.keys import keys_of_join, keys_of_projection
from stillframe.algebra.scalar import Cast, Literal, Ref, Scalar, refs
from stillframe.algebra.schema import Column, Schema
from stillframe.algebra.types import BIGINT, BOOLEAN, Type
from stillframe.algebra.windows import Ordering, Windowed


class Moment(StrEnum):
    """Which value of a relation a scan reads, relative to one maintenance session."""

    BEFORE = "before"
    AFTER = "after"
    CHANGE = "change"


class Plan:
    """Base of all relational nodes."""

    @property
    def schema(self) -> Schema:
        raise AssertionError("every node has a schema")

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return ()


@dataclass(frozen=True)
class Scan(Plan):
    """A relation `source.table`, or another view by its name."""

    relation: str
    relation_schema: Schema
    at: Moment = Moment.AFTER

    @property
    def schema(self) -> Schema:
        return self.relation_schema


@dataclass(frozen=True)
class Values(Plan):
    values_schema: Schema
    rows: tuple[Row, ...]

    def __post_init__(self) -> None:
        for row in self.rows:
            if len(row) != len(self.values_schema):
                raise ValueError(
                    f"a row of {len(row)} values in a relation of {len(self.values_schema)} columns"
                )

    @property
    def schema(self) -> Schema:
        return self.values_schema


@dataclass(frozen=True)
class Filter(Plan):
    input: Plan
    predicate: Scalar

    def __post_init__(self) -> None:
        _check_predicate(self.predicate, self.input.schema)

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Output:
    name: str
    scalar: Scalar


@dataclass(frozen=True)
class Project(Plan):
    input: Plan
    outputs: tuple[Output, ...]

    def __post_init__(self) -> None:
        for output in self.outputs:
            _check_refs(output.scalar, self.input.schema)

    @cached_property
    def schema(self) -> Schema:
        columns = tuple(
            Column(output.name, output.scalar.type, is_nullable(output.scalar, self.input.schema))
            for output in self.outputs
        )
        kept: dict[int, list[int]] = {}
        for position, output in enumerate(self.outputs):
            if isinstance(output.scalar, Ref):
                kept.setdefault(output.scalar.position, []).append(position)
        return Schema(columns, keys_of_projection(self.input, kept))

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Join(Plan):
    """The inner join of any number of inputs: their product, where every condition is true. Conditions
    read the inputs' columns laid side by side. Without conditions it is the cross product."""

    inputs_: tuple[Plan, ...]
    conditions: tuple[Scalar, ...] = ()

    def __post_init__(self) -> None:
        if not self.inputs_:
            raise ValueError("a join needs an input")
        for condition in self.conditions:
            _check_predicate(condition, self.schema)

    @cached_property
    def schema(self) -> Schema:
        columns = tuple(column for plan in self.inputs_ for column in plan.schema)
        return Schema(columns, keys_of_join(self))

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return self.inputs_

    @cached_property
    def offsets(self) -> tuple[int, ...]:
        """Where each input's columns begin."""
        offsets, at = [], 0
        for plan in self.inputs_:
            offsets.append(at)
            at += len(plan.schema)
        return tuple(offsets)

    def input_of(self, position: int) -> int:
        """Which input a column comes from."""
        return max(i for i, offset in enumerate(self.offsets) if offset <= position)


@dataclass(frozen=True)
class UnionAll(Plan):
    inputs_: tuple[Plan, ...]

    def __post_init__(self) -> None:
        first, *others = self.inputs_
        for other in others:
            if other.schema.types != first.schema.types:
                raise ValueError(f"UNION ALL of {first.schema.types} and {other.schema.types}")

    @cached_property
    def schema(self) -> Schema:
        first = self.inputs_[0].schema
        nullable = [any(plan.schema[i].nullable for plan in self.inputs_) for i in range(len(first))]
        return Schema(tuple(Column(c.name, c.type, n) for c, n in zip(first, nullable, strict=True)))

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return self.inputs_


@dataclass(frozen=True)
class Negate(Plan):
    """Every multiplicity with the other sign."""

    input: Plan

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Times(Plan):
    """Every row as often as `count`, a whole number of its own, says; not at all where that is not positive.
    Linear."""

    input: Plan
    count: Scalar

    def __post_init__(self) -> None:
        _check_refs(self.count, self.input.schema)
        if self.count.type != BIGINT:
            raise ValueError(f"a count is BIGINT, not {self.count.type}")

    @property
    def schema(self) -> Schema:
        return Schema(self.input.schema.columns)

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)


@dataclass(frozen=True)
class KeyDelete(Plan):
    """The rows of `input` that agree with no row of `rows` on all the column pairs of `on`, NULL agreeing
    with NULL. Linear in `input`; of `rows` only counts what is there, not how often or with which sign."""

    input: Plan
    rows: Plan
    on: tuple[tuple[int, int], ...]

    def __post_init__(self) -> None:
        for here, there in self.on:
            if here >= len(self.input.schema) or there >= len(self.rows.schema):
                raise ValueError(f"no columns {here} and {there} to compare")
            if self.input.schema[here].type != self.rows.schema[there].type:
                raise ValueError(f"columns {here} and {there} have different types")

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input, self.rows)


@dataclass(frozen=True)
class Semi(Plan):
    """The rows of `left` that some row of `right` meets all conditions with; the others, if it is `anti`.
    Conditions read the columns of the left, then those of the right. Linear in the left; of the right only
    counts which rows are there."""

    left: Plan
    right: Plan
    conditions: tuple[Scalar, ...]
    anti: bool = False

    def __post_init__(self) -> None:
        both = Schema((*self.left.schema, *self.right.schema))
        for condition in self.conditions:
            _check_predicate(condition, both)

    @property
    def schema(self) -> Schema:
        return self.left.schema

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.left, self.right)


@dataclass(frozen=True)
class Measure:
    """An aggregate of a group's rows: of the values of `arg`, or of the rows themselves."""

    name: str
    function: str
    arg: Scalar | None = None

    @property
    def type(self) -> Type:
        return AGGREGATIONS[self.function].result(BIGINT if self.arg is None else self.arg.type)


@dataclass(frozen=True)
class Aggregate(Plan):
    """One row for each group of rows that agree on all `keys`, NULL agreeing with NULL: the keys, then the
    measures. Without keys there is one row, also over nothing. Not linear: only rows of a positive
    multiplicity count."""

    input: Plan
    keys: tuple[Output, ...]
    measures: tuple[Measure, ...] = ()

    def __post_init__(self) -> None:
        for scalar in self.read:
            _check_refs(scalar, self.input.schema)
        if not self.keys and not self.measures:
            raise ValueError("an aggregate without keys needs a measure")

    @property
    def read(self) -> tuple[Scalar, ...]:
        """What is looked at in the input."""
        args = tuple(measure.arg for measure in self.measures if measure.arg is not None)
        return (*(key.scalar for key in self.keys), *args)

    @cached_property
    def schema(self) -> Schema:
        keys = [Column(k.name, k.scalar.type, is_nullable(k.scalar, self.input.schema)) for k in self.keys]
        measures = [
            Column(m.name, m.type, AGGREGATIONS[m.function].nullable and self._may_be_empty(m))
            for m in self.measures
        ]
        identified = bool(keys) and not any(key.nullable for key in keys)
        return Schema(
            (*keys, *measures), frozenset({frozenset(range(len(keys)))}) if identified else frozenset()
        )

    def _may_be_empty(self, measure: Measure) -> bool:
        few = measure.function in SPREADS  # one value is not enough
        return few or not self.keys or measure.arg is None or is_nullable(measure.arg, self.input.schema)

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Window(Plan):
    """The rows of `input`, each with the values of functions over the rows that agree with it on all of
    `partition`, NULL agreeing with NULL, in some order. With `keep`, only the first so many of each
    partition. Not linear."""

    input: Plan
    partition: tuple[Scalar, ...]
    order: tuple[Ordering, ...]
    functions: tuple[Windowed, ...] = ()
    keep: int | None = None

    def __post_init__(self) -> None:
        for scalar in self.read:
            _check_refs(scalar, self.input.schema)

    @property
    def read(self) -> tuple[Scalar, ...]:
        """What is looked at in the input, beside the columns themselves."""
        args = tuple(arg for function in self.functions for arg in function.args)
        return (*self.partition, *(key.scalar for key in self.order), *args)

    @property
    def has_ties(self) -> bool:
        """Whether the order leaves open what is shown, and the rows' other columns had to settle it."""
        return self.settled_by > 0

    @property
    def settled_by(self) -> int:
        """How many of the input's columns, from the left, settle what the order leaves open: as many as
        tell all rows apart."""
        if self.keep is None and not any(function.counts_places for function in self.functions):
            return 0
        told = (*self.partition, *(key.scalar for key in self.order))
        known = {scalar.position for scalar in told if isinstance(scalar, Ref)}
        width = len(self.input.schema)
        keys = (*self.input.schema.keys, frozenset(range(width)))
        return min(max((p + 1 for p in key - known), default=0) for key in keys)

    @cached_property
    def schema(self) -> Schema:
        added = tuple(Column(f.name, f.type, f.nullable) for f in self.functions)
        return Schema((*self.input.schema.columns, *added), self.input.schema.keys)

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Distinct(Plan):
    """Each row of a positive multiplicity, once."""

    input: Plan

    @property
    def schema(self) -> Schema:
        return self.input.schema

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.input,)


@dataclass(frozen=True)
class Monus(Plan):
    """Bag difference: each row as often as it is more often in `left` than in `right`, never less than not
    at all. Linear in nothing."""

    left: Plan
    right: Plan

    def __post_init__(self) -> None:
        if self.left.schema.types != self.right.schema.types:
            raise ValueError(f"the difference of {self.left.schema.types} and {self.right.schema.types}")

    @property
    def schema(self) -> Schema:
        return self.left.schema

    @property
    def inputs(self) -> tuple[Plan, ...]:
        return (self.left, self.right)


def _check_refs(scalar: Scalar, schema: Schema) -> None:
    for position in refs(scalar):
        if position >= len(schema):
            raise ValueError(f"no column {position}; there are {len(schema)}: {', '.join(schema.names)}")


def _check_predicate(predicate: Scalar, schema: Schema) -> None:
    if predicate.type != BOOLEAN:
        raise ValueError(f"a condition is BOOLEAN, not {predicate.type}")
    _check_refs(predicate, schema)


def is_nullable(scalar: Scalar, schema: Schema) -> bool:
    if isinstance(scalar, Ref):
        return schema[scalar.position].nullable
    if isinstance(scalar, Cast):
        return is_nullable(scalar.arg, schema)  # what cannot be cast is an error
    return not isinstance(scalar, Literal) or scalar.value is None


def walk(plan: Plan) -> Iterator[Plan]:
    yield plan
    for child in plan.inputs:
        yield from walk(child)


def scans(plan: Plan) -> tuple[Scan, ...]:
    """The leaves that read relations, left to right."""
    return tuple(node for node in walk(plan) if isinstance(node, Scan))


def relations(plan: Plan) -> tuple[str, ...]:
    """The names a plan reads, each once, in order of appearance."""
    return tuple(dict.fromkeys(scan.relation for scan in scans(plan)))


def map_scans(plan: Plan, mapping: Callable[[Scan, int | None], Plan]) -> Plan:
    """The plan with every scan replaced. A scan that is itself an input of the topmost join is given its
    place there; one that lies deeper has none."""
    return _map_scans(plan, mapping, None, top=True)


def _map_scans(
    plan: Plan, mapping: Callable[[Scan, int | None], Plan], place: int | None, *, top: bool
) -> Plan:
    match plan:
        case Scan():
            return mapping(plan, place)
        case Filter(source, predicate):
            return Filter(_map_scans(source, mapping, None, top=top), predicate)
        case Project(source, outputs):
            return Project(_map_scans(source, mapping, None, top=top), outputs)
        case Join(sources, conditions):
            inputs = tuple(
                _map_scans(source, mapping, i if top else None, top=False) for i, source in enumerate(sources)
            )
            return Join(inputs, conditions)
        case UnionAll(sources):
            return UnionAll(tuple(_map_scans(source, mapping, None, top=False) for source in sources))
        case Negate(source):
            return Negate(_map_scans(source, mapping, None, top=False))
        case Times(source, count):
            return Times(_map_scans(source, mapping, None, top=False), count)
        case KeyDelete(source, rows, on):
            kept, gone = (_map_scans(part, mapping, None, top=False) for part in (source, rows))
            return KeyDelete(kept, gone, on)
        case Distinct(source):
            return Distinct(_map_scans(source, mapping, None, top=False))
        case Aggregate(source, keys, measures):
            return Aggregate(_map_scans(source, mapping, None, top=False), keys, measures)
        case Semi(left, right, conditions, anti):
            here, there = (_map_scans(part, mapping, None, top=False) for part in (left, right))
            return Semi(here, there, conditions, anti)
        case Window(source):
            return replace(plan, input=_map_scans(source, mapping, None, top=False))
        case Monus(left, right):
            more, less = (_map_scans(part, mapping, None, top=False) for part in (left, right))
            return Monus(more, less)
    return plan
