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


def _of_order(where: str) -> str:
    """Lines of orders, some of a kind of customer."""
    orders = "SELECT o_orderkey FROM maria.orders JOIN maria.customer ON c_custkey = o_custkey"
    return f"l_orderkey IN ({orders} WHERE {where})"


def _of_region(name: str) -> str:
    """Customers there."""
    nations = "SELECT n_nationkey FROM lite.nation JOIN lite.region ON r_regionkey = n_regionkey"
    return f"c_nationkey IN ({nations} WHERE r_name = '{name}')"


_DEAR = {"l_extendedprice": Decimal("999999.99")}
_LATE = {"l_commitdate": date(1994, 5, 1), "l_receiptdate": date(1994, 5, 9)}
_IN_PERSON = {"l_quantity": Decimal(5), "l_shipmode": "AIR", "l_shipinstruct": "DELIVER IN PERSON"}
_BUILDING = "o_orderdate < DATE '1995-03-15' AND c_mktsegment = 'BUILDING'"
_AMERICAN = f"year(o_orderdate) IN (1995, 1996) AND {_of_region('AMERICA')}"
_FROM_BRAZIL = f"{_of_nation('l_suppkey', 'BRAZIL')} AND {_of_order(_AMERICAN)}"
_TO_AMERICA = f"p_partkey IN (SELECT l_partkey FROM pg.lineitem WHERE {_FROM_BRAZIL})"
_ASIAN = f"year(o_orderdate) = 1994 AND {_of_region('ASIA')}"
_AT_HOME = (
    "l_suppkey IN (SELECT s_suppkey FROM lite.supplier JOIN maria.customer ON c_nationkey = s_nationkey"
    " JOIN maria.orders ON o_custkey = c_custkey WHERE o_orderkey = l_orderkey)"
)
_SMALL = "p_brand = 'Brand#12' AND p_size <= 5 AND p_container IN ('SM CASE', 'SM BOX', 'SM PACK', 'SM PKG')"
_BIG_ORDERS = "SELECT l_orderkey FROM pg.lineitem GROUP BY l_orderkey HAVING sum(l_quantity) > 270"
_ONE_LATE = (
    "SELECT l_orderkey FROM pg.lineitem WHERE l_receiptdate > l_commitdate GROUP BY l_orderkey"
    f" HAVING count(*) = 1 AND bool_and({_of_nation('l_suppkey', 'SAUDI ARABIA')})"
)
_BUYERS = "SELECT o_custkey FROM maria.orders"

AIMS = (
    Aim("q2", "partsupp", _of_part("ps_partkey", "p_size = 15"), {"ps_supplycost": Decimal("0.50")}),
    Aim("q2", "part", "p_size = 15", {"p_type": "SMALL PLATED BRASS"}),
    Aim("q3", "lineitem", _of_order(_BUILDING), {**_DEAR, "l_shipdate": date(1995, 4, 4)}),
    Aim("q4", "orders", "year(o_orderdate) = 1993", {"o_orderdate": date(1993, 8, 8)}),
    Aim("q5", "lineitem", f"{_of_order(_ASIAN)} AND {_AT_HOME}", {"l_extendedprice": Decimal("1234.56")}),
    Aim("q7", "lineitem", _of_nation("l_suppkey", "FRANCE"), {"l_shipdate": date(1996, 4, 4)}),
    Aim("q8", "part", _TO_AMERICA, {"p_type": "ECONOMY ANODIZED STEEL"}),
    Aim("q10", "lineitem", _of_order("o_orderdate = DATE '1993-11-02'"), {**_DEAR, "l_returnflag": "R"}),
    Aim("q10", "orders", "year(o_orderdate) = 1993", {"o_orderdate": date(1993, 11, 2)}),
    Aim(
        *("q11", "partsupp", _of_nation("ps_suppkey", "GERMANY")),
        {"ps_availqty": 9999, "ps_supplycost": Decimal("9999.00")},
    ),
    Aim("q12", "lineitem", "l_shipmode IN ('MAIL', 'SHIP')", {**_LATE, "l_shipdate": date(1994, 4, 1)}),
    Aim("q15", "lineitem", "year(l_shipdate) = 1996", {**_DEAR, "l_shipdate": date(1996, 2, 2)}),
    Aim("q17", "lineitem", _of_part("l_partkey", "p_brand = 'Brand#23'"), {"l_quantity": Decimal(1)}),
    Aim("q17", "part", "p_brand = 'Brand#23'", {"p_container": "MED BOX"}),
    Aim("q18", "lineitem", f"l_orderkey IN ({_BIG_ORDERS})", {"l_quantity": Decimal(280)}),
    Aim("q19", "lineitem", _of_part("l_partkey", _SMALL), _IN_PERSON),
    Aim("q19", "part", "p_brand = 'Brand#12' AND p_size <= 5", {"p_container": "SM BOX"}),
    Aim("q20", "supplier", _of_nation("s_suppkey", "CANADA"), {"s_address": "a lake"}),
    Aim("q20", "supplier", "s_suppkey % 3 = 0", {"s_nationkey": 3}),
    Aim("q21", "orders", f"o_orderkey IN ({_ONE_LATE}) AND o_orderstatus <> 'F'", {"o_orderstatus": "F"}),
    Aim("q21", "orders", f"o_orderkey IN ({_ONE_LATE}) AND o_orderstatus = 'F'", {"o_orderstatus": "P"}),
    Aim("q22", "customer", f"c_custkey NOT IN ({_BUYERS})", {"c_acctbal": Decimal("9000.00")}),
)
AIMED = {table: tuple(a.where for a in AIMS if a.table == table) for table in {a.table for a in AIMS}}
