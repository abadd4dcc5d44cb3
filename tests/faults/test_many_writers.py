"""Ten thousand committed changes from four writer processes while `run` goes on; and several processes that
refresh one warehouse at once. The frames cover every committed change exactly once."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest
from faults_project import FaultsProject, wait_for

pytestmark = pytest.mark.engine

CHANGES = int(os.environ.get("STILLFRAME_FAULTS_CHANGES", "10000"))
WRITERS = [("shop", "w1"), ("shop", "w2"), ("crm", "w3"), ("crm", "w4")]


def run_beside_writers(project: FaultsProject, changes: int) -> None:
    wh = project.open()
    wh.refresh()
    runner = project.spawn("run", "--every", "0.3")
    wait_for("running", runner)
    written = write_at_once(project, changes, "")
    while wh.frame().number < 4:  # the writers were done before `run` had made its frames: they go on
        written += write_at_once(project, changes // 10, str(len(written)))
    runner.send_signal(signal.SIGTERM)
    ran = project.finish(runner, timeout=240)
    project.check_newest()
    covered = project.check_frames()
    total = sum(w["changes"] for w in written)
    print(
        f"{total} changes, {sum(w['transactions'] for w in written)} transactions, {ran}, covered {covered}"
    )
    assert total >= changes
    assert covered["changes"] == covered["shop"] + covered["crm"] == total
    assert ran["frames"] >= 3
    assert all(v.ok for v in wh.verify_all().values())
    assert project.leftovers() == []


def write_at_once(project: FaultsProject, changes: int, seed: str) -> list[dict[str, Any]]:
    writers = [
        project.spawn(
            *("write", "--source", source, "--seed", name + seed),
            *("--changes", str(changes // len(WRITERS)), "--pause", "0.01"),
        )
        for source, name in WRITERS
    ]
    return [project.finish(writer, timeout=600) for writer in writers]


@pytest.mark.slow_on_spark
def test_ten_thousand_changes_while_run_goes_on(project: FaultsProject) -> None:
    run_beside_writers(project, CHANGES)


@pytest.mark.long
def test_a_hundred_thousand_changes_while_run_goes_on(project: FaultsProject, engine_name: str) -> None:
    run_beside_writers(project, CHANGES * (10 if engine_name == "sail" else 2))


@pytest.mark.slow_on_spark
def test_processes_that_refresh_at_once_apply_nothing_twice(project: FaultsProject, engine_name: str) -> None:
    """Two queue politely, with or without patience; the third does not look at the lock at all, so that
    only the commit keeps it apart."""
    rounds = 6 if engine_name == "sail" else 3
    wh = project.open()
    wh.refresh()
    with project.writing(7):
        drivers = [
            project.spawn(
                "contend", "--rounds", str(rounds), "--seed", str(n), *(["--rude"] if n == 2 else [])
            )
            for n in range(3)
        ]
        for driver in drivers:
            wait_for("ready", driver)
        (project.root / "go").touch()
        results = [project.finish(driver, timeout=400) for driver in drivers]
    print(results)
    published = sorted(n for result in results for n in result["frames"])
    assert published == list(range(2, 2 + len(published))), "two processes published one frame, or lost one"
    assert [len(r["frames"]) for r in results] == [rounds] * 3
    assert sum(r["busy"] for r in results) > 0, "nobody was ever told to wait"
    wh.refresh()
    project.check_newest()
    covered = project.check_frames()
    print(f"covered {covered}")
    assert all(v.ok for v in wh.verify_all().values())
