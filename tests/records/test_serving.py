"""Views served as records, end to end: real sources, the engine's tasks as managers, real stores."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing

import pytest

import servers
from records.serving_views import CLASSES, IDEMPOTENT, TABLES, Writer, views
from stillframe.errors import StillframeError
from stillframe.records.book import Book, write_book
from stillframe.records.keeping import state_of
from stillframe.records.manager import gone
from stillframe.records.store import Key, RecordStore
from stillframe.runtime import Step, serving
from stillframe.runtime.serving import Place, served_view

pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def redis_at() -> Iterator[servers.RedisServer]:
    with servers.redis_server(password="s3cret!") as server:
        yield server


@pytest.fixture
def url(request: pytest.FixtureRequest, redis_at: servers.RedisServer) -> str:
    if request.param == "redis":
        redis_at.connect().flushall()
        return redis_at.url()
    if request.param == "postgresql":
        server = request.getfixturevalue("postgres_server")
        server.database("records")
        return server.url("records")
    return "sqlite:///records.db"


def assert_right(wh) -> None:  # type: ignore[no-untyped-def]
    found = wh.verify_all()
    assert all(one.ok for one in found.values()), {name: one for name, one in found.items() if not one.ok}


@pytest.mark.slow_on_spark
@pytest.mark.parametrize("url", ["sqlite", "redis", "postgresql"], indirect=True)
def test_every_class_follows_its_sources(shop, url) -> None:  # type: ignore[no-untyped-def]
    writer = Writer(shop, seed=1)
    writer.write(40)
    shop.views(views(url))
    wh = shop.open()
    first = wh.bring_forward()
    assert {name: outcome.mode for name, outcome in first.outcomes.items()} == dict.fromkeys(CLASSES, "full")
    assert_right(wh)
    for name in ("selection", "projected", "dropped", "summed", "least", "most", "both"):
        assert first.outcomes[name].rows_out == wh.view(name).count(), "a load writes each record once"
    for _ in range(3):
        writer.write(25)
        result = wh.bring_forward()
        assert all(o.mode in ("incremental", "unchanged") for o in result.outcomes.values()), result.outcomes
        assert_right(wh)
    wh.refresh(full=True)
    assert_right(wh)


def test_records_are_read_one_by_one_and_by_any_client(shop, redis_at) -> None:  # type: ignore[no-untyped-def]
    redis_at.connect().flushall()
    writer = Writer(shop, seed=2)
    shop.write("shop", "INSERT INTO orders VALUES (1, 'EU', 1, 5), (2, 'EU', 2, 7), (3, NULL, 1, 1)")
    shop.views(views(redis_at.url(), ("summed", "named")))
    wh = shop.open()
    wh.refresh()
    assert wh.record("summed", region="EU") == {"region": "EU", "total": 12, "n": 2, "mean": 6.0}
    assert wh.record("summed", region=None) == {"region": None, "total": 1, "n": 1, "mean": 1.0}
    assert wh.record("summed", region="US") is None
    assert wh.record("named", id=2) == {"id": 2, "amount": 7, "name": "c2"}
    client = redis_at.connect()
    assert client.hgetall("stillframe:test:summed:EU") == {
        "region": "EU",
        "total": "12",
        "n": "2",
        "mean": "6.0",
    }
    assert sorted(client.keys("stillframe:test:summed:*")) == [
        "stillframe:test:summed:%N",
        "stillframe:test:summed:EU",
    ]
    with pytest.raises(StillframeError, match="is found by region"):
        wh.record("summed", id=1)
    assert writer.customers


@pytest.mark.slow_on_spark
@pytest.mark.parametrize("step", [Step.COMPUTED, Step.PUBLISHED])
def test_a_session_that_dies_is_repeated_without_harm(shop, step) -> None:  # type: ignore[no-untyped-def]
    """Records are written, the frame is not, or nobody hears of it; then other changes come."""
    writer = Writer(shop, seed=3)
    writer.write(30)
    shop.views(views("sqlite:///records.db", ("summed", "least", "named", "kept")))
    wh = shop.open()
    wh.refresh()

    def die(at: Step, subject: str) -> None:
        if at is step:
            raise KeyboardInterrupt

    for _ in range(2):
        writer.write(20)
        wh.observe = die
        with pytest.raises(KeyboardInterrupt):
            wh.refresh()
    writer.write(20)
    again = shop.open()
    again.refresh()
    assert_right(again)


@pytest.mark.slow_on_spark
@pytest.mark.parametrize("url", ["sqlite", "redis", "postgresql"], indirect=True)
def test_counters_stand_sessions_that_die_before_they_say_that_they_are_done(shop, url, monkeypatch) -> None:  # type: ignore[no-untyped-def]
    """Each piece is done twice, and what vanished is gone at once."""
    writer = Writer(shop, seed=8)
    writer.write(40)
    shop.views(views(url, IDEMPOTENT, "counter"))
    wh = shop.open()
    assert {view["records"]["test_and_set"] for view in wh.check().values()} == {"counter"}
    wh.refresh()
    assert_right(wh)

    def die(store: RecordStore, book: Book) -> None:
        if book.done:
            raise KeyboardInterrupt
        write_book(store, book)

    for _ in range(3):
        writer.write(25)
        with monkeypatch.context() as dying, pytest.raises(KeyboardInterrupt):
            dying.setattr(serving, "write_book", die)
            wh.refresh()
        writer.write(5)
        wh = shop.open()
        wh.refresh()
        assert_right(wh)
    for name in IDEMPOTENT:
        view = served_view(wh.definitions(), name)
        with Place("test", shop.root).open(view) as store:
            shown = [Key(tuple(row[i] for i in view.served.key)) for row in store.scan()]
            assert all(state_of(kept).signature.marks is None for _, kept in store.kept(shown))
            assert not any(store.tagged(gone(session)) for session in range(1, 10))


def test_a_warehouse_that_was_lost_begins_again_over_the_same_records(shop) -> None:  # type: ignore[no-untyped-def]
    writer = Writer(shop, seed=4)
    writer.write(30)
    shop.views(views("sqlite:///records.db", ("summed", "selection", "shared")))
    shop.open().refresh()
    shutil.rmtree(shop.root / "warehouse")
    writer.write(30)
    again = shop.open()
    again.refresh()
    assert_right(again)


def test_what_vanished_is_forgotten_when_nobody_can_ask_again(shop) -> None:  # type: ignore[no-untyped-def]
    shop.source("shop", TABLES)
    shop.write("shop", "INSERT INTO orders VALUES (1, 'EU', 1, 5), (2, 'US', 2, 7)")
    shop.views(views("sqlite:///records.db", ("summed", "selection", "named", "shared")))
    wh = shop.open()
    wh.refresh()

    def kept() -> dict[str, int]:
        with closing(sqlite3.connect(shop.root / "records.db")) as con:
            names = ("summed", "selection", "named", "shared")
            return {n: con.execute(f'SELECT count(*) FROM "{n}~"').fetchone()[0] for n in names}

    before = kept()
    shop.write("shop", "DELETE FROM orders WHERE id = 1")
    wh.refresh()
    assert kept() == before
    assert wh.record("summed", region="EU") is None
    shop.write("shop", "UPDATE orders SET amount = 9 WHERE id = 2")
    wh.refresh()
    assert kept() == {name: count - 1 for name, count in before.items()}
    assert_right(wh)


def test_a_text_that_changed_serves_the_new_view(shop) -> None:  # type: ignore[no-untyped-def]
    writer = Writer(shop, seed=5)
    writer.write(30)
    text = views("sqlite:///records.db", ("summed",))
    shop.views(text)
    wh = shop.open()
    wh.refresh()
    shop.views(text.replace("SUM(amount) AS total, ", ""))
    wh.refresh()
    assert_right(wh)
    shop.views(text.replace("shop.orders", "shop.orders WHERE amount > 20"))
    wh.refresh()
    assert_right(wh)


def test_a_store_that_is_down_stops_its_views_alone_and_loses_nothing(shop, redis_at) -> None:  # type: ignore[no-untyped-def]
    with servers.redis_server("--appendonly", "yes", password="hush&!") as server:
        writer = Writer(shop, seed=6)
        writer.write(30)
        more = "CREATE MATERIALIZED VIEW big AS SELECT id FROM shop.orders WHERE amount > 50;"
        shop.views(views(server.url(), ("summed", "named")) + more)
        wh = shop.open()
        wh.refresh()
        server.stop(kill=True)
        writer.write(30)
        result = wh.bring_forward()
        assert result.outcomes["big"].mode in ("incremental", "unchanged")
        error = result.outcomes["summed"].error
        assert error is not None and error.code == "UNREACHABLE"
        assert "hush" not in f"{error} {error.detail} {error.hint}"
        server.start()
        wh.refresh()
        assert_right(wh)


def test_what_cannot_be_served_is_refused_with_the_reason(shop) -> None:  # type: ignore[no-untyped-def]
    Writer(shop, seed=7)
    shop.write("shop", "CREATE TABLE notes (what TEXT)")
    given = "CREATE MATERIALIZED VIEW v WITH (serve = 'sqlite:///r.db'{}) AS {};"
    counter = ", test_and_set = 'counter'"
    union = "SELECT id FROM shop.orders UNION SELECT id FROM shop.returns"
    for more, select, told in [
        (counter, "SELECT region, SUM(amount) AS n FROM shop.orders GROUP BY region", "counted again"),
        (counter, "SELECT DISTINCT region FROM shop.orders", "without the key is not kept with"),
        (counter, union, "counted again"),
        (counter.replace("counter", "x"), "SELECT id FROM shop.orders", "not a value of test_and_set"),
        ("", "SELECT region, COUNT(*) AS n FROM shop.orders GROUP BY region HAVING COUNT(*) > 1", "HAVING"),
        ("", "SELECT COUNT(*) AS n FROM shop.orders GROUP BY region", "show what it groups by"),
        ("", "SELECT region, SUM(CAST(amount AS DOUBLE)) AS n FROM shop.orders GROUP BY region", "DOUBLE"),
        ("", "SELECT o.id FROM shop.orders o JOIN shop.returns r ON r.region = o.region", "key of another"),
        (", consistency = 'complete'", "SELECT id FROM shop.orders", "complete"),
        (", key = 'region'", "SELECT id, region FROM shop.orders", "found by a key"),
        (", key = 'x'", "SELECT id, region FROM shop.orders", "does not show"),
        ("", "SELECT what FROM shop.notes", "no key"),
    ]:
        shop.views(given.format(more, select))
        refused = shop.open().definitions().refused
        assert told in str(next(iter(refused.values()))), refused
    shop.views("CREATE MATERIALIZED VIEW v WITH (test_and_set = 'counter') AS SELECT id FROM shop.orders;")
    assert "served as records" in str(shop.open().definitions().refused["v"])


def test_counts_of_text_and_one_record_without_groups(shop) -> None:  # type: ignore[no-untyped-def]
    shop.source("shop", TABLES)
    shop.views(
        "CREATE MATERIALIZED VIEW all_of_it WITH (serve = 'sqlite:///records.db') AS"
        " SELECT COUNT(region) AS regions, COUNT(*) AS n, SUM(amount) AS total FROM shop.orders;"
        "CREATE MATERIALIZED VIEW bounds WITH (serve = 'sqlite:///records.db') AS"
        " SELECT MIN(amount) AS least, COUNT(*) AS n FROM shop.orders;"
    )
    wh = shop.open()
    wh.refresh()
    assert wh.record("bounds") == {"least": None, "n": 0}
    assert_right(wh)
    shop.write("shop", "INSERT INTO orders VALUES (1, 'EU', 1, 5), (2, NULL, 2, 7)")
    wh.refresh()
    assert wh.record("all_of_it") == {"regions": 1, "n": 2, "total": 12}
    assert wh.record("bounds") == {"least": 5, "n": 2}
    shop.write("shop", "DELETE FROM orders")
    wh.refresh()
    assert_right(wh)
    wh.refresh(full=True)
    assert_right(wh)
