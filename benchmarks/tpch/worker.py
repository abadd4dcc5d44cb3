"""One measurement in a process of its own: `python -m benchmarks.tpch.worker TASK.json RESULT.json`."""

from __future__ import annotations

import importlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.tpch.changes import Workload
from benchmarks.tpch.measure import PROGRESS
from benchmarks.tpch.ours import Setting, run
from benchmarks.tpch.peers import PEERS, RECOMPUTING
from benchmarks.tpch.peers.base import Task
from benchmarks.tpch.sources import prepare

OURS = "stillframe"
STRATEGIES = "strategies"
POLICIES = "policies"


def measured(who: str, workload: Workload, **options: Any) -> dict[str, Any]:
    """What a process that does nothing else found. What it reads and writes is made before it begins."""
    if who in (OURS, POLICIES):
        prepare(workload)
    elif who in PEERS:
        workload.frame(1)
        for number in range(min(options["turns"], workload.frames) + 1 if who in RECOMPUTING else 1):
            workload.state(number)
    with tempfile.TemporaryDirectory(prefix="stillframe-measured-") as folder:
        asked, answer = Path(folder) / "task.json", Path(folder) / "result.json"
        asked.write_text(json.dumps({"who": who, "workload": workload.__dict__, **options}), encoding="utf-8")
        log, shown = Path(folder) / "log", os.dup(1)
        try:
            with log.open("wb") as out:
                command = [sys.executable, "-m", "benchmarks.tpch.worker", str(asked), str(answer)]
                told = {**os.environ, PROGRESS: str(shown)}
                ended = subprocess.run(
                    command, stdout=out, stderr=out, check=False, env=told, pass_fds=(shown,)
                )
        finally:
            os.close(shown)
        if ended.returncode:
            said = log.read_text(encoding="utf-8", errors="replace")[-1500:]
            return {"who": who, "workload": workload.__dict__, "failed": said, "options": options}
        return dict(json.loads(answer.read_text(encoding="utf-8")))


def _work(wanted: dict[str, Any]) -> dict[str, Any]:
    workload = Workload(**{**wanted["workload"], "percents": tuple(wanted["workload"]["percents"])})
    if wanted["who"] == OURS:
        return run(workload, _setting(wanted))
    if wanted["who"] == STRATEGIES:
        from benchmarks.tpch.strategies import compare

        return compare(workload, wanted["engine"], wanted["repeat"])
    if wanted["who"] == POLICIES:
        from benchmarks.tpch.policies import compare as compare_policies

        return compare_policies(workload, _setting(wanted))
    peer = importlib.import_module(f"benchmarks.tpch.peers.{PEERS[wanted['who']]}")
    with tempfile.TemporaryDirectory(prefix=f"stillframe-{wanted['who']}-") as folder:
        turns = min(wanted["turns"], workload.frames)
        return dict(peer.run(Task(workload, tuple(wanted["views"]), Path(folder), turns)))


def _setting(wanted: dict[str, Any]) -> Setting:
    return Setting(**{**wanted["setting"], "views": tuple(wanted["setting"]["views"])})


def main(asked: str, answer: str) -> None:
    result = _work(json.loads(Path(asked).read_text(encoding="utf-8")))
    Path(answer).write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
