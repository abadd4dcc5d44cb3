"""Texts and the rows they stand for, computed by hand."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

import pytest
from small_shop import CATALOG, answer, value

from stillframe.algebra import Project, relations
from stillframe.sql import resolve

D = Decimal


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        (
            "SELECT o.id, c.name FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id",
            [(1, "Ada"), (2, "Ada"), (3, None)],
        ),
        ("SELECT orders.id FROM SHOP.Orders WHERE shop.orders.amount > 6", [(2,)]),
        ("SELECT id FROM big_orders", [(2,), (2,)]),
        ("SELECT b.total, o.amount FROM Big_Orders b JOIN shop.orders o USING (id)", [(99, D("7.50"))] * 2),
        ("SELECT id FROM crm.customers WHERE name IS NULL OR name LIKE 'C%'", [(20,), (30,)]),
        (
            "SELECT id FROM crm.customers UNION ALL SELECT total FROM big_orders",
            [(10,), (20,), (30,), (99,), (99,)],
        ),
        ("WITH big_orders AS (SELECT 1 AS id) SELECT id FROM big_orders", [(1,)]),
        ("SELECT x.id FROM crm.customers x, crm.customers y WHERE x.id < y.id", [(10,), (10,), (20,)]),
        (
            "SELECT amount * 2 AS twice, twice + 1 AS more FROM shop.orders WHERE id = 1",
            [(D("10.00"), D("11.00"))],
        ),
        ("SELECT placed + 1 AS next FROM shop.orders WHERE id = 1", [(date(2024, 2, 1),)]),
        ("SELECT id FROM shop.orders WHERE stamp < '2024-02-01' AND placed >= '2024-01-31'", [(1,)]),
        ("SELECT id FROM shop.places", [(1,)]),
        ("SELECT 1 AS x WHERE false", []),
        # In ORDER BY and QUALIFY a name is an output's, but for windows and aggregates; in HAVING a column's.
        ("SELECT -id AS id FROM crm.customers ORDER BY id + 1 LIMIT 1", [(-30,)]),
        ("SELECT -id AS id FROM crm.customers ORDER BY customers.id + 1 LIMIT 1", [(-10,)]),
        ("SELECT -id AS id, rank() OVER (ORDER BY id) AS r FROM crm.customers QUALIFY id > -15", [(-10, 1)]),
        ("SELECT -id AS id FROM crm.customers QUALIFY row_number() OVER (ORDER BY id) = 1", [(-10,)]),
        ("SELECT -id AS id, count(*) AS n FROM crm.customers GROUP BY id HAVING id > 25", [(-30, 1)]),
        (
            "SELECT -id AS id, count(*) AS n FROM crm.customers GROUP BY id ORDER BY id + 0 LIMIT 1",
            [(-30, 1)],
        ),
    ],
)
def test_rows(text: str, rows: list[tuple[Any, ...]]) -> None:
    assert answer(text) == rows


def test_plans_carry_the_catalogs_names() -> None:
    plan = resolve("SELECT c.Id, Name FROM CRM.customers c JOIN BIG_ORDERS b ON b.id = c.id", CATALOG)
    assert isinstance(plan, Project)
    assert relations(plan) == ("crm.Customers", "big_orders")
    assert plan.schema.names == ("Id", "Name")


def test_a_star_spells_names_as_the_catalog_does() -> None:
    assert resolve("SELECT * FROM crm.customers", CATALOG).schema.names == ("id", "Name")


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("SELECT * FROM (SELECT total, id FROM big_orders) b JOIN crm.customers USING (id)", "id total Name"),
        ("SELECT c.* FROM big_orders JOIN (SELECT name, id FROM crm.customers) c USING (id)", "id name"),
        (
            "SELECT id AS a, total AS b FROM big_orders UNION ALL SELECT id AS c, id AS d FROM shop.orders",
            "a b",
        ),
        ("SELECT * FROM (SELECT id AS x FROM big_orders) JOIN (SELECT id AS y FROM shop.orders)", "x y"),
        ("SELECT t.* FROM crm.customers AS t(k, label)", "k label"),
    ],
)
def test_names_in_order(text: str, names: str) -> None:
    assert " ".join(resolve(text, CATALOG).schema.names) == names


def test_a_long_list_stays_shallow() -> None:
    numbers = ", ".join(map(str, range(5000)))
    assert answer(f"SELECT id FROM shop.orders WHERE id IN ({numbers})") == [(1,), (2,), (3,)]
    alternatives = " OR ".join(f"id = {n}" for n in range(400))
    assert len(answer(f"SELECT id FROM shop.orders WHERE {alternatives}")) == 3


# Where a parser made for translation could change the meaning.
@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("7 / 2", 3.5),
        ("7 DIV 2", 3),
        ("-7 % 3", -1),
        ("date_sub(DATE '2024-03-01', 1 - 3)", date(2024, 3, 3)),
        ("date_add('2024-02-28', 2)", date(2024, 3, 1)),
        ("datediff('2024-03-01', '2024-02-01')", 29),
        ("concat('a', NULL)", None),
        ("'it''s'", "it's"),
        ("'a' 'b'", "ab"),
        (r"'\n\\\%'", "\n\\\\%"),
        (r"'50%' LIKE '50\\%'", True),
        ("substring('hello', 2)", "ello"),
        ("substring('hello', -3, 2)", "ll"),
        ("NOT 1 = 2", True),
        ("NOT 1 = 2 IS NULL", True),
        ("!(1 = 2) AND false", False),
        ("-128Y", -128),
        ("-9223372036854775808", -(2**63)),
        ("-1::string", "-1"),
        ("1 - -1", 2),
        ("nullif(1, 1) IS NULL", True),
        ("CASE NULL WHEN NULL THEN 1 ELSE 2 END", 2),
        ("1 NOT IN (2, NULL)", None),
        ("mod(-7, 3)", -1),
        ("X'abc'", b"\x0a\xbc"),
    ],
)
def test_meaning_is_sparks(expression: str, expected: Any) -> None:
    assert value(expression) == expected
