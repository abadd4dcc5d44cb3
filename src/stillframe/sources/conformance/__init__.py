"""Checks that any `Source` must pass, for whoever writes one.

    class MyWorld(World):                        # one empty database, and how to write to it
        offers = frozenset({Feature.TRANSACTIONS, …})
        def source(self, capture_limit=None): return MySource(…)
        def writer(self): return MyWriter(…)     # a connection of an ordinary program

    report = run(make)                           # make() opens a world and closes it again
    assert not report.broken, str(report)
    assert set(report.not_offered) == {…}        # pin it, so that nothing is skipped unseen

Each check is a promise of `Source` under its own name, and gets a world of its own. The truth comes from
plain SELECTs at quiet moments and, while many write, from a journal that the writers keep in the same
commits; the source is never asked for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from stillframe.sources.conformance import (
    attaching,
    concurrent,
    consumers,
    evolving,
    extremes,
    gaps,
    neighbours,
    reading,
    statements,
    transactions,
    values,
)
from stillframe.sources.conformance.suite import Check, Maker, Outcome, Report, Verdict, perform
from stillframe.sources.conformance.world import (
    INTEGER,
    TEXT,
    Conflict,
    Feature,
    Refused,
    Table,
    TypeCase,
    World,
    Writer,
)

MODULES = (
    statements,
    extremes,
    values,
    reading,
    transactions,
    concurrent,
    consumers,
    attaching,
    gaps,
    evolving,
    neighbours,
)
ALL_CHECKS: tuple[Check, ...] = tuple(check for module in MODULES for check in module.CHECKS)
CHECKS: tuple[Check, ...] = tuple(check for check in ALL_CHECKS if not check.long)
LONG_CHECKS: tuple[Check, ...] = tuple(check for check in ALL_CHECKS if check.long)


def run(make: Maker, checks: Sequence[Check] = CHECKS) -> Report:
    """Every check, each in a world of its own."""
    return Report(tuple(perform(check, make) for check in checks))


__all__ = [
    "ALL_CHECKS",
    "CHECKS",
    "INTEGER",
    "LONG_CHECKS",
    "TEXT",
    "Check",
    "Conflict",
    "Feature",
    "Maker",
    "Outcome",
    "Refused",
    "Report",
    "Table",
    "TypeCase",
    "Verdict",
    "World",
    "Writer",
    "perform",
    "run",
]
