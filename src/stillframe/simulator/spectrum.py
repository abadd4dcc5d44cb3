"""The consistency spectrum (figure 2 of the Strobe paper), derived: for every algorithm and every setting,
the level it reaches on all schedules of a battery of scenarios, and a schedule that breaks the next level.

A level found is an upper bound: a world outside the battery may break it. Scenarios that tell algorithms
apart were added to the battery where random ones alone left an algorithm too high.

Law: a cell's level is the lowest of its scenarios', so one scenario bears it out. Its witness is that
scenario with a shortest schedule that breaks the next level; of a cell where nothing breaks, the scenario
with most schedules. The same seed and number of scenarios give the same cells, by however many processes.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from itertools import count, islice
from typing import Any

from stillframe.consistency import Level
from stillframe.protocol import ALGORITHMS, Setting
from stillframe.simulator.battery import is_sampled, scenario
from stillframe.simulator.explore import TooManyWorlds
from stillframe.simulator.outcome import (
    Counterexample,
    Outcome,
    clarified,
    rows_document,
    simulate,
    simulation_of,
)
from stillframe.simulator.scenario import Scenario
from stillframe.simulator.settings import setting_of
from stillframe.simulator.telling import telling_scenarios
from stillframe.simulator.writing import write

EACH = 12
_MOST_WORLDS = 100_000
_SAMPLED = 300
_ECA, _STROBE, _TID = "ECA paper", "Strobe paper", "multi-source paper"


@dataclass(frozen=True)
class Placement:
    """Where a paper puts an algorithm, and where it says so."""

    level: str
    where: str


def _up_to(last: Setting, level: str, where: str) -> dict[Setting, Placement]:
    """An algorithm placed in one setting keeps its level in all the easier ones (Strobe paper, section 7)."""
    every = tuple(Setting)
    return {setting: Placement(level, where) for setting in every[: every.index(last) + 1]}


PAPERS: Mapping[str, Mapping[Setting, Placement]] = {
    "basic": {
        Setting.CENTRALISED: Placement("complete", f"{_STROBE}, 7 (inferred: conventional, centralised)"),
        Setting.ONE_SOURCE: Placement("none", f"{_ECA}, 5.1"),
    },
    "rv": _up_to(Setting.ONE_SOURCE, "strong", f"{_ECA}, 6"),
    "sc": _up_to(Setting.ONE_SOURCE, "strong", f"{_ECA}, 6"),
    "eca": _up_to(Setting.ONE_SOURCE, "strong", f"{_ECA}, theorem B.1"),
    "eca-key": _up_to(Setting.ONE_SOURCE, "strong", f"{_ECA}, appendix C"),
    "eca-local": _up_to(Setting.ONE_SOURCE, "strong", f"{_ECA}, 7"),
    "lca": _up_to(Setting.ONE_SOURCE, "complete", f"{_ECA}, 5.3"),
    "strobe": {
        **_up_to(Setting.SINGLE_UPDATES, "strong", f"{_STROBE}, 5.2 and 7"),
        Setting.LOCAL_TRANSACTIONS: Placement("convergent", f"{_STROBE}, 5.3"),
    },
    "t-strobe": {
        **_up_to(Setting.LOCAL_TRANSACTIONS, "strong", f"{_STROBE}, 5.3"),
        Setting.GLOBAL_TRANSACTIONS: Placement("weak", f"{_STROBE}, 5.4"),
    },
    "g-strobe": _up_to(Setting.GLOBAL_TRANSACTIONS, "strong", f"{_STROBE}, 5.4"),
    "c-strobe": _up_to(Setting.SINGLE_UPDATES, "complete", f"{_STROBE}, 6"),
    "c-t-strobe": _up_to(Setting.LOCAL_TRANSACTIONS, "complete", f"{_STROBE}, 6"),
    "tid": _up_to(Setting.LOCAL_TRANSACTIONS, "strong", f"{_TID}, 2 and 5"),
}


@dataclass(frozen=True)
class Witness:
    """Without `example` no schedule of the scenario breaks anything."""

    scenario: Scenario
    schedules: int
    example: Counterexample | None = None


@dataclass(frozen=True)
class Cell:
    """One algorithm in one setting. Without `level` it accepts no scenario there, and `reason` says why. Of
    `scenarios`, `sampled` had too many schedules to explore them all; `schedules` are those explored."""

    algorithm: str
    setting: Setting
    level: Level | None = None
    paper: Placement | None = None
    scenarios: int = 0
    sampled: int = 0
    schedules: int = 0
    witness: Witness | None = None
    reason: str | None = None

    @property
    def compared(self) -> str | None:
        """How what was found stands to what a paper promises: equal, above or below."""
        if self.level is None or self.paper is None:
            return None
        promised = Level(self.paper.level)
        return "equal" if self.level == promised else "above" if self.level > promised else "below"


def battery(setting: Setting, seed: int, each: int) -> Iterator[Scenario]:
    """The scenarios of one setting: those that tell algorithms apart, then random ones."""
    centralised = setting is Setting.CENTRALISED
    found = [_in(setting, s) for s in telling_scenarios()]
    yield from (s for s in found if s is not None)
    drawn = (_in(setting, scenario(seed, number)) for number in count())
    usable = (s for s in drawn if s is not None and (centralised or not is_sampled(s)))
    yield from islice(usable, each)


def _in(setting: Setting, scenario: Scenario) -> Scenario | None:
    if scenario.report != "per-source":
        return None
    if setting is Setting.CENTRALISED:
        single = all(len(transaction.updates) == 1 for transaction in scenario.transactions)
        return replace(scenario, centralised=True) if single else None
    return scenario if setting_of(scenario) is setting else None


def cell(algorithm: str, setting: Setting, seed: int, each: int) -> Cell:
    """Explores one algorithm in one setting."""
    made = Cell(algorithm, setting, paper=PAPERS.get(algorithm, {}).get(setting))
    refusals = Counter[str]()
    telling: tuple[Scenario, Outcome] | None = None
    for given in battery(setting, seed, each):
        outcome = _explored(given, algorithm, seed)
        if outcome.reason is not None:
            refusals[outcome.reason.message] += 1
            continue
        made = replace(
            made,
            scenarios=made.scenarios + 1,
            sampled=made.sampled + (not outcome.exhaustive),
            schedules=made.schedules + outcome.schedules,
        )
        if telling is None or _tells_more(outcome, telling[1]):
            telling = given, outcome
    if telling is None:
        return replace(made, reason=max(refusals, key=refusals.__getitem__, default=None))
    return replace(made, level=telling[1].level, witness=_witness(*telling))


def _explored(scenario: Scenario, algorithm: str, seed: int) -> Outcome:
    try:
        return simulate(scenario, algorithm, most=_MOST_WORLDS)
    except TooManyWorlds:
        return simulate(scenario, algorithm, schedules=_SAMPLED, seed=seed)


def _tells_more(one: Outcome, other: Outcome) -> bool:
    if one.level != other.level:
        return one.level < other.level
    if one.counterexample is None or other.counterexample is None:
        return one.schedules > other.schedules
    return len(one.counterexample.schedule) < len(other.counterexample.schedule)


def _witness(scenario: Scenario, outcome: Outcome) -> Witness:
    if outcome.counterexample is None:
        return Witness(scenario, outcome.schedules)
    clear = clarified(simulation_of(scenario, outcome.algorithm), outcome)
    return Witness(scenario, outcome.schedules, clear.counterexample)


Job = tuple[str, Setting, int, int]


def spectrum(
    seed: int = 0,
    each: int = EACH,
    algorithms: Sequence[str] = tuple(ALGORITHMS),
    *,
    workers: int = 2,
    told: Callable[[Cell], None] = lambda cell: None,
) -> list[Cell]:
    """Every cell, algorithm by algorithm; `told` hears of each when it is done. Without processes of its
    own, or with one worker, all is done here."""
    jobs: list[Job] = [(algorithm, setting, seed, each) for algorithm in algorithms for setting in Setting]
    found = dict[Job, Cell]()
    for job, made in _in_processes(jobs, workers) if workers > 1 else ():
        found[job] = made
        told(made)
    for job in jobs:
        if job not in found:
            found[job] = cell(*job)
            told(found[job])
    return [found[job] for job in jobs]


def _in_processes(jobs: list[Job], workers: int) -> Iterator[tuple[Job, Cell]]:
    """The cells of other processes, as far as those can be had. The hardest settings come first."""
    hardest = sorted(jobs, key=lambda job: list(Setting).index(job[1]), reverse=True)
    try:
        with ProcessPoolExecutor(workers, initializer=_die_quietly) as pool:
            futures = {pool.submit(cell, *job): job for job in hardest}
            try:
                for future in as_completed(futures):
                    yield futures[future], future.result()
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
    except (OSError, ImportError, NotImplementedError, BrokenProcessPool):
        return


def _die_quietly() -> None:
    """Ctrl-C reaches a terminal's every process; the first one says what is to be said."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def document(cells: Sequence[Cell], seed: int = 0, each: int = EACH) -> dict[str, Any]:
    """The JSON shape. Cells that hold an algorithm are numbered from 1; so are their witnesses."""
    numbers = count(1)
    return {
        "levels": [str(level) for level in Level],
        "settings": [str(setting) for setting in Setting],
        "seed": seed,
        "scenarios": each,
        "cells": [
            _cell_document(cell, None if cell.witness is None else next(numbers), cell.witness)
            for cell in cells
        ],
    }


def _cell_document(cell: Cell, number: int | None, witness: Witness | None) -> dict[str, Any]:
    return {
        "algorithm": cell.algorithm,
        "setting": str(cell.setting),
        "applicable": cell.level is not None,
        "reason": cell.reason,
        "level": None if cell.level is None else str(cell.level),
        "paper": cell.paper and {"level": cell.paper.level, "where": cell.paper.where},
        "compared": cell.compared,
        "scenarios": cell.scenarios,
        "schedules": cell.schedules,
        "exhaustive": not cell.sampled,
        "witness": witness and {"number": number, **_witness_document(witness)},
    }


def _witness_document(witness: Witness) -> dict[str, Any]:
    example = witness.example
    return {
        "name": witness.scenario.name,
        "scenario": write(witness.scenario),
        "schedules": witness.schedules,
        "breaks": example and str(example.breaks),
        "schedule": example and list(example.schedule),
        "views": example and [rows_document(bag) for bag in example.views],
        "state": example and example.state,
        "reason": example and (example.reason or None),
    }
