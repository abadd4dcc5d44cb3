"""DuckDB, incremental, written by hand: what a careful engineer would put into a script.

    touched = lines that changed, of orders or customers that changed, of suppliers that changed or whose
              nation or region did
    view    = view without the touched lines, and the touched lines as the tables have them now

Tables keep the columns that the view needs, in a database file. A frame reads its change files, changes the
six tables and the view, and is one transaction. A propagation tree over signed rows, netted by whole rows,
took one and a half to two times as long.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.tpch.changes import SIGN
from benchmarks.tpch.data import KEYS, duck
from benchmarks.tpch.peers.base import TABLE_NAMES, Task
from benchmarks.tpch.views import JOIN, NEEDED, aggregate, join

CHECKPOINT = "4GB"  # of log, before the file is brought up to date with it
GROUPED = "n_name, o_orderdate, l_quantity, l_extendedprice, l_discount"  # what the aggregate reads


class Script:
    def __init__(self, con: Any, task: Task) -> None:
        self.con, self.task = con, task

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
            self._keep(f"d_{table}", found or none)
        for table in frame:
            self._change(table)
        self._touched()
        self._install()
        self.con.execute("COMMIT")

    def _keep(self, name: str, query: str) -> None:
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE {name} AS {query}")

    def _change(self, table: str) -> None:
        key = " AND ".join(f"t.{name} = d.{name}" for name in KEYS[table])
        self.con.execute(f"DELETE FROM {table} t USING d_{table} d WHERE d.{SIGN} < 0 AND {key}")
        names = ", ".join(NEEDED[table])
        self.con.execute(f"INSERT INTO {table} SELECT {names} FROM d_{table} WHERE {SIGN} > 0")

    def _touched(self) -> None:
        """Temp tables of the orders and suppliers all of whose lines are touched. It is enough to look for
        them in the tables as they are now: a partner that left took its lines along, or they have another."""
        self._keep(
            "touched_orders",
            "SELECT o_orderkey FROM d_orders UNION"
            " SELECT o_orderkey FROM orders WHERE o_custkey IN (SELECT c_custkey FROM d_customer)",
        )
        self._keep(
            "touched_suppliers",
            "SELECT s_suppkey FROM d_supplier UNION SELECT s_suppkey FROM supplier JOIN nation"
            " ON n_nationkey = s_nationkey WHERE n_nationkey IN (SELECT n_nationkey FROM d_nation)"
            " OR n_regionkey IN (SELECT r_regionkey FROM d_region)",
        )

    def _install(self) -> None:
        lines = "(l_orderkey, l_linenumber) IN (SELECT (l_orderkey, l_linenumber) FROM d_lineitem)"
        orders = "l_orderkey IN (FROM touched_orders)"
        leave = f"DELETE FROM joined WHERE {lines} OR {orders} OR s_suppkey IN (FROM touched_suppliers)"
        touched = (
            f"(SELECT * FROM lineitem WHERE {lines} OR {orders} OR l_suppkey IN (FROM touched_suppliers))"
        )
        come = f"INSERT INTO joined {join({'lineitem': touched})}"
        if "revenue" in self.task.views:
            self._returned("leaving", leave)
            self._returned("coming", come)
            self._revenue()
        else:
            self.con.execute(leave)
            self.con.execute(come)

    def _returned(self, name: str, change: str) -> None:
        """Changes the join, and keeps what the aggregate reads of the rows that left or came."""
        self.con.register("returned", self.con.execute(f"{change} RETURNING {GROUPED}").to_arrow_table())
        self._keep(name, "FROM returned")
        self.con.unregister("returned")

    def _revenue(self) -> None:
        self._keep(
            "d_revenue",
            "SELECT n_name, o_orderdate, sum(sign)::BIGINT AS lines, sum(sign * l_quantity) AS quantity,"
            " sum(sign * l_extendedprice * (1 - l_discount)) AS revenue"
            " FROM (SELECT *, 1 AS sign FROM coming UNION ALL SELECT *, -1 FROM leaving)"
            " GROUP BY n_name, o_orderdate",
        )
        same = "r.n_name = d.n_name AND r.o_orderdate = d.o_orderdate"
        self._keep(
            "new_revenue",
            "SELECT n_name, o_orderdate, sum(lines)::BIGINT AS lines,"
            " sum(quantity) AS quantity, sum(revenue) AS revenue FROM (FROM d_revenue UNION ALL SELECT r.*"
            f" FROM revenue r JOIN d_revenue d ON {same}) GROUP BY n_name, o_orderdate",
        )
        self.con.execute(f"DELETE FROM revenue r USING d_revenue d WHERE {same}")
        self.con.execute("INSERT INTO revenue FROM new_revenue WHERE lines > 0")


def run(task: Task) -> dict[str, Any]:
    con = duck(str(task.folder / "by-hand.duckdb"))
    settings = {"threads": task.cores, "preserve_insertion_order": False, "checkpoint_threshold": CHECKPOINT}
    for name, value in settings.items():
        con.execute(f"SET {name} = '{value}'")
    script = Script(con, task)
    with task.meter.timed("load"):
        script.load(task.workload.state(0))
    for number in range(1, task.turns + 1):
        with task.refreshing(number):
            script.refresh(task.workload.frame(number))
    result = task.finish("DuckDB, incremental by hand", {"in": "a database file", **settings}, {})
    return {**result, "exact": task.exactness({view: view for view in task.views}, con)}
