"""kill -9 at every named step of a session and at random times: the next session goes on, and every
change is applied exactly once."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter

import pytest
from faults_project import FaultsProject, java_children, kill, wait_for

from stillframe.runtime.outcome import Step

pytestmark = pytest.mark.engine

# Steps of every session, and how often each occurs in a refresh of all views. Loads are killed elsewhere.
OCCURRENCES = {
    Step.STARTED: 2,
    Step.FIXED: 2,
    Step.STAGED: 6,
    Step.WRITTEN: 8,
    Step.COMPUTED: 2,
    Step.PUBLISHED: 2,
    Step.ACKNOWLEDGED: 2,
    Step.REWRITTEN: 5,
    Step.SETTLED: 5,
}
SEED = int(os.environ.get("STILLFRAME_SEED", "20"))


def kill_at(project: FaultsProject, step: Step, occurrence: int) -> str:
    driver = project.spawn("loop", "--kill", step, "--occurrence", str(occurrence))
    out, _ = driver.communicate(timeout=180)
    assert driver.returncode == -signal.SIGKILL, (step, driver.returncode, out, project.errors())
    assert f"killed driver at {step}" in out, (step, out)
    return str(step)


def kill_after(project: FaultsProject, seconds: float) -> str:
    driver = project.spawn("loop")
    wait_for("ready", driver)
    time.sleep(seconds)
    assert driver.poll() is None, project.errors()
    kill(driver.pid)
    driver.communicate()
    return "random"


def campaign(project: FaultsProject, rounds: int, at_random: int, steps: tuple[Step, ...], seed: int) -> None:
    rng = random.Random(seed)
    kills: Counter[str] = Counter()
    if project.engine_name == "sail":
        project.open().attach()  # so that sessions that make the very first frame are killed, too
    else:
        project.open().refresh()
    work = [*(list(steps) * rounds), *([None] * at_random)]
    rng.shuffle(work)
    for n, step in enumerate(work):
        with project.writing(seed * 1000 + n):
            if step is None:
                kills[kill_after(project, rng.random() * 2.5)] += 1
            else:
                kills[kill_at(project, step, rng.randint(1, OCCURRENCES[step]))] += 1
        if project.lake.newest() is not None:
            project.check_frames(project.lake.history(3))
    wh = project.open()
    wh.refresh()
    project.check_newest()
    assert project.leftovers() == []
    covered = project.check_frames()
    logged = sum(c for s in ("shop", "crm") for (c,) in project.query(s, "SELECT sum(changes) FROM journal"))
    print(f"seed {seed}: kills {dict(kills)}, {wh.frame().number} frames, changes {covered}")
    assert covered["changes"] == logged
    assert set(kills) >= {str(step) for step in steps}, "a step was never hit"
    assert {name: v.ok for name, v in wh.verify_all().items()} == dict.fromkeys(wh.frame().views, True)


def test_killed_at_every_step_and_at_random(project: FaultsProject, engine_name: str) -> None:
    if engine_name == "sail":
        campaign(project, rounds=1, at_random=6, steps=tuple(OCCURRENCES), seed=SEED)
    else:
        campaign(project, rounds=1, at_random=1, steps=(Step.WRITTEN,), seed=SEED)


@pytest.mark.long
def test_killed_sixty_times(project: FaultsProject, engine_name: str) -> None:
    if engine_name == "sail":
        campaign(project, rounds=4, at_random=24, steps=tuple(OCCURRENCES), seed=SEED + 1)
    else:
        campaign(project, rounds=1, at_random=3, steps=tuple(OCCURRENCES), seed=SEED + 1)


def test_the_jvm_alone_is_killed(project: FaultsProject, engine_name: str) -> None:
    """The session fails and says why; what was published stands, and the next process goes on."""
    if engine_name != "spark":
        pytest.skip("only Apache Spark has a JVM")
    wh = project.open()
    wh.refresh()
    with project.writing(SEED):
        time.sleep(0.5)
    before = wh.frame()
    driver = project.spawn("loop", "--kill", Step.WRITTEN, "--occurrence", "2", "--whom", "jvm")
    result = project.finish(driver, timeout=240)
    print(result)
    assert result["code"] == "ENGINE_LOST"
    assert result["rounds"] == 0
    assert "Java" in result["message"] or "engine" in result["message"]
    assert wh.frame() == before
    assert java_children(driver.pid) == []
    wh.refresh()
    project.check_newest()
    project.check_frames()
    assert project.leftovers() == []
