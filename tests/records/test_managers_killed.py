"""Eight view managers at once, half of all changes on one group, managers killed while they work: the records
are what recomputing gives, and what was seen of them meanwhile is what the level of their view allows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import servers
from records.serving_views import CLASSES, IDEMPOTENT, VARIANTS

pytestmark = pytest.mark.engine

LONG = bool(os.environ.get("STILLFRAME_LONG"))
BUSY = ("summed", "least", "named")  # SUM, MIN and the join
OTHERS = tuple(name for name in CLASSES if name not in BUSY)


@pytest.fixture(autouse=True)
def on_spark(engine_name: str) -> None:
    if engine_name != "spark":
        pytest.skip("starts an Apache Spark of its own")


def outcome(folder: Path, url: str, changes: int, kills: int, *names: str, **more: str) -> dict[str, Any]:
    program = Path(__file__).with_name("managers_killed.py")
    path = os.pathsep.join([str(program.parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, str(program), str(folder), url, str(changes), str(kills), *names],
        env={**os.environ, "PYTHONPATH": path, **more},
        capture_output=True,
        text=True,
        timeout=1200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    print(found)
    return found


def test_sums_extremes_and_joins_on_redis(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with servers.redis_server() as server:
        found = outcome(tmp_path / "signed", server.url(), 20_000, 12, *BUSY)
        server.connect().flushall()
        without = outcome(tmp_path / "unsigned", server.url(), 20_000, 12, "summed", UNSIGNED="1")
    with capsys.disabled():
        print(f"\nwith signatures {found}\nwithout {without}")
    assert found["killed"] == 12
    assert all(found["right"].values()), found
    assert all(found["states"][name] > 2 for name in BUSY)
    assert found["invalid"] == dict.fromkeys(BUSY, 0)
    assert found["conflicts"]["summed"] > 0
    assert not without["right"]["summed"]


@pytest.mark.parametrize("store", ["sqlite", "postgresql", *(["redis"] if LONG else [])])
def test_every_class_on_every_store(tmp_path: Path, store: str, request: pytest.FixtureRequest) -> None:
    names = (
        (*CLASSES, *VARIANTS) if LONG else OTHERS if store == "sqlite" else ("summed", "dropped", "shared")
    )
    if store == "redis":
        with servers.redis_server() as server:
            found = outcome(tmp_path / "project", server.url(), 2_000, 6, *names)
    elif store == "postgresql":
        server = request.getfixturevalue("postgres_server")
        server.database("killed")
        found = outcome(tmp_path / "project", server.url("killed"), 2_000, 6, *names)
    else:
        found = outcome(tmp_path / "project", f"sqlite:///{tmp_path}/records.db", 2_000, 6, *names)
    assert all(found["right"].values()), found
    assert not any(found["invalid"].values())


@pytest.mark.long
def test_counters_where_they_are_offered(tmp_path: Path) -> None:
    with servers.redis_server() as server:
        found = outcome(tmp_path / "project", server.url(), 2_000, 6, *IDEMPOTENT, TEST_AND_SET="counter")
    assert found["killed"]
    assert found["right"] == dict.fromkeys(IDEMPOTENT, True), found
