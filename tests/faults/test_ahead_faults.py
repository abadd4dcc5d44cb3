"""Changes are read ahead, however few they are, while writers go on: every change is in exactly one frame,
also of processes that are killed while they read, and nothing of it is left."""

from __future__ import annotations

import os
import random
import signal

import pytest
from faults_project import FaultsProject, wait_for

from stillframe.runtime.outcome import Step

pytestmark = [pytest.mark.engine, pytest.mark.slow_on_spark]

SEED = int(os.environ.get("STILLFRAME_SEED", "23"))


def test_frames_are_exact_while_the_next_ones_changes_are_read(project: FaultsProject) -> None:
    wh = project.open()
    wh.refresh()
    runner = project.spawn("run", "--every", "0.05", "--ahead")
    wait_for("running", runner)
    with project.writing(SEED, pause=0.005):
        while wh.frame().number < 12:
            assert runner.poll() is None, project.errors()
    runner.send_signal(signal.SIGTERM)
    ran = project.finish(runner)
    print(f"seed {SEED}: {ran}")
    assert ran["ahead"] > 0, "nothing was read ahead"
    project.check_newest()
    covered = project.check_frames()
    logged = sum(c for s in ("shop", "crm") for (c,) in project.query(s, "SELECT sum(changes) FROM journal"))
    assert covered["changes"] == logged
    assert all(v.ok for v in wh.verify_all().values())
    assert project.leftovers() == []


def test_killed_while_it_reads_ahead(project: FaultsProject) -> None:
    rng = random.Random(SEED)
    project.open().refresh()
    for n, step in enumerate([Step.AHEAD, Step.PUBLISHED, Step.AHEAD, Step.WRITTEN, Step.ACKNOWLEDGED]):
        occurrence = rng.randint(2, 12) if step is Step.AHEAD else rng.randint(3, 5)
        print(f"seed {SEED}: killed at {step}, {occurrence}")
        with project.writing(SEED * 100 + n, pause=0.005):
            runner = project.spawn(
                *("run", "--every", "0.05", "--ahead"), *("--kill", step, "--occurrence", str(occurrence))
            )
            out, _ = runner.communicate(timeout=180)
        assert runner.returncode == -signal.SIGKILL, (out, project.errors())
    wh = project.open()
    wh.refresh()
    project.check_newest()
    project.check_frames()
    assert all(v.ok for v in wh.verify_all().values())
    assert project.leftovers() == []
