"""Apache Spark, recomputing from Parquet to Parquet in a warm session: what a nightly job does.

The session has all cores and 4 GiB; partitions of a shuffle follow the cores, the rest is left to adaptive
execution.
"""

from __future__ import annotations

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


def run(task: Task) -> dict[str, Any]:
    from pyspark.sql import SparkSession

    settings = {**SETTINGS, "spark.sql.shuffle.partitions": str(4 * task.cores)}
    builder = SparkSession.builder.master(f"local[{task.cores}]")
    with task.meter.timed("start of the engine"):
        spark = builder.config(map=settings).getOrCreate()
        spark.range(1).collect()
    shown = {view: task.folder / view for view in ("joined", "revenue")}

    def compute(tables: Path) -> None:
        names = {table: f"parquet.`{tables}/{table}.parquet`" for table in TABLE_NAMES}
        spark.sql(join(names)).write.mode("overwrite").parquet(str(shown["joined"]))
        if "revenue" in task.views:
            source = f"parquet.`{shown['joined']}`"
            spark.sql(aggregate(source)).write.mode("overwrite").parquet(str(shown["revenue"]))

    task.recompute(compute)
    settings = {"master": f"local[{task.cores}]", "from": "parquet", "to": "parquet", **settings}
    result = task.finish("Spark, recomputing", settings, versions("pyspark"))
    spark.stop()
    return {**result, "exact": task.exactness({v: f"'{path}/*.parquet'" for v, path in shown.items()})}
