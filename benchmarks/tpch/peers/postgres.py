"""PostgreSQL, `REFRESH MATERIALIZED VIEW`, in a server of its own on this machine.

Memory and parallel workers are set to the machine; with `wal_level=minimal` a refresh writes the view and
no log of it. Writers change the tables outside of what is timed, and the statistics are kept up to date.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from benchmarks.tpch.changes import SIGN
from benchmarks.tpch.data import COLUMNS, KEYS, ddl
from benchmarks.tpch.peers.base import TABLE_NAMES, Task
from benchmarks.tpch.views import JOIN, JOINED, REVENUE, aggregate

sys.path.insert(0, str(Path(__file__).parents[3] / "tests"))

import servers

SETTINGS = {
    "shared_buffers": "2GB",
    "work_mem": "256MB",
    "maintenance_work_mem": "512MB",
    "effective_cache_size": "8GB",
    "max_wal_size": "8GB",
    "wal_level": "minimal",
    "max_wal_senders": "0",
    "random_page_cost": "1.1",
    "jit": "off",
    "fsync": "on",
}


def run(task: Task) -> dict[str, Any]:
    settings = {**SETTINGS, "max_parallel_workers_per_gather": str(task.cores)}
    with servers.postgres(**settings) as server:
        con = server.connect()
        number = con.execute("SHOW server_version").fetchone()
        for table in TABLE_NAMES:
            con.execute(ddl(table))
            _copy(con, table, task.workload.state(0) / f"{table}.parquet")
        con.execute("VACUUM ANALYZE")
        queries = {"joined": JOIN, "revenue": aggregate()}
        with task.meter.timed("load"):
            for view in task.views:
                con.execute(f"CREATE MATERIALIZED VIEW {view} AS {queries[view]}")
        for turn in range(1, task.turns + 1):
            _write(con, task.workload.frame(turn))
            con.execute("VACUUM ANALYZE")
            with task.refreshing(turn):
                for view in task.views:
                    con.execute(f"REFRESH MATERIALIZED VIEW {view}")
        result = task.finish("PostgreSQL, REFRESH", settings, {"postgresql": str(number and number[0])})
        shown = {view: _csv(con, view, task.folder / f"{view}.csv") for view in task.views}
        con.close()
    return {**result, "exact": task.exactness(shown)}


def _copy(con: Any, table: str, path: Path, into: str = "") -> None:
    names = list(COLUMNS[table]) if not into else [*COLUMNS[table], SIGN]
    with con.cursor() as cursor, cursor.copy(f"COPY {into or table} ({', '.join(names)}) FROM STDIN") as copy:
        for batch in pq.ParquetFile(path).iter_batches(50_000, columns=names):
            columns = [batch.column(name).to_pylist() for name in names]
            for row in zip(*columns, strict=True):
                copy.write_row(row)


def _write(con: Any, frame: Mapping[str, Path]) -> None:
    con.execute("BEGIN")
    for table, path in frame.items():
        con.execute(f"CREATE TEMP TABLE d_{table} (LIKE {table}, {SIGN} SMALLINT) ON COMMIT DROP")
        _copy(con, table, path, f"d_{table}")
        key = " AND ".join(f"t.{name} = d.{name}" for name in KEYS[table])
        con.execute(f"DELETE FROM {table} t USING d_{table} d WHERE d.{SIGN} < 0 AND {key}")
        names = ", ".join(COLUMNS[table])
        con.execute(f"INSERT INTO {table} ({names}) SELECT {names} FROM d_{table} WHERE {SIGN} > 0")
    con.execute("COMMIT")


def _csv(con: Any, view: str, path: Path) -> str:
    with (
        path.open("wb") as out,
        con.cursor().copy(f"COPY (SELECT * FROM {view}) TO STDOUT (FORMAT csv)") as copy,
    ):
        for data in copy:
            out.write(data)
    types = {"joined": JOINED, "revenue": REVENUE}[view]
    columns = ", ".join(f"'{name}': '{type_}'" for name, type_ in types.items())
    return f"read_csv('{path}', header = false, columns = {{{columns}}})"
