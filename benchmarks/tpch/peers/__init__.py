"""What a user would pick instead, one a file. Each runs in a process of its own and is measured alike.

A peer's file says how it is set up and has `run(task)`. Those that recompute are given the tables as they
are after a frame, which somebody else wrote; those that work on changes are given the frame's changes.
"""

from __future__ import annotations

PEERS = {
    "spark-full": "spark_full",
    "spark-full-tuned": "spark_full_tuned",
    "spark-pipelines": "spark_pipelines",
    "duckdb-full": "duckdb_full",
    "duckdb-by-hand": "duckdb_by_hand",
    "postgres": "postgres",
    "pathway": "pathway_stream",
}
RECOMPUTING = ("spark-full", "spark-full-tuned", "spark-pipelines", "duckdb-full", "postgres")
