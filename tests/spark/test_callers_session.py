"""A warehouse on a session of the caller's own, which is neither in ANSI mode nor in UTC: views mean what
they always mean, and the caller's session stays as it was."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from stillframe import StillframeError, Warehouse
from stillframe.engine import Engine

pytestmark = pytest.mark.engine

CALLERS = {"spark.sql.ansi.enabled": "false", "spark.sql.session.timeZone": "Europe/Berlin"}
TABLE = "CREATE TABLE events (id INTEGER PRIMARY KEY, at TIMESTAMP, said TEXT, n BIGINT)"
DAYS = "SELECT id, CAST(at AS DATE) AS day, hour(at) AS hour, CAST(at AS STRING) AS text FROM shop.events"
READ = "SELECT id, hour(CAST(said AS TIMESTAMP)) AS hour FROM shop.events WHERE said LIKE '2%'"
NUMBERS = "SELECT id, CAST(said AS INT) AS number FROM shop.events"
MORE = "SELECT id, n + 1 AS more FROM shop.events"
LATE = (1, "2024-03-30 23:30:00", "7", 1)
NOON = (2, "2024-07-01T12:00:00+02:00", "-3", 2)


@pytest.fixture
def session(engine: Engine) -> Iterator[Any]:
    """A session of its own on the engine of this process, as a caller would have it."""
    if engine.kind == "spark":
        made = engine.caller.newSession()
    else:
        from pyspark.sql import SparkSession

        _, port = engine._server.listening_address
        made = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    for key, value in CALLERS.items():
        made.conf.set(key, value)
    yield made
    if engine.kind != "spark":
        made.stop()


@pytest.fixture
def database(tmp_path: Path) -> Path:
    with closing(sqlite3.connect(tmp_path / "shop.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute(TABLE)
    insert(tmp_path / "shop.db", LATE, NOON, (3, None, None, None))
    return tmp_path / "shop.db"


@pytest.fixture
def wh(session: Any, database: Path, tmp_path: Path) -> Iterator[Warehouse]:
    warehouse = tmp_path / "warehouse"
    with Warehouse(spark=session, path=warehouse, sources={"shop": f"sqlite:///{database}"}) as made:
        yield made


def insert(database: Path, *rows: tuple[Any, ...]) -> None:
    with closing(sqlite3.connect(database)) as connection, connection:
        connection.executemany("INSERT INTO events VALUES (?, ?, ?, ?)", rows)


def rows(frame: Any) -> list[tuple[Any, ...]]:
    return sorted(tuple(row) for row in frame.collect())


def test_the_caller_would_read_the_same_text_otherwise(session: Any) -> None:
    """What the other tests here rest on."""
    ((day, number),) = session.sql(
        "SELECT CAST(TIMESTAMP'2024-03-30 23:30:00+00:00' AS DATE), CAST('seven' AS INT)"
    ).collect()
    assert (day, number) == (date(2024, 3, 31), None)


def test_days_and_hours_are_those_of_utc(wh: Warehouse, database: Path) -> None:
    wh.create_view("days", DAYS)
    wh.create_view("readings", READ)
    wh.refresh()
    expected = [
        (1, date(2024, 3, 30), 23, "2024-03-30 23:30:00"),
        (2, date(2024, 7, 1), 10, "2024-07-01 10:00:00"),
        (3, None, None, None),
    ]
    assert rows(wh.view("days")) == expected
    insert(database, (4, "2024-12-31 23:59:59.999999", "2024-03-31 02:30:00", 0))  # no such time in Berlin
    assert wh.maintain().outcomes["days"].mode == "incremental"
    assert rows(wh.view("days")) == [
        *expected,
        (4, date(2024, 12, 31), 23, "2024-12-31 23:59:59.999999"),
    ]
    assert rows(wh.view("readings")) == [(4, 2)]
    assert all(verification.ok for verification in wh.verify_all().values())
    wh.settle_due(everything=True)
    assert rows(wh.view("days"))[:3] == expected


@pytest.mark.parametrize(
    ("select", "bad"),
    [
        (NUMBERS, (4, None, "seven", 0)),
        (NUMBERS, (4, None, "2147483648", 0)),
        (MORE, (4, None, None, 2**63 - 1)),
    ],
    ids=["no number", "too large", "overflow"],
)
def test_what_ansi_mode_refuses_stops_the_view(
    wh: Warehouse, database: Path, select: str, bad: tuple[Any, ...]
) -> None:
    wh.create_view("strict", select)
    wh.create_view("days", DAYS)
    wh.refresh()
    before = rows(wh.view("strict"))
    assert len(before) == 3
    insert(database, bad)
    result = wh.maintain()
    assert (result.outcomes["strict"].mode, result.outcomes["days"].mode) == ("stopped", "incremental")
    assert wh.frame().views["strict"].reason["code"] == "EVALUATION_FAILED"
    assert rows(wh.view("strict")) == before
    wh.create_view("from_the_start", select)
    assert wh.maintain().outcomes["from_the_start"].mode == "stopped"
    with pytest.raises(StillframeError):
        wh.view("from_the_start")


def test_the_callers_settings_and_temporary_views_stay(wh: Warehouse, session: Any, database: Path) -> None:
    session.range(3).createOrReplaceTempView("days")  # the same name as a view of the warehouse
    session.range(5).createOrReplaceTempView("mine")
    before = state(session)
    assert before["settings"].items() >= CALLERS.items()
    wh.create_view("days", DAYS)
    wh.refresh()
    insert(database, (4, None, None, 4))
    wh.refresh()
    assert state(session) == before
    assert wh.view("days").count() == 4
    assert wh.query("SELECT * FROM days").count() == 4
    assert wh.verify("days").ok
    wh.refresh(settle=True)
    wh.arrow("days")
    assert state(session) == before
    assert (session.table("days").count(), session.table("mine").count()) == (3, 5)
    wh.close()
    assert state(session) == before
    assert session.table("mine").count() == 5


def state(session: Any) -> dict[str, Any]:
    return {
        "settings": dict(session.conf.getAll),
        "views": sorted(table.name for table in session.catalog.listTables()),
        "database": session.catalog.currentDatabase(),
    }


def test_a_view_joins_with_the_callers_own_data(wh: Warehouse, session: Any, database: Path) -> None:
    wh.create_view("days", DAYS)
    wh.refresh()
    insert(database, (4, None, None, 4))
    wh.refresh()
    assert wh.frame().views["days"].changes, "the frame must be unsettled for this to show anything"
    mine = session.createDataFrame([(1, "one"), (4, "four"), (9, "nine")], "id BIGINT, name STRING")
    for _ in range(2):
        view = wh.view("days")
        assert view.sparkSession is session
        assert rows(view.join(mine, "id").select("id", "name")) == [(1, "one"), (4, "four")]
        view.createOrReplaceTempView("days_of_mine")
        mine.createOrReplaceTempView("names_of_mine")
        joined = session.sql("SELECT name FROM days_of_mine JOIN names_of_mine USING (id)")
        assert rows(joined) == [("four",), ("one",)]
        wh.settle_due(everything=True)
    assert view.sparkSession is session


def test_a_view_handed_out_stays_when_later_frames_come(wh: Warehouse, database: Path) -> None:
    wh.create_view("days", DAYS)
    wh.refresh()
    first = wh.view("days")
    insert(database, (4, None, None, 4))
    wh.refresh()
    second = wh.view("days")
    insert(database, (5, None, None, 5))
    wh.refresh(settle=True)
    assert (first.count(), second.count(), wh.view("days").count()) == (3, 4, 5)
