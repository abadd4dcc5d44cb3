"""The table of levels: what each class of view reaches, found by exploring small worlds of records."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from stillframe.consistency import Level
from stillframe.records.aggregates import Aggregates
from stillframe.records.classes import served
from stillframe.records.joined import Joined
from stillframe.records.program import Done
from stillframe.records.sets import Looked
from stillframe.simulator.record_cases import case
from stillframe.simulator.record_levels import VARIANTS, Variant, judged, level_of
from stillframe.simulator.record_world import Managing, RecordSimulation

PAGE = Path(__file__).parents[2] / "docs" / "records.md"
WORLDS = 60 if os.environ.get("STILLFRAME_LONG") else 3
SEED = int(os.environ.get("STILLFRAME_SEED", "1"))

OURS = [variant for variant in VARIANTS if variant.printed is None]


def _name(variant: Variant) -> str:
    return f"{variant.view}, {variant.variant}"


@pytest.mark.parametrize("variant", OURS, ids=_name)
def test_ours_reaches_its_claim(variant: Variant) -> None:
    found = level_of(variant, SEED, WORLDS)
    shown = found.worst.schedule if found.worst else ()
    assert found.level >= Level(variant.level), f"seed {SEED}: {found.scenario}\n" + "\n".join(shown)


def test_the_page_has_what_exploration_finds() -> None:
    """Levels that the worlds with a point show; drawn worlds can only lower them."""
    page = PAGE.read_text(encoding="utf-8")
    for variant in VARIANTS:
        found = level_of(variant, 1, 0 if variant.cases else 1).level
        row = f"| {variant.view} | {variant.variant} | {variant.paper or '-'} | {found} |"
        assert row in page, f"{row}: run python -m stillframe.simulator.record_levels"


# A bug in a program is found by the worlds that a run draws or has by name.


def level(name: str, view: object, wanted: str = "strong", **managing: object) -> Level:
    scenario = case(name)
    way = replace(served(scenario.plan(), wanted), view=view)  # type: ignore[arg-type]
    return judged(RecordSimulation(scenario, scenario.plan(), way, Managing(**managing))).level  # type: ignore[arg-type]


@dataclass(frozen=True)
class Forgetful(Aggregates):
    """Adds what leaves twice."""

    def fold(self, data, touch):  # type: ignore[no-untyped-def]
        return super().fold(super().fold(data, touch), touch._replace(came=None))


@dataclass(frozen=True)
class Stale(Joined):
    """Does not look at the partner again."""

    def program(self, key, touches):  # type: ignore[no-untyped-def]
        return _Once(super().program(key, touches))


@dataclass(frozen=True)
class _Once:
    program: object

    @property
    def request(self):  # type: ignore[no-untyped-def]
        return self.program.request

    def advance(self, answer):  # type: ignore[no-untyped-def]
        found = self.program.advance(answer)
        done = isinstance(found, Done) or type(found).__name__ == "Looking"
        return (found if isinstance(found, Done) else Done()) if done else _Once(found)


@dataclass(frozen=True)
class Eager(Looked):
    """Takes the base's word for both sides."""

    def answered(self, data, touches, answer):  # type: ignore[no-untyped-def]
        return (1, 1)


def test_planted_bugs_are_found() -> None:
    sums = served(case("example 1").plan()).view
    assert isinstance(sums, Aggregates)
    assert level("example 1", Forgetful(sums.measures)) is Level.NONE
    assert level("section 2.2", Stale()) is Level.NONE
    assert level("looked at twice, INTERSECT", Eager("intersect"), "weak") is Level.NONE
