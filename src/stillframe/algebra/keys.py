"""Which columns identify a row of a join or a projection.

Law: in a join, the key of an input determines that input's columns, and a condition a = b makes a and b
determine each other. A set of columns whose closure under these is everything is a key of the join.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from stillframe.algebra.scalar import Call, Ref, Scalar

if TYPE_CHECKING:
    from stillframe.algebra.plan import Join, Plan

Keys = frozenset[frozenset[int]]
Determines = tuple[frozenset[int], frozenset[int]]


def keys_of_join(join: Join) -> Keys:
    """One minimal key, if every input has one."""
    if not all(plan.schema.keys for plan in join.inputs):
        return frozenset()
    columns = frozenset(
        position + offset
        for plan, offset in zip(join.inputs, join.offsets, strict=True)
        for position in min(plan.schema.keys, key=lambda key: (len(key), sorted(key)))
    )
    everything = frozenset(range(sum(len(plan.schema) for plan in join.inputs)))
    return frozenset({_minimal(columns, everything, _dependencies(join))})


def keys_of_projection(plan: Plan, kept: Mapping[int, int]) -> Keys:
    """Keys in the projection's own positions; `kept` maps input positions that survive to new ones."""
    dependencies = _dependencies(plan)
    everything = frozenset(range(len(plan.schema)))
    if plan.schema.keys and _closure(kept, dependencies) == everything:
        return frozenset({frozenset(kept[p] for p in _minimal(frozenset(kept), everything, dependencies))})
    return frozenset()


def _dependencies(plan: Plan) -> list[Determines]:
    from stillframe.algebra.plan import Filter, Join

    found: list[Determines] = []
    while isinstance(plan, Filter):
        found += _equalities((plan.predicate,))
        plan = plan.input
    if isinstance(plan, Join):
        for child, offset in zip(plan.inputs, plan.offsets, strict=True):
            columns = frozenset(range(offset, offset + len(child.schema)))
            found += [(frozenset(p + offset for p in key), columns) for key in child.schema.keys]
        found += _equalities(plan.conditions)
    else:
        found += [(key, frozenset(range(len(plan.schema)))) for key in plan.schema.keys]
    return found


def _equalities(conditions: Iterable[Scalar]) -> list[Determines]:
    found: list[Determines] = []
    for condition in conditions:
        match condition:
            case Call("and", args):
                found += _equalities(args)
            case Call("=", (Ref(a, _, _), Ref(b, _, _))):
                found += [(frozenset({a}), frozenset({b})), (frozenset({b}), frozenset({a}))]
    return found


def _closure(columns: Iterable[int], dependencies: list[Determines]) -> frozenset[int]:
    known = frozenset(columns)
    while True:
        more = known.union(*(right for left, right in dependencies if left <= known))
        if more == known:
            return known
        known = more


def _minimal(
    columns: frozenset[int], everything: frozenset[int], dependencies: list[Determines]
) -> frozenset[int]:
    for column in sorted(columns, reverse=True):
        fewer = columns - {column}
        if _closure(fewer, dependencies) == everything:
            columns = fewer
    return columns
