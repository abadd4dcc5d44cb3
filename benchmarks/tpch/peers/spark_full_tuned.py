"""Apache Spark, recomputing, told to write as Stillframe has it write (`stillframe/engine/files.py`): short
dictionaries, and differences of neighbours where they end. Few jobs are set up so."""

from __future__ import annotations

from typing import Any

from benchmarks.tpch.peers import spark_full
from benchmarks.tpch.peers.base import Task
from stillframe.engine.files import DIFFERENCES, FORMAT

WRITTEN = {
    name: str(value) for name, value in {**FORMAT, **DIFFERENCES}.items() if name.startswith("parquet.")
}


def run(task: Task) -> dict[str, Any]:
    return spark_full.run(task, "Spark, recomputing, files tuned", WRITTEN)
