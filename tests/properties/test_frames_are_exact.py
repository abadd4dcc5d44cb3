"""After every frame, every view equals, bag for bag, its own SQL text run by the engine over snapshots at the
frame's vector, the naive evaluator's answer, and DuckDB's.

STILLFRAME_SEED and STILLFRAME_CASES replay: a failure prints the seed that shows it alone with one case.
"""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from random import SystemRandom

import pytest
from property_cases import Case, shown
from property_generator import Size, random_case
from property_runner import Runner, missing_coverage, report
from property_shrink import shrunk

from stillframe.engine import Engine

pytestmark = pytest.mark.engine

# Of the cases of each campaign a quarter or more run on Apache Spark.
SHORT = {"sail": 30, "spark": 5}
LONG = {"sail": 300, "spark": 100}
SHORT_SEED = 2_000
SHRINK_SECONDS = 120.0
ENOUGH = 15  # so many cases meet everything that must be met


def test_frames_are_exact(engine: Engine, engine_name: str, tmp_path: Path) -> None:
    campaign(engine, engine_name, tmp_path, SHORT_SEED, SHORT[engine_name])


@pytest.mark.long
def test_frames_are_exact_in_a_long_campaign(engine: Engine, engine_name: str, tmp_path: Path) -> None:
    campaign(engine, engine_name, tmp_path, SystemRandom().randrange(10_000, 10**9), LONG[engine_name])


def campaign(engine: Engine, engine_name: str, folder: Path, seed: int, cases: int) -> None:
    seed = int(os.environ.get("STILLFRAME_SEED", seed))
    cases = int(os.environ.get("STILLFRAME_CASES", cases))
    print(f"seeds {seed} to {seed + cases - 1} on {engine_name}")
    coverage: Counter[str] = Counter()
    size = Size() if engine_name == "sail" else Size(sessions=(3, 4), views=(2, 3))
    for number in range(cases):
        case = random_case(seed + number, size)
        failure = attempt(case, engine, folder, coverage)
        if failure is not None:
            small = _smaller(case, failure, engine, folder)
            last = attempt(small, engine, folder, Counter()) or failure
            replay = f"STILLFRAME_SEED={case.seed} STILLFRAME_CASES=1"
            pytest.fail(f"{replay}\n{shown(small)}\n{type(last).__name__}: {last}", pytrace=False)
    print(report(coverage))
    assert cases < ENOUGH or not missing_coverage(coverage), f"never met: {missing_coverage(coverage)}"


def attempt(case: Case, engine: Engine, folder: Path, coverage: Counter[str]) -> Exception | None:
    place = folder / "case"
    shutil.rmtree(place, ignore_errors=True)
    try:
        Runner(case, engine, place, coverage).run()
    except Exception as error:
        return error
    return None


def _smaller(case: Case, failure: Exception, engine: Engine, folder: Path) -> Case:
    def fails(smaller: Case) -> bool:
        return type(attempt(smaller, engine, folder, Counter())) is type(failure)

    return shrunk(case, fails, SHRINK_SECONDS)
