"""Groups brought forward from their own last state: the key-wise rule without reading the relations again.

Law: let a group have n rows and, for an expression x, c values that are not NULL with the sum s. If rows come
and go, n, c and s are what they were, plus what comes, less what goes. A group with n = 0 is gone; where
c = 0 the sum is NULL. Averages and truths over all or any rows are computed from counts and sums.
The least value is the lesser of what it was and of what comes, unless a value as small as it was goes and
none as small comes: then nobody knows but the relations, and the group is read again (`unknown`). For
the greatest it is the same, turned round.
Rows that are equal in all that is looked at and come and go in one change are in neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from stillframe.algebra import (
    Aggregate,
    Call,
    Cast,
    Column,
    Filter,
    Literal,
    Measure,
    Moment,
    Monus,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    Semi,
    Type,
    UnionAll,
    Values,
    Window,
    call,
    case,
    cast,
)
from stillframe.algebra.plan import is_nullable
from stillframe.algebra.types import BIGINT, BOOLEAN, DOUBLE, MAX_PRECISION, decimal
from stillframe.change.keywise import keyed_inputs, shown_keys

CHANGED = "#changed"
_WHOLE = decimal(19, 0)
_MOST_SCALE = 6  # a difference of two sums of 38 digits keeps so many of them after the point
_MEAN_SCALE = 4  # a mean of so many digits after the point is rounded once, for groups of 10**10 rows
_ONE, _NONE = Literal(1, BIGINT), Literal(0, BIGINT)


# What is kept


@dataclass
class _Kept:
    """The measures of the groups that are kept, each once, behind so many keys."""

    groups: Aggregate
    measures: list[Measure] = field(default_factory=list)

    def of(self, function: str, arg: Scalar | None = None) -> Ref:
        measure = Measure("", function, arg)
        if measure not in self.measures:
            self.measures.append(measure)
        return Ref(len(self.groups.keys) + self.measures.index(measure), measure.type)

    def known(self, arg: Scalar) -> Ref:
        """How many values there are."""
        return self.of("count", _counted(arg, self.groups))


def stored(plan: Aggregate) -> tuple[Aggregate, tuple[Scalar, ...]] | None:
    """The same groups with all that is needed to go on from them, and what `plan` shows of them; None where
    an aggregate cannot go on."""
    kept = _Kept(plan)
    kept.of("count")
    shown: list[Scalar] = [Ref(i, key.scalar.type) for i, key in enumerate(plan.keys)]
    for measure in plan.measures:
        found = _shown(measure, kept)
        if found is None:
            return None
        shown.append(found)
    return Aggregate(plan.input, plan.keys, tuple(kept.measures)), tuple(shown)


def _shown(measure: Measure, kept: _Kept) -> Scalar | None:
    arg = measure.arg
    if measure.function == "count":
        return kept.of("count") if arg is None else kept.known(arg)
    if arg is None or measure.function not in ("sum", "avg", "min", "max", "bool_and", "bool_or"):
        return None
    known = kept.known(arg)
    match measure.function:
        case "sum":
            return kept.of("sum", arg) if _adds_up(measure.type) else None
        case "avg":
            return _mean(measure.type, arg, known, kept)
        case "min" | "max":
            return kept.of(measure.function, arg)
    true = kept.of("count", case(((arg, Literal(True, BOOLEAN)),), Literal(None, BOOLEAN)))
    truth = call("=", true, known) if measure.function == "bool_and" else call(">", true, _NONE)
    return case(((call("=", known, _NONE), Literal(None, BOOLEAN)),), truth)


def _adds_up(sums: Type) -> bool:
    """Whether sums of a type can be subtracted without loss."""
    return sums.is_integer or (
        sums.is_decimal and (sums.precision + 11 <= MAX_PRECISION or sums.scale <= _MOST_SCALE)
    )


def _mean(result: Type, arg: Scalar, known: Ref, kept: _Kept) -> Scalar | None:
    if arg.type.is_integer:
        total = kept.of("sum", cast(arg, _WHOLE))
        mean = call("/", cast(total, DOUBLE), cast(known, DOUBLE))
    elif arg.type.is_decimal and arg.type.precision + 10 <= MAX_PRECISION and arg.type.scale <= _MEAN_SCALE:
        mean = cast(call("mean", kept.of("sum", arg), known), result)
    else:
        return None
    return case(((call("=", known, _NONE), Literal(None, result)),), mean)


# How it goes on


def goes_on(plan: Plan) -> bool:
    """Whether groups are kept with all that is needed to go on from them."""
    if not isinstance(plan, Aggregate) or Measure("", "count") not in _nameless(plan):
        return False
    return all(_is_base(measure, plan) for measure in plan.measures)


def _is_base(measure: Measure, plan: Aggregate) -> bool:
    if measure.function == "count":
        return True
    if measure.function not in ("sum", "min", "max") or (
        measure.function == "sum" and not _adds_up(measure.type)
    ):
        return False
    return _known(measure, plan) >= 0


def _nameless(plan: Aggregate) -> list[Measure]:
    return [Measure("", m.function, m.arg) for m in plan.measures]


def _known(measure: Measure, plan: Aggregate) -> int:
    """Which measure counts the values of another one."""
    assert measure.arg is not None
    found, counting = _nameless(plan), Measure("", "count", _counted(measure.arg, plan))
    return found.index(counting) if counting in found else -1


def _counted(arg: Scalar, plan: Aggregate) -> Scalar | None:
    """What has as many values as an argument: itself before any cast, or the rows if it is never NULL."""
    while isinstance(arg, Cast):
        arg = arg.arg
    return arg if is_nullable(arg, plan.input.schema) else None


def changed_rows(plan: Aggregate | Window) -> Scan:
    """What changed of all that is looked at: the keys, then all else."""
    (looked_at,) = keyed_inputs(plan)
    seen = (*looked_at.keys, *looked_at.read)
    return Scan(CHANGED, Schema(tuple(Column(f"r{i}", s.type) for i, s in enumerate(seen))), Moment.CHANGE)


def touched_groups(plan: Aggregate, former: Scan) -> Plan:
    """The groups that were there and are touched by the change."""
    return touched_rows(former, shown_keys(plan), changed_rows(plan))


def touched_rows(former: Scan, keys: tuple[Scalar, ...], change: Scan) -> Plan:
    """The rows that were shown and whose keys are among those of changed rows, which begin with them."""
    if not keys:
        return former
    width = len(former.schema)
    came, went = _signs(change)
    found = tuple(Output(f"k{i}", Ref(i, key.type)) for i, key in enumerate(keys))
    same = tuple(Call("<=>", (key, Ref(width + i, key.type))) for i, key in enumerate(keys))
    return Semi(former, UnionAll((Project(came, found), Project(went, found))), same)


def _signs(change: Scan) -> tuple[Plan, Plan]:
    """The rows that come, and those that go."""
    nothing = Values(change.schema, ())
    return Monus(change, nothing), Monus(nothing, change)


def brought_forward(plan: Aggregate, former: Scan) -> Plan:
    """The touched groups as they are after the change: keys, measures, and whether some measure of the
    group is unknown."""
    came, went = _signs(changed_rows(plan))
    then = touched_groups(plan, former)
    width = len(plan.keys)
    keys = [Ref(i, key.scalar.type) for i, key in enumerate(plan.keys)]
    columns: list[_Column] = []
    places: list[int] = []
    arg = width
    for i, measure in enumerate(plan.measures):
        old = Ref(width + i, measure.type)
        new = None if measure.arg is None else Ref(arg, measure.arg.type)
        arg += measure.arg is not None
        places.append(width + len(columns))
        columns += _columns(measure, old, new)

    def rows(source: Plan, side: str) -> Plan:
        values = (getattr(column, side) for column in columns)
        return Project(source, tuple(Output(f"u{i}", scalar) for i, scalar in enumerate((*keys, *values))))

    union = UnionAll((rows(came, "came"), rows(went, "went"), rows(then, "then")))
    groups = Aggregate(
        union,
        tuple(Output(f"k{i}", key) for i, key in enumerate(keys)),
        tuple(Measure(f"m{i}", c.function, Ref(width + i, c.then.type)) for i, c in enumerate(columns)),
    )
    counts = {
        i: Ref(places[i], groups.schema[places[i]].type)
        for i, measure in enumerate(plan.measures)
        if measure.function == "count"
    }
    there = counts[_nameless(plan).index(Measure("", "count"))]
    shown: list[Scalar] = []
    unknown: Scalar = Literal(False, BOOLEAN)
    for i, measure in enumerate(plan.measures):
        at = [Ref(places[i] + j, groups.schema[places[i] + j].type) for j in range(_width(measure))]
        if measure.function == "count":
            shown.append(at[0])
            continue
        none = (call("=", counts[_known(measure, plan)], _NONE), Literal(None, measure.type))
        if measure.function == "sum":
            added, gone = (call("coalesce", one, cast(Literal(0, BIGINT), one.type)) for one in at)
            shown.append(case((none,), cast(call("-", added, gone), measure.type)))
            continue
        before, coming, going = at
        word = "<=" if measure.function == "min" else ">="
        settled = call("or", call("isnull", before), call(word, coming, before))
        shown.append(case((none, (settled, coming)), before))
        lost = call("and", call(">", counts[_known(measure, plan)], _NONE), call(word, going, before))
        kept = call("coalesce", call(word, coming, before), Literal(False, BOOLEAN))
        unknown = call(
            "or", unknown, call("coalesce", call("and", lost, call("not", kept)), Literal(False, BOOLEAN))
        )
    living = Filter(groups, call(">", there, _NONE)) if keys else groups
    outputs = (*keys, *shown, unknown)
    return Project(living, tuple(Output(f"g{i}", scalar) for i, scalar in enumerate(outputs)))


@dataclass(frozen=True)
class _Column:
    """How a group's new value is added up: from rows that come, rows that go, and the group as it was."""

    function: str
    came: Scalar
    went: Scalar
    then: Scalar


def _width(measure: Measure) -> int:
    return {"count": 1, "sum": 2}.get(measure.function, 3)


def _columns(measure: Measure, old: Ref, new: Ref | None) -> list[_Column]:
    if measure.function == "count":
        one, less = _ONE, Literal(-1, BIGINT)
        if new is None:
            return [_Column("sum", one, less, old)]
        missing = call("isnull", new)
        return [_Column("sum", case(((missing, _NONE),), one), case(((missing, _NONE),), less), old)]
    assert new is not None
    if measure.function == "sum":
        wide = _WHOLE if measure.type.is_integer else measure.type
        nothing, value = Literal(None, wide), cast(new, wide)
        return [
            _Column("sum", value, nothing, cast(old, wide)),
            _Column("sum", nothing, value, nothing),
        ]
    nothing = Literal(None, measure.type)
    return [
        _Column(measure.function, nothing, nothing, old),
        _Column(measure.function, new, nothing, nothing),
        _Column(measure.function, nothing, new, nothing),
    ]
