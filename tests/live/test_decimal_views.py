"""Quotients, averages and wide sums of decimals in views: Spark's digits on either engine, maintained and
verified. What is expected is what Spark SQL 4.2 answers in ANSI mode."""

from __future__ import annotations

from decimal import Decimal

import pytest

from shops import Shop

pytestmark = pytest.mark.engine

VIEW = """
CREATE MATERIALIZED VIEW prices AS
SELECT k, avg(price) AS mean, sum(price) / 7.0 AS a_week,
       100.00 * sum(price * (1 - part)) / sum(price) AS kept,
       sum(price * (1 - part) * (1 + part)) AS both, 0.2 * avg(price) AS a_fifth
FROM shop.items WHERE day <= DATE '1998-12-01' - INTERVAL '90' DAY GROUP BY k
"""


def test_decimals_have_sparks_digits_and_verify_agrees(shop: Shop) -> None:
    shop.source(
        "shop",
        "CREATE TABLE items (id INTEGER PRIMARY KEY, k INT, price DECIMAL(15,2), part DECIMAL(15,2), day DATE);"
        "INSERT INTO items VALUES (1, 1, '10.00', '0.07', '1998-01-01'), (2, 1, '10.01', '0.10', '1998-01-02'),"
        " (3, 1, '0.02', '0.00', '1998-09-02'), (4, 1, '5.00', '0.50', '1998-09-03'),"
        " (5, 2, '-0.05', '0.01', '1998-01-01'), (6, 2, '-0.02', '0.01', '1998-01-01')",
    )
    shop.views(VIEW)
    wh = shop.open()
    wh.refresh()
    D = Decimal
    assert sorted(map(tuple, wh.view("prices").collect())) == [
        (1, D("6.676667"), D("2.861429"), D("91.507738"), D("19.880900"), D("1.3353334")),
        (2, D("-0.035000"), D("-0.010000"), D("99.000000"), D("-0.069993"), D("-0.0070000")),
    ]
    shop.write("shop", "DELETE FROM items WHERE id = 2", "UPDATE items SET price = '0.03' WHERE id = 6")
    assert wh.refresh().views["prices"].state == "current"
    assert sorted(map(tuple, wh.view("prices").collect()))[1][:2] == (2, D("-0.010000"))
    assert wh.verify("prices").ok
