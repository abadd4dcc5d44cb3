"""The random queries find what they are there to find: each planted bug within a fixed number of cases. With
STILLFRAME_LONG=1 all of them, else every fifth."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

import pytest
from planted_query_bugs import BUGS, Bug
from query_cases import QueryCase
from query_coverage import operators
from query_generator import OPERATORS, Amount, random_case
from query_runner import QueryRunner, WrongRows, only

from stillframe.engine import Engine

pytestmark = pytest.mark.engine

CASES = 20
SEEDS = range(7_000, 7_005)
LONG = os.environ.get("STILLFRAME_LONG") == "1"


@cache
def pool() -> tuple[QueryCase, ...]:
    """Views alone in their warehouses, the simplest first."""
    amount = Amount(views=len(OPERATORS), frames=3, most=3, chained=0)
    cases = [random_case(seed, amount) for seed in SEEDS]
    single = [only(case, view.name) for case in cases for view in case.views]
    return tuple(sorted(single, key=lambda case: len(case.views[0].sql)))


def fitting(bug: Bug) -> list[QueryCase]:
    return [
        case
        for case in pool()
        if operators(case.views[0].query) & set(bug.operators)
        and any(word in case.views[0].sql for word in bug.words)
    ]


def wrong_rows(case: QueryCase, engine: Engine, folder: Path) -> Exception | None:
    found = QueryRunner(case, engine, folder, frozenset(), strict=False).run()
    return next((wrong.error for wrong in found.wrong if isinstance(wrong.error, WrongRows)), None)


@pytest.mark.parametrize("bug", BUGS if LONG else BUGS[::5], ids=lambda bug: bug.name)
def test_a_planted_bug_is_caught(bug: Bug, engine: Engine, engine_name: str, tmp_path: Path) -> None:
    if engine_name != "sail":
        pytest.skip("bugs are planted above the engine: once is enough")
    for number, case in enumerate(fitting(bug)[:CASES]):
        with bug.plant():
            wrong = wrong_rows(case, engine, tmp_path / "bug")
        if wrong is not None:
            assert wrong_rows(case, engine, tmp_path / "none") is None, "wrong without the bug"
            print(f"caught by case {number} ({case.views[0].sql}): {wrong}")
            return
    pytest.fail(f"not caught in {CASES} cases: {bug.name}")
