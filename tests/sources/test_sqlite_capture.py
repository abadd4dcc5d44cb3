"""Capture for SQLite, kind of statement by kind of statement."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest
from sqlite_world import ME, World, bag, database

from stillframe.algebra.bag import Bag
from stillframe.errors import SourceError
from stillframe.sources import SqliteSource

KEYED = "CREATE TABLE t (id INTEGER PRIMARY KEY, code TEXT UNIQUE, n INTEGER)"
FILL = "INSERT INTO t VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30)"


def test_plain_statements_are_signed_rows_in_order(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.run(
        "INSERT INTO t VALUES (4, 'd', 40)", "UPDATE t SET n = 21 WHERE id = 2", "DELETE FROM t WHERE id = 1"
    )
    upto = world.source.position(ME, ["t"])
    (batch,) = world.source.changes("t", ["id", "n"], world.position, upto)
    signed = list(zip(*(c.to_pylist() for c in batch.columns), strict=True))
    assert signed == [(4, 40, 1), (2, 20, -1), (2, 21, 1), (1, 10, -1)]
    world.follow()


@pytest.mark.parametrize("recursive", ["ON", "OFF"])
@pytest.mark.parametrize(
    "statement, change",
    [
        ("REPLACE INTO t VALUES (1, 'z', 1)", {(1, "a", 10): -1, (1, "z", 1): 1}),
        ("REPLACE INTO t VALUES (9, 'b', 1)", {(2, "b", 20): -1, (9, "b", 1): 1}),
        ("REPLACE INTO t VALUES (1, 'b', 1)", {(1, "a", 10): -1, (2, "b", 20): -1, (1, "b", 1): 1}),
        ("REPLACE INTO t VALUES (1, 'a', 10)", {}),
        (
            "UPDATE OR REPLACE t SET id = 2 WHERE id = 1",
            {(1, "a", 10): -1, (2, "b", 20): -1, (2, "a", 10): 1},
        ),
        (
            "UPDATE OR REPLACE t SET code = 'x'",
            {(1, "a", 10): -1, (2, "b", 20): -1, (3, "c", 30): -1, (3, "x", 30): 1},
        ),
        ("INSERT OR IGNORE INTO t VALUES (1, 'q', 0), (5, 'e', 50)", {(5, "e", 50): 1}),
        ("INSERT INTO t VALUES (1, 'q', 0) ON CONFLICT DO NOTHING", {}),
        (
            "INSERT INTO t VALUES (1, 'q', 7) ON CONFLICT (id) DO UPDATE SET n = excluded.n",
            {(1, "a", 10): -1, (1, "a", 7): 1},
        ),
        ("DELETE FROM t", {(1, "a", 10): -1, (2, "b", 20): -1, (3, "c", 30): -1}),
    ],
)
def test_conflicts(
    tmp_path: Path, statement: str, change: dict[tuple[object, ...], int], recursive: str
) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.run(f"PRAGMA recursive_triggers={recursive}", statement)
    assert world.follow() == Bag(change)


def test_left_behind_by_ignore_does_no_harm_later(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.run(
        "INSERT OR IGNORE INTO t VALUES (1, 'b', 0)",
        "UPDATE t SET n = 11 WHERE id = 1",
        "UPDATE t SET id = 7 WHERE id = 2",
        "REPLACE INTO t VALUES (1, 'y', 5)",
        "REPLACE INTO t VALUES (8, 'b', 5)",
        "DELETE FROM t WHERE id = 3",
        "INSERT INTO t VALUES (3, 'c', 33)",
    )
    world.follow()


def test_what_ignored_inserts_leave_behind_costs_later_statements_nothing(tmp_path: Path) -> None:
    """Counted in steps of SQLite's machine, not in time."""
    world = World(tmp_path / "s.db", "t", KEYED)
    world.run("PRAGMA recursive_triggers=OFF")
    steps = [0]

    def counted(*statements: str) -> int:
        steps[0] = 0
        world.run(*statements)
        return steps[0]

    def count() -> int:
        steps[0] += 1
        return 0

    many = (
        "WITH RECURSIVE s(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 500) SELECT i, i, i FROM s"
    )
    world.con.set_progress_handler(count, 10)
    world.run(f"INSERT INTO t {many}")
    work = (
        "REPLACE INTO t VALUES (7, 8, 0)",
        "UPDATE t SET id = 900, code = 'x' WHERE id = 9",
        "DELETE FROM t WHERE id = 3",
    )
    world.run("SAVEPOINT x")
    clean = counted(*work)
    world.run("ROLLBACK TO x", f"INSERT OR IGNORE INTO t {many}")
    assert world.con.execute("SELECT count(*) FROM _stillframe_stash_1").fetchone() == (500,)
    assert counted(*work) < 3 * clean + 20
    world.run("RELEASE x")
    world.follow()


def test_replaced_null_takes_the_default(tmp_path: Path) -> None:
    ddl = "CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER NOT NULL DEFAULT 5 UNIQUE)"
    world = World(tmp_path / "s.db", "t", ddl, "INSERT INTO t VALUES (1, 5)")
    world.run("REPLACE INTO t VALUES (2, NULL)")
    assert world.follow() == Bag({(1, 5): -1, (2, 5): 1})


def test_without_rowid(tmp_path: Path) -> None:
    ddl = "CREATE TABLE t (a TEXT COLLATE NOCASE, b INTEGER, c TEXT UNIQUE, PRIMARY KEY (b, a)) WITHOUT ROWID"
    world = World(tmp_path / "s.db", "t", ddl, "INSERT INTO t VALUES ('x', 1, 'p'), ('y', 1, 'q')")
    world.run("REPLACE INTO t VALUES ('X', 1, 'q')")
    assert world.follow() == Bag({("x", 1, "p"): -1, ("y", 1, "q"): -1, ("X", 1, "q"): 1})
    world.run("UPDATE t SET a = 'x'", "REPLACE INTO t VALUES ('z', 2, 'q')", "DELETE FROM t")
    world.follow()


@pytest.mark.parametrize("recursive", ["ON", "OFF"])
def test_foreign_key_actions(tmp_path: Path, recursive: str) -> None:
    parent = "CREATE TABLE p (id INTEGER PRIMARY KEY, n INTEGER)"
    child = (
        "CREATE TABLE t (id INTEGER PRIMARY KEY, p INTEGER REFERENCES p ON DELETE CASCADE ON UPDATE CASCADE)"
    )
    world = World(tmp_path / "s.db", "t", parent, child, "INSERT INTO p VALUES (1, 1), (2, 2), (3, 3)")
    world.run("PRAGMA foreign_keys=ON", f"PRAGMA recursive_triggers={recursive}")
    world.run("INSERT INTO t VALUES (10, 1), (20, 2), (30, 3)")
    world.follow()
    world.run(
        "DELETE FROM p WHERE id = 1", "UPDATE p SET id = 9 WHERE id = 2", "REPLACE INTO p VALUES (3, 0)"
    )
    assert world.follow() == Bag({(10, 1): -1, (20, 2): -1, (20, 9): 1, (30, 3): -1})


@pytest.mark.parametrize("recursive", ["ON", "OFF"])
def test_a_row_that_is_its_own_parent(tmp_path: Path, recursive: str) -> None:
    ddl = "CREATE TABLE t (a INTEGER PRIMARY KEY, b INTEGER, c INTEGER REFERENCES t ON UPDATE CASCADE)"
    world = World(tmp_path / "s.db", "t", ddl, "INSERT INTO t VALUES (1, 1, 1), (2, 2, 2), (3, 3, 1)")
    world.run("PRAGMA foreign_keys=ON", f"PRAGMA recursive_triggers={recursive}")
    world.run("INSERT OR IGNORE INTO t VALUES (1, 0, 0)", "UPDATE OR REPLACE t SET a = 2 WHERE a = 1")
    assert world.follow() == Bag({(1, 1, 1): -1, (2, 2, 2): -1, (2, 1, 2): 1, (3, 3, 1): -1, (3, 3, 2): 1})
    world.run("REPLACE INTO t VALUES (2, 9, 3)")
    assert world.follow() == Bag({(2, 1, 2): -1, (2, 9, 3): 1})


@pytest.mark.parametrize("parent", [1, 2])
def test_a_replaced_row_that_takes_the_updated_one_with_it_is_logged_once(
    tmp_path: Path, parent: int
) -> None:
    """With recursive_triggers, where each of the rows fires its own delete trigger."""
    ddl = "CREATE TABLE t (k INTEGER PRIMARY KEY, p INTEGER REFERENCES t ON DELETE CASCADE)"
    world = World(tmp_path / "s.db", "t", ddl, f"INSERT INTO t VALUES (1, 1), (2, 1), (3, {parent})")
    world.run("PRAGMA foreign_keys=ON", "PRAGMA recursive_triggers=ON")
    world.run("UPDATE OR REPLACE t SET k = 2 WHERE k = 3")
    moved = {(2, 1): 1} if parent == 1 else {}
    assert world.follow() == Bag({(2, 1): -1, (3, parent): -1}) + Bag(moved)


def test_triggers_of_the_user_on_the_same_row(tmp_path: Path) -> None:
    stamp = (
        "CREATE TRIGGER stamp AFTER UPDATE OF n ON t BEGIN UPDATE t SET code = 'n' || n WHERE n = NEW.n; END"
    )
    born = "CREATE TRIGGER born AFTER INSERT ON t BEGIN UPDATE t SET n = n + 1 WHERE id = NEW.id; END"
    world = World(tmp_path / "s.db", "t", KEYED, FILL, stamp, born)
    world.run("UPDATE t SET n = 5 WHERE id = 1", "REPLACE INTO t VALUES (2, 'k', 1)")
    change = world.follow()
    assert change == Bag({(1, "a", 10): -1, (1, "n5", 5): 1, (2, "b", 20): -1, (2, "n2", 2): 1})


def test_rolled_back_is_not_captured(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED, FILL)
    world.run("BEGIN", "INSERT INTO t VALUES (4, 'd', 4)", "SAVEPOINT x", "REPLACE INTO t VALUES (1, 'b', 0)")
    before = world.source.position(ME, ["t"])
    assert before == world.position, "an open transaction is not a committed state"
    world.run("ROLLBACK TO x", "DELETE FROM t WHERE id = 3", "RELEASE x", "COMMIT")
    world.run("BEGIN", "DELETE FROM t", "ROLLBACK")
    with pytest.raises(sqlite3.IntegrityError):
        world.run("INSERT INTO t VALUES (7, 'g', 7), (1, 'h', 8)")
    assert world.follow() == Bag({(4, "d", 4): 1, (3, "c", 30): -1})


def test_several_connections(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", KEYED)
    for i in range(5):
        other = database(tmp_path / "s.db")
        other.execute("REPLACE INTO t VALUES (?, 'same', ?)", (i, i))
        other.close()
    assert world.follow() == Bag({(4, "same", 4): 1})


def test_duplicates_without_a_key(tmp_path: Path) -> None:
    world = World(
        tmp_path / "s.db",
        "t",
        "CREATE TABLE t (a INTEGER, b TEXT)",
        "INSERT INTO t VALUES (1, 'x'), (1, 'x')",
    )
    world.run("INSERT INTO t VALUES (1, 'x'), (NULL, NULL), (NULL, NULL)")
    world.run("DELETE FROM t WHERE rowid = 1", "UPDATE t SET a = 2 WHERE rowid = 2")
    assert world.follow() == Bag({(1, "x"): -1, (2, "x"): 1, (None, None): 2})


NAMES = [
    "select",
    'qu"ote',
    "two words",
    "MiXed",
    "naïve",
    "🙂",
    "it's",
    "a]b",
    "[x",
    "`",
    "NEW",
    "r",
    "s.t",
    "%_",
]


@pytest.mark.parametrize("name", NAMES)
def test_identifiers_of_any_spelling(tmp_path: Path, name: str) -> None:
    quoted = '"' + name.replace('"', '""') + '"'
    key = '"k ' + name.replace('"', '""') + '"'
    world = World(
        tmp_path / "s.db", name, f"CREATE TABLE {quoted} ({quoted} TEXT NOT NULL UNIQUE, {key} INTEGER)"
    )
    world.run(f"INSERT INTO {quoted} VALUES ('a', 1), ('b', 2)", f"REPLACE INTO {quoted} VALUES ('a', 3)")
    world.run(f"UPDATE {quoted} SET {key} = 9 WHERE {quoted} = 'b'")
    assert world.follow() == Bag({("a", 3): 1, ("b", 9): 1})
    world.source.detach(ME)


def test_columns_that_hide_the_row_id(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", "CREATE TABLE t (rowid TEXT, _rowid_ INTEGER UNIQUE)")
    world.run("INSERT INTO t VALUES ('x', 1), ('x', 2)", "REPLACE INTO t VALUES ('y', 1)")
    assert world.follow() == Bag({("y", 1): 1, ("x", 2): 1})


def test_values_of_every_kind_survive(tmp_path: Path) -> None:
    ddl = "CREATE TABLE t (i INTEGER, s TEXT, b BLOB, d REAL, g TEXT AS (s || '!'))"
    world = World(tmp_path / "s.db", "t", ddl)
    rows = [
        (2**63 - 1, "nul\0inside", b"\0\xff", float("inf")),
        (-(2**63), "quote ' \" ; -- 🙂", b"", -1.5e-300),
        (0, "", None, 0.1),
        (None, None, bytes(range(256)), None),
    ]
    for row in rows:
        world.run(("INSERT INTO t (i, s, b, d) VALUES (?, ?, ?, ?)", row))
    expected = Bag.of((*row, None if row[1] is None else row[1] + "!") for row in rows)
    assert world.follow() == expected
    world.run("DELETE FROM t")
    assert world.follow() == -expected


def test_strict_table_and_attaching_wider_tables_later(tmp_path: Path) -> None:
    world = World(tmp_path / "s.db", "t", "CREATE TABLE t (a INT, b ANY) STRICT")
    world.run("CREATE TABLE w (a INTEGER, b TEXT, c TEXT, d TEXT, e INTEGER)", "INSERT INTO t VALUES (1, 2)")
    start = world.source.attach(ME, ["t", "w"])
    world.run("INSERT INTO w VALUES (1, 'b', 'c', 'd', 5)", "INSERT INTO t VALUES (2, 'x')")
    upto = world.source.position(ME, ["t", "w"])
    assert bag(world.source.changes("w", ["e", "a"], start, upto)) == Bag({(5, 1): 1})
    assert (
        bag(world.source.changes("w", [], start, upto))
        == Bag({(): 1})
        == bag(world.source.state("w", [], upto))
    )
    assert world.follow() == Bag({(1, "2"): 1, (2, "x"): 1})
    assert world.source.behind(["t", "w"], start) == 2
    assert world.source.behind(["w"], start) == 1


@pytest.mark.parametrize(
    "reason, ddl",
    [
        ("expression", ["CREATE TABLE t (a TEXT)", "CREATE UNIQUE INDEX u ON t (lower(a))"]),
        ("expression", ["CREATE TABLE t (a TEXT, g TEXT AS (a || 'x') UNIQUE)"]),
        ("computed default", ["CREATE TABLE t (a INTEGER NOT NULL UNIQUE DEFAULT (random() % 3))"]),
        ("hide the row id", ["CREATE TABLE t (rowid TEXT, oid TEXT, _rowid_ TEXT)"]),
        (
            "'own' writes to the table",
            ["CREATE TABLE t (a TEXT)", "CREATE TRIGGER own INSERT ON t BEGIN UPDATE T SET a = 1; END"],
        ),
    ],
)
def test_tables_that_cannot_be_captured_are_refused(tmp_path: Path, reason: str, ddl: list[str]) -> None:
    con = database(tmp_path / "s.db", *ddl)
    source = SqliteSource("s", tmp_path / "s.db")
    relation = source.describe()["t"]
    assert not relation.schema.columns and all(reason in why for why in relation.refused.values())
    with pytest.raises(SourceError) as refused:
        source.attach(ME, ["t"])
    assert refused.value.code == "UNCAPTURABLE_TABLE" and reason in refused.value.detail
    assert not con.execute("SELECT 1 FROM sqlite_master WHERE name LIKE '%stillframe%'").fetchall()


def test_collation_of_the_users_program_is_refused(tmp_path: Path) -> None:
    con = sqlite3.connect(tmp_path / "s.db")
    con.execute("PRAGMA journal_mode=WAL")
    con.create_collation("mine", lambda a, b: (a > b) - (a < b))
    con.execute("CREATE TABLE t (a TEXT COLLATE mine UNIQUE)")
    assert "collation mine" in SqliteSource("s", tmp_path / "s.db").describe()["t"].refused["a"]
