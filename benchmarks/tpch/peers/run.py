"""One peer, in this process: `python -m benchmarks.tpch.peers.run NAME TASK.json RESULT.json`."""

from __future__ import annotations

import importlib
import json
import sys
import tempfile
from pathlib import Path

from benchmarks.tpch.changes import Workload
from benchmarks.tpch.peers import PEERS
from benchmarks.tpch.peers.base import Task


def main(name: str, asked: str, answer: str) -> None:
    wanted = json.loads(Path(asked).read_text(encoding="utf-8"))
    workload = Workload(**wanted["workload"])
    peer = importlib.import_module(f"benchmarks.tpch.peers.{PEERS[name]}")
    with tempfile.TemporaryDirectory(prefix=f"stillframe-{name}-") as folder:
        task = Task(workload, tuple(wanted["views"]), Path(folder), min(wanted["turns"], workload.frames))
        Path(answer).write_text(json.dumps(peer.run(task), indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
