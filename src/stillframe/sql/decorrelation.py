"""A query that stands for a value, joined to the rows it is asked for.

Law: let q(r) be the value of a query whose rows are tied to a row r only by equalities of its own columns
with r's. Grouped by those columns, the query has each value once, and r meets at most the one that is q(r);
a row that meets none has the value of the query over nothing. Where other conditions tie it, the rows around
it are first reduced to the columns it asks for, each combination once; joined to them, it is tied by
equalities alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from stillframe.algebra.aggregates import AGGREGATIONS
from stillframe.algebra.evaluate import evaluate_scalar
from stillframe.algebra.functions import FUNCTIONS, EvaluationError
from stillframe.algebra.plan import Aggregate, Join, Measure, Output, Plan, Project, Semi, UnionAll
from stillframe.algebra.scalar import Call, Cast, Literal, Ref, Scalar, call, conjuncts, map_refs, refs, shift
from stillframe.algebra.types import BIGINT, Type
from stillframe.sql.scope import COUNTED, MEASURED, THERE


@dataclass(frozen=True)
class Value:
    """A query's one value for a row: `item`, over the query's rows `there`, whose columns begin at THERE.
    With `measures` it is computed from aggregates of all those rows, which begin at COUNTED. A `single`
    query has one row, whatever there is."""

    there: Plan
    ties: tuple[Scalar, ...]
    item: Scalar
    measures: tuple[Measure, ...] | None = None
    single: bool = False

    @property
    def type(self) -> Type:
        return self.item.type

    @property
    def around(self) -> tuple[int, ...]:
        """The columns it asks for."""
        args = (m.arg for m in self.measures or () if m.arg is not None)
        return tuple(sorted({p for s in (*self.ties, self.item, *args) for p in refs(s) if p < MEASURED}))

    def moved(self, mapping: Callable[[Scalar], Scalar]) -> Value:
        """With what is around it moved; the query's own columns stay."""
        measures = self.measures and tuple(
            replace(m, arg=None if m.arg is None else mapping(m.arg)) for m in self.measures
        )
        return replace(self, ties=tuple(map(mapping, self.ties)), item=mapping(self.item), measures=measures)


def with_value(plan: Plan, value: Value, *, lonely: bool) -> Plan:
    """The rows of a plan, each with the value that a query has for it. Without `lonely`, rows for which it
    is NULL may be missing."""
    empty = _over_nothing(value)
    pairs = _equalities(value)
    if pairs is None:
        value, pairs = _apart(plan, value)
    groups, item = _grouped(value, tuple(theirs for _, theirs in pairs))
    width = len(plan.schema)
    on = tuple(
        Call("<=>" if mine.null_safe else "=", (mine.scalar, Ref(width + i, mine.scalar.type)))
        for i, (mine, _) in enumerate(pairs)
    )
    columns = tuple(Output(f"j{i}", Ref(i, c.type, c.name)) for i, c in enumerate(plan.schema))
    met = Project(Join((plan, groups), on), (*columns, Output("value", shift(item, width))))
    if not pairs or (not lonely and isinstance(empty, Literal) and empty.value is None):
        return met
    unmet = Semi(plan, groups, on, anti=True)
    return UnionAll((met, Project(unmet, (*columns, Output("value", empty)))))


@dataclass(frozen=True)
class _Mine:
    """What a row asks with; `null_safe` where NULL is a value like others."""

    scalar: Scalar
    null_safe: bool = False


Pairs = list[tuple[_Mine, Scalar]]


def _equalities(value: Value) -> Pairs | None:
    """What the ties equate, of the rows around and of the query's own; None where they do more, or where
    the value itself asks for columns around it."""
    if set(value.around) - {p for tie in value.ties for p in refs(tie)} or replace(value, ties=()).around:
        return None
    pairs: Pairs = []
    for tie in value.ties:
        match tie:
            case Call("=", (a, b)):
                for mine, theirs in ((a, b), (b, a)):
                    here, there = refs(mine), refs(theirs)
                    if here and there and max(here) < MEASURED and min(there) >= THERE:
                        pairs.append((_Mine(mine), shift(theirs, -THERE)))
                        break
                else:
                    return None
            case _:
                return None
    return pairs


def _apart(plan: Plan, value: Value) -> tuple[Value, Pairs]:
    """The query over the combinations of columns it is asked for, which come first in its rows."""
    asked = value.around
    columns = [Ref(p, plan.schema[p].type) for p in asked]
    each = Aggregate(plan, tuple(Output(f"k{i}", column) for i, column in enumerate(columns)))

    def inside(ref: Ref) -> Scalar:
        if ref.position < MEASURED:
            return replace(ref, position=THERE + asked.index(ref.position))
        own = THERE <= ref.position < COUNTED
        return replace(ref, position=ref.position + len(asked)) if own else ref

    moved = value.moved(lambda scalar: map_refs(scalar, inside))
    ties = tuple(shift(tie, -THERE) for tie in moved.ties)
    pairs: Pairs = [
        (_Mine(column, plan.schema[column.position].nullable), Ref(i, column.type))
        for i, column in enumerate(columns)
    ]
    return replace(moved, there=Join((each, value.there), ties), ties=()), pairs


def _grouped(value: Value, keys: tuple[Scalar, ...]) -> tuple[Plan, Scalar]:
    """The query's value for each combination of keys, which come first, and where it stands."""
    named = tuple(Output(f"k{i}", key) for i, key in enumerate(keys))
    if value.measures is not None:
        measures = tuple(
            Measure(f"m{i}", m.function, None if m.arg is None else shift(m.arg, -THERE))
            for i, m in enumerate(value.measures)
        )

        def beside(ref: Ref) -> Scalar:
            if ref.position < COUNTED:
                return replace(ref, position=ref.position - THERE)  # one of the keys, which come first
            return replace(ref, position=ref.position - COUNTED + len(keys))

        return Aggregate(value.there, named, measures), map_refs(value.item, beside)
    item = shift(value.item, -THERE)
    told = {key.position for key in keys if isinstance(key, Ref)}
    if value.single or any(key <= told for key in value.there.schema.keys):
        return Project(value.there, (*named, Output("value", item))), Ref(len(keys), item.type)
    rows = Measure("n", "count"), Measure("value", "max", item)
    groups = Aggregate(value.there, named, rows)
    return groups, call("only", Ref(len(keys), BIGINT), Ref(len(keys) + 1, item.type))


def _over_nothing(value: Value) -> Scalar:
    """The value where the query has no rows."""
    if value.measures is None:
        return Literal(None, value.type)

    def nothing(ref: Ref) -> Scalar:
        if ref.position < COUNTED:
            return ref
        measure = (value.measures or ())[ref.position - COUNTED]
        return Literal(None if AGGREGATIONS[measure.function].nullable else 0, ref.type)

    scalar = map_refs(value.item, nothing)
    try:
        return scalar if refs(scalar) else Literal(evaluate_scalar(scalar, ()), scalar.type)
    except EvaluationError:  # raised where a row is evaluated, if one is
        return scalar


def rejects_null(condition: Scalar, position: int) -> bool:
    """Whether a condition cannot be true where a column is NULL."""

    def unknown(scalar: Scalar) -> bool:
        match scalar:
            case Ref(at):
                return at == position
            case Cast(arg):
                return unknown(arg)
            case Call(function, args):
                return FUNCTIONS[function].strict and any(map(unknown, args))
        return False

    return any(map(unknown, conjuncts(condition)))
