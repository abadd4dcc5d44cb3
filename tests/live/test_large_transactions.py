"""A transaction of a million rows goes through every algorithm with a driver of 1 GiB: rows stay in files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import servers
from stillframe.protocol import ALGORITHMS

pytestmark = [pytest.mark.engine, pytest.mark.long]

ROWS = 1_000_000


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_a_million_rows_in_one_transaction(
    algorithm: str, engine_name: str, tmp_path: Path, postgres_server: servers.PostgresServer
) -> None:
    if os.environ.get("STILLFRAME_LONG") != "1":
        pytest.skip("a longer campaign")
    postgres_server.database("large")
    script = str(Path(__file__).with_name("large_transaction.py"))
    url = postgres_server.url("large")
    done = subprocess.run(
        [sys.executable, script, engine_name, algorithm, url, str(tmp_path), str(ROWS)],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    found = json.loads(done.stdout.splitlines()[-1])
    print(found)
    assert found["mode"] == "incremental" and found["verified"]
    assert found["rows"] == ROWS - 500 and found["rows_in"] == ROWS + 500
    assert found["driver_mib"] < 1024  # on Sail the engine is in it; on Spark the JVM has 1 GiB of its own
