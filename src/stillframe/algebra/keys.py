"""Which columns identify a row of a join or a projection.

Law: in a join, the key of an input determines that input's columns, and a condition a = b makes a and b
determine each other. A set of columns whose closure under these is everything is a key of the join.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import islice, product
from typing import TYPE_CHECKING

from stillframe.algebra.scalar import Call, Ref, Scalar

if TYPE_CHECKING:
    from stillframe.algebra.plan import Join, Plan

Keys = frozenset[frozenset[int]]
Determines = tuple[frozenset[int], frozenset[int]]


# A wide join of relations with many keys has keys beyond counting; a few serve as well.
MOST_KEYS = 64


def keys_of_join(join: Join) -> Keys:
    """The minimal keys, if every input has one."""
    if not all(plan.schema.keys for plan in join.inputs):
        return frozenset()
    return _minimal_keys(sum(len(plan.schema) for plan in join.inputs), _dependencies(join))


def keys_of_projection(plan: Plan, kept: Mapping[int, Sequence[int]]) -> Keys:
    """Keys in the projection's own positions; `kept` maps each input position that survives to where it
    stands now, several places if it was selected more than once."""
    if not plan.schema.keys:
        return frozenset()
    dependencies, everything = _dependencies(plan), frozenset(range(len(plan.schema)))
    found = {key for key in _minimal_keys(len(plan.schema), dependencies) if key <= kept.keys()}
    if not found and _closure(kept, dependencies) == everything:
        found = {_minimal(frozenset(kept), everything, dependencies)}
    renamed = (frozenset(places) for key in found for places in product(*(kept[p] for p in sorted(key))))
    return frozenset(islice(renamed, MOST_KEYS))


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


def _minimal_keys(width: int, dependencies: list[Determines]) -> Keys:
    """Law (Lucchesi and Osborn, 1978): every minimal key is reached from any other by trading, for some
    dependency, the columns it determines for those that determine them, and making the result minimal."""
    everything = frozenset(range(width))
    found = [_minimal(everything, everything, dependencies)]
    for key in found:
        for left, right in dependencies:
            traded = left | (key - right)
            if len(found) < MOST_KEYS and not any(known <= traded for known in found):
                found.append(_minimal(traded, everything, dependencies))
    return frozenset(found)


def _minimal(
    columns: frozenset[int], everything: frozenset[int], dependencies: list[Determines]
) -> frozenset[int]:
    for column in sorted(columns, reverse=True):
        fewer = columns - {column}
        if _closure(fewer, dependencies) == everything:
            columns = fewer
    return columns
