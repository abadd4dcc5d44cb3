"""Going forward, computing anew and the automatic choice, in turn, in one process: an hour of noise is in all
of them.

The automatic choice has a warehouse of its own, so that it learns from nothing but what it did itself. The
other two share one, whose views change their policy from frame to frame.
"""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.tpch import sources
from benchmarks.tpch.changes import Workload
from benchmarks.tpch.measure import Meter, machine, versions
from benchmarks.tpch.ours import Setting, check, forward, make_project
from stillframe.runtime import Warehouse, load_project

AUTO, CHOICES = "auto", ("incremental", "full")


def frames(rounds: int) -> int:
    """How many a workload must have: one round more warms up."""
    return len(CHOICES) * (rounds + 1)


def compare(workload: Workload, setting: Setting, rounds: int) -> dict[str, Any]:
    root = Path(tempfile.mkdtemp(prefix="stillframe-policies-"))
    meter = Meter()
    try:
        free, told = _begun(root / AUTO, workload, setting), _begun(root / "told", workload, setting)
        with meter.timed("load"):
            forward(free)
        with meter.timed("load of the other"):
            forward(told)
        chosen: list[dict[str, Any]] = []
        for turn in range(rounds + 1):
            warming = "" if turn else "warming "
            done = _frame(meter, f"{warming}{AUTO}", free, root / AUTO, workload.frame(turn + 1))
            chosen += [done] if turn else []
            for place, policy in enumerate(CHOICES, 1):
                make_project(root / "told", replace(setting, policy=policy))
                number = len(CHOICES) * turn + place
                _frame(meter, f"{warming}{policy}", told, root / "told", workload.frame(number))
        measured = meter.close()
        exact = {
            **check(told, workload, setting),
            **{f"{name}, auto": one for name, one in check(free, workload, setting, rounds + 1).items()},
        }
        free.close()
        told.close()
        return {
            "who": f"stillframe on {setting.engine}",
            "setting": asdict(setting),
            "workload": dict(workload.__dict__),
            "machine": machine(),
            "versions": versions("stillframe", "pyspark", "pysail", "deltalake", "pyarrow", "duckdb"),
            **measured,
            "chosen": [
                {name: f"{one['mode']} {one['reason']}" for name, one in each.items()} for each in chosen
            ],
            "exact": exact,
        }
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _begun(root: Path, workload: Workload, setting: Setting) -> Warehouse:
    root.mkdir()
    sources.copied(workload.scale, root)
    make_project(root, setting)
    warehouse = Warehouse(project=load_project(root))
    warehouse.engine.sql("SELECT 1").collect()
    return warehouse


def _frame(
    meter: Meter, name: str, warehouse: Warehouse, root: Path, changes: dict[str, Path]
) -> dict[str, Any]:
    sources.write(root, changes)
    with meter.timed(name):
        done = forward(warehouse)
        warehouse.settle_due()
    return done
