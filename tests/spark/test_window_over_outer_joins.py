"""Windows over outer joins: sums of joins with columns that are NULL, which Spark's optimiser would break."""

from __future__ import annotations

import pytest

from shops import Shop

pytestmark = pytest.mark.engine

LEFT = "CREATE TABLE l (k INTEGER PRIMARY KEY, g BIGINT, s TEXT, c BIGINT);"
RIGHT = "CREATE TABLE r (k INTEGER PRIMARY KEY, g BIGINT, s TEXT, d DATE);"
THIRD = "CREATE TABLE t (g BIGINT, s TEXT, c BIGINT, d DATE);"
VIEW = """
CREATE MATERIALIZED VIEW placed AS
SELECT first_value(r.d) OVER (
    PARTITION BY l.s ORDER BY r.d, r.s, t.d, r.g, l.s, r.k, l.c, t.s, l.g, l.k, t.c, t.g
    ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING
) AS first_day
FROM a.l FULL JOIN a.r ON l.k = r.g LEFT JOIN b.t ON l.s <> 'A';
"""


def test_a_window_over_outer_joins_is_right_from_its_first_frame_on(shop: Shop) -> None:
    shop.source("a", LEFT + RIGHT + "INSERT INTO r VALUES (5, 1, 'b', '2024-03-01');")
    shop.source("b", THIRD + "INSERT INTO t VALUES (2, 'A', 0, '2024-03-01');")
    shop.views(VIEW)
    with shop.open() as warehouse:
        for statement in ("INSERT INTO l VALUES (1, 2, 'x', 3)", "DELETE FROM r"):
            assert not warehouse.maintain().failures
            assert warehouse.verify_all()["placed"].ok
            shop.write("a", statement)
        assert not warehouse.maintain().failures
        assert warehouse.verify_all()["placed"].ok
