"""Going forward, computing anew and the automatic choice, in turn, in one process: an hour of noise is in all
of them.

Each has a warehouse of its own over the same databases, so all see the same changes, and the automatic choice
learns from nothing but what it did itself. Who comes last in a frame empties the databases' logs; they take
turns at it.
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
POLICIES = (AUTO, *CHOICES)


def frames(rounds: int) -> int:
    """How many a workload must have: one more warms up."""
    return rounds + 1


def compare(workload: Workload, setting: Setting, rounds: int) -> dict[str, Any]:
    root = Path(tempfile.mkdtemp(prefix="stillframe-policies-"))
    meter = Meter()
    try:
        sources.copied(workload.scale, root)
        warehouses = {policy: _begun(root, replace(setting, policy=policy)) for policy in POLICIES}
        for policy, warehouse in warehouses.items():
            with meter.timed(f"load, {policy}"):
                forward(warehouse)
        chosen: list[dict[str, str]] = []
        for turn in range(rounds + 1):
            sources.write(root, workload.frame(turn + 1))
            for place in range(len(POLICIES)):
                policy = POLICIES[(turn + place) % len(POLICIES)]
                with meter.timed(policy if turn else f"warming {policy}"):
                    done = forward(warehouses[policy])
                    warehouses[policy].settle_due()
                if policy == AUTO and turn:
                    chosen.append({name: f"{one['mode']} {one['reason']}" for name, one in done.items()})
        measured = meter.close()
        exact = {}
        for policy, warehouse in warehouses.items():
            found = check(warehouse, workload, setting)
            exact |= {f"{name}, {policy}": one for name, one in found.items()}
            warehouse.close()
        return {
            "who": f"stillframe on {setting.engine}",
            "setting": asdict(setting),
            "workload": dict(workload.__dict__),
            "machine": machine(),
            "versions": versions("stillframe", "pyspark", "pysail", "deltalake", "pyarrow", "duckdb"),
            **measured,
            "chosen": chosen,
            "exact": exact,
        }
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _begun(databases: Path, setting: Setting) -> Warehouse:
    root = databases / setting.policy
    root.mkdir()
    make_project(root, setting, databases=databases)
    warehouse = Warehouse(project=load_project(root))
    warehouse.engine.sql("SELECT 1").collect()
    return warehouse
