"""kill -9 of an executor in the middle of a refresh, on a cluster whose workers do not have our package: its
tasks run again elsewhere, the frame is exact, and nothing is left of what was half done. Run with
`--engine=spark --master=standalone`."""

from __future__ import annotations

import os
import signal
import sqlite3
import sys
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyspark.cloudpickle as cloudpickle
import pytest
from faults_project import FaultsProject
from tests.room import driver_takes

from standalone import Cluster, Stages, wait_until
from stillframe.engine import Engine
from stillframe.runtime import Warehouse, load_project
from stillframe.runtime.outcome import Step
from stillframe.sources import SqliteSource

pytestmark = [pytest.mark.engine, pytest.mark.long]

FEW = 20_000  # rows that the driver stages by itself here
MANY = 5 * FEW
SECONDS = 240.0

cloudpickle.register_pickle_by_value(sys.modules[__name__])


@pytest.fixture(autouse=True)
def tasks_read_what_is_more(monkeypatch: pytest.MonkeyPatch) -> None:
    driver_takes(FEW, monkeypatch.setattr)


@dataclass(frozen=True)
class HeldSource(SqliteSource):
    """A source whose first read inside a task waits in the middle, and never ends well."""

    def state(self, *arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        return self._held(super().state(*arguments, **options))

    def changes(self, *arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        return self._held(super().changes(*arguments, **options))

    def _held(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        for batch in batches:
            yield batch
            if TaskContext.get() is not None:
                try:
                    self.path.with_name("hold").rename(self.path.with_name(f"held-{os.getpid()}"))
                except FileNotFoundError:
                    continue
                executor, until = os.getppid(), time.monotonic() + SECONDS
                while os.getppid() == executor and time.monotonic() < until:
                    time.sleep(0.05)
                raise RuntimeError("a task that was killed goes on")


def insert(project: FaultsProject, rows: int, sku: str) -> None:
    with sqlite3.connect(project.root / "shop.db") as con:
        con.executemany("INSERT INTO items VALUES (?, ?)", ((n % 97, f"{sku}{n}") for n in range(rows)))


def check(project: FaultsProject, wh: Warehouse) -> None:
    project.check_newest()
    assert {name: found.ok for name, found in wh.verify_all().items()} == dict.fromkeys(
        wh.frame().views, True
    )
    assert project.leftovers() == []


def meanwhile(work: Callable[[], Any], disturb: Callable[[], None]) -> None:
    """`disturb` beside `work`; what either raises is raised."""
    failed: list[BaseException] = []

    def run() -> None:
        try:
            disturb()
        except BaseException as error:
            failed.append(error)

    beside = threading.Thread(target=run, daemon=True)
    beside.start()
    work()
    beside.join(SECONDS)
    assert not beside.is_alive()
    if failed:
        raise failed[0]


def test_killed_while_it_reads_a_relation(standalone_cluster: Cluster, project: FaultsProject) -> None:
    """Changes are read by the driver, once; whole relations by tasks."""
    wh = project.open()
    wh.refresh()
    wh.sources = {name: HeldSource(name, source.path, None) for name, source in wh.sources.items()}
    insert(project, MANY, "s")
    (project.root / "hold").touch()
    killed = []

    def kill() -> None:
        wait_until(lambda: any(project.root.glob("held-*")), "a task that reads", SECONDS)
        task = int(next(project.root.glob("held-*")).name.partition("-")[2])
        killed.append(standalone_cluster.executor_of(task))
        os.kill(killed[0], signal.SIGKILL)

    before = wh.frame().number
    meanwhile(lambda: wh.refresh(full=True), kill)
    assert len(killed) == 1 and killed[0] not in standalone_cluster.executors()
    assert wh.frame().number == before + 1
    wh.sources = project.open().sources
    check(project, wh)


def test_killed_while_it_computes(
    standalone_cluster: Cluster, project: FaultsProject, engine: Engine
) -> None:
    """After each of a session's steps, as soon as the next tasks run."""
    tasks = Stages(engine.caller.sparkContext)
    killed, watching = dict[str, tuple[int, ...]](), list[threading.Thread]()
    wanted = [Step.STAGED, Step.WRITTEN, Step.COMPUTED]
    refreshing = threading.Event()

    def kill_at_work(step: Step) -> None:
        wait_until(lambda: bool(not refreshing.is_set() or tasks.at_work()), "a task", SECONDS)
        stages = tasks.at_work()
        if refreshing.is_set():
            os.kill(standalone_cluster.executors()[0], signal.SIGKILL)
            killed[str(step)] = stages

    def observe(step: Step, subject: str) -> None:
        if step in wanted:
            wanted.remove(step)
            watching.append(threading.Thread(target=kill_at_work, args=(step,), daemon=True))
            watching[-1].start()

    def run_again() -> list[str]:
        """The steps after which a task was lost, or a whole stage begun again."""
        return [step for step, stages in killed.items() if tasks.lost(stages)]

    project.open().refresh()
    wh = Warehouse(project=load_project(project.root), engine=engine, observe=observe)
    rounds = 0
    while (wanted or not run_again()) and rounds < 6:
        wanted = wanted or [Step.STAGED, Step.WRITTEN]
        insert(project, MANY, f"r{rounds}-")
        standalone_cluster.wait_for_executors(2)
        refreshing.set()
        wh.refresh()
        refreshing.clear()
        for thread in watching:
            thread.join(SECONDS)
        rounds += 1
    print(f"killed in stages {killed}, tasks were lost after {run_again()}, {rounds} rounds")
    assert run_again()
    check(project, wh)
