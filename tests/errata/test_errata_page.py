"""Every entry of docs/errata.md is run: the printed algorithm falls as low as the page says, ours reaches
what it claims, and the schedule on the page replays to the views on the page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from failing_readings import READINGS

from stillframe.algebra import Bag
from stillframe.consistency import Level
from stillframe.protocol import PUBLISHED, registry
from stillframe.simulator import Scenario, read
from stillframe.simulator.explore import walk
from stillframe.simulator.outcome import simulate, simulation_of
from stillframe.simulator.settings import claim

PAGE = Path(__file__).parents[2] / "docs" / "errata.md"
_CASE = re.compile(
    r"`([^`]+)` reaches \*\*(\w+)\*\*, `([^`]+)` reaches \*\*(\w+)\*\*\.\s+"
    r"```text\n(.*?)\n```\s+Readers see ([^\n]*)\.",
    re.DOTALL,
)


@dataclass(frozen=True)
class Case:
    title: str
    scenario: Scenario
    published: str
    level: str
    ours: str
    our_level: str
    schedule: tuple[str, ...]
    views: str

    def __str__(self) -> str:
        return f"{self.title.partition('.')[0]} {self.published}"


def cases() -> Iterator[Case]:
    for section in PAGE.read_text().split("\n## ")[1:]:
        scenario = re.search(r"```yaml\n(.*?)```", section, re.DOTALL)
        for published, level, ours, our_level, schedule, views in _CASE.findall(section):
            assert scenario is not None
            title, steps = section.partition("\n")[0], tuple(schedule.splitlines())
            made = read(scenario.group(1), "errata")
            yield Case(title, made, published, level, ours, our_level, steps, views)


CASES = list(cases())


@pytest.fixture(autouse=True)
def readings(monkeypatch: pytest.MonkeyPatch) -> None:
    for reading in READINGS:
        monkeypatch.setitem(registry.PUBLISHED, reading.name, reading)  # type: ignore[arg-type]


def rows(bag: Bag) -> str:
    shown = [str(list(row)) + ("" if count == 1 else f" × {count}") for row, count in sorted(bag.items())]
    return f"[{', '.join(shown)}]"


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_printed_one_falls(case: Case) -> None:
    assert simulate(case.scenario, case.published).level == case.level


@pytest.mark.parametrize("case", CASES, ids=str)
def test_ours_holds(case: Case) -> None:
    found = simulate(case.scenario, case.ours).level
    assert found == case.our_level
    promised = claim(simulation_of(case.scenario, case.ours).protocol, case.scenario)
    assert found >= Level(promised)
    assert found > case.level


@pytest.mark.parametrize("case", CASES, ids=str)
def test_the_schedule_replays(case: Case) -> None:
    simulation = simulation_of(case.scenario, case.published)
    steps = iter(case.schedule)

    def choose(labels: list[str]) -> int | None:
        step: Any = next(steps, None)
        assert step is not None, f"the schedule ends where there is still {labels}"
        return labels.index(step)

    run = walk(simulation, choose)
    assert " → ".join(rows(simulation.bags[bag]) for bag in run.views) == case.views
    assert simulation.judge.judge(run.views).level == case.level


def test_the_page_has_every_printed_algorithm_and_every_reading() -> None:
    shown = {case.published for case in CASES}
    printed = {name for name in PUBLISHED if name.endswith("-published")}
    told = PAGE.read_text()
    # c-strobe-published is the text with all its readings at once, which are shown one by one; what
    # t-strobe-published does wrong takes a batch (test_batches).
    assert printed - shown == {"c-strobe-published", "t-strobe-published"}
    assert {reading.name for reading in READINGS} <= shown
    assert all(f"## {number}." in told for number in range(1, 23))
