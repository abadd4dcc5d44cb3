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
FROM shop.items WHERE day <= DATE '1998-12-01' - INTERVAL '90' DAY GROUP BY k;
CREATE MATERIALIZED VIEW shares AS
SELECT id, avg(price) OVER (PARTITION BY k) AS mean, sum(price * (1 - part) * (1 + part)) OVER
       (PARTITION BY k ORDER BY id ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) AS two
FROM shop.items
"""


def test_decimals_have_sparks_digits_and_verify_agrees(shop: Shop) -> None:
    shop.source(
        "shop",
        "CREATE TABLE items"
        " (id INTEGER PRIMARY KEY, k INT, price DECIMAL(15,2), part DECIMAL(15,2), day DATE);"
        "INSERT INTO items VALUES"
        " (1, 1, '10.00', '0.07', '1998-01-01'), (2, 1, '10.01', '0.10', '1998-01-02');"
        "INSERT INTO items VALUES (3, 1, '0.02', '0.00', '1998-09-02'), (4, 1, '5.00', '0.50', '1998-09-03');"
        "INSERT INTO items VALUES"
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
    assert [tuple(row) for row in wh.view("shares").orderBy("id").collect()] == [
        (1, D("5.006667"), D("9.951000")),
        (3, D("5.006667"), D("9.971000")),
        (4, D("5.006667"), D("3.770000")),
        (5, D("-0.010000"), D("-0.049995")),
        (6, D("-0.010000"), D("-0.019998")),
    ]
    assert wh.verify("prices").ok and wh.verify("shares").ok
