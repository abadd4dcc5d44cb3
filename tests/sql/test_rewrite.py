"""Edits of the user's text touch nothing but the names they are about."""

from __future__ import annotations

import pytest

from stillframe.sql import parse_views
from stillframe.sql.rewrite import remove_view, rename_view, retarget

NAMES = {"shop.orders": "snap_orders", "shop.or`d": "snap_odd", "v": "snap_v"}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("SELECT * FROM shop.orders", "SELECT * FROM snap_orders AS `orders`"),
        ("SELECT o.id FROM Shop.Orders o", "SELECT o.id FROM snap_orders o"),
        ("SELECT shop.orders.id FROM shop.orders", "SELECT orders.id FROM snap_orders AS `orders`"),
        ("SELECT * FROM shop.`or``d`", "SELECT * FROM snap_odd AS `or``d`"),
        (
            "SELECT 'shop.orders' -- shop.orders\nFROM v",
            "SELECT 'shop.orders' -- shop.orders\nFROM snap_v AS `v`",
        ),
        ("WITH v AS (SELECT 1 AS a) SELECT * FROM v", "WITH v AS (SELECT 1 AS a) SELECT * FROM v"),
        (
            "WITH V AS (SELECT a FROM v) SELECT a FROM V",
            "WITH V AS (SELECT a FROM snap_v AS `v`) SELECT a FROM V",
        ),
        (
            "WITH a AS (SELECT * FROM v), v AS (SELECT 1 AS a) SELECT * FROM a, v",
            "WITH a AS (SELECT * FROM snap_v AS `v`), v AS (SELECT 1 AS a) SELECT * FROM a, v",
        ),
        (
            "SELECT * FROM (WITH v AS (SELECT 1 AS a) SELECT * FROM v) q, v",
            "SELECT * FROM (WITH v AS (SELECT 1 AS a) SELECT * FROM v) q, snap_v AS `v`",
        ),
    ],
)
def test_retarget(text: str, expected: str) -> None:
    assert retarget(text, NAMES) == expected


TWO = (
    "-- mine\nCREATE MATERIALIZED VIEW a AS\nSELECT 1 AS x; -- one\n"
    "CREATE MATERIALIZED VIEW b AS SELECT 2 AS x;\n"
)


def test_rename_keeps_the_rest_of_the_file() -> None:
    assert rename_view(TWO, "b", "c") == TWO.replace("VIEW b", "VIEW c")


def test_a_name_that_is_a_word_of_sql_is_quoted() -> None:
    assert [view.name for view in parse_views(rename_view(TWO, "a", "select"), "x.sql")] == ["select", "b"]


def test_remove_keeps_the_other_statement() -> None:
    assert [view.name for view in parse_views(remove_view(TWO, "a"), "x.sql")] == ["b"]
    assert "VIEW b AS SELECT 2 AS x;" in remove_view(TWO, "a")
