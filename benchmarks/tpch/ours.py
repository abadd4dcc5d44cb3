"""Stillframe under the benchmark's changes: first load, then consecutive frames with settling on.

Runs in a process of its own; writers and the check of the result are outside of what is timed.
"""

from __future__ import annotations

import json
import shutil
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.tpch import sources
from benchmarks.tpch.changes import Workload
from benchmarks.tpch.data import duck
from benchmarks.tpch.measure import Meter, machine, progress, summary, versions
from benchmarks.tpch.phases import Phases
from benchmarks.tpch.views import aggregate, checksum, join
from stillframe.runtime import Warehouse, load_project

SPARK = {"conf": {"spark.driver.memory": "4g"}}  # as Spark has it that recomputes, in `peers/spark_full.py`
WARM_UP = 2  # frames before those that count: code paths of the engine are compiled in them


@dataclass(frozen=True)
class Setting:
    """How Stillframe is set up."""

    engine: str = "sail"
    copies: str = "all"
    views: tuple[str, ...] = ("joined",)
    policy: str = "auto"
    phases: bool = True
    more: int = 0  # further views over the same relations, each of other lines


def further(number: int) -> str:
    """A view like the join, of lines of some quantity and more."""
    return f"{join(sources.RELATIONS)}\nWHERE l.l_quantity > {number}"


def make_project(
    root: Path, setting: Setting, bounds: Mapping[str, Any] | None = None, databases: Path | None = None
) -> None:
    """With `bounds`: the memory of the process, and the master and settings of Spark. The databases lie in
    the project's own folder, or in another, which projects of different names share."""
    options = f"WITH (refresh_policy = '{setting.policy}')"
    joined = join(sources.RELATIONS)
    of_join = aggregate() if "joined" in setting.views else aggregate(f"({joined})")
    queries = {"joined": joined, "revenue": of_join}
    queries = {name: queries[name] for name in setting.views}
    queries |= {f"lines_{number}": further(number) for number in range(1, setting.more + 1)}
    texts = [f"CREATE MATERIALIZED VIEW {name} {options} AS\n{query};\n" for name, query in queries.items()]
    (root / "views").mkdir(exist_ok=True)
    (root / "views" / "views.sql").write_text("\n".join(texts), encoding="utf-8")
    name, where = (root.name, f"{databases}/") if databases else ("tpch", "")
    homes = "".join(f"  {source}: {{url: 'sqlite:///{where}{source}.db'}}\n" for source in sources.HOMES)
    spark, more = {"engine": setting.engine, **(SPARK if setting.engine == "spark" else {})}, ""
    if bounds:
        spark |= {name: bounds[name] for name in ("master", "conf")}
        more = f"memory: {bounds['memory']}\n"
    (root / "stillframe.yml").write_text(
        f"name: {name}\nwarehouse: ./warehouse\nspark: {json.dumps(spark)}\n{more}"
        f"copies: {setting.copies}\nsources:\n{homes}",
        encoding="utf-8",
    )


def run(workload: Workload, setting: Setting) -> dict[str, Any]:
    """The first frames of the workload warm up; the others count."""
    root = Path(tempfile.mkdtemp(prefix="stillframe-tpch-"))
    phases = Phases()
    meter = Meter()
    try:
        sources.copied(workload.scale, root)
        make_project(root, setting)
        if setting.phases:
            phases.watch()
        warehouse = Warehouse(project=load_project(root))
        with meter.timed("start of the engine"):
            warehouse.engine.sql("SELECT 1").collect()
        with meter.timed("load"):
            forward(warehouse)
        phases.take()
        each: list[dict[str, float]] = []
        outcomes: list[dict[str, Any]] = []
        for number in range(1, workload.last + 1):
            kind = "refresh" if number > WARM_UP else "warming"
            meter.apart(sources.write, root, workload.frame(number))
            with meter.timed(f"{kind} and settling"):
                with meter.timed(kind):
                    outcome = forward(warehouse)
                with meter.timed(f"{kind}: settling"):
                    warehouse.settle_due()
            progress(f"frame {number} of {workload.last}: {meter.seconds[f'{kind} and settling'][-1]:.2f} s")
            taken = phases.take()
            if number > WARM_UP:
                each.append(taken)
                outcomes.append(outcome)
        files = sorted(path for path in (root / "warehouse").rglob("*") if path.is_file())
        stored = sum(path.stat().st_size for path in files)
        measured = meter.close()
        exact = check(warehouse, workload, setting)
        warehouse.close()
        return {
            "who": f"stillframe on {setting.engine}",
            "setting": asdict(setting),
            "workload": {**workload.__dict__, "changed_rows": _changed(workload)},
            "machine": machine(),
            "versions": versions("stillframe", "pyspark", "pysail", "deltalake", "pyarrow", "duckdb"),
            **measured,
            "stored_bytes": stored,
            "views": _views(outcomes),
            "phases": _phases(each),
            "exact": exact,
        }
    finally:
        shutil.rmtree(root, ignore_errors=True)


def forward(warehouse: Warehouse) -> dict[str, Any]:
    result = warehouse.bring_forward()
    for name, outcome in result.failures.items():
        raise SystemExit(f"{name}: {outcome.error}")
    return {
        name: {**outcome.to_json(), "seconds": outcome.seconds}
        for name, outcome in {**result.outcomes, **result.parts}.items()
    }


def _changed(workload: Workload) -> float:
    """Rows of relations that change in a frame, in the mean."""
    frames: Any = workload.facts()["changed"]
    return round(sum(sum(frame.values()) for frame in frames) / max(len(frames), 1), 1)


def _views(outcomes: list[dict[str, Any]]) -> dict[str, Any]:
    """Of every view and copy: how it was maintained, its time, and rows in and out in the mean."""
    found: dict[str, Any] = {}
    for name in sorted({name for outcome in outcomes for name in outcome}):
        mine = [outcome[name] for outcome in outcomes if name in outcome]
        modes = [f"{one['mode']} {one['reason']}" for one in mine]
        found[name] = {
            "modes": {mode: modes.count(mode) for mode in sorted(set(modes))},
            "median": summary([one["seconds"] for one in mine])["median"],
            "rows_in": sum(one["rows_in"] for one in mine) / len(mine),
            "rows_out": sum(one["rows_out"] for one in mine) / len(mine),
        }
    return found


def _phases(each: list[dict[str, float]]) -> dict[str, Any]:
    names = sorted({name for one in each for name in one})
    found = {name: summary([one.get(name, 0.0) for one in each]) for name in names}
    return {name: {key: found[name][key] for key in ("median", "p95", "total")} for name in names}


def check(
    warehouse: Warehouse, workload: Workload, setting: Setting, number: int | None = None
) -> dict[str, Any]:
    """The plain tables against DuckDB's own computation over the tables after a frame, or the last one."""
    warehouse.settle_due(everything=True)
    frame = warehouse.frame()
    con = duck()
    expected = expect(con, workload, setting.views, workload.last if number is None else number)
    found = {}
    for name in setting.views:
        files = [str(warehouse.lake.path / file.path) for file in frame.views[name].base]
        found[name] = checksum(con, f"read_parquet({files})", name)
    return {
        name: {"exact": found[name] == expected[name], "rows": found[name][0], "expected": expected[name][0]}
        for name in setting.views
    }


def expect(con: Any, workload: Workload, views: tuple[str, ...], number: int) -> dict[str, tuple[int, str]]:
    """Row counts and checksums after a frame."""
    folder = workload.state(number)
    joined = join({table: f"'{folder / table}.parquet'" for table in sources.HOME})
    relations = {"joined": f"({joined})", "revenue": f"({aggregate(f'({joined})')})"}
    return {name: checksum(con, relations[name], name) for name in views}
