"""What stores, warehouses and texts may do to a view that is served, and must not do to its records."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing

import pytest

from records.serving_views import TABLES, Writer, views
from records.test_serving import assert_right
from stillframe.errors import StillframeError
from stillframe.runtime import Step

pytestmark = [pytest.mark.engine, pytest.mark.slow_on_spark]

HERE = "sqlite:///records.db"


def serve(select: str, more: str = "", name: str = "v") -> str:
    return f"CREATE MATERIALIZED VIEW {name} WITH (serve = '{HERE}'{more}) AS {select};"


def test_a_store_that_lost_its_records_is_loaded_anew(shop) -> None:  # type: ignore[no-untyped-def]
    writer = Writer(shop, seed=1)
    writer.write(30)
    shop.views(views(HERE, ("summed", "named", "shared")))
    wh = shop.open()
    wh.refresh()
    for file in shop.root.glob("records.db*"):
        file.unlink()
    writer.write(10)
    result = shop.open().bring_forward()
    assert {outcome.reason for outcome in result.outcomes.values()} == {"RECORDS_LOST"}
    assert_right(wh)


@pytest.mark.parametrize("sessions", [1, 2])
def test_a_warehouse_that_was_set_back_does_not_count_twice(shop, sessions) -> None:  # type: ignore[no-untyped-def]
    writer = Writer(shop, seed=2)
    writer.write(30)
    shop.views(views(HERE, ("summed", "least")))
    wh = shop.open()
    wh.refresh()
    pieces = shop.root / "warehouse" / "records"
    shutil.copytree(pieces, shop.root / "before")
    for _ in range(sessions):
        writer.write(10)
        wh.refresh()
    shutil.rmtree(pieces)
    shutil.copytree(shop.root / "before", pieces)
    writer.write(10)
    wh.refresh()
    assert_right(wh)


def test_a_store_that_was_set_back_in_the_middle_of_a_session(shop) -> None:  # type: ignore[no-untyped-def]
    writer = Writer(shop, seed=3)
    writer.write(30)
    shop.views(views(HERE, ("summed",)))
    wh = shop.open()
    wh.refresh()
    writer.write(10)

    def keep(step: Step, subject: str) -> None:
        if step is Step.FIXED:
            with closing(sqlite3.connect(shop.root / "records.db")) as con:
                con.execute(f"VACUUM INTO '{shop.root}/kept.db'")

    wh.observe = keep
    wh.refresh()
    for file in shop.root.glob("records.db*"):
        file.unlink()
    shutil.copyfile(shop.root / "kept.db", shop.root / "records.db")
    writer.write(10)
    again = shop.open()
    again.refresh()
    assert_right(again)


def test_a_record_is_told_apart_by_the_key_that_it_is_found_by(shop) -> None:  # type: ignore[no-untyped-def]
    """Two base records change their unique names in one session."""
    shop.source(
        "shop",
        "CREATE TABLE users (id INTEGER PRIMARY KEY, email TEXT NOT NULL UNIQUE, name TEXT);"
        "CREATE TABLE mails (id INTEGER PRIMARY KEY, email TEXT NOT NULL);",
    )
    everyone = ", ".join(f"({i}, 'a{i}', 'n{i}')" for i in range(20))
    shop.write(
        "shop", f"INSERT INTO users VALUES {everyone}", "INSERT INTO mails SELECT id, email FROM users"
    )
    shop.views(
        serve("SELECT email, name FROM shop.users")
        + serve("SELECT m.id, u.name FROM shop.mails m JOIN shop.users u ON u.email = m.email", name="joined")
    )
    wh = shop.open()
    wh.refresh()
    shop.write(
        "shop",
        "UPDATE users SET email = email || '_'",
        "UPDATE users SET email = 'a' || ((id + 7) % 20)",
    )
    wh.refresh()
    assert_right(wh)


def test_a_view_over_a_set_operation_shows_all_of_it_or_is_refused(shop) -> None:  # type: ignore[no-untyped-def]
    shop.source("shop", TABLES)
    for operation in ("EXCEPT", "INTERSECT"):
        inner = f"SELECT id, region FROM shop.orders {operation} SELECT id, region FROM shop.returns"
        shop.views(serve(f"SELECT region FROM ({inner})"))
        assert "all of its columns" in str(shop.open().definitions().refused["v"])
    both = "SELECT id, region FROM shop.orders UNION ALL SELECT id, region FROM shop.returns"
    grouped = f"SELECT region, COUNT(*) AS n, SUM(id) AS m FROM ({both}) GROUP BY region HAVING COUNT(*) > 0L"
    shop.views(serve(f"SELECT region FROM ({grouped}) WHERE m > 0L"))
    assert "v" in shop.open().definitions().refused


def test_a_view_that_is_served_no_more_is_a_table_with_all_its_rows(shop) -> None:  # type: ignore[no-untyped-def]
    writer = Writer(shop, seed=4)
    writer.write(30)
    text = views(HERE, ("summed", "selection"))
    shop.views(text)
    wh = shop.open()
    wh.refresh()
    shop.views(text.replace(f"serve = '{HERE}', ", ""))
    writer.write(5)
    result = wh.bring_forward()
    assert {outcome.mode for outcome in result.outcomes.values()} == {"full"}
    assert_right(wh)
    shop.views(text)
    writer.write(5)
    wh.refresh()
    assert_right(wh)


def test_wide_decimals_are_added_up_exactly(shop) -> None:  # type: ignore[no-untyped-def]
    shop.source("shop", "CREATE TABLE t (id INTEGER PRIMARY KEY, x TEXT NOT NULL)")
    wide = "CAST(x AS DECIMAL(30,18))"
    shop.views(serve(f"SELECT 1 AS one, SUM({wide}) AS s FROM shop.t GROUP BY 1"))
    shop.write(
        "shop", "INSERT INTO t VALUES (1, '12345678901.123456789012345678'), (2, '1.000000000000000001')"
    )
    wh = shop.open()
    wh.refresh()
    shop.write("shop", "DELETE FROM t WHERE id = 2")
    wh.refresh()
    assert_right(wh)


def test_what_a_served_view_does_not_have(shop) -> None:  # type: ignore[no-untyped-def]
    shop.source("shop", TABLES)
    for more, told in [
        (", refresh_policy = 'full'", "refresh_policy"),
        (", algorithm = 'strobe'", "algorithm"),
    ]:
        shop.views(serve("SELECT id FROM shop.orders", more))
        assert told in str(shop.open().definitions().refused["v"])
    double = "CAST(amount AS DOUBLE)"
    shop.views(serve(f"SELECT {double} AS d, COUNT(*) AS n FROM shop.orders GROUP BY {double}"))
    assert "DOUBLE" in str(shop.open().definitions().refused["v"])
    shop.views(serve("SELECT id FROM shop.orders"))
    wh = shop.open()
    wh.refresh()
    shop.write("shop", "INSERT INTO orders VALUES (1, 'EU', 1, 5)")
    wh.refresh()
    with pytest.raises(StillframeError, match="not of frame 1"):
        wh.view("v", frame=1)
    with pytest.raises(StillframeError, match="served as records"):
        wh.query("SELECT * FROM v").collect()
    with pytest.raises(StillframeError, match="password"):
        wh.create_view("w", "SELECT id FROM shop.orders", serve="redis://:hush@127.0.0.1/0")


def test_records_that_are_ahead_of_the_frame_are_held(shop) -> None:  # type: ignore[no-untyped-def]
    """Both parts of a global transaction are there, records show one of them, and the session dies before
    its frame. Then the source of the other part is away: without it the transaction is not whole, and the
    next frame leaves it out. Records do not go back; they go on when the source is there again."""
    mark = "INSERT INTO _stillframe_global VALUES ('g', 2)"
    for source in ("a", "b"):
        shop.source(source, "CREATE TABLE t (id INTEGER PRIMARY KEY, v INTEGER)")
    table = "CREATE MATERIALIZED VIEW {} AS SELECT id, v FROM {}.t;"
    shop.views(serve("SELECT id, v FROM a.t") + table.format("beside", "a") + table.format("other", "b"))
    wh = shop.open()
    wh.refresh()
    for source in ("a", "b"):
        shop.write(source, mark, "INSERT INTO t VALUES (1, 1)")

    def die(step: Step, subject: str) -> None:
        if step is Step.COMPUTED:
            raise KeyboardInterrupt

    wh.observe = die
    with pytest.raises(KeyboardInterrupt):
        wh.refresh()
    shop.write("a", "INSERT INTO t VALUES (2, 2)")
    there, away = shop.root / "b.db", shop.root / "away.db"
    there.rename(away)
    again = shop.open()
    held = again.bring_forward().outcomes
    assert (held["v"].mode, held["v"].reason) == ("held", "AHEAD")
    assert again.frame().views["v"].state == "held"
    assert again.view("beside").count() == 0, "the frame shows a part of a global transaction"
    assert again.record("v", id=1) == {"id": 1, "v": 1}, "records went back"
    assert again.record("v", id=2) is None
    away.rename(there)
    assert again.bring_forward().outcomes["v"].mode == "incremental"
    assert again.frame().views["v"].state == "current"
    assert again.record("v", id=2) == {"id": 2, "v": 2}
    assert_right(again)
