"""Queries that mean the same in Spark SQL and in DuckDB, answered by DuckDB and by the naive evaluator."""

from __future__ import annotations

from typing import Any

import duckdb
import pytest
from small_shop import BIG, CUSTOMERS, ORDERS, ROWS, answer

EXPRESSIONS = """
    id + customer_id
    id - 5
    id * amount
    -amount
    amount + 1
    amount * 1.5
    amount - 0.25
    id % 2
    -id % 2
    abs(amount - 6)
    floor(amount / 2.0)
    id = customer_id
    id <> 2
    id < 2 OR amount > 6
    id >= 2 AND amount IS NOT NULL
    NOT (id = 1)
    amount IS NULL
    amount IS NOT DISTINCT FROM NULL
    id IS DISTINCT FROM 2
    id BETWEEN 1 AND 2
    id NOT BETWEEN 2 AND 3
    id IN (1, 3)
    id NOT IN (1, NULL)
    amount IN (5, 7.5)
    CASE WHEN id = 1 THEN 'one' WHEN id = 2 THEN 'two' ELSE 'many' END
    CASE id WHEN 1 THEN 10 WHEN 2 THEN 20 END
    CASE WHEN amount > 6 THEN amount ELSE id END
    coalesce(amount, 0)
    coalesce(NULL, id)
    nullif(id, 2)
    ifnull(amount, 1.25)
    CAST(id AS BIGINT)
    CAST(id AS DOUBLE)
    CAST(id AS VARCHAR)
    CAST(amount AS DECIMAL(6,1))
    CAST('12' AS INT)
    CAST('2024-02-29' AS DATE)
    CAST(placed AS VARCHAR)
    id::bigint
    'a' || 'b'
    'a' || NULL
    upper('aé') || lower('BC')
    length('naïve')
    trim('  a b ')
    ltrim('  a ') || '|'
    rtrim('  a ') || '|'
    substring('hello', 2, 3)
    substring('hello', 2)
    substring('hello' FROM 2 FOR 2)
    replace('banana', 'an', 'AN')
    'hello' LIKE 'h%o'
    'hello' LIKE '_ello'
    'hello' NOT LIKE '%z%'
    'hello' ILIKE 'H%'
    year(placed)
    month(placed)
    day(placed)
    quarter(placed)
    hour(stamp)
    minute(stamp)
    extract(year FROM placed)
    placed + 30
    placed - 1
    placed = DATE '2024-01-31'
    placed > DATE '2024-01-01' AND stamp < TIMESTAMP '2024-02-01 00:00:00'
    placed < stamp
    (id > 1) = (amount > 6)
    true AND NULL
    false AND NULL
    1 + 2 * 3 - 4 % 3
    (1 + 2) * 3
    1.10 + 0.005
    2.5 * 0.2
    1e3 + 1
    -5 % 3
""".strip().splitlines()

QUERIES = """
    SELECT o.id, c.name FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id
    SELECT customers.id, amount FROM crm.customers, shop.orders WHERE customers.id = customer_id
    SELECT * FROM crm.customers
    SELECT c.* FROM crm.customers c CROSS JOIN big_orders
    SELECT id, total, amount FROM big_orders JOIN shop.orders USING (id)
    SELECT x.id AS a, y.id AS b FROM crm.customers x JOIN crm.customers y ON x.id <= y.id
    SELECT id FROM crm.customers UNION ALL SELECT id FROM shop.orders UNION ALL SELECT id FROM big_orders
    SELECT id, amount FROM shop.orders UNION ALL SELECT id, total FROM big_orders
    WITH r AS (SELECT id, amount FROM shop.orders WHERE id < 3) SELECT a.id, b.amount FROM r a, r b
    WITH r(k) AS (SELECT id FROM crm.customers), s AS (SELECT k + 1 AS k FROM r) SELECT k FROM s WHERE k > 11
    SELECT t.n FROM (SELECT id + 1 AS n FROM shop.orders) t WHERE t.n > 2
    SELECT v.a, v.b FROM (VALUES (1, 'x'), (2, NULL)) v(a, b)
    SELECT o.id FROM shop.orders o JOIN (big_orders b JOIN crm.customers c ON c.id > b.id) ON o.id = b.id
    SELECT o.id FROM shop.orders o NATURAL JOIN big_orders
    SELECT 1 AS a, 'x' AS b, NULL IS NULL AS c
""".strip().splitlines()


@pytest.fixture(scope="module")
def duck() -> duckdb.DuckDBPyConnection:
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'; CREATE SCHEMA shop; CREATE SCHEMA crm")
    tables = {"shop.orders": ("shop.orders", ORDERS), "crm.customers": ("crm.Customers", CUSTOMERS)}
    for table, (relation, schema) in {**tables, "big_orders": ("big_orders", BIG)}.items():
        columns = ", ".join(
            f'"{c.name}" {str(c.type).replace("TIMESTAMP", "TIMESTAMPTZ").replace("STRING", "VARCHAR")}'
            for c in schema
        )
        connection.execute(f"CREATE TABLE {table} ({columns})")
        marks = ", ".join("?" for _ in schema)
        connection.executemany(f"INSERT INTO {table} VALUES ({marks})", ROWS[relation])
    return connection


def plain(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Numbers by value, for the two engines give sums and quotients different scales."""
    return sorted(
        (
            tuple(float(v) if isinstance(v, int | float) or hasattr(v, "quantize") else v for v in row)
            for row in rows
        ),
        key=repr,
    )


@pytest.mark.parametrize("expression", [text.strip() for text in EXPRESSIONS])
def test_expressions(duck: duckdb.DuckDBPyConnection, expression: str) -> None:
    text = f"SELECT id, {expression} AS v FROM shop.orders"
    assert plain(answer(text)) == plain(duck.execute(text).fetchall())


@pytest.mark.parametrize("text", [text.strip() for text in QUERIES])
def test_queries(duck: duckdb.DuckDBPyConnection, text: str) -> None:
    assert plain(answer(text)) == plain(duck.execute(text).fetchall())
