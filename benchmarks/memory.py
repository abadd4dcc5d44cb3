"""A large view in little memory: the paper's view of 30 million rows, loaded and refreshed by a driver of
2 GiB and an executor of 2 GiB.

    python -m benchmarks.memory                    # scale 5; writes benchmarks/results/memory-spark.json
    python -m benchmarks.memory --scale 0.1        # to try it

The driver is two processes: Spark's, whose heap is bounded, and Python's, whose data segment is; the executor
is a process of its own, started by Spark's `local-cluster`. What each takes is sampled as in `measure.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from benchmarks.tpch import sources
from benchmarks.tpch.changes import Workload
from benchmarks.tpch.measure import SAMPLE_SECONDS, apart, machine, memory_of, tree, versions
from benchmarks.tpch.ours import Setting, check, forward, make_project
from stillframe.memory import KEPT_FOR, SETTING
from stillframe.runtime import Warehouse, load_project

RESULTS = Path(__file__).parent / "results"
GIB = 2**30


class Roles:
    """The most memory that each kind of process took, its own children of Python counted with it."""

    def __init__(self) -> None:
        self.peaks: dict[str, int] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        while not self._stop.wait(SAMPLE_SECONDS):
            taken: dict[str, int] = {}
            for pid in tree(os.getpid()):
                try:
                    role = _role(pid)
                    taken[role] = taken.get(role, 0) + memory_of(pid)
                except OSError:  # ended meanwhile
                    continue
            self.peaks = {
                role: max(self.peaks.get(role, 0), taken.get(role, 0)) for role in {*self.peaks, *taken}
            }

    def close(self) -> dict[str, int]:
        self._stop.set()
        self._thread.join()
        return dict(sorted(self.peaks.items()))


def _role(pid: int) -> str:
    if pid == os.getpid():
        return "driver: Python"
    words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    if b"org.apache.spark.executor.CoarseGrainedExecutorBackend" in words:
        return "executor: Java"
    if b"org.apache.spark.deploy.SparkSubmit" in words:
        return "driver: Java"
    return "executor: Python" if any(b"pyspark" in word for word in words) else "others"


def measure(workload: Workload, gibibytes: int) -> dict[str, Any]:
    root = Path(tempfile.mkdtemp(prefix="stillframe-memory-"))
    setting = Setting(engine="spark", policy="incremental")
    roles, seconds = Roles(), dict[str, list[float]]()
    try:
        sources.copied(workload.scale, root)
        make_project(root, setting, _bounded(gibibytes))
        warehouse = Warehouse(project=load_project(root))
        warehouse.engine.sql("SELECT 1").collect()
        _bound(gibibytes * GIB)  # of this process alone: Spark's are started
        with _timed(seconds, "load"):
            forward(warehouse)
        print(f"load: {seconds['load'][0]:.1f} s, {roles.peaks}", flush=True)
        for number in range(1, workload.frames + 1):
            _apart(sources.write, root, workload.frame(number))
            with _timed(seconds, "refresh and settling"):
                forward(warehouse)
                warehouse.settle_due()
            print(f"frame {number}: {seconds['refresh and settling'][-1]:.1f} s, {roles.peaks}", flush=True)
        with _timed(seconds, "settling of everything"):
            warehouse.settle_due(everything=True)
        peaks = roles.close()
        _bound(resource.RLIM_INFINITY)
        exact = check(warehouse, workload, setting)
        warehouse.close()
    finally:
        shutil.rmtree(root, ignore_errors=True)
    return {
        "workload": asdict(workload),
        "bounds": _bounded(gibibytes),
        "machine": machine(),
        "versions": versions("stillframe", "pyspark", "deltalake", "pyarrow"),
        "seconds": seconds,
        "peak_memory_mib": {role: taken >> 20 for role, taken in peaks.items()},
        "exact": exact,
    }


def _apart(work: Callable[..., object], *values: object) -> None:
    """What writers take, and makers of changes, is not memory of the driver."""
    apart(_unbound, work, *values)


def _unbound(work: Callable[..., object], *values: object) -> None:
    _bound(resource.RLIM_INFINITY)  # a process begins with the bounds of the one that starts it
    work(*values)


def _bound(size: int) -> None:
    resource.setrlimit(resource.RLIMIT_DATA, (size, resource.RLIM_INFINITY))


def _bounded(gibibytes: int) -> dict[str, Any]:
    return {
        "memory": f"{gibibytes * 256}MiB",
        "master": f"local-cluster[1,2,{gibibytes * 1024}]",
        "conf": {
            "spark.driver.memory": f"{gibibytes}g",
            "spark.executor.memory": f"{gibibytes}g",
        },
    }


class _timed:
    def __init__(self, seconds: dict[str, list[float]], name: str) -> None:
        self.taken = seconds.setdefault(name, [])

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        self.taken.append(round(time.perf_counter() - self.began, 3))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=5.0)
    parser.add_argument("--percent", type=float, default=1.0)
    parser.add_argument("--frames", type=int, default=5)
    parser.add_argument("--gibibytes", type=int, default=2)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    if os.environ.get(SETTING) == KEPT_FOR:  # begun again as on a machine that has no more memory
        os.execve(sys.executable, [sys.executable, *sys.orig_argv[1:]], {**os.environ, SETTING: "10"})
    workload = Workload(asked.scale, asked.percent, asked.frames)
    _apart(workload.state, asked.frames)  # made before memory is bounded
    _apart(sources.databases, asked.scale)
    _apart(sources.prepare, workload)
    found = measure(workload, asked.gibibytes)
    path = asked.results / "memory-spark.json"
    path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: found[name] for name in ("seconds", "peak_memory_mib", "exact")}, indent=1))


if __name__ == "__main__":
    main()
