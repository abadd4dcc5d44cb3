"""Linear operators pass changes through.

Law: for f in {filter, project, negate, times}, f(x + dx) = f(x) + f(dx), so the change of f is f of the
change. UNION ALL is addition itself: its change is the sum of its inputs' changes. Since f is linear, it is
applied to each term of a sum on its own: a change is always a flat sum of terms.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from stillframe.algebra import Plan, UnionAll


def through(operator: Callable[[Plan], Plan], change: Plan | None) -> Plan | None:
    if change is None:
        return None
    return total(operator(term) for term in terms(change))


def total(changes: Iterable[Plan | None]) -> Plan | None:
    """The sum of changes; None is the empty one."""
    parts = tuple(term for change in changes if change is not None for term in terms(change))
    if not parts:
        return None
    return parts[0] if len(parts) == 1 else UnionAll(parts)


def terms(change: Plan | None) -> tuple[Plan, ...]:
    if change is None:
        return ()
    return change.inputs if isinstance(change, UnionAll) else (change,)
