"""A server forgets a session that asks nothing for long: `run` may see no change for days."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

from stillframe import Warehouse
from stillframe.engine import Engine, open_engine, session

FORGETS_AFTER = 2


@pytest.fixture(autouse=True)
def only_on_sail(engine_name: str) -> None:
    if engine_name != "sail":
        pytest.skip(
            "a process is either a classic or a Connect client; test_connect.py has a server of Spark's"
        )


@pytest.fixture
def own(engine_name: str) -> Iterator[Engine]:
    opened = open_engine({"engine": engine_name, "conf": {"spark.sql.shuffle.partitions": "3"}})
    yield opened
    opened.close()


def forget(engine: Engine) -> None:
    """What a server does by itself after its time."""
    for made in (engine.maintenance, engine.caller):
        client: Any = made.client
        client.release_session()


def settings(made: Any) -> dict[str, str]:
    return {key: made.conf.get(key) for key in ("spark.sql.ansi.enabled", "spark.sql.shuffle.partitions")}


def test_a_server_of_ours_keeps_sessions_as_long_as_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own default is minutes; ours is years."""
    monkeypatch.setenv(session.SAIL_FORGETS[0], "unset")  # so that what is set below is taken back
    monkeypatch.delenv(session.SAIL_FORGETS[0])
    monkeypatch.setattr(session, "SAIL_FORGETS", (session.SAIL_FORGETS[0], str(FORGETS_AFTER)))
    opened = open_engine({"engine": "sail"})
    deadline = time.monotonic() + 60
    try:
        with pytest.raises(PySparkException, match="not running"):
            while time.monotonic() < deadline:
                time.sleep(2 * FORGETS_AFTER)
                opened.sql("SELECT 1").collect()
    finally:
        opened.close()


def test_a_forgotten_session_is_made_anew(own: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    before = settings(own.maintenance)
    forget(own)
    with pytest.raises(PySparkException):
        own.awake().sql("SELECT 1").collect()  # asked a moment ago: nothing is looked at
    monkeypatch.setattr(session, "QUIET_SECONDS", 0.0)
    assert own.awake().sql("SELECT 1").collect() == [(1,)]
    assert before == {"spark.sql.ansi.enabled": "true", "spark.sql.shuffle.partitions": "3"}
    assert settings(own.maintenance) == before
    assert own.caller.sql("SELECT 2").collect() == [(2,)]
    known = own.maintenance
    assert own.awake().maintenance is known


def test_a_warehouse_goes_on_after_a_quiet_time(
    own: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "QUIET_SECONDS", 0.0)
    database = tmp_path / "shop.db"
    with closing(sqlite3.connect(database)) as writer:
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("CREATE TABLE orders (id INTEGER PRIMARY KEY, n BIGINT)")
    wh = Warehouse(path=tmp_path / "warehouse", sources={"shop": f"sqlite:///{database}"}, engine=own)
    wh.create_view("doubled", "SELECT id, n * 2 AS n FROM shop.orders")
    for number in (1, 2):
        with closing(sqlite3.connect(database)) as writer, writer:
            writer.execute("INSERT INTO orders VALUES (?, ?)", (number, number))
        wh.refresh()
        assert sorted(tuple(row) for row in wh.view("doubled").collect())[-1] == (number, 2 * number)
        forget(own)
    assert wh.verify("doubled").ok
