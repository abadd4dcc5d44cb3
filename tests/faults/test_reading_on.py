"""Readers beside housekeeping: what a reader holds stays readable for the retention, the newest for ever."""

from __future__ import annotations

import random
from collections import Counter
from datetime import timedelta

import pytest
from faults_project import FaultsProject, Writer

from stillframe.errors import StillframeError

pytestmark = pytest.mark.engine


def step(project: FaultsProject, seed: int) -> None:
    for source in ("shop", "crm"):
        writer = Writer(project.root / f"{source}.db", f"{source}{seed}", random.Random(seed))
        for _ in range(5):
            writer.transact()
        writer.close()


def bag(frame):
    return Counter(tuple(row) for row in frame.collect())


def test_a_reader_outlives_refreshes_settling_and_vacuum(project: FaultsProject) -> None:
    wh = project.open()
    wh.refresh()
    step(project, 1)
    wh.refresh()
    then = {name: project.content(state) for name, state in wh.frame().views.items()}
    assert any(state.changes for state in wh.frame().views.values())
    held = {name: wh.view(name) for name in then}
    for seed in (2, 3):
        step(project, seed)
        wh.refresh(settle=True)
        wh.compact()
        wh.vacuum()
    assert {name: bag(frame) for name, frame in held.items()} == then
    assert project.content(wh.frame().views["facts"]) != then["facts"]
    assert {name: bag(wh.view(name, frame=2)) for name in then} == then
    project.check_newest()


@pytest.mark.slow_on_spark
def test_without_retention_older_frames_go_and_the_newest_stays(project: FaultsProject) -> None:
    wh = project.open()
    wh.refresh()
    for seed in (1, 2, 3):
        step(project, seed)
        wh.refresh(settle=seed == 2)
    files = set((project.root / "warehouse" / "views").rglob("*.parquet"))
    gone = wh.vacuum(timedelta(0))
    assert gone.frames >= 3 and gone.files > 0
    assert len(set((project.root / "warehouse" / "views").rglob("*.parquet"))) < len(files)
    assert [frame.number for frame in wh.frames()] == [4]
    with pytest.raises(StillframeError) as failed:
        wh.view("facts", frame=1)
    assert failed.value.code == "NO_SUCH_FRAME"
    project.check_newest()
    for name in wh.frame().views:
        assert bag(wh.view(name)) == project.expected(name)
    step(project, 4)
    result = wh.maintain()
    assert "full" not in {outcome.mode for outcome in result.outcomes.values()}
    project.check_newest()
