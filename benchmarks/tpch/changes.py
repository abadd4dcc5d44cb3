"""Changes of the six tables, frame by frame, as signed rows in Parquet files.

A frame changes `percent` of the rows of every relation, a third of them inserted, deleted and updated
each; an update counts as one row. Law: after every frame each foreign key has its partner, so

* an order is inserted with lines and deleted with its lines: as many, in the mean, as are wanted of lines;
* a customer is deleted only if no order is left of it;
* the lines of a deleted supplier go to another one, which is half of the updates of lines; suppliers for
  which that leaves no room are updated and not deleted;
* nations and regions are only updated, as many as `percent` of them is, rounded.

Every update changes a column that the view shows. Rows are chosen `uniform`ly, or `skewed`: four fifths
among the newest fifth of the keys, and so on within that fifth. The same seed gives the same changes.
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.tpch.data import COLUMNS, KEYS, TABLES, duck, made, scale_folder, tables
from benchmarks.tpch.views import JOIN, checksum

SIGN = "sign"
MEASURES = ("c_acctbal", "o_totalprice", "l_quantity", "l_discount", "s_acctbal")
_SKEW = math.log(0.8) / math.log(0.2)
_LINES_OF_A_SUPPLIER = 600


@dataclass(frozen=True)
class Workload:
    """What is changed: one value of it is one folder of changes. With `percents`, there are as many frames of
    each of these percentages, in this order."""

    scale: float
    percent: float
    frames: int
    spread: str = "uniform"
    seed: int = 1
    percents: tuple[float, ...] = ()

    @property
    def folder(self) -> Path:
        changed = "_".join(f"{percent:g}" for percent in self.percents or (self.percent,))
        name = f"changes-{changed}-{self.frames}-{self.spread}-{self.seed}"
        return made(scale_folder(self.scale) / name, lambda folder: _make(self, folder))

    @property
    def last(self) -> int:
        """The number of the last frame."""
        return self.frames * max(1, len(self.percents))

    def percent_of(self, number: int) -> float:
        """Of frame 1, 2, …"""
        return self.percents[(number - 1) // self.frames] if self.percents else self.percent

    def frame(self, number: int) -> dict[str, Path]:
        """Of frame 1, 2, …: the relations that change, and the files of their signed rows."""
        found = self.folder / f"frame-{number:04}"
        return {
            table: found / f"{table}.parquet" for table in TABLES if (found / f"{table}.parquet").exists()
        }

    def facts(self) -> dict[str, object]:
        """Rows changed in each frame; the view's totals before the first and after each; its row count and
        checksum after the last one."""
        return dict(json.loads((self.folder / "facts.json").read_text(encoding="utf-8")))

    def state(self, number: int) -> Path:
        """A folder with every table as it is after a frame; 0 is before the first."""
        if number == 0:
            return tables(self.scale)
        return made(self.folder / f"state-{number:04}", lambda folder: _state(self, number, folder))


def view_totals(con: Any, query: str) -> tuple[int, int]:
    """Lines of the view, and a sum over them in cents."""
    measures = " + ".join(MEASURES)
    found = con.execute(
        f"SELECT count(*), CAST(sum(l_orderkey + 7 * l_linenumber + 100 * ({measures})) AS BIGINT)"
        f" FROM ({query})"
    ).fetchone()
    return int(found[0]), int(found[1])


def _make(workload: Workload, folder: Path) -> None:
    maker = _Maker(workload)
    counts, totals = [], [view_totals(maker.con, JOIN)]
    for number in range(1, workload.last + 1):
        counts.append(maker.frame(number, folder / f"frame-{number:04}"))
        totals.append(view_totals(maker.con, JOIN))
    rows, total = checksum(maker.con, f"({JOIN})", "joined")
    facts = {
        **asdict(workload),
        "changed": counts,
        "totals": totals,
        "joined": {"rows": rows, "checksum": total},
    }
    (folder / "facts.json").write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")


def _state(workload: Workload, number: int, folder: Path) -> None:
    """The tables before the first frame, with the net effect of the frames up to this one."""
    con = duck()
    for table in TABLES:
        before = workload.state(0) / f"{table}.parquet"
        found = [workload.frame(n).get(table) for n in range(1, number + 1)]
        changed = [str(path) for path in found if path]
        after = folder / f"{table}.parquet"
        if not changed:
            after.hardlink_to(before)
            continue
        names, key = ", ".join(COLUMNS[table]), ", ".join(KEYS[table])
        con.execute(
            f"CREATE OR REPLACE TEMP TABLE signed AS SELECT {names}, sum({SIGN}) AS copies"
            f" FROM read_parquet({changed}) GROUP BY ALL HAVING copies <> 0"
        )
        con.execute(
            f"COPY (SELECT {names} FROM '{before}' WHERE ({key}) NOT IN"
            f" (SELECT ({key}) FROM signed WHERE copies < 0)"
            f" UNION ALL SELECT {names} FROM signed WHERE copies > 0) TO '{after}' (FORMAT parquet)"
        )


class _Maker:
    """The tables in a DuckDB, changed frame by frame. A frame is chosen from the state before it."""

    def __init__(self, workload: Workload) -> None:
        self.workload, self.share = workload, 0.0
        self.con = duck()
        for table in TABLES:
            names = ", ".join(COLUMNS[table])
            path = tables(workload.scale) / f"{table}.parquet"
            self.con.execute(f"CREATE TABLE {table} AS SELECT {names} FROM '{path}'")
        self.first = {table: self._one(f"SELECT count(*) FROM {table}") for table in TABLES}

    def _one(self, query: str) -> int:
        found = self.con.execute(query).fetchone()
        assert found is not None
        return int(found[0])

    def frame(self, number: int, folder: Path) -> dict[str, int]:
        self.salt = self.workload.seed * 1_000_003 + number
        self.share = self.workload.percent_of(number) / 100
        self._suppliers(number)
        self._customers(number)
        self._orders(number)
        self._lines()
        self._few("nation", "n_regionkey = (n_regionkey + 1) % 5")
        self._few(
            "region", "r_name = CASE r_name WHEN upper(r_name) THEN lower(r_name) ELSE upper(r_name) END"
        )
        folder.mkdir()
        return {table: self._apply(table, folder) for table in TABLES}

    # -- choosing

    def _wanted(self, table: str) -> float:
        return self.first[table] * self.share

    def _thirds(self, table: str, turn: int) -> tuple[int, int, int]:
        """Inserts, deletes, updates. What does not divide by three goes to each in turn."""
        wanted = round(self._wanted(table))
        inserts, deletes, updates = ((wanted + (turn + i) % 3) // 3 for i in range(3))
        return inserts, deletes, updates

    def _choose(self, name: str, table: str, wanted: int, where: str = "true") -> None:
        """Temp table `name`: keys of so many rows, numbered from 1."""
        key = KEYS[table]
        chance = f"(hash({', '.join(key)}, {self.salt}, '{name}') / 18446744073709551616.0 + 1e-18)"
        order = chance
        if self.workload.spread == "skewed":
            newest = self._one(f"SELECT max({key[0]}) FROM {table}") + 1
            order = f"-ln({chance}) / pow(1 - {key[0]} / {newest}.0, {_SKEW - 1})"
        keys = ", ".join(key)
        self.con.execute(
            f"CREATE OR REPLACE TEMP TABLE {name} AS SELECT {keys},"
            f" row_number() OVER (ORDER BY {order}, {keys}) AS place"
            f" FROM {table} WHERE {where} QUALIFY place <= {max(wanted, 0)}"
        )

    def _new(self, table: str, update: str, updated: str, insert: str) -> None:
        """Temp table `new_<table>`: the rows that updates and inserts leave."""
        key = " AND ".join(f"t.{name} = u.{name}" for name in KEYS[table])
        self.con.execute(
            f"CREATE OR REPLACE TEMP TABLE new_{table} AS"
            f" SELECT t.* REPLACE ({update}) FROM {table} t JOIN {updated} u ON {key} UNION ALL {insert}"
        )

    def _gone(self, table: str, *chosen: str) -> None:
        """Temp table `gone_<table>`: keys of the rows that deletes and updates take away."""
        keys = ", ".join(KEYS[table])
        union = " UNION ".join(f"SELECT {keys} FROM {name}" for name in chosen)
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE gone_{table} AS {union}")

    # -- one relation each

    def _suppliers(self, turn: int) -> None:
        inserts, deletes, updates = self._thirds("supplier", turn)
        room = int(self._wanted("lineitem") / 6 / _LINES_OF_A_SUPPLIER)
        kept = max(deletes - room, 0)
        self._choose("s_del", "supplier", deletes - kept)
        untouched = "s_suppkey NOT IN (SELECT s_suppkey FROM s_del)"
        self._choose("s_upd", "supplier", updates + kept, untouched)
        self._choose("s_like", "supplier", inserts, untouched)
        last = self._one("SELECT max(s_suppkey) FROM supplier")
        self._new(
            "supplier",
            "s_acctbal + 1 AS s_acctbal",
            "s_upd",
            f"SELECT t.* REPLACE ({last} + place AS s_suppkey,"
            f" 'Supplier#' || lpad(({last} + place)::VARCHAR, 9, '0') AS s_name)"
            " FROM supplier t JOIN s_like USING (s_suppkey)",
        )
        self._gone("supplier", "s_del", "s_upd")
        heirs = self._one("SELECT count(*) FROM s_like")
        other = f"{last} + (place - 1) % {heirs} + 1" if heirs else "(SELECT min(s_suppkey) FROM s_upd)"
        self.con.execute(
            f"CREATE OR REPLACE TEMP TABLE heir AS SELECT s_suppkey AS l_suppkey, {other} AS heir FROM s_del"
        )

    def _customers(self, turn: int) -> None:
        inserts, deletes, updates = self._thirds("customer", turn + 1)
        self._choose("c_del", "customer", deletes, "c_custkey NOT IN (SELECT o_custkey FROM orders)")
        untouched = "c_custkey NOT IN (SELECT c_custkey FROM c_del)"
        self._choose("c_upd", "customer", updates, untouched)
        self._choose("c_like", "customer", inserts)
        last = self._one("SELECT max(c_custkey) FROM customer")
        segments = "['AUTOMOBILE', 'BUILDING', 'FURNITURE', 'HOUSEHOLD', 'MACHINERY']"
        self._new(
            "customer",
            "c_acctbal + 1 AS c_acctbal,"
            f" {segments}[list_position({segments}, c_mktsegment) % 5 + 1] AS c_mktsegment",
            "c_upd",
            f"SELECT t.* REPLACE ({last} + place AS c_custkey,"
            f" 'Customer#' || lpad(({last} + place)::VARCHAR, 9, '0') AS c_name)"
            " FROM customer t JOIN c_like USING (c_custkey)",
        )
        self._gone("customer", "c_del", "c_upd")
        self.new_customers = (last, self._one("SELECT count(*) FROM c_like"))

    def _orders(self, turn: int) -> None:
        """A tenth of the new orders are of new customers."""
        inserts, deletes, updates = self._thirds("orders", turn + 2)
        self._choose("o_del", "orders", deletes)
        self._choose("o_upd", "orders", updates, "o_orderkey NOT IN (SELECT o_orderkey FROM o_del)")
        self._choose("o_like", "orders", inserts)
        last = self._one("SELECT max(o_orderkey) FROM orders")
        customer, many = self.new_customers
        whose = f"CASE WHEN place % 10 = 0 THEN {customer} + place % {many} + 1 ELSE o_custkey END"
        priorities = "['1-URGENT', '2-HIGH', '3-MEDIUM', '4-NOT SPECIFIED', '5-LOW']"
        self._new(
            "orders",
            "o_totalprice + 1 AS o_totalprice,"
            f" {priorities}[list_position({priorities}, o_orderpriority) % 5 + 1] AS o_orderpriority",
            "o_upd",
            f"SELECT t.* REPLACE ({last} + place AS o_orderkey,"
            f" {whose if many else 'o_custkey'} AS o_custkey)"
            " FROM orders t JOIN o_like USING (o_orderkey)",
        )
        self._gone("orders", "o_del", "o_upd")
        self.last_order = last

    def _lines(self) -> None:
        """Lines of orders that come and go, lines that a supplier leaves to another, and other updates."""
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE l_del AS SELECT l_orderkey, l_linenumber FROM lineitem"
            " WHERE l_orderkey IN (SELECT o_orderkey FROM o_del)"
        )
        self.con.execute(
            "CREATE OR REPLACE TEMP TABLE l_left AS SELECT l_orderkey, l_linenumber FROM lineitem"
            " WHERE l_suppkey IN (SELECT l_suppkey FROM heir)"
            " AND l_orderkey NOT IN (SELECT o_orderkey FROM o_del)"
        )
        free = "l_suppkey NOT IN (SELECT l_suppkey FROM heir)"
        free += " AND l_orderkey NOT IN (SELECT o_orderkey FROM o_del)"
        updates = round(self._wanted("lineitem") / 3) - self._one("SELECT count(*) FROM l_left")
        self._choose("l_upd", "lineitem", updates, free)
        self._new(
            "lineitem",
            "l_quantity % 50 + 1 AS l_quantity, if(l_discount < 0.10, l_discount + 0.01, 0) AS l_discount",
            "l_upd",
            "SELECT t.* REPLACE (h.heir AS l_suppkey) FROM lineitem t"
            " JOIN l_left USING (l_orderkey, l_linenumber) JOIN heir h USING (l_suppkey) UNION ALL"
            f" SELECT t.* REPLACE ({self.last_order} + o.place AS l_orderkey,"
            " coalesce(h.heir, t.l_suppkey) AS l_suppkey)"
            " FROM lineitem t JOIN o_like o ON o.o_orderkey = t.l_orderkey"
            " LEFT JOIN heir h USING (l_suppkey)",
        )
        self._gone("lineitem", "l_del", "l_left", "l_upd")

    def _few(self, table: str, update: str) -> None:
        self._choose(f"{table}_upd", table, round(self._wanted(table)))
        name, value = update.split(" = ", 1)
        self._new(table, f"{value} AS {name}", f"{table}_upd", f"SELECT * FROM {table} WHERE false")
        self._gone(table, f"{table}_upd")

    # -- applying

    def _apply(self, table: str, folder: Path) -> int:
        """Write the relation's signed rows, and change the relation. Returns how many rows changed."""
        names, keys = ", ".join(COLUMNS[table]), ", ".join(KEYS[table])
        self.con.execute(
            f"CREATE OR REPLACE TEMP TABLE signed AS SELECT *, 0::TINYINT AS {SIGN} FROM {table} LIMIT 0"
        )
        self.con.execute(
            f"INSERT INTO signed SELECT {names}, -1 FROM {table}"
            f" WHERE ({keys}) IN (SELECT ({keys}) FROM gone_{table})"
            f" UNION ALL SELECT {names}, 1 FROM new_{table}"
        )
        changed = self._one(f"SELECT count(*) FROM (SELECT DISTINCT {keys} FROM signed)")
        if changed:
            self.con.execute(
                f"COPY (SELECT * FROM signed ORDER BY {keys}, {SIGN})"
                f" TO '{folder / table}.parquet' (FORMAT parquet)"
            )
            self.con.execute(f"DELETE FROM {table} WHERE ({keys}) IN (SELECT ({keys}) FROM gone_{table})")
            self.con.execute(f"INSERT INTO {table} SELECT {names} FROM new_{table}")
        return changed
