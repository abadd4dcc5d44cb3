"""DuckDB, recomputing from Parquet to Parquet. All cores; the rest as DuckDB comes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.tpch.data import duck
from benchmarks.tpch.peers.base import TABLE_NAMES, Task
from benchmarks.tpch.views import aggregate, join


def run(task: Task) -> dict[str, Any]:
    con = duck()
    con.execute(f"SET threads = {task.cores}")
    con.execute("SET preserve_insertion_order = false")
    shown = {view: task.folder / f"{view}.parquet" for view in ("joined", "revenue")}

    def compute(tables: Path) -> None:
        names = {table: f"'{tables}/{table}.parquet'" for table in TABLE_NAMES}
        con.execute(f"COPY ({join(names)}) TO '{shown['joined']}' (FORMAT parquet)")
        if "revenue" in task.views:
            source = f"'{shown['joined']}'"
            con.execute(f"COPY ({aggregate(source)}) TO '{shown['revenue']}' (FORMAT parquet)")

    task.recompute(compute)
    result = task.finish(
        "DuckDB, recomputing", {"threads": task.cores, "from": "parquet", "to": "parquet"}, {}
    )
    return {**result, "exact": task.exactness({view: f"'{path}'" for view, path in shown.items()})}
