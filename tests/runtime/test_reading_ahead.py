"""What sources log from a session's vector on is read while the session computes; the next one uses it if it
starts exactly there, and adds what came since."""

from __future__ import annotations

import sqlite3
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest

from shops import Shop
from stillframe.algebra.arrow import staged_schema
from stillframe.algebra.types import BIGINT
from stillframe.engine import Staged, followed_by
from stillframe.engine.stage import staged_table
from stillframe.errors import SourceError
from stillframe.runtime import ahead
from stillframe.runtime.outcome import Step
from stillframe.sources import SqliteSource
from stillframe.sources.base import Position

pytestmark = pytest.mark.engine

VIEW = "CREATE MATERIALIZED VIEW v AS SELECT id, x + 1 AS y FROM one.t WHERE x > 0;"
Reading = tuple[str, str, int, int]  # thread, relation, after, up to


class Watched(SqliteSource):
    """Notes who reads which part of the log, and fails where it is told to."""

    readings: ClassVar[list[Reading]] = []
    fails: ClassVar[Callable[[Reading], bool]]

    def changes(
        self, relation: str, columns: Sequence[str], after: Position, upto: Position, **how: Any
    ) -> Iterator[pa.RecordBatch]:
        thread = "ahead" if threading.current_thread().name == "ahead" else "session"
        reading = (thread, relation, after.sequence, upto.sequence)
        Watched.readings.append(reading)
        if Watched.fails(reading):
            raise SourceError("this read fails")
        return super().changes(relation, columns, after, upto, **how)


class World:
    """A warehouse that runs, and a script of what happens in the middle of its sessions: between COMPUTED and
    PUBLISHED of frame n, rows are written, and the session goes on when they were read ahead."""

    def __init__(self, shop: Shop) -> None:
        shop.source("one", "CREATE TABLE t (id INTEGER PRIMARY KEY, x INT);")
        shop.views(VIEW)
        self.shop = shop
        self.wh = shop.open()
        self.wh.sources["one"] = Watched("one", shop.root / "one.db")
        self.steps: list[str] = []
        self.read = threading.Event()
        self.between: Callable[[int], None] = lambda number: None
        self.at = 0
        Watched.readings, Watched.fails = [], lambda reading: False
        self.wh.refresh()
        self.wh.observe = self.observe

    def observe(self, step: Step, subject: str) -> None:
        self.steps.append(str(step))
        if step is Step.AHEAD:
            self.read.set()
        if step is Step.COMPUTED:
            self.at += 1
            self.between(self.at)

    def insert(self, *numbers: int) -> None:
        self.shop.write("one", *(f"INSERT INTO t VALUES ({n}, {n})" for n in numbers))

    def insert_and_wait(self, *numbers: int) -> None:
        self.read.clear()
        self.insert(*numbers)
        assert self.read.wait(20), "nothing is read ahead"

    def run(self, frames: int, look: Callable[[object], None] | None = None) -> None:
        stop, made = threading.Event(), []

        def result(found: object) -> None:
            made.append(found)
            if len(made) == frames:
                stop.set()

        self.wh.run(0.01, stop=stop, on_result=result, on_look=look)

    def check(self) -> None:
        with sqlite3.connect(self.shop.root / "one.db") as con:
            expected = Counter(con.execute("SELECT id, x + 1 FROM t WHERE x > 0").fetchall())
        found = self.wh.arrow("v")
        assert Counter(zip(*found.to_pydict().values(), strict=True)) == expected
        staging = self.shop.root / "warehouse" / "staging"
        assert list(staging.iterdir()) == [], "what was read ahead is left behind"


@pytest.fixture
def world(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(ahead, "LEAST_ROWS", 1)
    monkeypatch.setattr(ahead, "PAUSE_SECONDS", 0.001)
    return World(shop)


def test_the_next_changes_are_read_before_a_frame_is_published(world: World) -> None:
    """The first session with changes tells that there are many; from the second on they are read ahead."""
    script = {1: lambda: world.insert(2), 2: lambda: world.insert_and_wait(3, 4)}
    world.between = lambda number: script.get(number, lambda: None)()
    world.insert(1)
    world.run(3)
    at = [i for i, step in enumerate(world.steps) if step == Step.PUBLISHED]
    read = world.steps.index(Step.AHEAD)
    assert world.steps.index(Step.COMPUTED, at[0]) < read < at[1], world.steps
    readings = Watched.readings
    print(readings)
    first = next(reading for reading in readings if reading[0] == "ahead")
    assert first[2:] == (3, 5)
    assert not any(thread == "session" and after == 3 for thread, _, after, _ in readings), "read twice"
    world.check()


def test_what_came_since_is_added(world: World) -> None:
    def between(number: int) -> None:
        if number == 2:
            world.insert_and_wait(3)
            world.wh._ahead._enough.set()  # type: ignore[union-attr]
            world.wh._ahead._reader.join()  # type: ignore[union-attr]
            world.shop.write("one", "DELETE FROM t WHERE id = 3", "UPDATE t SET x = 7 WHERE id = 1")
            world.insert(8)
        elif number == 1:
            world.insert(2)

    world.between = between
    world.insert(1)
    world.run(3)
    print(Watched.readings)
    assert ("ahead", "t", 3, 4) in Watched.readings and ("session", "t", 4, 8) in Watched.readings
    assert world.wh.frame().number == 4
    world.check()


@pytest.mark.parametrize("which", ["ahead", "the rest"])
def test_what_fails_is_read_as_if_nothing_had_been_read_ahead(world: World, which: str) -> None:
    failed = threading.Event()

    def fails(reading: Reading) -> bool:
        thread, _, after, _ = reading
        fail = thread == "ahead" if which == "ahead" else (thread, after) == ("session", 4)
        if fail:
            failed.set()
        return fail

    def between(number: int) -> None:
        if number == 1:
            world.insert(2)
        elif number == 2 and which == "ahead":
            world.insert(3)
            assert failed.wait(60)
        elif number == 2:
            world.insert_and_wait(3)
            world.wh._ahead._enough.set()  # type: ignore[union-attr]
            world.wh._ahead._reader.join()  # type: ignore[union-attr]
            world.insert(4)

    Watched.fails = fails
    world.between = between
    world.insert(1)
    world.run(3)
    print(Watched.readings)
    assert failed.is_set()
    assert any(thread == "session" and after == 3 for thread, _, after, _ in Watched.readings)
    assert world.wh.frame().views["v"].state == "current"
    world.check()


def test_what_starts_elsewhere_is_not_used(world: World) -> None:
    """Somebody else shows in a frame of his own what was read ahead, before the session that would use it."""
    other = world.shop.open()

    def between(number: int) -> None:
        if number == 1:
            world.insert(2)
        elif number == 2:
            world.insert_and_wait(3)

    def look(_: object) -> None:
        if world.steps.count(Step.PUBLISHED) == 2 and other.frame().number == 3:
            other.refresh()
            world.insert(4)

    world.between = between
    world.insert(1)
    world.run(3, look)
    print(Watched.readings)
    assert world.wh.frame().number == 5
    assert Watched.readings[-1] == ("session", "t", 4, 5)
    world.check()


def test_few_changes_are_not_read_ahead(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ahead, "LEAST_ROWS", 5)
    world.between = lambda number: world.insert(*range(10 * number, 10 * number + 3)) if number < 4 else None
    world.insert(1)
    world.run(4)
    assert Step.AHEAD not in world.steps and not any(t == "ahead" for t, *_ in Watched.readings)
    world.check()


def test_run_that_ends_leaves_nothing_that_was_read(world: World) -> None:
    def between(number: int) -> None:
        if number == 1:
            world.insert(2)
        elif number == 2:
            world.insert_and_wait(3)

    world.between = between
    world.insert(1)
    world.run(2)
    assert Step.AHEAD in world.steps
    staging = world.shop.root / "warehouse" / "staging"
    assert list(staging.iterdir()) == []
    assert not any(thread.name == "ahead" for thread in threading.enumerate())


def test_two_intervals_are_one(tmp_path: Path) -> None:
    def staged(name: str, rows: dict[int, int]) -> Staged:
        table = pa.table([list(rows), list(rows.values())], schema=staged_schema([BIGINT]))
        return staged_table(table, [4], [BIGINT], tmp_path / name)

    one, two = staged("a", {1: 1, 2: -1, 3: 2}), staged("b", {1: -1, 2: -1, 5: 1})
    both = followed_by(one, two, tmp_path / "c")
    assert dict(zip(*both.table([4]).to_pydict().values(), strict=True)) == {2: -2, 3: 2, 5: 1}
    assert both.rows == 3 and both.small and not both.plain
    nothing = staged("d", {})
    assert (
        followed_by(one, nothing, tmp_path / "e") is one and followed_by(nothing, two, tmp_path / "f") is two
    )
