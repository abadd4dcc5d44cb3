"""A Spark cluster on this machine: a master and two workers with addresses of their own, in a Python
environment of their own that does not have `stillframe`."""

from __future__ import annotations

import importlib.metadata
import os
import re
import signal
import subprocess
import sys
import time
import venv
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pyspark import SparkContext

from servers import free_port

ENVIRONMENT = Path(__file__).parents[1] / ".venv-workers"
PACKAGES = ("pyspark", "pyarrow", "numpy", "psycopg", "PyMySQL", "redis")  # as docs/cluster.md has them
START_SECONDS = 600.0
EXECUTOR = "CoarseGrainedExecutorBackend"


def requirements() -> list[str]:
    """What the workers need, in the versions that the package itself asks for."""
    found = {re.split(r"[\[=<>;]", line)[0]: line for line in importlib.metadata.requires("stillframe") or ()}
    return [found[name].replace("[connect]", "") for name in PACKAGES]


def workers_python() -> Path:
    """The Python of the workers; made where it is missing or of other versions."""
    python, ready = ENVIRONMENT / "bin" / "python", ENVIRONMENT / ".ready"
    wanted = "\n".join([sys.version, *requirements()])
    if not ready.exists() or ready.read_text() != wanted:
        venv.create(ENVIRONMENT, clear=True, with_pip=True, symlinks=True)
        install = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *requirements()]
        subprocess.run(install, check=True, env=plain_environment())
        ready.write_text(wanted)
    return python


def plain_environment() -> dict[str, str]:
    """This process's, without what would let another Python find our package, and what concerns Spark."""
    dropped = ("SPARK_", "PYSPARK_", "PYTHON", "VIRTUAL_ENV", "STILLFRAME_")
    return {name: value for name, value in os.environ.items() if not name.startswith(dropped)}


@dataclass
class Cluster:
    folder: Path
    python: Path
    port: int
    page: int
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def master(self) -> str:
        return f"spark://127.0.0.1:{self.port}"

    def settings(self, **conf: str) -> dict[str, Any]:
        """The `spark:` part of a project that runs here."""
        return {
            "engine": "spark",
            "master": self.master,
            "conf": {
                "spark.driver.host": "127.0.0.1",
                "spark.driver.bindAddress": "127.0.0.1",
                "spark.pyspark.python": str(self.python),
                "spark.executor.cores": "1",
                "spark.executor.memory": "700m",
                "spark.sql.ui.retainedExecutions": "1000",  # tests look at all of them
                **conf,
            },
        }

    def settings_that_tell(self) -> dict[str, Any]:
        """With all that Spark tells about what runs: event logs, and the pages of the driver."""
        self.events.mkdir(exist_ok=True)
        return self.settings(
            **{
                "spark.eventLog.enabled": "true",
                "spark.eventLog.compress": "false",
                "spark.eventLog.dir": self.events.as_uri(),
                "spark.ui.enabled": "true",
                "spark.ui.port": "0",
            }
        )

    @property
    def events(self) -> Path:
        return self.folder / "events"

    def executors(self) -> list[int]:
        """The processes of the executors that live now."""
        return [pid for worker in self.workers for pid in children(worker.pid) if EXECUTOR in command(pid)]

    def executor_of(self, pid: int) -> int:
        """The executor in which a task's Python process runs."""
        executors = self.executors()
        while pid not in executors:
            pid = _parent(pid)
        return pid

    def wait_for_executors(self, count: int) -> list[int]:
        wait_until(lambda: len(self.executors()) >= count, f"{count} executors")
        return self.executors()


class Stages:
    """What a driver knows of the stages of its jobs."""

    def __init__(self, context: SparkContext) -> None:
        self._tracker = context.statusTracker()

    def at_work(self) -> tuple[int, ...]:
        """Those that have a task running."""
        stages = map(self._tracker.getStageInfo, self._tracker.getActiveStageIds())
        return tuple(stage.stageId for stage in stages if stage and stage.numActiveTasks)

    def lost(self, stages: Iterable[int]) -> bool:
        """Whether one of them lost a task, or was begun again as a whole."""
        found = map(self._tracker.getStageInfo, stages)
        return any(stage and (stage.numFailedTasks or stage.currentAttemptId) for stage in found)


@contextmanager
def standalone(folder: Path) -> Iterator[Cluster]:
    """A cluster whose logs and scratch space are in `folder`."""
    python = workers_python()
    home = next(ENVIRONMENT.glob("lib/python3*/site-packages/pyspark"))
    environment = {
        **plain_environment(),
        "SPARK_HOME": str(home),
        "SPARK_DAEMON_MEMORY": "256m",
        "SPARK_LOCAL_DIRS": str(folder / "local"),
    }
    cluster = Cluster(folder, python, free_port(), free_port())
    running: list[subprocess.Popen[bytes]] = []

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        log = (folder / f"{name.rpartition('.')[2].lower()}{len(running)}.log").open("wb")
        command = [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments]
        running.append(subprocess.Popen(command, env=environment, cwd=folder, stdout=log, stderr=log))
        return running[-1]

    (folder / "local").mkdir(parents=True)
    try:
        start(
            "master.Master",
            "--host",
            "127.0.0.1",
            "--port",
            str(cluster.port),
            "--webui-port",
            str(cluster.page),
        )
        wait_until(lambda: "Starting Spark master" in _text(folder / "master0.log"), "the master")
        for n in (1, 2):
            address = ("--host", f"127.0.0.{n}", "--webui-port", "0", "--cores", "1", "--memory", "2200m")
            work = ("--work-dir", str(folder / f"worker{n}"))
            cluster.workers.append(start("worker.Worker", *address, *work, cluster.master))
        for n in (1, 2):
            log = folder / f"worker{n}.log"
            wait_until(lambda log=log: "Successfully registered" in _text(log), f"worker {n}")
        yield cluster
    finally:
        for process in reversed(running):
            process.send_signal(signal.SIGTERM)
        for process in running:
            process.wait(60)


def wait_until(there: Callable[[], bool], what: str, seconds: float = START_SECONDS) -> None:
    deadline = time.monotonic() + seconds
    while not there():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not there after {seconds:.0f} s")
        time.sleep(0.05)


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.exists() else ""


def command(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        return ""


def _parent(pid: int) -> int:
    return int(re.search(r"^PPid:\s+(\d+)", Path(f"/proc/{pid}/status").read_text(), re.M)[1])


def children(pid: int | str) -> list[int]:
    """The processes that a process has started and that live."""
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with suppress(OSError):
            found += [int(child) for child in task.read_text().split()]
    return found
