"""How the tests of each source run the conformance checks."""

from __future__ import annotations

import pytest

from stillframe.sources.conformance import ALL_CHECKS, Check, Maker, Verdict, perform


def checks_but(not_offered: frozenset[str], briefly: frozenset[str] | None = None) -> list[object]:
    """Every check a source is held to; the longer campaigns marked so, and with them all that are not among
    those to be run `briefly`, of a source that differs from another in little."""
    offered = [check for check in ALL_CHECKS if check.name not in not_offered]
    assert briefly is None or briefly <= {check.name for check in offered}, "there are no such checks"
    long = [check for check in offered if check.long or (briefly is not None and check.name not in briefly)]
    held = [check for check in offered if check not in long]
    return [
        *(pytest.param(check, id=check.name) for check in held),
        *(pytest.param(check, id=check.name, marks=pytest.mark.long) for check in long),
    ]


def not_offered(make: Maker) -> frozenset[str]:
    with make() as world:
        return frozenset(check.name for check in ALL_CHECKS if not check.applies(world))


def must_keep(check: Check, make: Maker) -> None:
    outcome = perform(check, make)
    print(f"{outcome.seconds:.2f} s")
    assert outcome.verdict is Verdict.KEPT, f"{outcome.verdict}: {outcome.message}\n{outcome.where}"
