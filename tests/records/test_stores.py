"""SQLite, Redis and PostgreSQL keep every promise of `RecordStore`, and any client reads their rows."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from places import Place, on, on_all

import servers
from stillframe.records.conformance import CHECKS, Check
from stillframe.records.conformance.world import ONE_ROW, ORDERS, VERSIONS, key_of, made, put, record
from stillframe.records.store import ABSENT, NOTHING, Key, Record, RecordStore, StoreError, Write
from stillframe.records.stores import postgres_session, redis_session, sqlite_session
from stillframe.records.stores.opening import open_store


@on_all
@pytest.mark.parametrize("check", CHECKS, ids=lambda check: check.__name__)
def test_store(place: Place, check: Check) -> None:
    check(place)


# What any client of a store reads, without this package.


def one_order(place: Place) -> RecordStore:
    store, key = made(place), key_of(7, "a:b")
    put(store, Write(key, ABSENT, record(key, "1.50")))
    put(store, Write(Key(("x",), "kind"), ABSENT, Record(next(VERSIONS), None, b"kept")))
    return store


@on("sqlite")
def test_rows_in_sqlite(place: Place) -> None:
    one_order(place)
    with sqlite3.connect(place.space) as con:
        assert con.execute("SELECT * FROM orders").fetchall() == [(7, "a:b", 1.5)]
        assert con.execute("SELECT number FROM orders WHERE total > 1").fetchall() == [(7,)]
        assert con.execute("PRAGMA journal_mode").fetchone() == ("wal",)


@on("redis")
def test_rows_in_redis(place: Place, redis: servers.RedisServer) -> None:
    one_order(place)
    client = redis.connect()
    (key,) = client.scan_iter(f"stillframe:{place.project}:orders:*")
    assert key == f"stillframe:{place.project}:orders:a%3Ab:7"
    assert client.hgetall(key) == {"number": "7", "region": "a:b", "total": "1.50"}
    put(made(place, ONE_ROW), Write(Key(()), ABSENT, Record(next(VERSIONS), (None, None))))
    assert client.hgetall(f'stillframe:{place.project}:100%25 of "it"%3A rows*:') == {"": ""}


@on("postgresql")
def test_rows_in_postgres(place: Place, postgres: servers.PostgresServer) -> None:
    one_order(place)
    with postgres.connect() as con:
        rows = con.execute(f"SELECT * FROM {place.space}.orders")
        assert [column.name for column in rows.description or ()] == ["number", "region", "total"]
        assert [tuple(map(str, row)) for row in rows] == [("7", "a:b", "1.50")]


# What others keep there stays.


@on_all
def test_a_place_that_is_taken(place: Place) -> None:
    store, schema = place(1), place.space
    if isinstance(place.server, servers.RedisServer):
        key = f"stillframe:{place.project}:orders:mine"
        place.server.connect().set(key, "1")
        refused(store)
        assert place.server.connect().get(key) == "1"
    elif isinstance(place.server, servers.PostgresServer):
        with place.server.connect() as con:
            con.execute(f"CREATE TABLE {schema}.orders AS SELECT 1 AS mine")
            refused(store)
            assert con.execute(f"SELECT mine FROM {schema}.orders").fetchall() == [(1,)]
    else:
        with sqlite3.connect(place.space) as file:
            file.execute("CREATE TABLE Orders AS SELECT 1 AS mine")
            file.commit()
            refused(store)
            assert file.execute("SELECT mine FROM orders").fetchall() == [(1,)]


def refused(store: RecordStore) -> None:
    with pytest.raises(StoreError) as caught:
        store.create()
    assert caught.value.code == "STORE_TAKEN"
    assert caught.value.hint
    store.drop()


@on("sqlite", "postgresql")
def test_another_project_has_a_view_of_that_name(place: Place) -> None:
    store = one_order(place)
    refused(open_store(place.url, "another", *ORDERS, 1))
    assert len(list(store.scan())) == 1


@on_all
def test_rows_that_others_removed(place: Place) -> None:
    store = one_order(place)
    if isinstance(place.server, servers.RedisServer):
        place.server.connect().delete(f"stillframe:{place.project}:orders:a%3Ab:7")
    elif isinstance(place.server, servers.PostgresServer):
        with place.server.connect() as con:
            con.execute(f"DELETE FROM {place.space}.orders")
    else:
        with sqlite3.connect(place.space) as file:
            file.execute("DELETE FROM orders")
    with pytest.raises(StoreError) as caught:
        store.read([key_of(7, "a:b")])
    assert caught.value.code == "STORE_CHANGED"


@on_all
def test_what_was_never_made(place: Place) -> None:
    store = place(1)
    for act in (
        lambda: store.read([key_of(1)]),
        lambda: list(store.scan()),
        lambda: store.fence(1),
        store.fenced,
        lambda: store.test_and_set([Write(key_of(1), ABSENT, record(key_of(1)))]),
    ):
        with pytest.raises(StoreError) as caught:
            act()
        assert caught.value.code == "STORE_NOT_MADE"


@on_all
def test_mistakes_of_callers(place: Place) -> None:
    store, key = made(place), key_of(1)
    for wrong in (
        [Write(key, ABSENT, record(key)), Write(key, ABSENT, None)],
        [Write(key, ABSENT, record(key)._replace(version=ABSENT))],
        [Write(key, ABSENT, record(key_of(2)))],
        [Write(key, ABSENT, Record(1, (1, "north")))],
        [Write(Key(("north", 1), "kind"), ABSENT, record(key))],
    ):
        with pytest.raises(ValueError):
            store.test_and_set(wrong)
    assert store.read([key]) == [NOTHING]


@on_all
def test_handles_share_connections(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    made(place)
    pools = {"sqlite": sqlite_session, "redis": redis_session, "postgresql": postgres_session}

    def never(_: object) -> None:
        raise AssertionError("a second connection was made")

    monkeypatch.setattr(pools[place.kind].POOL, "_connect", never)
    for _ in range(5):
        place(1).read([key_of(1)])
        place(2).close()


@on("redis")
def test_a_drop_that_did_not_end(place: Place, redis: servers.RedisServer) -> None:
    store = one_order(place)
    redis.connect().hset(f"stillframe~:{place.project}:orders", "dropping", "1")
    with pytest.raises(StoreError):
        store.test_and_set([Write(key_of(1), ABSENT, record(key_of(1)))])
    store.create()
    assert list(store.scan()) == []
    assert store.read([key_of(7, "a:b"), Key(("x",), "kind")]) == [NOTHING, NOTHING]


def test_a_file_in_the_place_of_another(tmp_path: Path) -> None:
    store = open_store(f"sqlite:///{tmp_path / 'shop.db'}", "shop", *ORDERS, 1)
    store.create()
    put(store, Write(key_of(1), ABSENT, record(key_of(1))))
    for each in tmp_path.iterdir():
        each.unlink()
    with pytest.raises(StoreError) as caught:
        store.read([key_of(1)])
    assert caught.value.code == "STORE_NOT_MADE"
    store.create()
    assert store.read([key_of(1)]) == [NOTHING]
