"""Which columns of each relation a plan reads at all; the others never leave their source."""

from __future__ import annotations

from collections.abc import Iterable

from stillframe.algebra import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    KeyDelete,
    Monus,
    Plan,
    Project,
    Scan,
    Semi,
    Times,
    Window,
)
from stillframe.algebra.scalar import refs

Columns = dict[str, frozenset[int]]


def columns_read(plan: Plan) -> Columns:
    """Positions by relation."""
    return _read(plan, frozenset(range(len(plan.schema))))


def merged(parts: Iterable[Columns]) -> Columns:
    union: Columns = {}
    for part in parts:
        for relation, positions in part.items():
            union[relation] = union.get(relation, frozenset()) | positions
    return union


def _read(plan: Plan, wanted: frozenset[int]) -> Columns:
    """Whether a row is there at all (Distinct, Monus, the rows of KeyDelete) or where it
    stands among others (Window) is told by all its columns."""
    match plan:
        case Scan(relation):
            return {relation: wanted}
        case Filter(source, predicate):
            return _read(source, wanted | refs(predicate))
        case Project(source, outputs):
            return _read(source, frozenset().union(*(refs(outputs[i].scalar) for i in wanted)))
        case Join(sources, conditions):
            needed = wanted.union(*(refs(condition) for condition in conditions))
            return merged(
                _read(source, frozenset(p - offset for p in needed if 0 <= p - offset < len(source.schema)))
                for source, offset in zip(sources, plan.offsets, strict=True)
            )
        case KeyDelete(source, rows, on):
            return merged((_read(source, wanted | {here for here, _ in on}), columns_read(rows)))
        case Times(source, count):
            return _read(source, wanted | refs(count))
        case Aggregate(source):
            return _read(source, frozenset().union(*(refs(scalar) for scalar in plan.read)))
        case Semi(left, right, conditions):
            asked, width = wanted.union(*(refs(condition) for condition in conditions)), len(left.schema)
            there = frozenset(p - width for p in asked if p >= width)
            return merged((_read(left, frozenset(p for p in asked if p < width)), _read(right, there)))
        case Distinct() | Monus() | Window():
            return merged(columns_read(source) for source in plan.inputs)
    return merged(_read(source, wanted) for source in plan.inputs)
