"""Which level each class of view reaches over several sessions, with signatures and with counters, by
exploring every schedule of small worlds: a load and up to three sessions, one of which dies.

Counters are explored for every class, also for those that they are not offered for, and fail there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

from stillframe.records.view import Served
from stillframe.simulator.record_cases import case
from stillframe.simulator.record_levels import VARIANTS, Finding, Variant, drawn_scenario, lowest
from stillframe.simulator.record_sessions import Sessions, SessionSimulation
from stillframe.simulator.scenario import ONLY_VIEW, Scenario

MOST = 5_000  # worlds of one simulation; larger ones are left out
OURS = tuple(variant for variant in VARIANTS if variant.printed is None)

_CASES = {
    "union": ("comes and goes, UNION",),
    "intersection": ("comes and goes, INTERSECT", "looked at twice, INTERSECT"),
    "difference": ("comes and goes, EXCEPT", "looked at twice, EXCEPT"),
}


def way_of(variant: Variant, scenario: Scenario, *, signed: bool) -> Served:
    found = variant.served(scenario)
    view: Any = found.view
    return replace(found, view=replace(view, signed=signed))


def offered(variant: Variant) -> bool:
    """Whether a user may ask for counters."""
    cases = _CASES.get(variant.view, variant.cases) or ("a row that comes and goes",)
    scenario = replace(case(cases[0]), views=((ONLY_VIEW, variant.text),))
    return variant.served(scenario).view.idempotent


def session_worlds(
    variant: Variant, seed: int, number: int, *, signed: bool, deaths: int = 1
) -> Iterator[SessionSimulation]:
    """Those with a point, and so many that are drawn."""
    for name in _CASES.get(variant.view, variant.cases):
        scenario = replace(case(name), views=((ONLY_VIEW, variant.text),))
        way = way_of(variant, scenario, signed=signed)
        yield SessionSimulation(scenario, scenario.plan(), way, Sessions(deaths=deaths))
    random = Random(f"{variant.view}/{variant.variant}/{seed}")
    while number:
        drawn = drawn_scenario(variant, random)
        if drawn is None:
            continue
        number -= 1
        plan, way = drawn.plan(), way_of(variant, drawn, signed=signed)
        for combine in (False, True):
            yield SessionSimulation(drawn, plan, way, Sessions(combine=combine, deaths=deaths))
        records = len({(u.relation, u.row[0]) for t in drawn.transactions for u in t.updates})
        yield SessionSimulation(drawn, plan, way, Sessions((tuple(range(records)),), deaths=deaths))


def session_level(
    variant: Variant, seed: int, number: int, *, signed: bool = True, deaths: int = 1, most: int = MOST
) -> Finding:
    return lowest(variant, session_worlds(variant, seed, number, signed=signed, deaths=deaths), most=most)


def row(variant: Variant, seed: int, number: int) -> str:
    """What a variant reaches, as a page shows it."""
    with_signatures = session_level(variant, seed, number).level
    with_counters = session_level(variant, seed, number, signed=False).level
    said = with_counters if offered(variant) else f"{with_counters}; refused"
    return f"| {variant.view} | {variant.variant} | {with_signatures} | {said} |"


def table(seed: int, number: int) -> str:
    lines = ["| view | kept | with signatures | with counters |", "| --- | --- | --- | --- |"]
    return "\n".join([*lines, *(row(variant, seed, number) for variant in OURS)])


if __name__ == "__main__":
    print(table(seed=1, number=3))
