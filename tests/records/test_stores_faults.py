"""Servers that are down, locked, slow or not ours: an error a user can act on, and no password in it."""

from __future__ import annotations

import os
import signal
import socket
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread
from urllib.parse import quote

import pytest
from places import SECRET, Place, on_all, on_servers, sqlite_place

import servers
from stillframe.records.conformance.world import ORDERS, key_of, made, put, record
from stillframe.records.store import ABSENT, NOTHING, StoreError, Write
from stillframe.records.stores import postgres_session, redis_session, sqlite_session
from stillframe.records.stores.opening import open_store


def shows_no_secret(error: BaseException) -> bool:
    told: BaseException | None = error
    while told is not None:
        texts = f"{told} {told!r} {getattr(told, 'detail', '')} {getattr(told, 'hint', '')}"
        if any(form in texts for form in (SECRET, quote(SECRET), quote(SECRET, safe=""), "s3cret")):
            return False
        told = told.__cause__ or (None if told.__suppress_context__ else told.__context__)
    return True


def fails(act: Callable[[], object], code: str) -> StoreError:
    with pytest.raises(StoreError) as caught:
        act()
    assert caught.value.code == code
    assert caught.value.hint
    assert shows_no_secret(caught.value)
    return caught.value


@on_servers
def test_a_server_that_is_killed(place: Place) -> None:
    assert place.server is not None
    store, key = made(place), key_of(1)
    first = record(key)
    put(store, Write(key, ABSENT, first))
    scanning = store.scan()
    place.server.stop(kill=True)
    for act in (
        lambda: store.test_and_set([Write(key, first.version, None)]),
        lambda: store.read([key]),
        lambda: list(scanning),
        store.create,
    ):
        assert "127.0.0.1" in fails(act, "UNREACHABLE").detail
    assert "s3cret" not in repr(store)
    place.server.start()
    assert store.read([key]) == [first], "the next call connects again"
    place.server.stop(kill=True)
    place.server.start()
    with suppress(StoreError):  # a driver may find the connection gone before it sends anything
        store.read([key])
    put(store, Write(key, first.version, record(key, "2.00")))


@on_servers
def test_a_server_that_is_killed_while_it_is_written_to(place: Place) -> None:
    """What was acknowledged is there; of what was not, at most the last is."""
    assert place.server is not None
    made(place)
    acknowledged, going, told = 0, Event(), []

    def work() -> None:
        nonlocal acknowledged
        store = place(1)
        try:
            for n in count():
                put(store, Write(key_of(n), ABSENT, record(key_of(n))))
                acknowledged = n + 1
                if n == 20:
                    going.set()
        except StoreError as error:
            told.append(error)

    writer = Thread(target=work)
    writer.start()
    assert going.wait(60)
    place.server.stop(kill=True)
    writer.join(60)
    assert [error.code for error in told] == ["UNREACHABLE"]
    assert shows_no_secret(told[0])
    place.server.start()
    store = place(1)
    with suppress(StoreError):
        store.read([key_of(0)])
    assert NOTHING not in store.read([key_of(n) for n in range(acknowledged)])
    assert len(list(store.scan())) in (acknowledged, acknowledged + 1)


@contextmanager
def silent_server() -> Iterator[int]:
    """Takes connections, and never answers."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        yield int(listening.getsockname()[1])


@pytest.mark.parametrize("scheme", ["redis", "postgresql"])
def test_a_server_that_never_answers(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(redis_session._OURS, "socket_timeout", 0.2)
    monkeypatch.setitem(postgres_session._ALIVE, "connect_timeout", 2)
    with silent_server() as port:
        store = open_store(f"{scheme}://me:s3cret@127.0.0.1:{port}/0", "shop", *ORDERS, 1)
        fails(store.create, "UNREACHABLE")


def test_a_file_that_stays_locked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = sqlite_place(tmp_path)
    store = made(place)
    monkeypatch.setattr(sqlite_session, "ANSWER_SECONDS", 0)
    with sqlite3.connect(place.space, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        fails(lambda: store.test_and_set([Write(key_of(1), ABSENT, record(key_of(1)))]), "LOCKED")
        assert store.read([key_of(1)]) == [NOTHING], "who only reads does not wait"
        other.execute("ROLLBACK")
    put(store, Write(key_of(1), ABSENT, record(key_of(1))))


def test_a_wrong_password(redis: servers.RedisServer) -> None:
    store = open_store(f"redis://:s3cretx@127.0.0.1:{redis.port}/0", "shop", *ORDERS, 1)
    fails(store.create, "LOGIN_REFUSED")


def test_a_server_that_forgets() -> None:
    with servers.redis_server("--maxmemory", "64mb", "--maxmemory-policy", "allkeys-lru") as server:
        store = open_store(server.url(), "shop", *ORDERS, 1)
        assert "allkeys-lru" in fails(store.create, "STORE_TAKEN").detail


@pytest.mark.parametrize(
    ("url", "code"),
    [
        ("redis://:s3cret/x@127.0.0.1:1/0", "BAD_URL"),
        ("redis://:12/s3cret@127.0.0.1:1/0", "BAD_URL"),
        ("redis://:s3cret@127.0.0.1:1/0", "UNREACHABLE"),
        ("postgresql://me:s3cret/x@127.0.0.1:1/db", "BAD_URL"),
        ("postgresql://me:s3cret@127.0.0.1:1/db", "UNREACHABLE"),
        ("mongodb://me:s3cret@127.0.0.1:1/db", "BAD_URL"),
        ("s3cret", "BAD_URL"),
        ("sqlite://shop.db", "BAD_URL"),
        ("sqlite:////nowhere/at/all.db", "STORE_ERROR"),
    ],
)
def test_urls_that_lead_nowhere(url: str, code: str) -> None:
    error = fails(lambda: open_store(url, "shop", *ORDERS, 1).create(), code)
    if url.startswith(("mongodb", "s3cret")):
        assert all(scheme in error.hint for scheme in ("sqlite://", "redis://", "rediss://", "postgresql://"))


@on_all
def test_a_child_process_has_connections_of_its_own(place: Place) -> None:
    store, key = made(place), key_of(1)
    first, second = record(key), record(key, "2.00")
    put(store, Write(key, ABSENT, first))
    child = os.fork()
    if child == 0:
        try:
            put(store, Write(key, first.version, second))
            os._exit(0 if store.read([key]) == [second] else 1)
        except BaseException:
            os._exit(2)
    assert os.waitpid(child, 0)[1] == 0
    assert store.read([key]) == [second]
    put(store, Write(key, second.version, None))


def test_a_writer_of_a_file_that_is_killed(tmp_path: Path) -> None:
    store = made(sqlite_place(tmp_path))
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        for n in count():
            put(store, Write(key_of(n), ABSENT, record(key_of(n))))
            os.write(writing, b".")
    acknowledged = 0
    while acknowledged < 20:
        acknowledged += len(os.read(reading, 20))
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert NOTHING not in store.read([key_of(n) for n in range(acknowledged)])
    assert len(list(store.scan())) >= acknowledged
