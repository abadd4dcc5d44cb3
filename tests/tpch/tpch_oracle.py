"""What DuckDB makes of the views' own texts, over the sources' own rows.

The texts are given to DuckDB as they stand but for quotients: DuckDB's are floats, and so is its avg. Where a
view has one, DuckDB is asked for the same number exactly, in integers, rounded as the view's type asks.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

import duckdb
import pyarrow as pa
from tpch_sources import Sources
from tpch_tables import HOME, HOMES

# A quotient of decimals, half away from zero at six digits.
_MACROS = """
CREATE MACRO millionths(a) AS CAST(a * 1000000 AS HUGEINT);
CREATE MACRO rounded(a, b) AS
  sign(a) * ((2000000 * abs(a) + b) // (2 * b));
CREATE MACRO quotient(a, b) AS
  CAST(rounded(millionths(a), millionths(b)) AS DECIMAL(38,0)) * CAST(0.000001 AS DECIMAL(7,6));
CREATE MACRO mean(x) AS quotient(sum(x), count(x));
"""
# For each view, what is written otherwise: the text of the view, and of DuckDB.
IN_DUCKDB: dict[str, dict[str, str]] = {
    "q1": {
        "avg(l_quantity)": "mean(l_quantity)",
        "avg(l_extendedprice)": "mean(l_extendedprice)",
        "avg(l_discount)": "mean(l_discount)",
    },
    "q8": {
        "sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END) / sum(volume)": (
            "quotient(sum(CASE WHEN nation = 'BRAZIL' THEN volume ELSE 0 END), sum(volume))"
        ),
    },
    "q14": {
        "100.00 * sum(CASE": "quotient(100.00 * sum(CASE",
        "\n    / sum(l_extendedprice * (1 - l_discount))": ", sum(l_extendedprice * (1 - l_discount)))",
    },
    "q17": {
        "sum(l_extendedprice) / 7.0": "quotient(sum(l_extendedprice), 7.0)",
        "avg(l_quantity)": "mean(l_quantity)",
    },
    "q22": {"avg(c_acctbal)": "mean(c_acctbal)"},
}
# Differences that are let pass, as {(view, column): why}. There are none: all is compared exactly.
PERMITTED: dict[tuple[str, str], str] = {}

Bag = Counter[tuple[Any, ...]]


def in_duckdb(view: str, select: str) -> str:
    for ours, theirs in IN_DUCKDB.get(view, {}).items():
        assert select.count(ours) == 1, f"{view}: {ours}"
        select = select.replace(ours, theirs)
    return select


class Oracle:
    """A DuckDB with the sources' rows as they were when it last looked."""

    def __init__(self) -> None:
        self.con = duckdb.connect()
        self.con.execute("SET TimeZone = 'UTC'")
        self.con.execute(_MACROS)
        for source in HOMES:
            self.con.execute(f"CREATE SCHEMA {source}")

    def look(self, sources: Sources) -> None:
        for table, source in HOME.items():
            rows = sources.rows(table)
            self.con.register("rows_read", rows)
            self.con.execute(f"CREATE OR REPLACE TABLE {source}.{table} AS SELECT * FROM rows_read")
            self.con.unregister("rows_read")

    def values(self, table: str, *columns: str) -> list[Any]:
        """Values of a table in a fixed order: plain ones of one column, tuples of several."""
        names = ", ".join(columns)
        found = self.con.execute(f"SELECT {names} FROM {HOME[table]}.{table} ORDER BY ALL").fetchall()
        return [value for (value,) in found] if len(columns) == 1 else found

    def answer(self, view: str, select: str, schema: pa.Schema) -> Bag:
        """A view's rows, cast to its types."""
        names = ", ".join(f'"{field.name}"' for field in schema)
        casts = ", ".join(f'CAST("{field.name}" AS {_duckdb_type(field.type)})' for field in schema)
        text = f"SELECT {casts} FROM ({in_duckdb(view, select)}) AS answer({names})"
        return Counter(self.con.execute(text).fetchall())


def _duckdb_type(type_: pa.DataType) -> str:
    if pa.types.is_decimal(type_):
        return f"DECIMAL({type_.precision},{type_.scale})"
    named = {pa.int16(): "SMALLINT", pa.int32(): "INTEGER", pa.int64(): "BIGINT", pa.date32(): "DATE"}
    if type_ in named:
        return named[type_]
    assert pa.types.is_string(type_) or pa.types.is_large_string(type_), type_
    return "VARCHAR"
