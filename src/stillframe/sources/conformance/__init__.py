"""Checks that any `Source` must pass, for whoever writes one.

`run(make)` makes a `World` for each check (an empty database with the source under test on it) and says which
promises of `Source` are kept, which are broken and how, and which the world does not offer.
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
