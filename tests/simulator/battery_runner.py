"""One scenario of a battery, through every algorithm that accepts it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import duckdb

from stillframe.algebra import Bag
from stillframe.consistency import Level
from stillframe.protocol import ALGORITHMS
from stillframe.simulator import Scenario, is_sampled, write
from stillframe.simulator.battery import scenario as drawn
from stillframe.simulator.outcome import Outcome, simulate, simulation_of
from stillframe.simulator.settings import claim

SCHEDULES = 300  # sampled where there are four transactions
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "eca+batch": {"eca": {"batch": True}},
    "eca-key+batch": {"eca-key": {"batch": True}},
    "eca-local+batch": {"eca-local": {"batch": True}},
    "lca+batch": {"lca": {"batch": True}},
    "rv+2": {"rv": {"s": 2}},
    "c-strobe+2": {"c-strobe": {"k": 2}},
    "c-t-strobe+2": {"c-t-strobe": {"k": 2}},
}


@dataclass
class Report:
    """What a part of a battery found. `broken` are claims that do not hold, ready to be read."""

    scenarios: int = 0
    ran: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    schedules: int = 0
    sampled: int = 0
    worlds: int = 0
    basic_fails: int = 0
    broken: list[str] = field(default_factory=list)

    def __iadd__(self, other: Report) -> Report:
        self.scenarios += other.scenarios
        self.ran += other.ran
        self.refused += other.refused
        self.schedules += other.schedules
        self.sampled += other.sampled
        self.worlds += other.worlds
        self.basic_fails += other.basic_fails
        self.broken += other.broken
        return self


def run_part(seed: int, numbers: range) -> Report:
    report = Report()
    for number in numbers:
        run_one(drawn(seed, number), report)
    return report


def run_one(scenario: Scenario, report: Report) -> None:
    report.scenarios += 1
    recomputed = recomputation(scenario)
    for algorithm in ALGORITHMS:
        check(scenario, algorithm, algorithm, recomputed, report)
    for variant, params in VARIANTS.items():
        check(replace(scenario, params=params), next(iter(params)), variant, recomputed, report)


def check(scenario: Scenario, algorithm: str, name: str, recomputed: Bag, report: Report) -> None:
    sampled = is_sampled(scenario)
    outcome = simulate(scenario, algorithm, schedules=SCHEDULES if sampled else None, seed=1)
    if outcome.verdict is None:
        report.refused[name] += 1
        return
    report.ran[name] += 1
    report.worlds += outcome.worlds
    if sampled:
        report.sampled += outcome.schedules
    else:
        report.schedules += outcome.schedules
    if name == "basic" and outcome.level == Level.NONE:
        report.basic_fails += 1
    promised = Level(claim(simulation_of(scenario, algorithm).protocol, scenario))
    if outcome.level < promised:
        report.broken.append(_told(scenario, name, f"claims {promised}, reaches {outcome.level}", outcome))
    if promised >= Level.CONVERGENT and outcome.finals != (recomputed,):
        report.broken.append(_told(scenario, name, f"ends in {outcome.finals}, not {recomputed}", outcome))


def recomputation(scenario: Scenario) -> Bag:
    """The user's own text over the final relations, by an engine that shares nothing with ours."""
    with duckdb.connect() as connection:
        for relation in scenario.relations:
            schema = scenario.schema(relation.name)
            columns = ", ".join(f'"{c.name}" {_type(str(c.type))}' for c in schema)
            connection.execute(f"CREATE TABLE {relation.name} ({columns})")
            for row in scenario.final()[relation.name].rows():
                marks = ", ".join("?" for _ in row)
                connection.execute(f"INSERT INTO {relation.name} VALUES ({marks})", list(row))
        return Bag.of(connection.execute(scenario.views[0][1]).fetchall())


def _type(name: str) -> str:
    return {"STRING": "VARCHAR"}.get(name, name)


def _told(scenario: Scenario, algorithm: str, what: str, outcome: Outcome) -> str:
    example = outcome.counterexample
    lines = [f"{algorithm} on {scenario.name}: {what}", write(scenario)]
    if example:
        lines += [f"breaks {example.breaks}:", *example.schedule, f"views: {example.views}"]
    return "\n".join(lines)
