"""DuckDB, incremental, written by hand: a propagation tree over tables in a database file.

    Δ(L ⋈ O ⋈ C) = ΔL ⋈ O ⋈ C ∪ L' ⋈ ΔO ⋈ C ∪ L' ⋈ O' ⋈ ΔC
    ΔV           = Δ(L ⋈ O ⋈ C) ⋈ S ⋈ N ⋈ R ∪ (L' ⋈ O' ⋈ C') ⋈ Δ(S ⋈ N ⋈ R)

The tables keep the columns that the view needs. A frame reads its change files, changes the view and the six
tables, and is one transaction.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.tpch.changes import SIGN
from benchmarks.tpch.data import KEYS, duck
from benchmarks.tpch.peers.base import TABLE_NAMES, Task
from benchmarks.tpch.views import JOIN, JOINED, NEEDED, aggregate

_ON = {
    "orders": "o_orderkey = l_orderkey",
    "customer": "c_custkey = o_custkey",
    "supplier": "s_suppkey = l_suppkey",
    "nation": "n_nationkey = s_nationkey",
    "region": "r_regionkey = n_regionkey",
}


class Tree:
    def __init__(self, con: Any, task: Task) -> None:
        self.con, self.task = con, task
        self.columns = ", ".join(JOINED)

    def load(self, folder: Path) -> None:
        for table in TABLE_NAMES:
            names = ", ".join(NEEDED[table])
            self.con.execute(f"CREATE TABLE {table} AS SELECT {names} FROM '{folder}/{table}.parquet'")
        self.con.execute(f"CREATE TABLE joined AS {JOIN}")
        if "revenue" in self.task.views:
            self.con.execute(f"CREATE TABLE revenue AS {aggregate()}")
        self.con.execute("CHECKPOINT")

    def refresh(self, frame: dict[str, Path]) -> None:
        self.con.execute("BEGIN")
        for table in TABLE_NAMES:
            names = ", ".join(NEEDED[table])
            found = f"SELECT {names}, {SIGN} FROM '{frame[table]}'" if table in frame else ""
            none = f"SELECT *, 0 AS {SIGN} FROM {table} WHERE false"
            self.con.execute(f"CREATE OR REPLACE TEMP TABLE d_{table} AS {found or none}")
        self._apply(frame, "region", "nation", "supplier")
        self._orders_side(frame)
        self._changes()
        self._install()
        self.con.execute("COMMIT")

    def _apply(self, frame: dict[str, Path], *tables: str) -> None:
        """The three small tables change first; their state before is kept for the terms that ask for it."""
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE snr_before AS SELECT s.*, n_name, r_name FROM supplier s"
            f" JOIN nation n ON {_ON['nation']} JOIN region r ON {_ON['region']}"
        )
        for table in tables:
            self._change(frame, table)
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE snr_after AS SELECT s.*, n_name, r_name FROM supplier s"
            f" JOIN nation n ON {_ON['nation']} JOIN region r ON {_ON['region']}"
        )
        self.con.execute(
            f"CREATE OR REPLACE TEMP TABLE d_snr AS"
            f" SELECT *, -1 AS {SIGN} FROM (FROM snr_before EXCEPT ALL FROM snr_after)"
            " UNION ALL SELECT *, 1 FROM (FROM snr_after EXCEPT ALL FROM snr_before)"
        )

    def _change(self, frame: dict[str, Path], table: str) -> None:
        if table not in frame:
            return
        key = " AND ".join(f"t.{name} = d.{name}" for name in KEYS[table])
        self.con.execute(f"DELETE FROM {table} t USING d_{table} d WHERE d.{SIGN} < 0 AND {key}")
        names = ", ".join(NEEDED[table])
        self.con.execute(f"INSERT INTO {table} SELECT {names} FROM d_{table} WHERE {SIGN} > 0")

    def _orders_side(self, frame: dict[str, Path]) -> None:
        """Temp table `d_loc`. Each table changes after the term that asks for its state before."""
        first = f"d_lineitem JOIN orders ON {_ON['orders']} JOIN customer ON {_ON['customer']}"
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE d_loc AS SELECT * FROM {first}")
        self._change(frame, "lineitem")
        lines = ", ".join(NEEDED["lineitem"])
        orders, customers = ", ".join(NEEDED["orders"]), ", ".join(NEEDED["customer"])
        second = f"d_orders JOIN lineitem ON {_ON['orders']} JOIN customer ON {_ON['customer']}"
        self.con.execute(
            f"INSERT INTO d_loc BY NAME SELECT {lines}, {orders}, {customers}, {SIGN} FROM {second}"
        )
        self._change(frame, "orders")
        third = f"d_customer JOIN orders ON {_ON['customer']} JOIN lineitem ON {_ON['orders']}"
        self.con.execute(
            f"INSERT INTO d_loc BY NAME SELECT {lines}, {orders}, {customers}, {SIGN} FROM {third}"
        )
        self._change(frame, "customer")

    def _changes(self) -> None:
        """Temp table `d_joined`, net."""
        self.con.execute(
            f"CREATE OR REPLACE TEMP TABLE d_joined AS SELECT {self.columns}, sum({SIGN}) AS copies FROM ("
            f"SELECT {self.columns}, {SIGN} FROM d_loc JOIN snr_before ON {_ON['supplier']} UNION ALL"
            f" SELECT {self.columns}, {SIGN} FROM d_snr JOIN lineitem ON {_ON['supplier']}"
            f" JOIN orders ON {_ON['orders']} JOIN customer ON {_ON['customer']})"
            " GROUP BY ALL HAVING copies <> 0"
        )

    def _install(self) -> None:
        """A row of the view is found by its line."""
        self.con.execute(
            "DELETE FROM joined v USING d_joined d WHERE d.copies < 0"
            " AND v.l_orderkey = d.l_orderkey AND v.l_linenumber = d.l_linenumber"
        )
        self.con.execute(f"INSERT INTO joined SELECT {self.columns} FROM d_joined WHERE copies > 0")
        if "revenue" not in self.task.views:
            return
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE d_revenue AS"
            " SELECT n_name, o_orderdate, sum(copies)::BIGINT AS lines,"
            " sum(copies * l_quantity) AS quantity,"
            " sum(copies * l_extendedprice * (1 - l_discount)) AS revenue"
            " FROM d_joined GROUP BY n_name, o_orderdate"
        )
        same = "r.n_name = d.n_name AND r.o_orderdate = d.o_orderdate"
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE new_revenue AS"
            " SELECT n_name, o_orderdate, sum(lines)::BIGINT AS lines,"
            " sum(quantity) AS quantity, sum(revenue) AS revenue FROM (FROM d_revenue UNION ALL SELECT r.*"
            f" FROM revenue r JOIN d_revenue d ON {same}) GROUP BY n_name, o_orderdate"
        )
        self.con.execute(f"DELETE FROM revenue r USING d_revenue d WHERE {same}")
        self.con.execute("INSERT INTO revenue FROM new_revenue WHERE lines > 0")


def run(task: Task) -> dict[str, Any]:
    con = duck(str(task.folder / "by-hand.duckdb"))
    con.execute(f"SET threads = {task.cores}")
    con.execute("SET preserve_insertion_order = false")
    tree = Tree(con, task)
    with task.meter.timed("load"):
        tree.load(task.workload.state(0))
    for number in range(1, task.turns + 1):
        with task.refreshing(number):
            tree.refresh(task.workload.frame(number))
    result = task.finish("DuckDB, incremental by hand", {"threads": task.cores, "in": "a database file"}, {})
    return {**result, "exact": task.exactness({view: view for view in task.views}, con)}
