"""Plans without the parts that have no rows.

Law: a join with nothing is nothing, a sum with nothing is the rest; a semi-join that meets nothing is
nothing, an anti-join everything. Only an aggregate without keys makes a row of nothing. A key that is
the same in all rows parts none of them from another.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from stillframe.algebra.plan import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    KeyDelete,
    Monus,
    Negate,
    Plan,
    Project,
    Scan,
    Semi,
    Times,
    UnionAll,
    Values,
    Window,
)
from stillframe.algebra.scalar import Ref, Scalar, map_refs, refs
from stillframe.algebra.schema import Schema


def prune(plan: Plan, is_empty: Callable[[Scan], bool]) -> Plan:
    """The same rows; scans of which `is_empty` is true are gone, and all that comes of them."""
    kept = _pruned(plan, is_empty)
    return _nothing(plan) if kept is None else kept


def _nothing(plan: Plan) -> Plan:
    return Values(Schema(plan.schema.columns), ())


def _pruned(plan: Plan, is_empty: Callable[[Scan], bool]) -> Plan | None:
    """None for nothing."""

    def of(part: Plan) -> Plan | None:
        return _pruned(part, is_empty)

    match plan:
        case Scan():
            return None if is_empty(plan) else plan
        case Values(_, rows):
            return plan if rows else None
        case Filter(source) | Project(source) | Negate(source) | Times(source) | Distinct(source):
            below = of(source)
            return None if below is None else replace(plan, input=below)
        case Window(source, partition):
            below = of(source)
            if below is None:
                return None
            parting = tuple(key for key in partition if not is_constant(key, below))
            return replace(plan, input=below, partition=parting)
        case Aggregate(source, keys):
            below = of(source)
            if below is None:
                return None if keys else replace(plan, input=_nothing(source))
            return replace(plan, input=below)
        case Join(sources, conditions):
            inputs = [below for source in sources if (below := of(source)) is not None]
            return Join(tuple(inputs), conditions) if len(inputs) == len(sources) else None
        case UnionAll(sources):
            branches = [below for source in sources if (below := of(source)) is not None]
            if not branches:
                return None
            return branches[0] if len(branches) == 1 else UnionAll(tuple(branches))
        case Semi(left, right, _, anti):
            here, there = of(left), of(right)
            if here is None or there is None:
                return here if anti else None
            return replace(plan, left=here, right=there)
        case KeyDelete(source, rows):
            kept, gone = of(source), of(rows)
            return kept if kept is None or gone is None else replace(plan, input=kept, rows=gone)
        case Monus(left, right):
            more, less = of(left), of(right)  # rows that lack in nothing are more than they
            return (
                None
                if more is None and less is None
                else Monus(more or _nothing(left), less or _nothing(right))
            )
    return plan


def is_constant(scalar: Scalar, plan: Plan) -> bool:
    """Whether a scalar over the plan's rows is known to be the same in all of them."""
    if not refs(scalar):
        return True
    match plan:
        case Project(source, outputs):
            return is_constant(map_refs(scalar, lambda ref: outputs[ref.position].scalar), source)
        case Filter(source) | Negate(source) | Times(source) | Distinct(source):
            return is_constant(scalar, source)
        case Join(sources):
            width, of = 0, dict[int, tuple[Plan, int]]()
            for source in sources:
                of |= {width + i: (source, i) for i in range(len(source.schema))}
                width += len(source.schema)
            return all(
                is_constant(Ref(of[position][1], plan.schema[position].type), of[position][0])
                for position in refs(scalar)
            )
    return False
