"""Spark Declarative Pipelines: a materialized view, brought up to date by a pipeline run in a warm session.

Runs go through the package's own functions, as its command does, in a session that is kept: the command
starts and stops one for every run. The tables are Parquet files; the view is a table of the session's
catalog.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.tpch.measure import versions
from benchmarks.tpch.peers.base import TABLE_NAMES, Task
from benchmarks.tpch.peers.spark_full import SETTINGS
from benchmarks.tpch.views import aggregate, join


def run(task: Task) -> dict[str, Any]:
    from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
    from pyspark.pipelines.spark_connect_pipeline import (
        create_dataflow_graph,
        handle_pipeline_events,
        start_run,
    )
    from pyspark.sql import SparkSession

    warehouse = task.folder / "warehouse"
    settings = {
        **SETTINGS,
        "spark.sql.shuffle.partitions": str(4 * task.cores),
        "spark.sql.warehouse.dir": str(warehouse),
        "spark.sql.sources.default": "parquet",
    }
    with task.meter.timed("start of the engine"):
        spark = SparkSession.builder.remote(f"local[{task.cores}]").config(map=settings).getOrCreate()
        spark.range(1).collect()

    def compute(tables: Path) -> None:
        names = {table: f"parquet.`{tables}/{table}.parquet`" for table in TABLE_NAMES}
        texts = {"joined": join(names), "revenue": aggregate()}
        sql = "".join(f"CREATE MATERIALIZED VIEW {view} AS {texts[view]};\n" for view in task.views)
        graph = create_dataflow_graph(spark, default_catalog=None, default_database=None, sql_conf=None)
        registry = SparkConnectGraphElementRegistry(spark, graph)
        registry.register_sql(sql, Path("views.sql"))
        events = start_run(
            spark,
            graph,
            full_refresh=None,
            full_refresh_all=False,
            refresh=None,
            dry=False,
            storage=f"file://{task.folder}/storage",
        )
        handle_pipeline_events(events)

    task.recompute(compute)
    settings = {"session": f"local[{task.cores}], Spark Connect, kept warm", **settings}
    result = task.finish("Spark Declarative Pipelines", settings, versions("pyspark"))
    shown = {view: f"'{warehouse}/{view}/*.parquet'" for view in task.views}
    exact = task.exactness(shown)
    spark.stop()
    return {**result, "exact": exact}
