"""A view as a chain of parts.

Every operator that is maintained key-wise becomes a part: a view of its own that nobody sees, whose rows are
kept so that the next change can be told from them. What stands above it reads the part like any other view,
so each plan that remains is either linear and joins, or one key-wise operator over such a plan.
"""

from __future__ import annotations

from stillframe.algebra import Aggregate, Filter, Join, Negate, Plan, Project, Scan, UnionAll, normalize


def split(plan: Plan, name: str) -> tuple[dict[str, Plan], Plan]:
    """The parts by name, each after those it reads, and what is left of the plan."""
    parts: dict[str, Plan] = {}
    return parts, normalize(_left(plan, name, parts))


def _left(plan: Plan, name: str, parts: dict[str, Plan]) -> Plan:
    match plan:
        case Aggregate(source, keys, measures):
            part = Aggregate(normalize(_left(source, name, parts)), keys, measures)
            known = next((known for known, other in parts.items() if other == part), None)
            called = known or f"{name}~{len(parts) + 1}"
            parts[called] = part
            return Scan(called, part.schema)
        case Filter(source, predicate):
            return Filter(_left(source, name, parts), predicate)
        case Project(source, outputs):
            return Project(_left(source, name, parts), outputs)
        case Join(sources, conditions):
            return Join(tuple(_left(source, name, parts) for source in sources), conditions)
        case UnionAll(sources):
            return UnionAll(tuple(_left(source, name, parts) for source in sources))
        case Negate(source):
            return Negate(_left(source, name, parts))
    return plan
