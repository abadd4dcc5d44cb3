"""The benchmark's eight tables: how each of three databases declares them, and their rows at a scale."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pyarrow as pa

HOMES = {
    "pg": ("lineitem", "part"),
    "maria": ("orders", "customer"),
    "lite": ("supplier", "partsupp", "nation", "region"),
}
HOME = {table: source for source, tables in HOMES.items() for table in tables}
KEYS = {
    "lineitem": ("l_orderkey", "l_linenumber"),
    "part": ("p_partkey",),
    "orders": ("o_orderkey",),
    "customer": ("c_custkey",),
    "supplier": ("s_suppkey",),
    "partsupp": ("ps_partkey", "ps_suppkey"),
    "nation": ("n_nationkey",),
    "region": ("r_regionkey",),
}
_DECLARED = {
    "lineitem": "l_orderkey BIGINT, l_partkey INT, l_suppkey INT, l_linenumber INT, l_quantity DECIMAL(15,2),"
    " l_extendedprice DECIMAL(15,2), l_discount DECIMAL(15,2), l_tax DECIMAL(15,2), l_returnflag CHAR(1),"
    " l_linestatus CHAR(1), l_shipdate DATE, l_commitdate DATE, l_receiptdate DATE, l_shipinstruct CHAR(25),"
    " l_shipmode CHAR(10), l_comment VARCHAR(44)",
    "part": "p_partkey INT, p_name VARCHAR(55), p_mfgr CHAR(25), p_brand CHAR(10), p_type VARCHAR(25),"
    " p_size INT, p_container CHAR(10), p_retailprice DECIMAL(15,2), p_comment VARCHAR(23)",
    "orders": "o_orderkey BIGINT, o_custkey INT, o_orderstatus CHAR(1), o_totalprice DECIMAL(15,2),"
    " o_orderdate DATE, o_orderpriority CHAR(15), o_clerk CHAR(15), o_shippriority INT,"
    " o_comment VARCHAR(79)",
    "customer": "c_custkey INT, c_name VARCHAR(25), c_address VARCHAR(40), c_nationkey INT, c_phone CHAR(15),"
    " c_acctbal DECIMAL(15,2), c_mktsegment CHAR(10), c_comment VARCHAR(117)",
    "supplier": "s_suppkey INT, s_name CHAR(25), s_address VARCHAR(40), s_nationkey INT, s_phone CHAR(15),"
    " s_acctbal DECIMAL(15,2), s_comment VARCHAR(101)",
    "partsupp": "ps_partkey INT, ps_suppkey INT, ps_availqty INT, ps_supplycost DECIMAL(15,2),"
    " ps_comment VARCHAR(199)",
    "nation": "n_nationkey INT, n_name CHAR(25), n_regionkey INT, n_comment VARCHAR(152)",
    "region": "r_regionkey INT, r_name CHAR(25), r_comment VARCHAR(152)",
}


@dataclass(frozen=True)
class Column:
    name: str
    type: str

    @property
    def arrow(self) -> pa.DataType:
        if self.type.startswith("DECIMAL"):
            return pa.decimal128(15, 2)
        return {"BIGINT": pa.int64(), "INT": pa.int32(), "DATE": pa.date32()}.get(self.type, pa.string())


def _columns(declared: str) -> tuple[Column, ...]:
    return tuple(Column(*one.split(" ")) for one in declared.split(", "))


COLUMNS = {table: _columns(declared) for table, declared in _DECLARED.items()}


def ddl(table: str) -> str:
    """One text for the three databases. In SQLite a DECIMAL is kept as a float."""
    declared = _DECLARED[table].replace(", ", " NOT NULL, ")
    return f"CREATE TABLE {table} ({declared} NOT NULL, PRIMARY KEY ({', '.join(KEYS[table])}))"


def generated(scale: float) -> duckdb.DuckDBPyConnection:
    """All tables at a scale factor, in a DuckDB in memory."""
    spec = importlib.util.find_spec("duckdb_extension_tpch")
    assert spec is not None and spec.submodule_search_locations, "pip install duckdb-extension-tpch"
    (extension,) = Path(spec.submodule_search_locations[0]).rglob("tpch.duckdb_extension")
    con = duckdb.connect()
    con.execute(f"LOAD '{extension}'")
    con.execute(f"CALL dbgen(sf={scale})")
    return con
