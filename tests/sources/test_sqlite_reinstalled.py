"""Capture installed again, widened or removed: what was not captured is never taken for unchanged, and what
was captured all along goes on."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest
from sqlite_world import ME, World, bag, database

from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap, SourceError
from stillframe.sources import SqliteSource

KEYED = "CREATE TABLE t (id INTEGER PRIMARY KEY, code TEXT UNIQUE, n INTEGER)"
FILL = "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)"
OTHER = "CREATE TABLE u (id INTEGER PRIMARY KEY)"
RECREATE = ("DROP TABLE t", KEYED, "INSERT INTO t VALUES (7, 'z', 70)")


def triggers(con: sqlite3.Connection, table: str) -> int:
    found = con.execute(
        "SELECT count(*) FROM sqlite_master WHERE type = 'trigger' AND tbl_name = ?", (table,)
    )
    return int(found.fetchone()[0])


@pytest.mark.parametrize("who", [ME, "other"])
def test_a_gap_stays_one_when_capture_is_installed_again(tmp_path: Path, who: str) -> None:
    """Nothing is logged between: by its number, the old position would be the newest."""
    world = World(tmp_path / "s.db", "t", KEYED, FILL, OTHER)
    world.source.attach(ME, ["t", "u"])
    world.source.attach("other", ["t"])
    old = world.source.position(ME, ["t", "u"])
    world.run(*RECREATE)
    with pytest.raises(CaptureGap, match="not as they were installed"):
        world.source.check(old, ["t"])
    new = world.source.attach(who, ["t"])
    for ask in (world.source.check, lambda p, names: world.source.behind(names, p)):
        with pytest.raises(CaptureGap, match="installed later"):
            ask(old, ["t"])
        ask(old, ["u"])
        ask(new, ["t", "u"])
    with pytest.raises(CaptureGap, match="installed later"):
        world.state(old)
    with pytest.raises(CaptureGap, match="installed later"):
        world.change(old, new)
    assert new.sequence > old.sequence
    world.position, world.rows = new, world.present()
    world.run("UPDATE t SET n = 0")
    assert world.follow() == Bag({(7, "z", 70): -1, (7, "z", 0): 1})


def test_attaching_what_stands_writes_nothing_to_the_log(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    assert world.source.attach("other", ["t"]) == world.source.attach(ME, ["t"]) == world.position
    assert world.source.log_status().rows == 1


def test_a_relation_captured_first_by_a_restored_copy_is_no_older_than_that(tmp_path: Path) -> None:
    """The copy was made before the relation was captured, and nothing was logged since."""
    path = tmp_path / "s.db"
    world = World(path, "t", KEYED, FILL, OTHER)
    copy = sqlite3.connect(":memory:")
    world.con.backup(copy)
    world.run("INSERT INTO u VALUES (1)")
    old = world.source.attach(ME, ["u"])
    copy.backup(world.con)
    assert world.source.attach("other", ["u"]).sequence == old.sequence
    with pytest.raises(CaptureGap, match="restored from an older copy and written to"):
        world.source.check(old, ["u"])


@pytest.mark.parametrize("acknowledged", [False, True])
def test_a_log_emptied_by_hand_begins_anew_above_all_it_had(tmp_path: Path, acknowledged: bool) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.run("DELETE FROM t WHERE id = 1")
    world.follow()
    world.source.acknowledge(ME, world.position)
    old = world.position
    world.run(OTHER, "DELETE FROM t WHERE id = 2")
    young = world.source.attach(ME, ["u"])
    if acknowledged:
        world.run("DELETE FROM t WHERE id = 3", FILL)
        world.follow()
        world.source.acknowledge(ME, world.position)
        old = world.position
    world.run("DELETE FROM _stillframe_log")
    world.position, world.rows = world.source.attach(ME, ["t"]), world.present()
    world.source.check(world.position, ["t", "u"])
    for lost in (old, young):
        with pytest.raises(CaptureGap, match="trimmed too far"):
            world.source.check(lost, [])
    world.run("DELETE FROM t WHERE id = 3")
    world.follow()


GAPS: list[tuple[str, Callable[[World], None]]] = [
    ("not as they were installed", lambda world: world.run(*RECREATE)),
    ("is gone", lambda world: world.run("DROP TABLE t")),
    ("log is empty", lambda world: world.run("DELETE FROM _stillframe_log")),
    ("another database", lambda world: (world.source.detach(ME), world.source.attach(ME, ["t"]), None)[-1]),
    ("log rows are missing", lambda world: world.run("DELETE FROM _stillframe_log WHERE seq = 3")),
]


@pytest.mark.parametrize("message, happens", GAPS)
def test_lag_is_not_told_across_a_gap(tmp_path: Path, message: str, happens: Callable[[World], None]) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.run("DELETE FROM t WHERE id > 1", "INSERT INTO t VALUES (5, 'e', 50)")
    assert world.source.behind(["t"], world.position) == 3
    happens(world)
    with pytest.raises(CaptureGap, match=message):
        world.source.behind(["t"], world.position)
    with pytest.raises(CaptureGap, match=message):
        world.source.waiting_since(["t"], world.position)


def test_what_lag_counts_and_since_when(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL, OTHER)
    start = world.source.attach(ME, ["t", "u"])
    assert world.source.waiting_since(["t"], start) is None
    before = datetime.now(UTC).replace(microsecond=0)
    world.run(
        "UPDATE t SET n = 0 WHERE id = 1", "REPLACE INTO t VALUES (9, 'b', 1)", "INSERT INTO u VALUES (1)"
    )
    assert [world.source.behind(names, start) for names in (["t"], ["u"], ["t", "u"])] == [4, 1, 5]
    since = world.source.waiting_since(["t"], start)
    assert since is not None and before <= since <= datetime.now(UTC)
    hour = 3600 << 31
    world.run(
        f"UPDATE _stillframe_log SET mark = mark - {hour} WHERE seq = {start.sequence + 1}",
        f"UPDATE _stillframe_log SET mark = mark - 2 * {hour} WHERE seq = {start.sequence + 2}",
    )
    oldest = world.source.waiting_since(["u", "t"], start)
    assert oldest is not None and (since - oldest).total_seconds() == 3600
    newest = world.source.waiting_since(["u"], start)
    assert newest is not None and newest >= before


def widened(tmp_path: Path) -> World:
    """A column was added, and rows changed before and after that; it is not captured yet."""
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.run(
        "DELETE FROM t WHERE id = 3",
        "ALTER TABLE t ADD COLUMN extra TEXT DEFAULT 'x'",
        "UPDATE t SET extra = 'y', n = 0 WHERE id = 1",
        "UPDATE t SET extra = 'w' WHERE id = 2",
    )
    return world


@pytest.mark.parametrize("who", [ME, "other"])
def test_widening_capture_lets_the_old_columns_go_on(tmp_path: Path, who: str) -> None:
    world = widened(tmp_path)
    old = world.position
    switch = world.source.attach(who, ["t"])
    world.run("REPLACE INTO t VALUES (8, 'b', 80, 'v')", "UPDATE t SET extra = 'u' WHERE id = 1")
    world.source.check(old, ["t"])
    assert world.follow() == Bag(
        {(3, "c", 30): -1, (1, "a", 10): -1, (1, "a", 0): 1, (2, "b", 20): -1, (8, "b", 80): 1}
    )
    for read in (
        lambda: world.source.changes("t", ["id", "extra"], old, world.position),
        lambda: world.source.state("t", ["id", "extra"], old),
    ):
        with pytest.raises(CaptureGap, match="'extra' was added"):
            list(read())
    assert bag(world.source.state("t", ["id", "extra"], switch)) == Bag({(1, "y"): 1, (2, "w"): 1})
    assert bag(world.source.changes("t", ["id", "extra"], switch, world.position)) == Bag(
        {(1, "y"): -1, (1, "u"): 1, (2, "w"): -1, (8, "v"): 1}
    )


def test_widening_twice_keeps_each_columns_own_beginning(tmp_path: Path) -> None:
    world = widened(tmp_path)
    old = world.position
    first = world.source.attach(ME, ["t"])
    world.run("ALTER TABLE t ADD COLUMN more INTEGER", "UPDATE t SET more = 1, extra = 'p' WHERE id = 1")
    second = world.source.attach(ME, ["t"])
    world.run("DELETE FROM t WHERE id = 2")
    world.follow()
    world.source.check(old, ["t"])
    assert bag(world.source.changes("t", ["extra"], first, world.position)) == Bag(
        {("y",): -1, ("p",): 1, ("w",): -1}
    )
    assert bag(world.source.changes("t", ["more"], second, world.position)) == Bag({(None,): -1})
    for column, after in (("extra", old), ("more", first)):
        with pytest.raises(CaptureGap, match=f"'{column}' was added"):
            list(world.source.changes("t", [column], after, world.position))


def test_a_broken_table_is_not_taken_for_a_widened_one(tmp_path: Path) -> None:
    world = widened(tmp_path)
    world.run(
        "DROP TABLE t", "CREATE TABLE t (id INTEGER PRIMARY KEY, code TEXT UNIQUE, n INTEGER, extra TEXT)"
    )
    world.source.attach(ME, ["t"])
    with pytest.raises(CaptureGap, match="installed later"):
        world.source.check(world.position, ["t"])


def test_a_heartbeat_without_a_frame(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED)
    world.source.attach("other", ["t"])
    world.run("UPDATE _stillframe_consumers SET heartbeat = '2001-01-01T00:00:00+00:00'")
    before = world.source.log_status()
    world.source.beat(ME)
    after = world.source.log_status()
    beats = {c.name: c.heartbeat for c in after.consumers}
    assert beats.pop(ME) > "2020" and beats == {"other": "2001-01-01T00:00:00+00:00"}
    assert [(c.name, c.position) for c in after.consumers] == [(c.name, c.position) for c in before.consumers]
    with pytest.raises(CaptureGap, match="'ghost' is not registered"):
        world.source.beat("ghost")


def test_one_database_has_one_address(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "link.db").symlink_to(tmp_path / "s.db")
    paths = (tmp_path / "s.db", tmp_path / "folder" / ".." / "s.db", tmp_path / "link.db")
    assert len({SqliteSource(f"s{i}", path).address for i, path in enumerate(paths)}) == 1
    assert SqliteSource("s", tmp_path / "other.db").address != SqliteSource("s", paths[0]).address


def test_released_relations_are_captured_only_for_others(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL, OTHER)
    source, con = world.source, world.con
    source.attach(ME, ["t", "u"])
    source.attach("other", ["t"])
    old = source.position(ME, ["t", "u"])
    source.release(ME, ["t"])
    assert (triggers(con, "t"), triggers(con, "u")) == (5, 0)
    with pytest.raises(CaptureGap, match="'u' is not captured"):
        source.check(old, ["u"])
    source.attach(ME, ["u"])
    with pytest.raises(CaptureGap, match="installed later"):
        source.check(old, ["u"])
    source.release(ME, ["u"])
    world.run("DELETE FROM t WHERE id = 1")
    assert triggers(con, "t") == 5 and source.behind(["t"], old) == 1
    source.check(old, ["t"])
    source.detach("other")
    assert (triggers(con, "t"), triggers(con, "u")) == (0, 5)
    source.check(source.position(ME, ["u"]), ["u"])
    with pytest.raises(CaptureGap, match="'ghost' is not registered"):
        source.release("ghost", ["u"])


def test_a_consumer_that_keeps_nothing_holds_nothing_back(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.source.attach("other", ["t"])
    world.run("DELETE FROM t")
    world.follow()
    world.source.release("other", [])
    world.source.acknowledge(ME, world.position)
    assert [c.name for c in world.source.log_status().consumers] == [ME]
    assert world.source.log_status().rows == 1
    world.source.release(ME, [])
    assert not world.con.execute("SELECT 1 FROM sqlite_master WHERE name LIKE '%stillframe%'").fetchall()


def test_one_that_was_dropped_needs_no_capture_until_it_is_back(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL, OTHER)
    source = SqliteSource("s", tmp_path / "s.db", capture_limit=1)
    source.attach("dead", ["u"])
    world.run("DELETE FROM t")
    world.follow()
    source.acknowledge(ME, world.position)
    source.release(ME, ["t"])
    assert (triggers(world.con, "t"), triggers(world.con, "u")) == (5, 0)
    source.check(source.attach("dead", ["u"]), ["u"])


def test_capture_of_another_format_is_refused(tmp_path: Path) -> None:
    con = database(tmp_path / "s.db", KEYED)
    source = SqliteSource("s", tmp_path / "s.db")
    source.attach(ME, ["t"])
    con.execute("UPDATE _stillframe_source SET format = 1")
    for use in (lambda: source.attach(ME, ["t"]), lambda: source.position(ME, ["t"]), source.log_status):
        with pytest.raises(SourceError) as refused:
            use()
        assert refused.value.code == "CAPTURE_FORMAT"
