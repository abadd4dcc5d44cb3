"""What stands beside Stillframe in the benchmark is right, too: peers on DuckDB, run as they are."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
from benchmarks.tpch.changes import Workload
from benchmarks.tpch.peers import PEERS
from benchmarks.tpch.peers.base import Task
from tpch_benchmark import SCALE, tables

__all__ = ["tables"]

VIEWS = ("joined", "revenue")


@pytest.mark.parametrize("views", [VIEWS, VIEWS[:1]], ids=str)
@pytest.mark.parametrize("spread", ["uniform", "skewed"])
@pytest.mark.parametrize("percent", [10, 50])  # of few suppliers and regions, some change only at 50 %
@pytest.mark.parametrize("name", ["duckdb-by-hand", "duckdb-full"])
def test_peers_show_what_the_tables_have(
    name: str, percent: float, spread: str, views: tuple[str, ...], tmp_path: Path
) -> None:
    peer = importlib.import_module(f"benchmarks.tpch.peers.{PEERS[name]}")
    found = peer.run(Task(Workload(SCALE, percent, 3, spread), views, tmp_path, turns=3))
    assert {view: each["exact"] for view, each in found["exact"].items()} == dict.fromkeys(views, True)
    assert all(each["rows"] > 0 for each in found["exact"].values())
