"""The paper's view, an aggregate of it, and how two bags of its rows are compared.

NATION is joined to SUPPLIER: joined to CUSTOMER as well, it would keep one line in 25.
"""

from __future__ import annotations

from typing import Any

JOINED = {
    "l_orderkey": "BIGINT",
    "l_linenumber": "INTEGER",
    "c_custkey": "BIGINT",
    "c_name": "VARCHAR",
    "c_mktsegment": "VARCHAR",
    "c_acctbal": "DECIMAL(15,2)",
    "o_orderdate": "DATE",
    "o_orderpriority": "VARCHAR",
    "o_totalprice": "DECIMAL(15,2)",
    "l_quantity": "DECIMAL(15,2)",
    "l_extendedprice": "DECIMAL(15,2)",
    "l_discount": "DECIMAL(15,2)",
    "l_shipdate": "DATE",
    "s_suppkey": "BIGINT",
    "s_name": "VARCHAR",
    "s_acctbal": "DECIMAL(15,2)",
    "n_name": "VARCHAR",
    "r_name": "VARCHAR",
}
REVENUE = {
    "n_name": "VARCHAR",
    "o_orderdate": "DATE",
    "lines": "BIGINT",
    "quantity": "DECIMAL(38,2)",
    "revenue": "DECIMAL(38,4)",
}
SHOWN = {"joined": JOINED, "revenue": REVENUE}
OWNED = {"c": "customer", "o": "orders", "l": "lineitem", "s": "supplier", "n": "nation", "r": "region"}
KEYS = ("l_orderkey", "o_orderkey", "c_custkey", "s_suppkey", "n_nationkey", "r_regionkey")
REFERENCES = ("o_custkey", "l_suppkey", "s_nationkey", "n_regionkey")
NEEDED = {
    table: tuple(dict.fromkeys(name for name in (*KEYS, *REFERENCES, *JOINED) if name[0] == letter))
    for letter, table in OWNED.items()
}


def join(names: dict[str, str] | None = None) -> str:
    """The join of the six tables; `names` says under which names they are found."""
    found = {table: (names or {}).get(table, table) for table in OWNED.values()}
    columns = ", ".join(f"{column[0]}.{column}" for column in JOINED)
    return (
        f"SELECT {columns}\nFROM {found['lineitem']} l"
        f" JOIN {found['orders']} o ON o.o_orderkey = l.l_orderkey"
        f" JOIN {found['customer']} c ON c.c_custkey = o.o_custkey"
        f" JOIN {found['supplier']} s ON s.s_suppkey = l.l_suppkey"
        f" JOIN {found['nation']} n ON n.n_nationkey = s.s_nationkey"
        f" JOIN {found['region']} r ON r.r_regionkey = n.n_regionkey"
    )


JOIN = join()


def aggregate(joined: str = "joined") -> str:
    return (
        "SELECT n_name, o_orderdate, COUNT(*) AS lines, SUM(l_quantity) AS quantity,"
        f" SUM(l_extendedprice * (1 - l_discount)) AS revenue\nFROM {joined} GROUP BY n_name, o_orderdate"
    )


def checksum(con: Any, relation: str, view: str) -> tuple[int, str]:
    """Rows and a sum of row hashes, equal for equal bags. Values are compared as the view's types, so that
    what a database calls them does not matter."""
    values = ", ".join(f"CAST(CAST({name} AS {type_}) AS VARCHAR)" for name, type_ in SHOWN[view].items())
    query = f"SELECT count(*), CAST(sum(hash(concat_ws('|', {values}))) AS VARCHAR) FROM {relation} AS x"
    rows, total = con.execute(query).fetchone()
    return int(rows), str(total)
