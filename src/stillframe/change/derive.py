"""From a view's plan to the plan of its change: one rule for each node."""

from __future__ import annotations

from functools import partial

from stillframe.algebra import Filter, Join, Moment, Negate, Plan, Project, Scan, Times, UnionAll, Values
from stillframe.change.linear import through, total
from stillframe.change.product import Order, in_order_written, join_change


def change_of(plan: Plan, changed: frozenset[str], order: Order = in_order_written) -> Plan | None:
    """The signed bag by which the plan's value grows from before the session to after it, where only the
    relations in `changed` changed. None means: it does not change."""
    rule = partial(change_of, changed=changed, order=order)
    match plan:
        case Scan(relation, schema):
            return Scan(relation, schema, Moment.CHANGE) if relation in changed else None
        case Values():
            return None
        case Filter(source, predicate):
            return through(lambda term: Filter(term, predicate), rule(source))
        case Project(source, outputs):
            return through(lambda term: Project(term, outputs), rule(source))
        case Negate(source):
            return through(Negate, rule(source))
        case Times(source, count):
            return through(lambda term: Times(term, count), rule(source))
        case UnionAll(sources):
            return total(rule(source) for source in sources)
        case Join():
            return join_change(plan, changed, rule, order)
    raise AssertionError(f"no change rule for {type(plan).__name__}")
