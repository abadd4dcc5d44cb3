"""The six tables of the paper's view, made by tpchgen-cli, and where they are kept.

Everything made is kept in one folder outside the project: `STILLFRAME_BENCH_CACHE`, or
`~/.cache/stillframe-bench`. What is there is not made again.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb

KEYS = {
    "customer": ("c_custkey",),
    "orders": ("o_orderkey",),
    "lineitem": ("l_orderkey", "l_linenumber"),
    "supplier": ("s_suppkey",),
    "nation": ("n_nationkey",),
    "region": ("r_regionkey",),
}
TABLES = tuple(KEYS)
DECLARED = {
    "customer": "c_custkey BIGINT, c_name VARCHAR(25), c_address VARCHAR(40), c_nationkey BIGINT,"
    " c_phone VARCHAR(15), c_acctbal DECIMAL(15,2), c_mktsegment VARCHAR(10), c_comment VARCHAR(117)",
    "orders": "o_orderkey BIGINT, o_custkey BIGINT, o_orderstatus VARCHAR(1), o_totalprice DECIMAL(15,2),"
    " o_orderdate DATE, o_orderpriority VARCHAR(15), o_clerk VARCHAR(15), o_shippriority INT,"
    " o_comment VARCHAR(79)",
    "lineitem": "l_orderkey BIGINT, l_partkey BIGINT, l_suppkey BIGINT, l_linenumber INT,"
    " l_quantity DECIMAL(15,2), l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2),"
    " l_returnflag VARCHAR(1), l_linestatus VARCHAR(1), l_shipdate DATE, l_commitdate DATE,"
    " l_receiptdate DATE, l_shipinstruct VARCHAR(25), l_shipmode VARCHAR(10), l_comment VARCHAR(44)",
    "supplier": "s_suppkey BIGINT, s_name VARCHAR(25), s_address VARCHAR(40), s_nationkey BIGINT,"
    " s_phone VARCHAR(15), s_acctbal DECIMAL(15,2), s_comment VARCHAR(101)",
    "nation": "n_nationkey BIGINT, n_name VARCHAR(25), n_regionkey BIGINT, n_comment VARCHAR(152)",
    "region": "r_regionkey BIGINT, r_name VARCHAR(25), r_comment VARCHAR(152)",
}
COLUMNS = {
    table: tuple(column.split(" ")[0] for column in declared.split(", "))
    for table, declared in DECLARED.items()
}
INDEXES = {"orders": ("o_custkey",), "lineitem": ("l_suppkey",), "customer": (), "supplier": ("s_nationkey",)}


def duck(path: str = ":memory:") -> Any:
    """A connection of DuckDB that draws no bars."""
    con = duckdb.connect(path)
    con.execute("SET enable_progress_bar = false")
    return con


def ddl(table: str) -> str:
    """One text for every database."""
    declared = DECLARED[table].replace(", ", " NOT NULL, ")
    return f"CREATE TABLE {table} ({declared} NOT NULL, PRIMARY KEY ({', '.join(KEYS[table])}))"


def cache() -> Path:
    named = os.environ.get("STILLFRAME_BENCH_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "stillframe-bench"


def scale_folder(scale: float) -> Path:
    return cache() / f"scale-{scale:g}"


def tables(scale: float) -> Path:
    """A folder with one Parquet file a table."""
    return made(scale_folder(scale) / "tables", lambda folder: _generate(scale, folder))


def made(folder: Path, make: Callable[[Path], None]) -> Path:
    """The folder, made first if it is not there; one that is there is whole."""
    if not folder.is_dir():
        unready = folder.with_name(folder.name + f".{os.getpid()}")
        shutil.rmtree(unready, ignore_errors=True)
        unready.mkdir(parents=True)
        make(unready)
        unready.rename(folder)
    return folder


def _generate(scale: float, folder: Path) -> None:
    program = shutil.which("tpchgen-cli", path=f"{Path(sys.executable).parent}:{os.environ.get('PATH', '')}")
    if program is None:
        raise SystemExit("tpchgen-cli is missing: install the project's extra `bench`")
    tables = f"--tables={','.join(TABLES)}"
    command = [program, "parquet", f"--scale-factor={scale:g}", tables, f"--output-dir={folder}"]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
