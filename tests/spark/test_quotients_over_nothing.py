"""A join that yields no row has nothing to divide: whatever the engine makes of a check for zero, the view is
there, and empty."""

from __future__ import annotations

import pytest

from shops import Shop

pytestmark = pytest.mark.engine


def test_divisors_that_are_written_out(shop: Shop) -> None:
    shop.source(
        "s",
        "CREATE TABLE t (k INTEGER, c INTEGER, d TEXT); CREATE TABLE a (x INTEGER);"
        "CREATE TABLE b (y INTEGER);",
    )
    shop.write(
        "s",
        "INSERT INTO t VALUES (3, 1, ''), (4, NULL, 'A'), (4, -1, 'a'), (1, NULL, 'b'), (1, 2, 'a')",
        "INSERT INTO a VALUES (4), (2)",
        "INSERT INTO b VALUES (-1), (2)",
    )
    shop.views(
        "CREATE MATERIALIZED VIEW u AS SELECT x FROM s.a;"
        "CREATE MATERIALIZED VIEW w AS SELECT y FROM s.b;"
        "CREATE MATERIALIZED VIEW v AS SELECT t0.k / 4 AS q, t0.k FROM s.t t0, s.t t1,"
        " (SELECT x % 3 AS r, x FROM u WHERE x = 1 OR x IS NULL) t2, w t3"
        " WHERE t1.d = t0.d AND t2.x <= t0.c AND t2.r = t3.y;"
    )
    wh = shop.open()
    for write in ("INSERT INTO a VALUES (5)", "INSERT INTO a VALUES (1)"):
        wh.refresh()
        assert wh.frame().views["v"].state == "current"
        assert wh.arrow("v").num_rows == 0
        shop.write("s", write, "INSERT INTO b VALUES (1)")
    wh.refresh()
    assert wh.verify_all()["v"].ok
    assert wh.arrow("v").num_rows
