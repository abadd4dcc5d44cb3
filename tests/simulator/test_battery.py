"""Every algorithm reaches at least the level it claims, on every schedule of every scenario it accepts, and
ends in the view recomputed by DuckDB from the user's own text."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from battery_runner import Report, run_part

SEED = int(os.environ.get("STILLFRAME_SEED", "20"))
WORKERS = 2
PART = 10


def run_battery(seed: int, count: int) -> Report:
    parts = [range(first, min(first + PART, count)) for first in range(0, count, PART)]
    report = Report()
    with ProcessPoolExecutor(WORKERS, mp_context=get_context("spawn")) as pool:
        for part in pool.map(run_part, [seed] * len(parts), parts):
            report += part
    return report


def told(seed: int, report: Report) -> str:
    ran = ", ".join(f"{name} {count}" for name, count in sorted(report.ran.items()))
    return (
        f"battery of seed {seed}: {report.scenarios} scenarios; {report.schedules} schedules explored "
        f"exhaustively in {report.worlds} worlds, {report.sampled} sampled; "
        f"basic fails in {report.basic_fails}; ran: {ran}"
    )


def check(count: int, seed: int) -> None:
    report = run_battery(seed, count)
    print(told(seed, report))
    assert not report.broken, "\n\n".join(sorted(report.broken, key=len)[:3])
    assert report.basic_fails >= 0.3 * report.scenarios, "the battery is too tame"
    assert all(report.ran.values()) and len(report.ran) == 20


def test_battery_of_200() -> None:
    check(200, SEED)


@pytest.mark.long
def test_battery_of_2000() -> None:
    check(2000, SEED + 1)
