"""A plan read at one moment of a session: every relation before it, or every relation after it."""

from __future__ import annotations

from dataclasses import replace

from stillframe.algebra import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    KeyDelete,
    Moment,
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


def at(plan: Plan, moment: Moment, changed: frozenset[str]) -> Plan:
    """A relation that did not change is the same before and after; it is always read as after, so that
    two terms which read it share one read."""
    match plan:
        case Scan():
            return replace(plan, at=moment if plan.relation in changed else Moment.AFTER)
        case Filter(source, predicate):
            return Filter(at(source, moment, changed), predicate)
        case Project(source, outputs):
            return Project(at(source, moment, changed), outputs)
        case Join(sources, conditions):
            return Join(tuple(at(source, moment, changed) for source in sources), conditions)
        case UnionAll(sources):
            return UnionAll(tuple(at(source, moment, changed) for source in sources))
        case Negate(source):
            return Negate(at(source, moment, changed))
        case KeyDelete(source, rows, on):
            return KeyDelete(at(source, moment, changed), at(rows, moment, changed), on)
        case Distinct(source):
            return Distinct(at(source, moment, changed))
        case Times(source, count):
            return Times(at(source, moment, changed), count)
        case Semi(left, right, conditions, anti):
            return Semi(at(left, moment, changed), at(right, moment, changed), conditions, anti)
        case Window(source):
            return replace(plan, input=at(source, moment, changed))
        case Aggregate(source, keys, measures):
            return Aggregate(at(source, moment, changed), keys, measures)
        case Monus(left, right):
            return Monus(at(left, moment, changed), at(right, moment, changed))
        case Values():
            return plan
    raise AssertionError(f"no such node: {type(plan).__name__}")
