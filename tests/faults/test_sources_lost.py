"""Sources that lag, die, come back as another, or hold what they must not: nothing is lost, the gap is
named, and views of other sources go on."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path

import pytest

from stillframe.runtime import Warehouse

pytestmark = [pytest.mark.engine, pytest.mark.slow_on_spark]

VIEWS = """
CREATE MATERIALIZED VIEW both AS SELECT a.id, a.x, b.y FROM one.a a JOIN two.b b ON b.id = a.id;
CREATE MATERIALIZED VIEW only_one AS SELECT id, x FROM one.a;
CREATE MATERIALIZED VIEW only_two AS SELECT id, y FROM two.b;
CREATE MATERIALIZED VIEW names AS SELECT id, name FROM one.a;
CREATE MATERIALIZED VIEW above AS SELECT x FROM both WHERE y > 0;
"""
OF_ONE = {"both", "only_one", "names", "above"}


@pytest.fixture
def world(shop):
    shop.source("one", "CREATE TABLE a (id INTEGER PRIMARY KEY, x INT, name TEXT);")
    shop.source("two", "CREATE TABLE b (id INTEGER PRIMARY KEY, y INT);")
    shop.views(VIEWS)
    shop.write("one", "INSERT INTO a VALUES (1, 10, 'p'), (2, 20, 'q')")
    shop.write("two", "INSERT INTO b VALUES (1, 100), (2, 200)")
    return shop


def rows(wh: Warehouse, view: str) -> list[tuple[object, ...]]:
    return sorted(tuple(row) for row in wh.view(view).collect())


def states(wh: Warehouse) -> dict[str, str]:
    return {name: view.state for name, view in wh.frame().views.items()}


def reasons(wh: Warehouse) -> dict[str, str]:
    return {name: view.reason["code"] for name, view in wh.frame().views.items() if view.reason}


def expect(wh: Warehouse, root: Path) -> None:
    """Every view is current, and what SQLite says."""
    con = sqlite3.connect(":memory:")
    for source in ("one", "two"):
        con.execute(f"ATTACH '{root / source}.db' AS {source}")
    assert set(states(wh).values()) == {"current"}, reasons(wh)
    for statement in VIEWS.replace("MATERIALIZED", "TEMP").split(";\n"):
        con.execute(statement)
    for view in wh.frame().views:
        assert rows(wh, view) == sorted(con.execute(f"SELECT * FROM {view}").fetchall()), view
    con.close()
    assert all(v.ok for v in wh.verify_all().values())


def stopped_by_gap(wh: Warehouse, of: set[str], saying: str) -> None:
    stopped = {name for name, state in states(wh).items() if state == "stopped"}
    assert stopped == of
    found = reasons(wh)
    assert {found[name] for name in of if name != "above"} == {"CAPTURE_GAP"}
    assert any(saying in wh.frame().views[name].reason["message"] for name in of), wh.frame()
    assert "--full" in wh.frame().views["only_one"].reason["hint"]


def second_warehouse(world, make_shop, name: str, extra: str = "") -> Warehouse:
    """Another project on the very same sources."""
    other = make_shop(name)
    other.views(VIEWS)
    lines = "".join(f"  {s}: {{url: 'sqlite:///{world.root}/{s}.db'{extra}}}\n" for s in ("one", "two"))
    (other.root / "stillframe.yml").write_text(f"name: {name}\nsources:\n{lines}", encoding="utf-8")
    return other.open()


def log_rows(root: Path, source: str = "one") -> int:
    con = sqlite3.connect(root / f"{source}.db")
    (count,) = con.execute("SELECT count(*) FROM _stillframe_log").fetchone()
    con.close()
    return int(count)


def test_two_warehouses_at_different_speeds_and_one_left_for_dead(world, make_shop):
    quick, slow = world.open(), second_warehouse(world, make_shop, "slow")
    quick.refresh()
    slow.refresh()
    for i in range(3, 9):
        world.write(
            "one", f"INSERT INTO a VALUES ({i}, {i}, 'n'), ({i + 100}, 0, 'n')", "DELETE FROM a WHERE x = 0"
        )
        world.write("two", f"INSERT INTO b VALUES ({i}, {i})")
        quick.refresh()
        expect(quick, world.root)
    assert rows(slow, "only_one") == [(1, 10), (2, 20)]
    assert log_rows(world.root) > 18, "the log of a warehouse left behind is kept"
    slow.refresh()
    expect(slow, world.root)
    assert log_rows(world.root) == 1, "what both have is trimmed"
    assert {v.session["mode"] for v in slow.frame().views.values()} == {"incremental"}
    slow.detach()
    world.write("one", "UPDATE a SET x = 1")
    quick.refresh()
    expect(quick, world.root)
    slow.refresh()
    stopped_by_gap(slow, {*OF_ONE, "only_two"}, "not registered")


def test_a_warehouse_beyond_the_capture_limit_is_dropped_and_told(world, make_shop):
    dead = world.open()
    dead.refresh()
    limited = second_warehouse(world, make_shop, "limited", extra=", capture_limit: 10")
    limited.refresh()
    for i in range(10, 40):
        world.write("one", f"INSERT INTO a VALUES ({i}, {i}, 'n')")
        if i % 5 == 0:
            limited.refresh()
    limited.refresh()
    expect(limited, world.root)
    assert log_rows(world.root) == 1
    before = rows(dead, "only_one")
    world.write("two", "INSERT INTO b VALUES (3, 300)")
    dead.refresh()
    stopped_by_gap(dead, OF_ONE, "was dropped, being further behind than the capture limit")
    assert rows(dead, "only_one") == before, "a stopped view keeps the last state it was right in"
    assert (3, 300) in rows(dead, "only_two")
    dead.refresh()
    stopped_by_gap(dead, OF_ONE, "was dropped")
    dead.refresh(full=True)
    expect(dead, world.root)
    world.write("one", "DELETE FROM a WHERE id = 12")
    assert {o.mode for o in dead.maintain().outcomes.values()} <= {"incremental", "unchanged"}
    expect(dead, world.root)


def copy_of(root: Path, source: str) -> Path:
    kept = root / f"{source}.copy"
    con = sqlite3.connect(root / f"{source}.db")
    target = sqlite3.connect(kept)
    con.backup(target)
    target.execute("PRAGMA journal_mode=WAL")
    target.close()
    con.close()
    return kept


def restore(root: Path, source: str, kept: Path) -> None:
    for suffix in ("", "-wal", "-shm"):
        (root / f"{source}.db{suffix}").unlink(missing_ok=True)
    shutil.copyfile(kept, root / f"{source}.db")


@pytest.mark.parametrize("further", [0, 1, 5, 9])
def test_a_source_restored_from_an_old_copy(world, further):
    """With as many, fewer or more writes after it than the original had."""
    wh = world.open()
    wh.refresh()
    kept = copy_of(world.root, "one")
    for i in range(5):
        world.write("one", f"INSERT INTO a VALUES ({10 + i}, 1, 'lost')")
    wh.refresh()
    restore(world.root, "one", kept)
    for i in range(further):
        world.write("one", f"INSERT INTO a VALUES ({20 + i}, 2, 'new')")
    world.write("two", "UPDATE b SET y = y + 1")
    wh.refresh()
    stopped_by_gap(wh, OF_ONE, "restored from an older copy")
    assert rows(wh, "only_two") == [(1, 101), (2, 201)]
    world.write("one", "INSERT INTO a VALUES (50, 2, 'late')")
    wh.refresh()
    stopped_by_gap(wh, OF_ONE, "restored from an older copy")
    wh.refresh(full=True)
    expect(wh, world.root)
    world.write("one", "DELETE FROM a WHERE id = 50")
    assert {o.mode for o in wh.maintain().outcomes.values()} <= {"incremental", "unchanged"}
    expect(wh, world.root)


def test_a_source_created_anew(world):
    wh = world.open()
    wh.refresh()
    for suffix in ("", "-wal", "-shm"):
        (world.root / f"one.db{suffix}").unlink(missing_ok=True)
    con = sqlite3.connect(world.root / "one.db")
    con.execute("PRAGMA journal_mode=WAL")
    con.execute("CREATE TABLE a (id INTEGER PRIMARY KEY, x INT, name TEXT)")
    con.execute("INSERT INTO a VALUES (1, 1, 'other')")
    con.commit()
    con.close()
    world.write("two", "DELETE FROM b WHERE id = 2")
    wh.refresh()
    stopped_by_gap(wh, OF_ONE, "capture is not installed")
    assert rows(wh, "only_two") == [(1, 100)]
    wh.refresh(full=True)
    expect(wh, world.root)


RECREATE = (
    "ALTER TABLE a RENAME TO kept",
    "CREATE TABLE a (id INTEGER PRIMARY KEY, x INT, name TEXT)",
    "INSERT INTO a SELECT id, x + 5, 'anew' FROM kept",
    "DROP TABLE kept",
)


@pytest.mark.parametrize("way", ["a new view", "another warehouse", "one view begins anew"])
def test_a_table_created_anew_stays_a_gap_when_its_capture_is_mended(world, make_shop, way):
    """Nothing was logged while there were no triggers, so by their numbers the old positions look current."""
    wh, other = world.open(), second_warehouse(world, make_shop, "other")
    wh.refresh()
    other.refresh()
    assert not wh.moved()
    before = {view: rows(wh, view) for view in sorted(OF_ONE)}
    world.write("one", *RECREATE)
    assert wh.moved()
    assert wh.status()["views"]["only_one"]["lag"]["one"]["transactions"] is None
    anew: set[str] = set()
    if way == "a new view":
        anew = {"late"}
        world.views("CREATE MATERIALIZED VIEW late AS SELECT x, name FROM one.a;", "late.sql")
        wh = world.open()
    elif way == "another warehouse":
        other.refresh(full=True)
        expect(other, world.root)
    else:
        anew = {"only_one"}
        wh.refresh()
        assert {n for n, s in states(wh).items() if s == "stopped"} == OF_ONE
        wh.refresh("only_one", full=True)
    for _ in range(2):
        wh.refresh()
        assert {n for n, s in states(wh).items() if s == "stopped"} == OF_ONE - anew
        assert {reasons(wh)[name] for name in OF_ONE - anew - {"above"}} == {"CAPTURE_GAP"}
        assert all(rows(wh, view) == before[view] for view in OF_ONE - anew)
    world.write("one", "INSERT INTO a VALUES (9, 90, 'late')")
    wh.refresh()
    assert {n for n, s in states(wh).items() if s == "stopped"} == OF_ONE - anew
    if way == "a new view":
        assert rows(wh, "late") == [(15, "anew"), (25, "anew"), (90, "late")]
        wh.drop("late")
    wh.refresh(full=True)
    expect(wh, world.root)


def test_a_column_added_and_read_by_a_new_view_leaves_the_others_going(world, make_shop):
    wh, other = world.open(), second_warehouse(world, make_shop, "other")
    wh.refresh()
    other.refresh()
    world.write("one", "ALTER TABLE a ADD COLUMN c TEXT DEFAULT 'd'", "UPDATE a SET x = 11 WHERE id = 1")
    world.views("CREATE MATERIALIZED VIEW wide AS SELECT id, c FROM one.a;", "wide.sql")
    wh = world.open()
    modes = {name: outcome.mode for name, outcome in wh.maintain().outcomes.items()}
    assert modes.pop("wide") == "full" and set(modes.values()) <= {"incremental", "unchanged"}, modes
    world.write("one", "UPDATE a SET c = 'e', x = 21 WHERE id = 2")
    for each in (wh, other):
        modes = {name: outcome.mode for name, outcome in each.maintain().outcomes.items()}
        assert set(modes.values()) <= {"incremental", "unchanged"}, modes
    assert rows(wh, "wide") == [(1, "d"), (2, "e")]
    wh.drop("wide")
    for each in (wh, other):
        expect(each, world.root)


@pytest.mark.parametrize("fresh", [False, True], ids=["same process", "new process"])
def test_a_source_that_is_down_stops_its_views_until_it_is_back(world, fresh):
    wh = world.open()
    wh.refresh()
    world.write("one", "INSERT INTO a VALUES (3, 30, 'r')")
    moved = {p: p.with_name(f"away-{p.name}") for p in world.root.glob("one.db*")}
    for path, away in moved.items():
        path.rename(away)
    world.write("two", "INSERT INTO b VALUES (3, 300)")
    if fresh:
        wh = world.open()
    result = wh.maintain()
    assert {name for name, outcome in result.outcomes.items() if outcome.mode == "stopped"} == OF_ONE
    assert {reasons(wh)[name] for name in OF_ONE - {"above"}} == {"NO_DATABASE"}
    assert rows(wh, "only_two") == [(1, 100), (2, 200), (3, 300)]
    assert rows(wh, "only_one") == [(1, 10), (2, 20)]
    assert wh.status()["sources"]["one"]["ok"] is False
    for path, away in moved.items():
        away.rename(path)
    result = wh.maintain()
    assert "full" not in {outcome.mode for outcome in result.outcomes.values()}
    expect(wh, world.root)


def test_a_value_of_another_type_stops_the_views_that_read_it(world):
    wh = world.open()
    wh.refresh()
    world.write("one", "INSERT INTO a VALUES (3, 'thirty', 'r'), (4, 40, 's')")
    wh.refresh()
    assert {n for n, s in states(wh).items() if s == "stopped"} == {"both", "only_one", "above"}
    assert reasons(wh)["only_one"] == reasons(wh)["both"] == "VALUE_MISMATCH"
    reason = wh.frame().views["only_one"].reason
    assert "'x'" in reason["message"] and "thirty" in reason["message"]
    assert "id = 3" in reason["detail"]
    assert rows(wh, "names") == [(1, "p"), (2, "q"), (3, "r"), (4, "s")]
    assert rows(wh, "only_one") == [(1, 10), (2, 20)]
    found = wh.verify("only_one")
    assert not found.ok and not found.drift and found.error.code == "VALUE_MISMATCH"
    world.write("one", "UPDATE a SET x = 30 WHERE id = 3")
    wh.refresh()
    expect(wh, world.root)
