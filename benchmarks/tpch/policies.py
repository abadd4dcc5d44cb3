"""Going forward, computing anew and the automatic choice, in turn, in one process: an hour of noise is in all
of them.

Each has a warehouse of its own over the same databases, so all see the same changes, and the automatic choice
learns from nothing but what it did itself. Changes grow from one size to the next; the first frame of a size
does not count. What a process holds of files in memory is meant for one warehouse: for three it is twice as
much, which is more than they fill. Who comes last in a frame empties the databases' logs; they take turns at
it.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from benchmarks.tpch import sources
from benchmarks.tpch.changes import Workload
from benchmarks.tpch.measure import Meter, machine, progress, summary, versions
from benchmarks.tpch.ours import Setting, check, forward, make_project
from stillframe.engine import Room, room_within
from stillframe.lake.warm import WARM
from stillframe.runtime import Warehouse, load_project

AUTO, CHOICES = "auto", ("incremental", "full")
POLICIES = (AUTO, *CHOICES)
HELD = 2  # times what a process holds by itself


class OneOfThree(Warehouse):
    """Computes by itself what it would if nothing but its own files were held in memory."""

    @property
    def room(self) -> Room:
        return room_within(WARM.room // HELD)


def growing(scale: float, percents: Sequence[float], rounds: int, seed: int) -> Workload:
    """Changes of each size: as many frames as rounds, and one more that warms up."""
    return Workload(scale, max(percents), rounds + 1, seed=seed, percents=tuple(sorted(percents)))


def compare(workload: Workload, setting: Setting) -> dict[str, Any]:
    root = Path(tempfile.mkdtemp(prefix="stillframe-policies-"))
    meter = Meter()
    try:
        sources.copied(workload.scale, root)
        WARM.limit(HELD * WARM.room)
        warehouses = {policy: _begun(root, replace(setting, policy=policy)) for policy in POLICIES}
        for policy, warehouse in warehouses.items():
            with meter.timed(f"load, {policy}"):
                forward(warehouse)
        sizes: dict[float, dict[str, Any]] = {}
        for number in range(1, workload.last + 1):
            meter.apart(sources.write, root, workload.frame(number))
            taken, chosen = _turn(warehouses, meter, number)
            seconds = ", ".join(f"{policy} {taken[policy]:.2f} s" for policy in POLICIES)
            progress(f"frame {number} of {workload.last}, {workload.percent_of(number):g} %: {seconds}")
            if (number - 1) % workload.frames:
                size = sizes.setdefault(
                    workload.percent_of(number), {"chosen": [], **{p: [] for p in POLICIES}}
                )
                size["chosen"].append(chosen)
                for policy in POLICIES:
                    size[policy].append(taken[policy])
        measured = meter.close()
        exact = {}
        for policy, warehouse in warehouses.items():
            found = check(warehouse, workload, setting)
            exact |= {f"{name}, {policy}": one for name, one in found.items()}
        for warehouse in warehouses.values():  # Spark, which they share, ends with the first of them
            warehouse.close()
        return {
            "who": f"stillframe on {setting.engine}",
            "setting": asdict(setting),
            "workload": asdict(workload),
            "machine": machine(),
            "versions": versions("stillframe", "pyspark", "pysail", "deltalake", "pyarrow", "duckdb"),
            **measured,
            "sizes": [
                {
                    "percent": percent,
                    "chosen": size["chosen"],
                    **{policy: summary(size[policy]) for policy in POLICIES},
                }
                for percent, size in sizes.items()
            ],
            "exact": exact,
        }
    finally:
        shutil.rmtree(root, ignore_errors=True)


def _turn(
    warehouses: Mapping[str, Warehouse], meter: Meter, number: int
) -> tuple[dict[str, float], dict[str, str]]:
    """One frame under each policy, another one first in every frame: seconds, and what `auto` did."""
    taken, chosen = dict[str, float](), dict[str, str]()
    for place in range(len(POLICIES)):
        policy = POLICIES[(number + place) % len(POLICIES)]
        with meter.timed(policy):
            done = forward(warehouses[policy])
            warehouses[policy].settle_due()
        taken[policy] = meter.seconds[policy][-1]
        if policy == AUTO:
            chosen = {name: f"{one['mode']} {one['reason']}" for name, one in done.items()}
    return taken, chosen


def _begun(databases: Path, setting: Setting) -> Warehouse:
    root = databases / setting.policy
    root.mkdir()
    make_project(root, setting, databases=databases)
    warehouse = OneOfThree(project=load_project(root))
    warehouse.engine.sql("SELECT 1").collect()
    return warehouse
