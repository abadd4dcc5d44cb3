"""Pathway, streaming, with a CSV file as its sink; it runs in an environment of its own.

Its Delta sink asks for a licence key (of 0.33.0: RuntimeError, "the feature(s) you used ["DELTALAKE"] require
a Pathway license key"); the file sink, which writes every change with its time and sign, does not.

Its Python is named by `STILLFRAME_PATHWAY_PYTHON`. Rows go in through its Python connector, only the columns
that the view needs; a frame is done when the view's totals are those after it and the sink has it. That is
told from a file that does not grow for a moment, so a pause of its writer may be taken for the end: what is
timed is the least that it takes.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from benchmarks.tpch.peers.base import TABLE_NAMES, Task
from benchmarks.tpch.views import JOINED

ENDS = 600  # seconds in which it has to end
PROCESS = Path(__file__).with_name("pathway_process.py")
MEASURES = ("c_acctbal", "o_totalprice", "l_quantity", "l_extendedprice", "l_discount", "s_acctbal")


def run(task: Task) -> dict[str, Any]:
    python = os.environ.get("STILLFRAME_PATHWAY_PYTHON")
    if not python:
        raise SystemExit("STILLFRAME_PATHWAY_PYTHON names the Python of an environment that has pathway")
    if task.views != ("joined",):
        raise SystemExit("the Pathway peer keeps the join alone")
    command = [python, "-c", "import pathway; print(pathway.__version__)"]
    version = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split()[-1]
    frames = [_frame(task, number) for number in range(task.turns + 1)]
    first = task.folder / "load.json"
    first.write_text(json.dumps(frames[0]), encoding="utf-8")
    sink = task.folder / "sink.csv"
    environment = {**os.environ, "PATHWAY_THREADS": str(task.cores)}
    with task.meter.timed("load"):
        process = subprocess.Popen(
            [python, str(PROCESS), str(sink), str(first)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )
        _done(process)
    for number in range(1, task.turns + 1):
        with task.refreshing(number):
            assert process.stdin is not None
            process.stdin.write(json.dumps(frames[number]) + "\n")
            process.stdin.flush()
            _done(process)
    settings = {
        "threads": task.cores,
        "in": "Python connector",
        "sink": "CSV file, every change with its sign",
    }
    result = task.finish("Pathway", settings, {"pathway": version})
    process.communicate(timeout=ENDS)  # nothing more goes in, so it writes what it still holds, and ends
    return {**result, "exact": task.exactness({"joined": _shown(sink)})}


def _done(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "done":
            return
    raise SystemExit("Pathway ended before the frame was done")


def _frame(task: Task, number: int) -> dict[str, Any]:
    """The files of a frame (0: the whole tables), and the view's totals after it."""
    whole = task.workload.state(0)
    files = task.workload.frame(number) if number else {t: whole / f"{t}.parquet" for t in TABLE_NAMES}
    totals: Any = task.workload.facts()["totals"]
    lines, cents = totals[number]
    return {"files": {t: str(path) for t, path in files.items()}, "lines": lines, "cents": cents}


def _shown(sink: Path) -> str:
    """The bag that the sink's changes add up to."""
    columns = ", ".join(f"{name} / 100.0 AS {name}" if name in MEASURES else name for name in JOINED)
    return (
        f"(SELECT {columns} FROM (SELECT {', '.join(JOINED)}, sum(diff) AS copies FROM read_csv('{sink}')"
        " GROUP BY ALL HAVING copies <> 0))"
    )
