"""Apache Spark, recomputing from Parquet to Parquet in a warm session: what a nightly job does.

The session has all cores and 4 GiB; partitions of a shuffle follow the cores, the rest is left to adaptive
execution. Files are written as Spark writes them by itself; `spark_full_tuned.py` has them written better.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.tpch.measure import versions
from benchmarks.tpch.peers.base import TABLE_NAMES, Task
from benchmarks.tpch.views import aggregate, join

SETTINGS = {
    "spark.driver.memory": "4g",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.adaptive.enabled": "true",
}


def run(
    task: Task, who: str = "Spark, recomputing", written: Mapping[str, str] | None = None
) -> dict[str, Any]:
    """With `written`: options of the files."""
    from pyspark.sql import SparkSession

    settings = {**SETTINGS, "spark.sql.shuffle.partitions": str(4 * task.cores)}
    builder = SparkSession.builder.master(f"local[{task.cores}]")
    with task.meter.timed("start of the engine"):
        spark = builder.config(map=settings).getOrCreate()
        spark.range(1).collect()
    shown = {view: task.folder / view for view in ("joined", "revenue")}

    def compute(tables: Path) -> None:
        names = {table: f"parquet.`{tables}/{table}.parquet`" for table in TABLE_NAMES}
        write(join(names), shown["joined"])
        if "revenue" in task.views:
            write(aggregate(f"parquet.`{shown['joined']}`"), shown["revenue"])

    def write(query: str, path: Path) -> None:
        spark.sql(query).write.mode("overwrite").options(**(written or {})).parquet(str(path))

    task.recompute(compute)
    settings |= {"master": f"local[{task.cores}]", "from": "parquet", "to": "parquet", **(written or {})}
    result = task.finish(who, settings, versions("pyspark"))
    spark.stop()
    return {**result, "exact": task.exactness({v: f"'{path}/*.parquet'" for v, path in shown.items()})}
