"""Plans that carry no more than is looked at.

Law: what nobody above reads, of columns or of the rows of a partition, can be left out below without a
change of the result. Operators whose rows are kept between sessions are thereby kept small: a semi-join
holds the columns that are shown or compared, and a window of which only the first places are asked for
holds only those. Columns that settle what an order leaves open are looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from stillframe.algebra.plan import (
    Aggregate,
    Filter,
    Join,
    Negate,
    Output,
    Plan,
    Project,
    Semi,
    Times,
    UnionAll,
    Window,
    walk,
)
from stillframe.algebra.scalar import Call, Literal, Ref, Scalar, conjuncts, map_refs, refs

Places = Mapping[int, int]


def narrow(plan: Plan) -> Plan:
    """The same rows and columns, from narrower inputs."""
    if not any(isinstance(node, Aggregate | Semi | Window) for node in walk(plan)):
        return plan
    narrowed, places = _narrow(plan, frozenset(range(len(plan.schema))))
    return _shown(narrowed, plan, places)


def _shown(narrowed: Plan, like: Plan, places: Places) -> Plan:
    """The columns of `like`, in its order."""
    if all(places.get(i) == i for i in range(len(like.schema))) and len(narrowed.schema) == len(like.schema):
        return narrowed
    columns = enumerate(like.schema)
    return Project(narrowed, tuple(Output(c.name, Ref(places[i], c.type, c.name)) for i, c in columns))


def _moved(scalar: Scalar, places: Places) -> Scalar:
    return map_refs(scalar, lambda ref: replace(ref, position=places[ref.position]))


def _exactly(plan: Plan, places: Places, wanted: Iterable[int]) -> tuple[Plan, Places]:
    """Some columns and no others."""
    order = sorted(wanted)
    if [places[i] for i in order] == list(range(len(plan.schema))):
        return plan, {old: i for i, old in enumerate(order)}
    columns = (plan.schema[places[i]] for i in order)
    outputs = tuple(
        Output(c.name, Ref(places[i], c.type, c.name)) for i, c in zip(order, columns, strict=True)
    )
    return Project(plan, outputs), {old: i for i, old in enumerate(order)}


def _narrow(plan: Plan, wanted: frozenset[int]) -> tuple[Plan, Places]:
    """A plan with at least the wanted columns, and where they stand in it."""
    match plan:
        case Filter(source, predicate):
            kept, places = _narrow(_first_of(source, (predicate,), 0), wanted | refs(predicate))
            return Filter(kept, _moved(predicate, places)), places
        case Project(source, outputs):
            order = sorted(wanted) or [0]
            below, places = _narrow(source, frozenset().union(*(refs(outputs[i].scalar) for i in order)))
            chosen = (outputs[i] for i in order)
            moved = tuple(Output(output.name, _moved(output.scalar, places)) for output in chosen)
            return Project(below, moved), {old: i for i, old in enumerate(order)}
        case Join(sources, conditions):
            return _narrow_join(plan, sources, conditions, wanted)
        case UnionAll(sources):
            order = sorted(wanted) or [0]
            branches = tuple(_exactly(*_narrow(s, frozenset(order)), order)[0] for s in sources)
            return UnionAll(branches), {old: i for i, old in enumerate(order)}
        case Negate(source):
            below, places = _narrow(source, wanted)
            return Negate(below), places
        case Times(source, count):
            below, places = _narrow(source, wanted | refs(count))
            return Times(below, _moved(count, places)), places
        case Aggregate():
            return _narrow_groups(plan, wanted)
        case Semi(left, right, conditions, anti):
            return _narrow_semi(left, right, conditions, anti, wanted)
        case Window():
            return _narrow_window(plan, wanted)
    return plan, {i: i for i in range(len(plan.schema))}


def _narrow_join(
    plan: Join, sources: tuple[Plan, ...], conditions: tuple[Scalar, ...], wanted: frozenset[int]
) -> tuple[Plan, Places]:
    needed = wanted.union(*(refs(condition) for condition in conditions))
    inputs: list[Plan] = []
    places: dict[int, int] = {}
    width = 0
    for source, offset in zip(sources, plan.offsets, strict=True):
        own = frozenset(p - offset for p in needed if 0 <= p - offset < len(source.schema))
        below, found = _narrow(_first_of(source, conditions, offset), own)
        places |= {offset + old: width + new for old, new in found.items()}
        inputs.append(below)
        width += len(below.schema)
    return Join(tuple(inputs), tuple(_moved(condition, places) for condition in conditions)), places


def _narrow_groups(plan: Aggregate, wanted: frozenset[int]) -> tuple[Plan, Places]:
    first = len(plan.keys)
    kept = [i for i in range(len(plan.measures)) if first + i in wanted]
    if not first and not kept:
        kept = [0]
    chosen = replace(plan, measures=tuple(plan.measures[i] for i in kept))
    below, places = _narrow(plan.input, frozenset().union(*(refs(scalar) for scalar in chosen.read)))
    keys = tuple(Output(key.name, _moved(key.scalar, places)) for key in plan.keys)
    measures = tuple(
        replace(m, arg=None if m.arg is None else _moved(m.arg, places)) for m in chosen.measures
    )
    where = {i: i for i in range(first)} | {first + old: first + new for new, old in enumerate(kept)}
    return Aggregate(below, keys, measures), where


def _narrow_semi(
    left: Plan, right: Plan, conditions: tuple[Scalar, ...], anti: bool, wanted: frozenset[int]
) -> tuple[Plan, Places]:
    width, asked = len(left.schema), frozenset[int]().union(*(refs(condition) for condition in conditions))
    mine = wanted | {p for p in asked if p < width} or frozenset({0})
    here, places = _exactly(*_narrow(left, mine), mine)
    met = frozenset(p - width for p in asked if p >= width)
    if isinstance(right, Aggregate):  # whole, it may be kept for others already
        met = frozenset(range(len(right.schema)))
    there, found = _narrow(right, met)
    both = dict(places) | {width + old: len(here.schema) + new for old, new in found.items()}
    return Semi(here, there, tuple(_moved(condition, both) for condition in conditions), anti), places


def _narrow_window(plan: Window, wanted: frozenset[int]) -> tuple[Plan, Places]:
    width = len(plan.input.schema)
    kept = [i for i in range(len(plan.functions)) if width + i in wanted]
    chosen = replace(plan, functions=tuple(plan.functions[i] for i in kept))
    if not kept and plan.keep is None:
        return _narrow(plan.input, wanted)
    read = frozenset().union(*(refs(scalar) for scalar in chosen.read))
    settling = frozenset(range(chosen.settled_by))
    mine = frozenset(p for p in wanted if p < width) | read | settling or frozenset({0})
    below, places = _exactly(*_narrow(plan.input, mine), mine)
    narrowed = Window(
        below,
        tuple(_moved(scalar, places) for scalar in plan.partition),
        tuple(replace(key, scalar=_moved(key.scalar, places)) for key in plan.order),
        tuple(replace(f, args=tuple(_moved(arg, places) for arg in f.args)) for f in chosen.functions),
        plan.keep,
    )
    added = {width + old: len(below.schema) + new for new, old in enumerate(kept)}
    return narrowed, dict(places) | added


def _first_of(plan: Plan, conditions: Iterable[Scalar], offset: int) -> Plan:
    """A window under conditions that only the first places of its partitions can meet."""
    if isinstance(plan, Filter):
        return replace(plan, input=_first_of(plan.input, conditions, offset))
    if not isinstance(plan, Window):
        return plan
    width = len(plan.input.schema)
    numbers = {offset + width + i for i, f in enumerate(plan.functions) if f.function == "row_number"}
    keep = plan.keep
    for condition in (part for each in conditions for part in conjuncts(each)):
        bound = _bound(condition, numbers)
        if bound is not None:
            keep = max(bound if keep is None else min(keep, bound), 0)
    return replace(plan, keep=keep)


def _bound(condition: Scalar, numbers: set[int]) -> int | None:
    """The last place of which a condition can be true."""
    match condition:
        case Call(word, (Ref(position), Literal(int(value)))) if position in numbers:
            return {"=": value, "<=": value, "<": value - 1}.get(word)
        case Call(word, (Literal(int(value)), Ref(position))) if position in numbers:
            return {"=": value, ">=": value, ">": value - 1}.get(word)
    return None
