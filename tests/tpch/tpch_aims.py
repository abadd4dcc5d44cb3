"""Rows near the edge of a view, and values that bring them in: random changes of a few rows would miss the
views that ask for much at once. Conditions are read by DuckDB, over the rows that the oracle saw last."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any


@dataclass(frozen=True)
class Aim:
    view: str
    table: str
    where: str
    values: dict[str, Any]


def _of_nation(key: str, name: str) -> str:
    nations = f"SELECT n_nationkey FROM lite.nation WHERE n_name = '{name}'"
    return f"{key} IN (SELECT s_suppkey FROM lite.supplier WHERE s_nationkey IN ({nations}))"


def _of_part(key: str, where: str) -> str:
    return f"{key} IN (SELECT p_partkey FROM pg.part WHERE {where})"


_SMALL = "p_brand = 'Brand#12' AND p_size <= 5 AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')"
_IN_PERSON = {"l_quantity": Decimal(5), "l_shipmode": "AIR", "l_shipinstruct": "DELIVER IN PERSON"}
_LATE = {"l_commitdate": date(1994, 5, 1), "l_receiptdate": date(1994, 5, 9)}
_BIG_ORDERS = "SELECT l_orderkey FROM pg.lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 270"
_BUILDERS = "SELECT c_custkey FROM maria.customer WHERE c_mktsegment = 'BUILDING'"
_BUILDING = (
    f"SELECT o_orderkey FROM maria.orders WHERE o_orderdate < '1995-03-15' AND o_custkey IN ({_BUILDERS})"
)
_DEAR = {"l_extendedprice": Decimal("99999.99"), "l_shipdate": date(1995, 4, 4)}
_BUYERS = "SELECT o_custkey FROM maria.orders"

AIMS = (
    Aim("q2", "partsupp", _of_part("ps_partkey", "p_size = 15"), {"ps_supplycost": Decimal("0.50")}),
    Aim("q2", "part", "p_size = 15", {"p_type": "SMALL PLATED BRASS"}),
    Aim("q3", "lineitem", f"l_orderkey IN ({_BUILDING})", _DEAR),
    Aim("q4", "lineitem", "l_shipdate BETWEEN DATE '1993-07-15' AND DATE '1993-10-01'", _LATE),
    Aim("q5", "lineitem", _of_nation("l_suppkey", "INDIA"), {"l_discount": Decimal("0.09")}),
    Aim("q7", "lineitem", _of_nation("l_suppkey", "FRANCE"), {"l_shipdate": date(1996, 4, 4)}),
    Aim("q8", "lineitem", _of_nation("l_suppkey", "BRAZIL"), {"l_extendedprice": Decimal("1234.56")}),
    Aim("q8", "part", "p_type LIKE 'ECONOMY ANODIZED%'", {"p_type": "ECONOMY ANODIZED STEEL"}),
    Aim("q11", "partsupp", _of_nation("ps_suppkey", "GERMANY"), {"ps_availqty": 9999}),
    Aim("q12", "lineitem", "l_shipmode IN ('MAIL', 'SHIP')", {**_LATE, "l_shipdate": date(1994, 4, 1)}),
    Aim("q15", "lineitem", "l_shipdate > DATE '1995-12-31'", {"l_shipdate": date(1996, 2, 2)}),
    Aim("q17", "lineitem", _of_part("l_partkey", "p_brand = 'Brand#23'"), {"l_quantity": Decimal(1)}),
    Aim("q17", "part", "p_brand = 'Brand#23'", {"p_container": "MED BOX"}),
    Aim("q18", "lineitem", f"l_orderkey IN ({_BIG_ORDERS})", {"l_quantity": Decimal(280)}),
    Aim("q19", "lineitem", _of_part("l_partkey", _SMALL), _IN_PERSON),
    Aim("q19", "part", "p_brand = 'Brand#12' AND p_size <= 5", {"p_container": "SM BOX"}),
    Aim("q20", "partsupp", _of_part("ps_partkey", "p_name LIKE 'forest%'"), {"ps_availqty": 5}),
    Aim("q20", "supplier", "s_suppkey % 3 = 0", {"s_nationkey": 3}),
    Aim("q21", "lineitem", _of_nation("l_suppkey", "SAUDI ARABIA"), _LATE),
    Aim("q22", "customer", f"c_custkey NOT IN ({_BUYERS})", {"c_acctbal": Decimal("9000.00")}),
)
AIMED = {table: tuple(a.where for a in AIMS if a.table == table) for table in {a.table for a in AIMS}}
