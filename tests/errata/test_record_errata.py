"""Every entry of docs/errata.md about records is run: the printed program falls as low as the page says, ours
reaches what the page says, and the schedule on the page replays to the records on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from stillframe.consistency import Level
from stillframe.records.classes import served
from stillframe.simulator import Scenario, read
from stillframe.simulator.printed_records import (
    PrintedCount,
    PrintedJoin,
    PrintedKeyed,
    PrintedMin,
    PrintedSum,
)
from stillframe.simulator.record_levels import judged
from stillframe.simulator.record_world import Managing, RecordSimulation

PAGE = Path(__file__).parents[2] / "docs" / "errata.md"
PRINTED = {
    "COUNT": PrintedCount(),
    "SUM": PrintedSum(),
    "MIN": PrintedMin(),
    "selection": PrintedKeyed(),
    "join": PrintedJoin(),
}
_CASE = re.compile(
    r"```yaml\n(?P<scenario>.*?)```\s+(?P<crash>With one crash, the|The) printed program of (?P<name>\w+)"
    r" reaches \*\*(?P<level>\w+)\*\*; ours \((?P<claim>\w+)\) reaches \*\*(?P<ours>\w+)\*\*\.\s+"
    r"```text\n(?P<schedule>.*?)\n```\s+Records go (?P<records>[^\n]*)\.",
    re.DOTALL,
)


@dataclass(frozen=True)
class Case:
    title: str
    scenario: Scenario
    found: re.Match[str]

    def __str__(self) -> str:
        return self.title

    def simulation(self, printed: bool) -> RecordSimulation:
        way = served(self.scenario.plan(), self.found["claim"])
        if printed:
            way = replace(way, view=PRINTED[self.found["name"]])
        crashes = int(self.found["crash"].startswith("With"))
        return RecordSimulation(self.scenario, self.scenario.plan(), way, Managing(crashes=crashes))


def cases() -> Iterator[Case]:
    for section in PAGE.read_text(encoding="utf-8").split("\n## ")[1:]:
        if found := _CASE.search(section):
            yield Case(section.partition("\n")[0], read(found["scenario"]), found)


CASES = list(cases())


def test_the_page_has_them_all() -> None:
    assert {case.found["name"] for case in CASES} == PRINTED.keys()
    assert len(CASES) == 7


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_printed_program_falls(case: Case) -> None:
    assert judged(case.simulation(printed=True)).level == case.found["level"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ours_holds(case: Case) -> None:
    found = judged(case.simulation(printed=False)).level
    assert found == case.found["ours"]
    assert found >= Level(case.found["claim"])
    assert found > case.found["level"]


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_schedule_replays(case: Case) -> None:
    simulation = case.simulation(printed=True)
    world = simulation.start()
    for step in case.found["schedule"].splitlines():
        steps = {found.label: found.world for found in simulation.steps(world)}
        assert step in steps, f"there are: {list(steps)}"
        world = steps[step]
    assert not [s for s in simulation.steps(world) if "dies" not in s.label]
    told = "; ".join(f"{list(key.values)}: {_told(history)}" for key, history in world.shown)
    assert told == case.found["records"]
    assert simulation.verdict(world).level == case.found["level"]


def _told(history: tuple[Any, ...]) -> str:
    return " → ".join("nothing" if row is None else str(list(row)) for row in history)
