"""What readers outside Spark get: an Arrow relation that Polars and DuckDB take, exact at every frame."""

from __future__ import annotations

from decimal import Decimal

import duckdb
import polars as pl
import pytest

pytestmark = pytest.mark.engine


def test_polars_and_duckdb_read_the_newest_frame_through_arrow(shop):
    shop.source("s", "CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, amount DECIMAL(10,2));")
    shop.write("s", "INSERT INTO t VALUES (1,'a',1.5),(2,'b',2.5)")
    shop.views("CREATE MATERIALIZED VIEW v AS SELECT id, name, amount FROM s.t;")
    wh = shop.open()
    wh.refresh()
    shop.write("s", "UPDATE t SET amount = 9 WHERE id = 2", "INSERT INTO t VALUES (3,'c',3)")
    wh.refresh()
    assert wh.frame().views["v"].changes, "the frame must be unsettled for this to show anything"
    rows = wh.arrow("v")
    assert pl.from_arrow(rows).sort("id")["amount"].cast(float).to_list() == [1.5, 9.0, 3.0]
    assert duckdb.sql("SELECT SUM(amount) FROM rows").fetchone() == (Decimal("13.50"),)
    assert wh.arrow("v", frame=1).num_rows == 2
