"""Tasks that fail and are run again, or are run twice by speculation: only files of a write that succeeded
are added, and every row is there once. Apache Spark only: Sail runs no task twice."""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyspark
import pytest
from faults_project import FaultsProject

pytestmark = pytest.mark.engine

MANY = 120_000  # too many for the driver to stage by itself
SPECULATION = (
    "spark.speculation: 'true', spark.speculation.interval: 200ms, "
    "spark.speculation.task.duration.threshold: 4s, spark.speculation.minTaskRuntime: 500ms"
)


def check(project: FaultsProject, settings: str, trouble: str) -> None:
    if project.engine_name != "spark":
        pytest.skip("only Apache Spark runs a task again")
    with sqlite3.connect(project.root / "shop.db") as con:
        rows = ((n % 97, f"s{n}") for n in range(MANY))
        con.executemany("INSERT INTO items VALUES (?, ?)", rows)
    project.configure(spark=settings)
    result = project.finish(project.spawn("troubled", "--trouble", trouble), timeout=300)
    assert result == {"happened": True}
    project.check_newest()
    assert sum(project.content(project.lake.newest().views["lines"]).values()) > MANY / 2
    assert project.leftovers() == []


def test_a_task_that_fails_once_adds_nothing_twice(project: FaultsProject) -> None:
    check(project, f"{{engine: spark, master: 'local[2,4]', conf: {{{SPECULATION}}}}}", "fail")


@pytest.fixture
def cluster(tmp_path: Path, engine_name: str) -> Iterator[str]:
    """A standalone cluster with two workers on addresses of their own: speculation runs the second copy of
    a task on another host only."""
    if engine_name != "spark":
        pytest.skip("only Apache Spark runs a task again")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_DAEMON_MEMORY": "256m",
    }
    master = f"spark://127.0.0.1:{port}"

    def start(name: str, *arguments: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            [str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}", *arguments],
            env=environment,
            stdout=(tmp_path / "cluster.log").open("ab"),
            stderr=subprocess.STDOUT,
        )

    running = [start("master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0")]
    time.sleep(1)
    for n in (1, 2):
        address = ("--host", f"127.0.0.{n}", "--webui-port", "0", "--cores", "1", "--memory", "700m")
        running.append(start("worker.Worker", *address, "--work-dir", str(tmp_path / f"worker{n}"), master))
    yield master
    for process in running:
        process.terminate()
        process.wait()


@pytest.mark.long
def test_speculation_adds_nothing_twice(project: FaultsProject, cluster: str) -> None:
    """The first copy of the task never ends; what it had written by then is not part of anything."""
    memory = "spark.executor.memory: 512m, spark.executor.cores: '1'"
    check(project, f"{{engine: spark, master: '{cluster}', conf: {{{SPECULATION}, {memory}}}}}", "slow")
