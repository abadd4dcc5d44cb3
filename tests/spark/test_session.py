"""Views through a whole session, on a real engine over real SQLite databases."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.engine

SHOP = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INT, amount DECIMAL(10,2), note TEXT);
CREATE TABLE items (order_id INT, sku TEXT);
"""
CRM = "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);"
VIEWS = """
CREATE MATERIALIZED VIEW facts AS
SELECT o.id, c.name, o.amount * 2 AS twice FROM shop.orders o JOIN crm.customers c ON c.id = o.customer_id;
CREATE MATERIALIZED VIEW names AS
SELECT c.name FROM shop.orders o, crm.customers c WHERE c.id = o.customer_id AND o.amount > 5;
CREATE MATERIALIZED VIEW pairs AS
SELECT a.id AS a, b.id AS b FROM shop.orders a JOIN shop.orders b
ON a.customer_id = b.customer_id AND a.id < b.id;
CREATE MATERIALIZED VIEW lines AS
SELECT f.id, f.name, i.sku FROM facts f JOIN shop.items i ON i.order_id = f.id;
"""


@pytest.fixture
def wh(shop):
    shop.source("shop", SHOP)
    shop.source("crm", CRM)
    shop.views(VIEWS)
    shop.write("crm", "INSERT INTO customers VALUES (1,'ann'),(2,'bob')")
    shop.write(
        "shop",
        "INSERT INTO orders VALUES (1,1,10.5,'x'),(2,1,20,'y'),(3,2,1,NULL)",
        "INSERT INTO items VALUES (1,'a'),(1,'a'),(2,'b')",
    )
    return shop.open()


def rows(wh, view, **options):
    return sorted((tuple(row) for row in wh.view(view, **options).collect()), key=str)


def test_frames_follow_inserts_updates_and_deletes_across_sources(wh, shop):
    wh.refresh()
    assert rows(wh, "names") == [("ann",), ("ann",)]
    assert rows(wh, "pairs") == [(1, 2)]
    assert rows(wh, "lines") == [(1, "ann", "a"), (1, "ann", "a"), (2, "ann", "b")]
    shop.write(
        "shop",
        "UPDATE orders SET customer_id = 2 WHERE id = 1",
        "DELETE FROM items WHERE rowid = 1",
        "INSERT INTO orders VALUES (4,2,7,'z')",
    )
    shop.write("crm", "UPDATE customers SET name = 'BOB' WHERE id = 2")
    result = wh.maintain()
    assert {o.mode for o in result.outcomes.values()} == {"incremental"}
    assert rows(wh, "names") == [("BOB",), ("BOB",), ("ann",)]
    assert rows(wh, "pairs") == [(1, 3), (1, 4), (3, 4)]
    assert rows(wh, "lines") == [(1, "BOB", "a"), (2, "ann", "b")]
    assert rows(wh, "lines", frame=1) == [(1, "ann", "a"), (1, "ann", "a"), (2, "ann", "b")]
    assert all(v.ok for v in wh.verify_all().values())


def test_settling_changes_files_but_not_content(wh, shop):
    wh.refresh()
    shop.write("shop", "DELETE FROM items WHERE rowid = 1", "INSERT INTO items VALUES (2,'b'),(2,'b')")
    wh.refresh()
    before = rows(wh, "lines")
    wh.settle_due(everything=True)
    state = wh.frame().views["lines"]
    assert state.changes == ()
    assert rows(wh, "lines") == before == [(1, "ann", "a"), (2, "ann", "b"), (2, "ann", "b"), (2, "ann", "b")]


def test_a_held_view_catches_up_with_a_view_that_went_on_without_it(wh, shop):
    wh.refresh()
    shop.write("shop", "INSERT INTO orders VALUES (4,2,7,'z')", "INSERT INTO items VALUES (4,'q')")
    wh.refresh("facts")
    assert wh.frame().views["lines"].state == "held"
    shop.write("shop", "DELETE FROM orders WHERE id = 1")
    result = wh.maintain()
    assert result.outcomes["lines"].mode == "incremental"
    assert rows(wh, "lines") == [(2, "ann", "b"), (4, "bob", "q")]
    assert all(v.ok for v in wh.verify_all().values())


def test_a_view_that_overflows_is_stopped_and_the_others_go_on(shop):
    shop.source("n", "CREATE TABLE t (id INTEGER PRIMARY KEY, x BIGINT);")
    shop.views(
        "CREATE MATERIALIZED VIEW sums AS SELECT id, x + 1 AS y FROM n.t;"
        "CREATE MATERIALIZED VIEW plain AS SELECT id, x FROM n.t;"
    )
    shop.write("n", "INSERT INTO t VALUES (1, 1)")
    wh = shop.open()
    wh.refresh()
    shop.write("n", "INSERT INTO t VALUES (2, 9223372036854775807)")
    result = wh.maintain()
    assert result.outcomes["sums"].mode == "stopped"
    assert wh.frame().views["sums"].reason["code"] == "EVALUATION_FAILED"
    assert rows(wh, "plain") == [(1, 1), (2, 9223372036854775807)]
    assert rows(wh, "sums") == [(1, 2)]
    shop.write("n", "UPDATE t SET x = 5 WHERE id = 2")
    wh.refresh()
    assert wh.frame().views["sums"].state == "current"
    assert rows(wh, "sums") == [(1, 2), (2, 6)]


def test_a_stopped_view_is_tried_again_when_its_sources_or_its_text_change_and_not_before(wh, shop):
    shop.views("CREATE MATERIALIZED VIEW risky AS SELECT CAST(note AS INT) AS n FROM shop.orders;", "r.sql")
    assert wh.moved()
    wh.refresh()
    assert wh.frame().views["risky"].reason["code"] == "EVALUATION_FAILED"
    assert wh.moved()  # not yet known to have been tried with this state of the sources
    wh.refresh()
    assert not wh.moved()
    shop.write("crm", "UPDATE customers SET name = 'BOB' WHERE id = 2")
    assert wh.moved()
    wh.refresh()
    assert not wh.moved()
    shop.write("shop", "UPDATE orders SET note = '7'")
    assert wh.moved()
    wh.refresh()
    assert rows(wh, "risky") == [(7,), (7,), (7,)]
    assert not wh.moved()


def test_null_matches_null_where_a_join_says_so_and_only_there(wh, shop):
    shop.views(
        "CREATE MATERIALIZED VIEW met AS SELECT i.sku, b.id FROM shop.items i "
        "JOIN shop.orders a ON a.note <=> i.sku JOIN shop.orders b ON b.customer_id = a.customer_id;",
        "met.sql",
    )
    shop.write(
        "shop", "INSERT INTO items VALUES (9, NULL), (9, 'x')", "INSERT INTO orders VALUES (4,NULL,1,'x')"
    )
    wh.refresh()
    assert rows(wh, "met") == [("x", 1), ("x", 2), (None, 3)]
    shop.write("shop", "UPDATE orders SET note = NULL WHERE id IN (1, 4)")
    wh.refresh()
    assert rows(wh, "met") == [(None, 1), (None, 2), (None, 3)]
    assert all(v.ok for v in wh.verify_all().values())
