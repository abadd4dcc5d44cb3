"""Attaching, detaching, several consumers, and every way a log can stop being what a frame takes it for."""

from __future__ import annotations

import pickle
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlite_world import ME, World, database

from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap
from stillframe.sources import SqliteSource
from stillframe.sources.sqlite import log

KEYED = "CREATE TABLE t (id INTEGER PRIMARY KEY, code TEXT UNIQUE, n INTEGER)"
FILL = "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)"


def dump(con: sqlite3.Connection) -> tuple[object, ...]:
    schema = con.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY rowid").fetchall()
    return schema, list(con.iterdump()), con.execute("PRAGMA journal_mode").fetchone()


@pytest.mark.parametrize("key", ["INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT"])
def test_last_detach_leaves_no_trace(tmp_path: Path, key: str) -> None:
    ddl = [
        f"CREATE TABLE t (id {key}, a TEXT UNIQUE)",
        "CREATE TABLE w (a, b, c)",
        "CREATE VIEW v AS SELECT a FROM w",
    ]
    ddl += ["CREATE TRIGGER mine AFTER INSERT ON t BEGIN INSERT INTO w VALUES (NEW.id, 1, 2); END"]
    con = database(tmp_path / "s.db", *ddl, "INSERT INTO t VALUES (1, 'x')")
    before = dump(con)
    source = SqliteSource("s", tmp_path / "s.db")
    source.attach("one", ["t"])
    source.attach("two", ["t", "w"])
    source.attach("one", ["t", "w"])
    con.execute("BEGIN")
    con.execute("REPLACE INTO t VALUES (1, 'y')")
    con.execute("ROLLBACK")
    source.detach("one")
    assert source.log_status().consumers[0].name == "two"
    source.detach("two")
    assert dump(con) == before
    source.detach("two")
    assert source.log_status().rows == 0
    assert pickle.loads(pickle.dumps(source)) == source


@pytest.mark.parametrize(("many", "few"), [(0, 100), (0, 3), (3, 100), (5_000, 100)])
def test_what_is_left_of_a_trimmed_log_is_as_it_was(
    tmp_path: Path, many: int, few: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "MANY_GO", many)
    monkeypatch.setattr(log, "FEW_LEFT", few)
    world = World(tmp_path / "s.db", "t", "CREATE TABLE t (id INTEGER PRIMARY KEY, x)")
    seen = [world.source.attach("slow", ["t"])]
    values = (
        "1",
        "1.5",
        "9e999",
        "'text'",
        "x'00ff'",
        "NULL",
        "CAST(x'ff41' AS TEXT)",
        "-9223372036854775808",
    )
    every = "SELECT *, hex(v1), typeof(v1) FROM _stillframe_log ORDER BY seq"
    world.con.text_factory = bytes
    for number, value in enumerate(2 * values):
        world.run(f"INSERT INTO t VALUES ({number}, {value})")
        seen.append(world.source.position(ME, ["t"]))
        before = world.con.execute(every).fetchall()
        world.source.acknowledge("slow", seen[max(0, number - 3)])
        world.source.acknowledge(ME, seen[-1])
        assert world.con.execute(every).fetchall() == [
            row for row in before if row[0] >= seen[max(0, number - 3)].sequence
        ]


def test_two_consumers_at_different_speeds(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    slow_start = world.source.attach("slow", ["t"])
    total = Bag()
    for i in range(10, 15):
        world.run(f"INSERT INTO t VALUES ({i}, 'x{i}', 0)")
        total += world.follow()
        world.source.acknowledge(ME, world.position)
    status = world.source.log_status()
    assert status.rows == 6 and status.position == world.position.sequence and status.bytes > 0
    assert {c.name: c.behind for c in status.consumers} == {ME: 0, "slow": 5}
    assert world.change(slow_start, world.position) == total
    world.source.acknowledge("slow", world.position)
    assert world.source.log_status().rows == 1
    with pytest.raises(CaptureGap, match="trimmed too far"):
        world.change(slow_start, world.position)
    world.run("DELETE FROM t")
    world.follow()


def test_attach_again_keeps_the_position(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.run("DELETE FROM t WHERE id = 1")
    world.source.attach(ME, ["t"])
    world.source.attach("other", [])
    world.source.acknowledge("other", world.source.position("other", []))
    assert world.follow() == Bag({(1, "a", 10): -1})


def test_capture_limit_drops_those_left_behind(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    source = SqliteSource("s", tmp_path / "s.db", capture_limit=4)
    dead = source.attach("dead", ["t"])
    for i in range(10, 14):
        world.run(f"INSERT INTO t VALUES ({i}, 'x{i}', 0)")
    world.follow()
    source.acknowledge(ME, world.position)
    source.position("dead", ["t"])
    world.run("DELETE FROM t WHERE id = 1")
    world.follow()
    world.source.acknowledge(ME, world.position)
    source.position("dead", ["t"])
    source.acknowledge(ME, world.position)
    with pytest.raises(CaptureGap, match=r"'dead' was dropped.*capture limit"):
        source.position("dead", ["t"])
    with pytest.raises(CaptureGap, match="trimmed too far"):
        source.check(dead, ["t"])
    assert source.log_status().rows == 1
    back = source.attach("dead", ["t"])
    source.check(back, ["t"])
    source.position("dead", ["t"])
    source.detach(ME)
    source.detach("dead")
    assert source.log_status().rows == 0


def test_unknown_consumer(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED)
    with pytest.raises(CaptureGap, match="'ghost' is not registered"):
        world.source.position("ghost", ["t"])
    with pytest.raises(CaptureGap, match="'ghost' is not registered"):
        world.source.acknowledge("ghost", world.position)
    with pytest.raises(CaptureGap, match="'u' is not captured"):
        world.source.position(ME, ["u"])
    world.source.detach(ME)
    with pytest.raises(CaptureGap, match="not installed"):
        world.source.position(ME, ["t"])


def restore(world: World, and_then: int = 0) -> None:
    """Put an older copy in place of the database; write to it."""
    path = world.source.path
    world.con.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    shutil.copy(path, path.with_suffix(".copy"))
    world.run("INSERT INTO t VALUES (4, 'd', 40), (5, 'e', 50)")
    world.follow()
    world.con.close()
    for leftover in path.parent.glob(path.name + "-*"):
        leftover.unlink()
    shutil.copy(path.with_suffix(".copy"), path)
    world.con = database(path)
    for i in range(and_then):
        world.run(f"INSERT INTO t VALUES ({100 + i}, 'r{i}', 0)")


def recreate_file(world: World) -> None:
    path = world.source.path
    world.con.close()
    for file in path.parent.glob(path.name + "*"):
        file.unlink()
    world.con = database(path, KEYED, FILL)
    world.source.attach(ME, ["t"])


def recreate_table(world: World) -> None:
    world.run("DROP TABLE t", KEYED, FILL)


def lose_log_row(world: World) -> None:
    world.run("INSERT INTO t VALUES (4, 'd', 40), (5, 'e', 50)")
    world.run("DELETE FROM _stillframe_log WHERE seq = (SELECT max(seq) - 1 FROM _stillframe_log)")


def trim_by_hand(world: World) -> None:
    world.run("INSERT INTO t VALUES (4, 'd', 40), (5, 'e', 50)")
    world.run("DELETE FROM _stillframe_log WHERE seq < (SELECT max(seq) FROM _stillframe_log)")


def young_trigger(world: World) -> None:
    world.run(
        "CREATE TRIGGER young AFTER INSERT ON t BEGIN INSERT OR IGNORE INTO t VALUES (NEW.id, 0, 0); END"
    )


SILENCING = [
    "AFTER INSERT ON t BEGIN SELECT RAISE(IGNORE); END",
    "after delete ON T WHEN raise ( /* off */ ignore) BEGIN SELECT 1; END",
    "AFTER UPDATE OF n ON t BEGIN SELECT CASE WHEN NEW.n > 0 THEN RAISE -- (\n(IGNORE) END; END",
]


def run_now(*statements: str) -> Callable[[World], None]:
    return lambda world: world.run(*statements)


GAPS: list[tuple[str, Callable[[World], None]]] = [
    ("restored from an older copy$", restore),
    ("restored from an older copy$", lambda world: restore(world, 1)),
    ("restored from an older copy and written", lambda world: restore(world, 2)),
    ("restored from an older copy and written", lambda world: restore(world, 9)),
    ("another database", recreate_file),
    ("triggers of table 't' are not as", recreate_table),
    ("1 log rows are missing", lose_log_row),
    ("trimmed too far", trim_by_hand),
    ("the log is empty", run_now("DELETE FROM _stillframe_log")),
    ("triggers of table 't' are not as", run_now("DROP TRIGGER _stillframe_1_after_delete")),
    ("triggers of table 't' are not as", run_now("ALTER TABLE t RENAME COLUMN n TO m")),
    ("table 't' is gone", run_now("ALTER TABLE t RENAME TO u")),
    ("unique keys", run_now("CREATE UNIQUE INDEX late ON t (n)")),
    ("cannot be captured any more", run_now("CREATE UNIQUE INDEX late ON t (n + 1)")),
    ("'young' on table 't' is younger", young_trigger),
    *(("'hush' on table 't' is younger", run_now(f"CREATE TRIGGER hush {how}")) for how in SILENCING),
]


@pytest.mark.parametrize("message, happens", GAPS)
def test_capture_gap(tmp_path: Path, message: str, happens: Callable[[World], None]) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.run("DELETE FROM t WHERE id = 3")
    world.follow()
    happens(world)
    with pytest.raises(CaptureGap) as gap:
        world.source.check(world.position, ["t"])
    mended_by_itself = message == "unique keys"  # the table is read again
    assert gap.value.code == ("TABLE_CHANGED" if mended_by_itself else "CAPTURE_GAP")
    assert "refresh --full" in gap.value.hint
    with pytest.raises(CaptureGap, match=message.rstrip("$")):
        world.state(world.position)
    with pytest.raises(CaptureGap):
        upto = world.source.position(ME, ["t"])
        world.change(world.position, upto)


@pytest.mark.parametrize(
    "happens", [recreate_table, young_trigger, run_now("CREATE UNIQUE INDEX late ON t (n)")]
)
def test_attaching_again_mends_a_relation_from_now_on(
    tmp_path: Path, happens: Callable[[World], None]
) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    old = world.position
    world.run("DELETE FROM t WHERE id = 3")
    happens(world)
    world.position = world.source.attach(ME, ["t"])
    world.rows = world.present()
    world.run("REPLACE INTO t VALUES (9, 'a', 20)", "INSERT OR IGNORE INTO t VALUES (10, 'q', 1)")
    world.follow()
    with pytest.raises(CaptureGap, match="installed later"):
        world.source.check(old, ["t"])


@pytest.mark.parametrize("how", SILENCING)
def test_an_older_trigger_silences_nothing(tmp_path: Path, how: str) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.run(f"CREATE TRIGGER hush {how}")
    world.position, world.rows = world.source.attach(ME, ["t"]), world.present()
    world.run("REPLACE INTO t VALUES (1, 'b', 5)", "UPDATE t SET n = 7", "DELETE FROM t WHERE id = 3")
    assert world.follow() == Bag(
        {(1, "a", 10): -1, (2, "b", 20): -1, (3, "c", 30): -1, (1, "b", 7): 1},
    )


def test_a_young_trigger_that_abandons_the_change_itself_is_no_gap(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.run(
        "CREATE TRIGGER deny BEFORE INSERT ON t WHEN NEW.n = 0 BEGIN SELECT RAISE(IGNORE); END",
        "REPLACE INTO t VALUES (1, 'b', 0), (4, 'b', 40)",
    )
    assert world.follow() == Bag({(2, "b", 20): -1, (4, "b", 40): 1})


FULL, PARTIAL = "CREATE UNIQUE INDEX x ON t (a)", "CREATE UNIQUE INDEX x ON t (a) WHERE b = 1"


@pytest.mark.parametrize("first, then", [(FULL, PARTIAL), (PARTIAL, FULL)])
def test_a_unique_key_that_becomes_partial_or_full_is_a_gap(tmp_path: Path, first: str, then: str) -> None:
    """A row comes into a partial index, and pushes another out, by columns that are not of its key."""
    world = World(tmp_path / "s.db", "t", "CREATE TABLE t (a INTEGER, b INTEGER)", first)
    old = world.position
    world.run("DROP INDEX x", then)
    with pytest.raises(CaptureGap, match="unique keys"):
        world.source.check(old, ["t"])
    world.position = world.source.attach(ME, ["t"])
    with pytest.raises(CaptureGap, match="installed later"):
        world.source.check(old, ["t"])
    world.run("INSERT OR IGNORE INTO t VALUES (1, 1), (1, 2)", "UPDATE OR REPLACE t SET b = 1 WHERE b = 2")
    assert world.follow() == Bag({(1, 1): 1})


def test_a_column_added_later_leaves_the_others_captured(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.run(
        "ALTER TABLE t ADD COLUMN extra TEXT DEFAULT 'x'", "UPDATE t SET extra = 'y', n = 0 WHERE id = 1"
    )
    assert world.follow() == Bag({(1, "a", 10): -1, (1, "a", 0): 1})
    with pytest.raises(CaptureGap, match="'extra' was added"):
        list(world.source.changes("t", ["extra"], world.position, world.position))
    world.position = world.source.attach(ME, ["t"])
    world.columns.append("extra")
    world.schema = world.source.describe()["t"].schema
    world.rows = world.present()
    world.run("UPDATE t SET extra = 'z' WHERE id = 2")
    assert world.follow() == Bag({(2, "b", 20, "x"): -1, (2, "b", 20, "z"): 1})
