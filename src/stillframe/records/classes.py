"""Which class of view a plan is, and so how its records are kept, at which level, and what that costs.

A class is recognised by the shape that `normalize` gives a plan: a projection of one relation, of groups,
of two relations joined by the key of one, or of what a set operation leaves. What no class covers is
refused, with the reason; such a view can still be a table of the lake."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from stillframe.algebra import (
    Aggregate,
    Call,
    Filter,
    Join,
    Literal,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    UnionAll,
    normalize,
)
from stillframe.algebra.aggregates import inexact
from stillframe.algebra.scalar import map_refs, refs, shift
from stillframe.records.aggregates import Aggregates, Measure
from stillframe.records.extremes import Extreme, Recomputed
from stillframe.records.joined import Joined
from stillframe.records.keyed import Keyed
from stillframe.records.sets import Counted, Looked
from stillframe.records.view import COUNTER, SIGNATURE, NoRecords, Served, Side, counted

ADDING_UP = ("count", "sum", "avg")
EXTREMES = ("min", "max")
WEAK = ("convergent", "weak")


def served(
    plan: Plan, level: str = "strong", key: Sequence[int] = (), test_and_set: str = SIGNATURE
) -> Served:
    """How a view is kept as records so that it reaches the level. `key` are the columns that records are to
    be found by, where that is not the view's own key alone."""
    found = _served(plan, level, key)
    if test_and_set == COUNTER:
        found = counted(found)
    if any(found.outputs[place].type.name == "DOUBLE" for place in found.key):
        raise NoRecords(
            "records are not found by a DOUBLE",
            detail="two of them that are alike may be spelled in several ways",
            hint="cast it to a DECIMAL, or to text",
        )
    return found


def _served(plan: Plan, level: str, key: Sequence[int]) -> Served:
    if level == "complete":
        raise NoRecords(
            "no view served as records is complete",
            detail="managers show a record after several entries at once",
            hint="consistency = 'strong' is the highest level of served views",
        )
    found = normalize(plan)
    if not isinstance(found, Project):
        raise _unknown(found)
    outputs = tuple(output.scalar for output in found.outputs)
    match found.input:
        case Aggregate(source, (), measures) if not measures:
            raise _unknown(source)
        case Aggregate(UnionAll((left, right)), keys, ()):
            return _set_operation("union", (left, right), len(keys), outputs, level)
        case Aggregate() as groups:
            return _grouped(groups, outputs, level)
        case Filter(Filter(Aggregate(UnionAll((left, right)), keys, measures), first), second) if (
            len(measures) == 2
            and _asks(first, len(keys), ">")
            and _is_tally((left, right), len(keys), measures)
        ):
            operation = "intersect" if _asks(second, len(keys) + 1, ">") else "except"
            if operation == "except" and not _asks(second, len(keys) + 1, "="):
                raise _unknown(found.input)
            return _set_operation(operation, (left, right), len(keys), outputs, level)
        case Join((Scan() as left, Scan() as right), conditions):
            return _joined(left, right, conditions, outputs)
        case source:
            return _rows(source, outputs, tuple(key))


def _unknown(plan: Plan) -> NoRecords:
    what = {
        "Aggregate": "conditions on groups (HAVING), or groups of groups,",
        "Join": "joins of more than two relations, or of other than tables",
        "Window": "windows and LIMIT",
        "Semi": "subqueries and outer joins",
        "UnionAll": "UNION ALL, and set operations of more than two relations",
    }.get(type(plan).__name__, f"{type(plan).__name__.lower()} at this place")
    return NoRecords(
        f"a view with {what} cannot be served as records",
        hint="COUNT, SUM, AVG, MIN, MAX, selections, projections, joins by a key and set operations can",
    )


def _asks(predicate: Scalar, position: int, function: str) -> bool:
    match predicate:
        case Call(name, (Ref(place), Literal(0))):
            return name == function and place == position
    return False


def _is_tally(branches: Sequence[Plan], width: int, measures: Sequence[Any]) -> bool:
    """Whether groups of two relations count the rows of either: what INTERSECT and EXCEPT are resolved to."""
    sums = [(m.function, m.arg.position if isinstance(m.arg, Ref) else None) for m in measures]
    ones = []
    for branch in branches:
        outputs = [o.scalar for o in branch.outputs] if isinstance(branch, Project) else []
        ones.append([o.value if isinstance(o, Literal) else None for o in outputs[width:]])
    return sums == [("sum", width), ("sum", width + 1)] and ones == [[1, 0], [0, 1]]


def _relation(plan: Plan) -> tuple[Scan, tuple[Scalar, ...], tuple[Scalar, ...]]:
    """A projection of one relation under conditions: the relation, the conditions, the outputs."""
    outputs: tuple[Scalar, ...] | None = None
    if isinstance(plan, Project):
        outputs = tuple(output.scalar for output in plan.outputs)
        plan = plan.input
    conditions: list[Scalar] = []
    while isinstance(plan, Filter):
        conditions.insert(0, plan.predicate)
        plan = plan.input
    if not isinstance(plan, Scan):
        raise _unknown(plan)
    _require_key(plan)
    if outputs is None:
        outputs = tuple(Ref(i, column.type, column.name) for i, column in enumerate(plan.schema))
    return plan, tuple(conditions), outputs


def _require_key(scan: Scan) -> None:
    if not scan.schema.keys:
        raise NoRecords(
            f"{scan.relation} has no key, so nothing tells its records apart",
            hint="declare a primary key whose columns are NOT NULL",
        )


def _rows(source: Plan, outputs: tuple[Scalar, ...], wanted: tuple[int, ...]) -> Served:
    scan, conditions, _ = _relation(source)
    key = _key_of(scan, outputs)
    if key is None:
        side = Side(scan.relation, scan.schema, conditions, outputs)
        return _distinct((side,), outputs)
    identity = _base_key(outputs, key)
    whole = {o.position for o in outputs if isinstance(o, Ref)} == set(range(len(scan.schema)))
    called = "selection" if whole else "projection with the key"
    if wanted and set(wanted) != set(key):
        if not set(wanted) > set(key):
            raise NoRecords("records are found by a key", detail="these columns may be the same in two rows")
        called, key = "projection with the key in its own", wanted
    here = tuple(outputs[i] for i in key)
    side = Side(scan.relation, scan.schema, conditions, here, outputs, identity=identity)
    after_key = tuple(Ref(len(key) + i, output.type) for i, output in enumerate(outputs))
    return Served(called, Keyed(), (side,), after_key, key, "strong")


def _base_key(outputs: Sequence[Scalar], key: Sequence[int]) -> tuple[int, ...]:
    """The columns of the relation that these outputs show."""
    return tuple(output.position for i in key if isinstance(output := outputs[i], Ref))


def _key_of(scan: Scan, outputs: Sequence[Scalar]) -> tuple[int, ...] | None:
    """The places among the outputs of a key of the relation."""
    places = {
        output.position: i for i, output in reversed(list(enumerate(outputs))) if isinstance(output, Ref)
    }
    for key in sorted(scan.schema.keys, key=lambda key: (len(key), sorted(key))):
        if all(position in places for position in key):
            return tuple(places[position] for position in sorted(key))
    return None


def _distinct(sides: tuple[Side, ...], outputs: Sequence[Scalar]) -> Served:
    columns = tuple(Ref(i, output.type) for i, output in enumerate(outputs))
    return Served(
        "projection without the key", Counted(), sides, columns, tuple(range(len(columns))), "strong"
    )


def _grouped(groups: Aggregate, outputs: tuple[Scalar, ...], level: str) -> Served:
    scan, conditions, columns = _relation(groups.input)
    keys = tuple(_through(key.scalar, columns) for key in groups.keys)
    if not groups.measures:
        shown = tuple(_through(output, tuple(k.scalar for k in groups.keys)) for output in outputs)
        side = Side(scan.relation, scan.schema, conditions, tuple(_through(s, columns) for s in shown))
        return _distinct((side,), outputs)
    key = _shown_key(len(keys), outputs)
    args: list[Scalar] = []
    measures: list[Measure] = []
    for measure in groups.measures:
        if measure.function not in (*ADDING_UP, *EXTREMES):
            raise NoRecords(f"{measure.function} cannot be kept in records", hint=_CAN)
        if measure.arg is not None and inexact(measure.function, measure.arg.type):
            raise NoRecords(
                f"{measure.function} of DOUBLE cannot be kept in records",
                detail="such sums depend on the order in which rows are added",
                hint="cast the argument to a DECIMAL",
            )
        place = None
        if measure.arg is not None:
            arg = _through(measure.arg, columns)
            place = args.index(arg) if arg in args else len(args)
            args += [arg] if place == len(args) else []
        measures.append(Measure(measure.function, measure.type, place))
    side = Side(scan.relation, scan.schema, conditions, keys, tuple(args))
    found = tuple(measures)
    functions = {measure.function for measure in found}
    if functions <= set(ADDING_UP):
        return Served("aggregate", Aggregates(found, always=not keys), (side,), outputs, key, "strong")
    if len(found) == 1 and keys:
        (extreme,) = found
        scanning = level not in WEAK
        return Served(
            extreme.function,
            Extreme(function=extreme.function, scanning=scanning),
            (side,),
            outputs,
            key,
            "strong" if scanning else "weak",
            "a group whenever its extreme leaves" + (" or a new one comes" if scanning else ""),
            found,
        )
    return Served(
        "aggregates with an extreme",
        Recomputed(),
        (side,),
        outputs,
        key,
        "strong",
        "a group at every change of it",
        found,
    )


_CAN = "COUNT, SUM, AVG, MIN and MAX can"


def _through(scalar: Scalar, columns: Sequence[Scalar]) -> Scalar:
    return map_refs(scalar, lambda ref: columns[ref.position])


def _shown_key(width: int, outputs: Sequence[Scalar]) -> tuple[int, ...]:
    """Where the view shows the columns that its groups are by."""
    places = {o.position: i for i, o in reversed(list(enumerate(outputs))) if isinstance(o, Ref)}
    missing = [i for i in range(width) if i not in places]
    if missing:
        raise NoRecords(
            "a view of groups that is served has to show what it groups by",
            detail="a record is found by these columns",
            hint="add them to the SELECT",
        )
    return tuple(places[i] for i in range(width))


def _set_operation(
    operation: str, branches: tuple[Plan, Plan], width: int, outputs: tuple[Scalar, ...], level: str
) -> Served:
    kept = {output.position for output in outputs if isinstance(output, Ref)} == set(range(width))
    if operation != "union" and not kept:
        raise NoRecords(
            f"a view that selects from {operation.upper()} cannot be served as records",
            detail="which rows are alike is decided by all columns of the set operation",
            hint="show all of its columns",
        )
    sides = []
    keyed = True
    for branch in branches:
        scan, conditions, columns = _relation(branch)
        found = _key_of(scan, columns[:width])
        keyed &= found is not None
        key = tuple(_through(output, columns) for output in outputs)
        identity = _base_key(columns, found) if found else ()
        sides.append(Side(scan.relation, scan.schema, conditions, key, identity=identity))
    columns = tuple(Ref(i, output.type) for i, output in enumerate(outputs))
    looks = level in WEAK and keyed and kept
    return Served(
        operation,
        Looked(operation) if looks else Counted(operation),
        tuple(sides),
        columns,
        tuple(range(len(columns))),
        "weak" if looks else "strong",
        "the other relation, for the row, at every change" if looks else "",
    )


def _joined(left: Scan, right: Scan, conditions: Sequence[Scalar], outputs: tuple[Scalar, ...]) -> Served:
    _require_key(left)
    _require_key(right)
    links = _links(left, right, conditions)
    if links is None:
        swapped = _swapped(left, right)
        left, right = right, left
        conditions = [_through(c, swapped) for c in conditions]
        outputs = tuple(_through(o, swapped) for o in outputs)
        links = _links(left, right, conditions)
    if links is None:
        raise NoRecords(
            "a join that is served joins a relation to the key of another",
            hint="join by equality with all columns of a declared key",
        )
    link, rest = links
    width = len(left.schema)
    own: tuple[list[Scalar], list[Scalar]] = ([], [])
    for condition in rest:
        own[_side_of(condition, width)].append(condition)
    shown: tuple[list[Scalar], list[Scalar]] = ([], [])
    for output in outputs:
        shown[_side_of(output, width)].append(output)
    key = _key_of(left, outputs)
    if key is None:
        raise NoRecords("a join that is served has to show the key of the relation that refers")
    here = tuple(outputs[i] for i in key)
    there = tuple(shift(output, -width) for output in shown[1])
    identity = _base_key(outputs, key)
    row = Side(left.relation, left.schema, tuple(own[0]), here, tuple(shown[0]), link, identity)
    referred = _partner_key(right, link, conditions, width)
    partner_key = tuple(Ref(i, right.schema[i].type) for i in referred)
    where = tuple(shift(c, -width) for c in own[1])
    other = Side(right.relation, right.schema, where, partner_key, there, identity=referred)
    columns = []
    seen = [0, 0]
    for output in outputs:
        side = _side_of(output, width)
        columns.append(Ref(len(key) + side * len(shown[0]) + seen[side], output.type))
        seen[side] += 1
    return Served("join", Joined(), (row, other), tuple(columns), key, "strong")


def _swapped(left: Scan, right: Scan) -> tuple[Scalar, ...]:
    """The columns of left and right side by side, as columns of right and left side by side."""
    return tuple(
        Ref(len(right.schema) + i, column.type, column.name) for i, column in enumerate(left.schema)
    ) + tuple(Ref(i, column.type, column.name) for i, column in enumerate(right.schema))


def _equated(condition: Scalar, width: int) -> tuple[Ref, Ref] | None:
    match condition:
        case Call("=", (Ref() as a, Ref() as b)):
            if a.position >= width > b.position:
                a, b = b, a
            if a.position < width <= b.position:
                return a, b
    return None


def _links(
    left: Scan, right: Scan, conditions: Sequence[Scalar]
) -> tuple[tuple[Scalar, ...], list[Scalar]] | None:
    """The columns of the left relation that refer to a key of the right one, and the other conditions."""
    width = len(left.schema)
    pairs = {pair[1].position - width: pair[0] for c in conditions if (pair := _equated(c, width))}
    for key in sorted(right.schema.keys, key=sorted):
        if key <= pairs.keys():
            used = {(pairs[i].position, i + width) for i in key}
            rest = [
                c
                for c in conditions
                if (pair := _equated(c, width)) is None or (pair[0].position, pair[1].position) not in used
            ]
            return tuple(pairs[i] for i in sorted(key)), rest
    return None


def _partner_key(
    right: Scan, link: Sequence[Scalar], conditions: Sequence[Scalar], width: int
) -> tuple[int, ...]:
    pairs = {pair[1].position - width: pair[0] for c in conditions if (pair := _equated(c, width))}
    for key in sorted(right.schema.keys, key=sorted):
        if key <= pairs.keys() and tuple(pairs[i] for i in sorted(key)) == tuple(link):
            return tuple(sorted(key))
    raise AssertionError("a link is of a key")


def _side_of(scalar: Scalar, width: int) -> int:
    sides = {int(position >= width) for position in refs(scalar)}
    if len(sides) > 1:
        raise NoRecords(
            "a join that is served has expressions of one relation at a time",
            detail="each side is kept for itself",
            hint="show the columns, and compute with them where they are read",
        )
    return sides.pop() if sides else 0
