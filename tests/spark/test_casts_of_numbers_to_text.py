"""Numbers and their digits are ordered otherwise: 9 is below 13, and '13' below '9'. What a planner knows of
the least and greatest values of the ones says nothing of the others."""

from __future__ import annotations

import pytest

from shops import Shop

pytestmark = pytest.mark.engine

TABLE = "CREATE TABLE t (k INTEGER PRIMARY KEY, n BIGINT, d DECIMAL(10,2), s TEXT);"
ROWS = "INSERT INTO t VALUES (1, 13, '13.50', '13'), (2, 9, '9.50', '9');"


@pytest.mark.parametrize(
    "column, cast",
    [
        ("n", "CAST(v AS STRING)"),
        ("d", "CAST(v AS STRING)"),
        ("s", "CAST(v AS BIGINT)"),
        ("s", "CAST(v AS DECIMAL(10,2))"),
    ],
)
def test_the_least_and_greatest_of_a_cast_between_numbers_and_texts(
    shop: Shop, column: str, cast: str
) -> None:
    shop.source("a", TABLE + ROWS)
    shop.views(
        f"CREATE MATERIALIZED VIEW few AS SELECT {cast} AS c FROM (SELECT DISTINCT {column} AS v FROM a.t)"
        " ORDER BY c DESC LIMIT 2;"
    )
    with shop.open() as warehouse:
        for statement in ("INSERT INTO t VALUES (3, 100, '100.50', '100')", "DELETE FROM t WHERE k = 1"):
            assert not warehouse.maintain().failures
            assert warehouse.verify_all()["few"].ok
            shop.write("a", statement)
        assert not warehouse.maintain().failures
        assert warehouse.verify_all()["few"].ok
