"""A log is counted in parts, each by a connection of its own, and told as if it had been counted at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from conforming import must_keep
from sqlite_world import ME, World
from world_sqlite import sqlite_world

from stillframe.errors import CaptureGap
from stillframe.sources.conformance import ALL_CHECKS, Check
from stillframe.sources.sqlite import source as sqlite_source
from stillframe.sources.sqlite.capture import GLOBAL, LOG

BRIEFLY = (
    *("check_transactions_of_several_tables", "check_marked_transactions_come_back"),
    *("check_a_state_without_a_marked_transaction", "check_log_trimmed_by_someone_else"),
    "check_log_trimmed_when_nothing_waited",
)


@pytest.fixture
def parts(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many parts each count had."""
    found = list[int]()
    both = sqlite_source.side_by_side

    def seen(work, things):  # type: ignore[no-untyped-def]
        found.append(len(things))
        return both(work, things)

    monkeypatch.setattr(sqlite_source, "PART_ROWS", 1)
    monkeypatch.setattr(sqlite_source, "cores", lambda: 3)
    monkeypatch.setattr(sqlite_source, "side_by_side", seen)
    return found


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "t.db", "t", "CREATE TABLE t (id INTEGER PRIMARY KEY)")


@pytest.mark.parametrize("rows", [1, 2, 3, 7])
def test_differential_parts_add_up(world: World, parts: list[int], rows: int) -> None:
    before = world.position
    world.run(f"INSERT INTO {GLOBAL} VALUES ('g', 2)")
    world.run(*(("INSERT INTO t VALUES (?)", (i,)) for i in range(rows)))
    upto = world.source.position(ME, ["t"])
    found = world.source.transactions(["t"], before, upto)
    assert max(parts) == min(3, rows + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sqlite_source, "PART_ROWS", 1 << 40)
        assert world.source.transactions(["t"], before, upto) == found
    assert [(each.group, each.rows) for each in found] == [("g", {"t": rows})]


@pytest.mark.parametrize("lost", range(1, 7))
def test_a_row_that_is_missing_is_missed_in_any_part(world: World, parts: list[int], lost: int) -> None:
    before = world.position
    world.run(*(("INSERT INTO t VALUES (?)", (i,)) for i in range(8)))
    upto = world.source.position(ME, ["t"])
    world.con.execute(f"DELETE FROM {LOG} WHERE seq = ?", (before.sequence + lost,))
    with pytest.raises(CaptureGap, match="reach back"):
        world.source.check(before, ["t"])
    with pytest.raises(CaptureGap, match="reach back"):
        world.source.transactions(["t"], before, upto)
    assert max(parts) == 3


def test_rows_that_were_trimmed_meanwhile_are_still_told(world: World, parts: list[int]) -> None:
    """Positions were checked, and marks are read, in a snapshot that has them."""
    before = world.position
    world.run(f"INSERT INTO {GLOBAL} VALUES ('g', 2)")
    world.run(*(("INSERT INTO t VALUES (?)", (i,)) for i in range(6)))
    upto = world.source.position(ME, ["t"])
    both = sqlite_source.side_by_side

    def trimmed(when: str):  # type: ignore[no-untyped-def]
        def counting(work, things):  # type: ignore[no-untyped-def]
            if when == "before":
                world.con.execute(f"DELETE FROM {LOG} WHERE seq < ?", (upto.sequence,))
            found = both(work, things)
            world.con.execute(f"DELETE FROM {LOG} WHERE seq < ?", (upto.sequence,))
            return found

        return counting

    for when in ("after", "before"):
        with pytest.MonkeyPatch.context() as patch:
            world.con.execute(f"CREATE TABLE IF NOT EXISTS kept AS SELECT * FROM {LOG}")
            patch.setattr(sqlite_source, "side_by_side", trimmed(when))
            found = world.source.transactions(["t"], before, upto)
        assert [(each.group, each.rows) for each in found] == [("g", {"t": 6})], when
        world.con.execute(f"INSERT OR IGNORE INTO {LOG} SELECT * FROM kept")


CHECKS = [check for check in ALL_CHECKS if check.name in BRIEFLY]


def test_there_are_such_checks() -> None:
    assert {check.name for check in CHECKS} == set(BRIEFLY)


@pytest.mark.parametrize("check", CHECKS, ids=lambda c: c.name)
def test_what_sqlite_promises_is_kept_by_parts(check: Check, tmp_path: Path, parts: list[int]) -> None:
    must_keep(check, lambda: sqlite_world(tmp_path))
