"""What readers get is what the frame says: under settling, recomputing, queries held on to, and tampering."""

from __future__ import annotations

import pytest
from deltalake import DeltaTable

from stillframe.runtime import Step

pytestmark = pytest.mark.engine

SHOP = "CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INT NOT NULL, note TEXT);"
VIEWS = """
CREATE MATERIALIZED VIEW notes AS SELECT note, amount FROM shop.orders;
CREATE MATERIALIZED VIEW big AS SELECT id, amount FROM shop.orders WHERE amount > 5;
"""


@pytest.fixture
def wh(shop):
    shop.source("shop", SHOP)
    shop.views(VIEWS)
    return shop.open()


def rows(frame):
    return sorted((tuple(row) for row in frame.collect()), key=str)


def test_a_settling_overtaken_by_a_full_refresh_publishes_nothing(wh, shop):
    """Both bases are empty: only what was settled, and which changes followed, tell the two apart."""
    wh.refresh()
    shop.write("shop", "INSERT INTO orders VALUES (1,7,'x'),(2,8,'y')")
    wh.refresh()
    others = shop.open()

    def overtake(step, subject):
        if step is Step.REWRITTEN and subject == "big":
            shop.write("shop", "DELETE FROM orders")
            others.refresh(full=True)

    wh.observe = overtake
    wh.settle_due(everything=True)
    assert rows(wh.view("big")) == []
    assert all(v.ok for v in wh.verify_all().values())


def test_a_session_that_a_settling_overtakes_publishes_on_the_settled_files(wh, shop):
    shop.write("shop", "INSERT INTO orders VALUES (1,7,'x'),(2,8,'y')")
    wh.refresh()
    shop.write("shop", "UPDATE orders SET amount = 9 WHERE id = 1")
    wh.refresh()
    others = shop.open()

    def overtake(step, subject):
        if step is Step.COMPUTED:
            others.settle_due(everything=True)

    shop.write("shop", "DELETE FROM orders WHERE id = 2", "INSERT INTO orders VALUES (3,6,'z')")
    wh.observe = overtake
    result = wh.bring_forward()
    state = result.frame.views["big"]
    assert (result.outcomes["big"].mode, state.settled, {f.frame for f in state.changes}) == (
        "incremental",
        2,
        {3},
    )
    assert rows(wh.view("big")) == [(1, 9), (3, 6)]
    assert rows(wh.view("notes")) == [("x", 9), ("z", 6)]
    assert all(v.ok for v in wh.verify_all().values())


def test_a_query_keeps_the_frame_it_was_made_for(wh, shop):
    shop.write("shop", "INSERT INTO orders VALUES (1,7,'x'),(2,8,'y')")
    wh.refresh()
    first = wh.query("SELECT count(*) AS n FROM notes -- {of} notes", frame=1)
    nested = wh.query("/* mine */ WITH big2 AS (SELECT * FROM big) SELECT id FROM big2 ORDER BY id DESC")
    shop.write("shop", "DELETE FROM orders WHERE id = 1")
    wh.refresh()
    assert rows(wh.query("SELECT count(*) AS n FROM Notes")) == [(1,)]
    assert rows(first) == [(2,)]
    assert [row.id for row in nested.collect()] == [2, 1]


def test_a_query_does_not_see_views_its_frame_has_not(wh, shop):
    wh.refresh()
    shop.views("CREATE MATERIALIZED VIEW later AS SELECT id FROM shop.orders;", "later.sql")
    wh.refresh()
    assert rows(wh.query("SELECT * FROM later")) == []
    with pytest.raises(Exception, match="later"):
        wh.query("SELECT * FROM later", frame=1).collect()


def test_rows_deleted_from_the_delta_table_by_another_program_are_drift(wh, shop):
    shop.write("shop", "INSERT INTO orders VALUES (1,7,'x'),(2,8,'y')")
    wh.refresh()
    table = DeltaTable(str(wh.lake.table_path("big")))
    table.optimize.compact()
    assert all(v.ok for v in wh.verify_all().values())
    table.delete("id = 1")
    found = wh.verify_all()
    assert found["notes"].ok
    assert (found["big"].drift, found["big"].missing, found["big"].extra) == (True, 1, 0)
    assert found["big"].sample[0]["row"] == {"id": 1, "amount": 7}
    wh.refresh("big", full=True)
    assert wh.verify("big").ok


def test_a_frame_is_verified_by_the_texts_it_carries(wh, shop):
    shop.write("shop", "INSERT INTO orders VALUES (1,7,'x'),(2,3,'y')")
    shop.views("CREATE MATERIALIZED VIEW ids AS SELECT id FROM big;", "ids.sql")
    wh.refresh()
    shop.views(VIEWS.replace("amount > 5", "amount > 2"))
    (shop.root / "views" / "ids.sql").unlink()
    found = wh.verify_all()
    assert sorted(found) == ["big", "ids", "notes"]
    assert all(v.ok for v in found.values())


def test_a_missing_file_is_drift_of_its_view_alone(wh, shop):
    shop.write("shop", "INSERT INTO orders VALUES (1,7,'x')")
    wh.refresh()
    (wh.lake.path / wh.frame().views["big"].base[0].path).unlink()
    found = wh.verify_all()
    assert found["notes"].ok
    assert found["big"].drift
    assert found["big"].error.code == "MISSING_FILE"


def test_a_view_that_must_not_be_recomputed_may_begin_again_when_it_never_began(wh, shop):
    shop.views(
        "CREATE MATERIALIZED VIEW strict WITH (refresh_policy = 'incremental_strict') AS "
        "SELECT CAST(note AS INT) AS n FROM shop.orders;",
        "strict.sql",
    )
    shop.write("shop", "INSERT INTO orders VALUES (1,7,'x')")
    wh.refresh()
    assert wh.frame().views["strict"].state == "stopped"
    wh.refresh()
    assert not DeltaTable.is_deltatable(str(wh.lake.table_path("strict")))
    shop.write("shop", "UPDATE orders SET note = '5'")
    wh.refresh()
    assert rows(wh.view("strict")) == [(5,)]


def test_a_view_that_must_not_be_recomputed_stops_where_it_would_have_to_be(wh, shop):
    def define(least):
        shop.views(
            "CREATE MATERIALIZED VIEW strict WITH (refresh_policy = 'incremental_strict') AS "
            f"SELECT id FROM shop.orders WHERE amount > {least};",
            "strict.sql",
        )

    define(5)
    shop.write("shop", "INSERT INTO orders VALUES (1,7,'x'),(2,3,'y')")
    wh.refresh()
    define(2)
    result = wh.maintain()
    error = result.failures["strict"].error
    assert error.code == "NEEDS_FULL"
    assert "DEFINITION_CHANGED" in error.message and "--full" in error.hint
    assert rows(wh.view("strict")) == [(1,)], "it stands as it was"
    assert wh.frame().views["strict"].state == "stopped"
    wh.refresh("strict", full=True)
    assert rows(wh.view("strict")) == [(1,), (2,)]


def test_a_column_added_at_the_source_reaches_the_views_that_read_it_and_no_other(wh, shop):
    shop.views("CREATE MATERIALIZED VIEW everything AS SELECT * FROM shop.orders;", "star.sql")
    shop.write("shop", "INSERT INTO orders VALUES (1,7,'x')")
    wh.refresh()
    shop.write("shop", "ALTER TABLE orders ADD COLUMN extra INT")
    shop.write("shop", "UPDATE orders SET extra = 9, amount = 8")
    result = wh.maintain()
    assert {name: o.mode for name, o in result.outcomes.items()} == {
        "notes": "incremental",
        "big": "incremental",
        "everything": "full",
    }
    shop.write("shop", "INSERT INTO orders VALUES (2,9,'y',10)")
    result = wh.maintain()
    assert {o.mode for o in result.outcomes.values()} == {"incremental"}
    assert rows(wh.view("everything")) == [(1, 8, "x", 9), (2, 9, "y", 10)]
    assert all(v.ok for v in wh.verify_all().values())


def test_a_column_may_have_any_name_a_reader_uses_itself(wh, shop):
    shop.write("shop", "CREATE TABLE t (id INTEGER PRIMARY KEY, net INT, b INT, l INT, e INT)")
    shop.views("CREATE MATERIALIZED VIEW odd AS SELECT id, net, b, l, e FROM shop.t;", "odd.sql")
    shop.views("CREATE MATERIALIZED VIEW odd_bag AS SELECT net, b, l, e FROM shop.t;", "odd_bag.sql")
    shop.write("shop", "INSERT INTO t VALUES (1, 1, 1, 1, 1), (2, 2, 2, 2, 2)")
    wh.refresh()
    for n in (5, 6):
        shop.write("shop", f"UPDATE t SET net = {n} WHERE id = 1")
        wh.refresh()
    assert rows(wh.view("odd")) == [(1, 6, 1, 1, 1), (2, 2, 2, 2, 2)]
    assert rows(wh.view("odd_bag")) == [(2, 2, 2, 2), (6, 1, 1, 1)]
    assert all(v.ok for v in wh.verify_all().values())


def test_a_held_view_is_verified_by_what_its_upstream_said_then(wh, shop):
    shop.views("CREATE MATERIALIZED VIEW ids AS SELECT id, amount FROM big;", "ids.sql")
    shop.write("shop", "INSERT INTO orders VALUES (1,7,'x')")
    wh.refresh()
    shop.views(VIEWS.replace("SELECT id, amount", "SELECT id, amount * 100 AS amount"))
    wh.refresh("big")
    assert wh.frame().views["ids"].state == "held"
    assert all(v.ok for v in wh.verify_all().values())
    assert wh.moved()  # it is held, and may go on
    wh.refresh()
    assert rows(wh.view("ids")) == [(1, 700)]
    assert not wh.moved()


def test_a_view_that_comes_to_read_another_source_is_work_not_a_failure(wh, shop):
    shop.source("crm", "CREATE TABLE c (id INTEGER PRIMARY KEY, name TEXT); INSERT INTO c VALUES (1, 'ann')")
    shop.configure()
    wh = shop.open()
    shop.write("shop", "INSERT INTO orders VALUES (1,7,'x')")
    wh.refresh()
    shop.views(VIEWS + "CREATE MATERIALIZED VIEW named AS SELECT o.id FROM shop.orders o;")
    wh.refresh()
    joined = "SELECT o.id, c.name FROM shop.orders o JOIN crm.c ON c.id = o.id;"
    shop.views(VIEWS + "CREATE MATERIALIZED VIEW named AS " + joined)
    assert wh.moved()
    assert wh.status()["views"]["named"]["lag"]["crm"]["transactions"] is None
    assert wh.plan("named")["tree"]
    wh.refresh()
    assert rows(wh.view("named")) == [(1, "ann")]


def test_dropping_a_view_keeps_what_the_frame_still_needs(wh, shop):
    shop.write("shop", "CREATE TABLE u (id INTEGER PRIMARY KEY)", "INSERT INTO u VALUES (1)")
    shop.views(VIEWS + "CREATE MATERIALIZED VIEW other AS SELECT id FROM shop.u;")
    wh.refresh()
    shop.views(
        "CREATE MATERIALIZED VIEW big AS SELECT id, id AS amount FROM shop.u;" + VIEWS.split(";")[0] + ";"
        "CREATE MATERIALIZED VIEW other AS SELECT id FROM shop.u;"
    )
    wh.drop("other")
    assert all(v.ok for v in wh.verify_all().values())


def test_nothing_but_a_query_is_accepted(wh, shop):
    wh.refresh()
    for text in ("CREATE OR REPLACE TEMP VIEW zz AS SELECT 1 AS x", "SET spark.sql.ansi.enabled = false"):
        with pytest.raises(Exception, match=r"(?i)syntax|parse|invalid|expected"):
            wh.query(text).collect()
    assert rows(wh.query("SELECT 1 AS x")) == [(1,)]
    assert rows(wh.query("WITH a AS (SELECT 2 AS x) SELECT * FROM a")) == [(2,)]
