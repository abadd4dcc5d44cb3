"""The same code on a Spark Connect server: one in a process of its own, which asks for a token, and the one
that PySpark itself starts for `remote("local[2]")`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

import standalone

pytestmark = pytest.mark.engine

PROGRAM = Path(__file__).with_name("connect_caller.py")
TOKEN = "let-me-in"
LOCAL_PORT = 15002  # where PySpark looks for the server it started
SECONDS = 300


@pytest.fixture(autouse=True)
def only_on_spark(engine_name: str) -> None:
    if engine_name != "spark":
        pytest.skip("Sail is a Spark Connect server already")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[str]:
    with connect_server(tmp_path, plain_environment()) as address:
        yield address


@contextmanager
def connect_server(folder: Path, environment: Mapping[str, str]) -> Iterator[str]:
    """A server that lets nobody in without the token; gives its address."""
    port = free_port()
    command = [str(Path(pyspark.__file__).parent / "bin" / "spark-submit"), "--master", "local[2]"]
    for setting in (
        f"spark.connect.grpc.binding.port={port}",
        "spark.connect.grpc.binding.address=localhost",
        "spark.driver.host=127.0.0.1",
        "spark.driver.bindAddress=127.0.0.1",
        "spark.ui.enabled=false",
        "spark.sql.shuffle.partitions=2",
    ):
        command += ["--conf", setting]
    command += ["--class", "org.apache.spark.sql.connect.service.SparkConnectServer", "spark-internal"]
    environment = {**environment, "SPARK_CONNECT_AUTHENTICATE_TOKEN": TOKEN}
    log = folder / "server.log"
    with log.open("wb") as out:
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=out, stderr=out)
        try:
            wait_for(port, process, log)
            yield f"sc://localhost:{port}/;token={TOKEN};user_id=caller"
        finally:
            process.terminate()
            process.wait(timeout=60)


def plain_environment() -> dict[str, str]:
    """Without what this process or PySpark in it may have set."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("SPARK_", "PYSPARK_"))}
    return {**kept, "PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("localhost", 0))
        return int(probe.getsockname()[1])


def answers(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("localhost", port)) == 0


def wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while not answers(port):
        ended = process.poll() is not None
        assert not ended and time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        time.sleep(0.2)


def run_program(url: str, folder: Path, **environment: str) -> None:
    folder.mkdir()
    done = subprocess.run(
        [sys.executable, str(PROGRAM), url, str(folder)],
        env={**plain_environment(), **environment},
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stderr[-3000:]


def test_a_server_in_a_process_of_its_own(server: str, tmp_path: Path) -> None:
    """The session's own address and token count, not the environment's: nobody listens at that one."""
    run_program(server, tmp_path / "caller", SPARK_REMOTE="sc://localhost:1")


@pytest.mark.long
def test_a_server_whose_python_lacks_the_package(tmp_path: Path) -> None:
    """It reaches the server's tasks as an artifact of the session."""
    python = {"PYSPARK_PYTHON": str(standalone.workers_python())}
    with connect_server(tmp_path, {**standalone.plain_environment(), **python}) as address:
        run_program(address, tmp_path / "caller")


@pytest.mark.long
def test_the_server_that_pyspark_starts_in_the_callers_process(tmp_path: Path) -> None:
    """It ends with any session that is stopped, so none of ours may be."""
    if answers(LOCAL_PORT):
        pytest.skip(f"port {LOCAL_PORT} is taken")
    run_program("local[2]", tmp_path / "caller")
