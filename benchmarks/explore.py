"""How fast schedules are explored: worlds and schedules per second, beside walking them one by one.

Every algorithm that applies, on a world of three sources and three updates, exhaustively; then the same with
the updates in any order. `gain` is the number of schedules judged per second by exploring equal worlds once,
over the number walked per second one by one, in the same run. The battery of the tests is timed as a whole.

    python -m benchmarks.explore            # writes benchmarks/results/explore.json and a profile beside it
"""

from __future__ import annotations

import argparse
import cProfile
import io
import json
import platform
import pstats
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from stillframe.protocol import ALGORITHMS
from stillframe.simulator import Scenario, is_sampled, scenarios
from stillframe.simulator.explore import sample
from stillframe.simulator.outcome import simulate, simulation_of
from stillframe.simulator.telling import telling_scenarios

RESULTS = Path(__file__).parent / "results"
WALKS = 200


def three_sources() -> Scenario:
    return next(s for s in telling_scenarios() if s.name == "three sources, three updates")


def measure(scenario: Scenario, algorithm: str) -> dict[str, Any] | None:
    began = time.perf_counter()
    outcome = simulate(scenario, algorithm)
    seconds = time.perf_counter() - began
    if outcome.verdict is None:
        return None
    simulation = simulation_of(scenario, algorithm)
    began = time.perf_counter()
    for run in sample(simulation, WALKS, 0):
        simulation.judge.judge(run.views)
    walked = WALKS / (time.perf_counter() - began)
    return {
        "scenario": f"{scenario.name}, order {scenario.order}",
        "algorithm": algorithm,
        "level": str(outcome.level),
        "worlds": outcome.worlds,
        "schedules": outcome.schedules,
        "seconds": round(seconds, 3),
        "worlds_per_second": round(outcome.worlds / seconds),
        "schedules_per_second": round(outcome.schedules / seconds),
        "gain": round(outcome.schedules / seconds / walked, 1),
    }


def battery(count: int) -> dict[str, Any]:
    worlds = schedules = 0
    began = time.perf_counter()
    for scenario in scenarios(20, count):
        if is_sampled(scenario):
            continue
        for algorithm in ALGORITHMS:
            outcome = simulate(scenario, algorithm)
            worlds, schedules = worlds + outcome.worlds, schedules + outcome.schedules
    seconds = time.perf_counter() - began
    return {
        "scenarios": count,
        "worlds": worlds,
        "schedules": schedules,
        "seconds": round(seconds, 1),
        "worlds_per_second": round(worlds / seconds),
    }


def profile(scenario: Scenario, algorithm: str) -> str:
    profiler = cProfile.Profile()
    profiler.runcall(simulate, scenario, algorithm)
    text = io.StringIO()
    pstats.Stats(profiler, stream=text).strip_dirs().sort_stats("tottime").print_stats(20)
    return text.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--battery", type=int, default=60, help="scenarios of the battery to time (60)")
    options = parser.parse_args()
    worlds = [three_sources(), replace(three_sources(), order="any")]
    measured = [found for s in worlds for name in ALGORITHMS if (found := measure(s, name))]
    for found in measured:
        print(
            f"{found['scenario']:45} {found['algorithm']:11} {found['seconds']:7.2f} s "
            f"{found['worlds']:8} worlds {found['schedules']:18} schedules, gain {found['gain']:.3g}"
        )
    whole = battery(options.battery)
    print(f"battery of {whole['scenarios']}: {whole['seconds']} s, {whole['worlds_per_second']} worlds/s")
    document = {"python": platform.python_version(), "explored": measured, "battery": whole}
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "explore.json").write_text(json.dumps(document, indent=2) + "\n")
    (RESULTS / "explore-profile.txt").write_text(profile(worlds[1], "strobe"))


if __name__ == "__main__":
    main()
