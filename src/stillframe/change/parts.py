"""A view as a chain of parts.

Every operator that is maintained key-wise becomes a part: a view of its own that nobody sees, whose rows are
kept so that the next change can be told from them. What stands above it reads the part like any other view,
so each plan that remains is either linear and joins, or one key-wise operator over such a plan.
"""

from __future__ import annotations

from dataclasses import replace

from stillframe.algebra import (
    Aggregate,
    Call,
    Filter,
    Join,
    Negate,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Semi,
    Times,
    UnionAll,
    Window,
    normalize,
)
from stillframe.algebra.aggregates import DISTINCT
from stillframe.algebra.plan import is_nullable
from stillframe.change.invertible import stored


def split(plan: Plan, name: str) -> tuple[dict[str, Plan], Plan]:
    """The parts by name, each after those it reads, and what is left of the plan."""
    parts: dict[str, Plan] = {}
    return parts, normalize(_left(plan, name, parts))


def _part(plan: Plan, name: str, parts: dict[str, Plan]) -> Scan:
    plan = _storable(plan)
    called = next((known for known, other in parts.items() if other == plan), f"{name}~{len(parts) + 1}")
    parts[called] = plan
    return Scan(called, plan.schema)


_BASE = {distinct: base for base, distinct in DISTINCT.items()}


def without_distinct(plan: Aggregate) -> Plan:
    """Aggregates of distinct values as plain ones, of groups by key and value; joined, by key, to each other
    and to the aggregates of all values. Every group is in all of these: a value that is NULL is a value to
    group by, and none to count."""
    width = len(plan.keys)
    keys = tuple(Output(key.name, Ref(i, key.scalar.type)) for i, key in enumerate(plan.keys))
    sides: list[Aggregate] = []
    places: dict[int, Ref] = {}
    at = 0
    plain = [i for i, measure in enumerate(plan.measures) if measure.function not in _BASE]
    args = dict.fromkeys(m.arg for m in plan.measures if m.function in _BASE)
    for arg in (None, *args) if plain else args:
        if arg is None:
            chosen, measures = plain, tuple(plan.measures[i] for i in plain)
            side = Aggregate(plan.input, plan.keys, measures)
        else:
            chosen = [i for i, m in enumerate(plan.measures) if m.function in _BASE and m.arg == arg]
            values = Aggregate(plan.input, (*plan.keys, Output("value", arg)))
            value = Ref(width, arg.type)
            measures = tuple(
                replace(plan.measures[i], function=_BASE[plan.measures[i].function], arg=value)
                for i in chosen
            )
            side = Aggregate(values, keys, measures)
        places |= {n: Ref(at + width + j, measures[j].type) for j, n in enumerate(chosen)}
        sides.append(side)
        at += len(side.schema)
    shown = (*(key.scalar for key in keys), *(places[i] for i in range(len(plan.measures))))
    outputs = tuple(Output(n, scalar) for n, scalar in zip(plan.schema.names, shown, strict=True))
    if len(sides) == 1:
        return Project(sides[0], outputs)
    joined, offset = list[Scalar](), len(sides[0].schema)
    for side in sides[1:]:
        for i, key in enumerate(plan.keys):
            word = "<=>" if is_nullable(key.scalar, plan.input.schema) else "="
            joined.append(Call(word, (Ref(i, key.scalar.type), Ref(offset + i, key.scalar.type))))
        offset += len(side.schema)
    return Project(Join(tuple(sides), tuple(joined)), outputs)


def _groups(plan: Aggregate, name: str, parts: dict[str, Plan]) -> Plan:
    """Groups are kept with all that is needed to bring them forward, where they can be."""
    found = stored(plan)
    if found is None:
        return _part(plan, name, parts)
    kept, shown = found
    named = zip(plan.schema.names, shown, strict=True)
    return Project(_part(kept, name, parts), tuple(Output(n, scalar) for n, scalar in named))


def _storable(plan: Plan) -> Plan:
    """With columns that a table can have: a query inside another one may call two of its columns alike, or
    one by a name that no table takes."""
    match plan:
        case Aggregate(source, keys, measures):
            named = tuple(replace(key, name=f"c{i}") for i, key in enumerate(keys))
            counted = tuple(replace(m, name=f"c{i}") for i, m in enumerate(measures, len(keys)))
            return Aggregate(source, named, counted)
        case Semi(left, right, conditions, anti):
            return Semi(normalize(_numbered(left)), right, conditions, anti)
        case Window(source, _, _, functions):
            shown = (replace(f, name=f"c{i}") for i, f in enumerate(functions, len(source.schema)))
            return replace(plan, input=normalize(_numbered(source)), functions=tuple(shown))
    return normalize(_numbered(plan))


def _numbered(plan: Plan) -> Plan:
    if isinstance(plan, UnionAll):
        return UnionAll(tuple(_numbered(branch) for branch in plan.inputs))
    columns = enumerate(plan.schema)
    return Project(plan, tuple(Output(f"c{i}", Ref(i, column.type, column.name)) for i, column in columns))


def _factor(plan: Plan, name: str, parts: dict[str, Plan]) -> Plan:
    """What is joined to others. A union or repeated rows in a join would be read whole by every term; as a
    part they are in the lake."""
    inner = normalize(plan)
    below = inner
    while isinstance(below, Project | Filter):
        below = below.input
    return _part(inner, name, parts) if isinstance(below, UnionAll | Times) else plan


def _left(plan: Plan, name: str, parts: dict[str, Plan]) -> Plan:
    match plan:
        case Aggregate() if any(measure.function in _BASE for measure in plan.measures):
            return _left(without_distinct(plan), name, parts)
        case Aggregate(source, keys, measures):
            return _groups(Aggregate(normalize(_left(source, name, parts)), keys, measures), name, parts)
        case Semi(left, right, conditions, anti):
            here, there = (normalize(_left(side, name, parts)) for side in (left, right))
            return _part(Semi(here, there, conditions, anti), name, parts)
        case Window(source):
            return _part(replace(plan, input=normalize(_left(source, name, parts))), name, parts)
        case Filter(source, predicate):
            return Filter(_left(source, name, parts), predicate)
        case Project(source, outputs):
            return Project(_left(source, name, parts), outputs)
        case Join(sources, conditions):
            return Join(tuple(_factor(_left(s, name, parts), name, parts) for s in sources), conditions)
        case UnionAll(sources):
            return UnionAll(tuple(_left(source, name, parts) for source in sources))
        case Negate(source):
            return Negate(_left(source, name, parts))
        case Times(source, count):
            return Times(_left(source, name, parts), count)
    return plan
