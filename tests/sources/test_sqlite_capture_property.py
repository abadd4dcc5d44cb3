"""Random statements of every kind on random table shapes: the log's sum is the difference of the states."""

from __future__ import annotations

import contextlib
import sqlite3
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, note, settings
from hypothesis import strategies as st
from sqlite_world import World

VALUES = st.sampled_from(["1", "2", "3", "0", "NULL"] * 3 + ["'a'", "'A'", "'b'", "'1'", "1.5"])
POLICIES = st.sampled_from(["OR REPLACE", "OR IGNORE"] * 3 + ["", "OR FAIL", "OR ABORT", "OR ROLLBACK"])

CONTROLS = ["BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT x", "ROLLBACK TO x", "RELEASE x"]
CONTROLS += ["PRAGMA recursive_triggers=ON", "PRAGMA recursive_triggers=OFF", "PRAGMA foreign_keys=ON"]


@st.composite
def shapes(draw: st.DrawFn) -> list[str]:
    """DDL of a table t(a, b, c [, g]) with random keys, a child table, and perhaps triggers of its own."""
    declared = []
    affinity = ["", "", ""]
    identity = draw(st.sampled_from(["none", "integer", "text", "without rowid", "pair", "self"]))
    collate = draw(st.sampled_from(["", " COLLATE NOCASE"]))
    unique = [" UNIQUE", " UNIQUE ON CONFLICT REPLACE", " UNIQUE ON CONFLICT IGNORE", "", ""]
    for i, name in enumerate("abc"):
        extra = ""
        if i == 0 and identity in ("integer", "self"):
            affinity[0] = "INTEGER"
            extra = " PRIMARY KEY"
        elif i == 0 and identity in ("text", "without rowid"):
            extra = f" PRIMARY KEY{draw(st.sampled_from(['', ' ON CONFLICT REPLACE']))}{collate}"
        else:
            affinity[i] = draw(st.sampled_from(["", "", "TEXT", "JSON"]))
            extra = draw(st.sampled_from(["", " NOT NULL DEFAULT 2", " DEFAULT 3"]))
            extra += draw(st.sampled_from(unique)) + draw(st.sampled_from(["", collate]))
            if identity == "self" and name == "c":
                action = draw(st.sampled_from(["CASCADE", "SET NULL"]))
                extra += f" REFERENCES t(a) ON DELETE {action}"
        declared.append(f"{name} {affinity[i]}{extra}")
    if draw(st.booleans()) and identity != "without rowid":
        declared.append("g TEXT AS (coalesce(b, '-') || 'x') " + draw(st.sampled_from(["STORED", "VIRTUAL"])))
    if identity == "pair":
        declared.append("PRIMARY KEY (c, b)")
    tail = " WITHOUT ROWID" if identity == "without rowid" else ""
    ddl = [f"CREATE TABLE t ({', '.join(declared)}){tail}"]
    if draw(st.booleans()):
        ddl.append(f"CREATE UNIQUE INDEX u ON t (b{collate}, c)")
    if draw(st.booleans()):
        ddl.append("CREATE UNIQUE INDEX p ON t (c) WHERE b = 1")
    triggers = [
        "CREATE TRIGGER ut1 AFTER INSERT ON t BEGIN UPDATE t SET c = 1 WHERE b = NEW.b AND c = 2; END",
        "CREATE TRIGGER ut2 AFTER UPDATE OF b ON t BEGIN UPDATE OR REPLACE t SET c = 0 WHERE b = NEW.b; END",
        "CREATE TRIGGER ut3 AFTER DELETE ON t BEGIN INSERT OR IGNORE INTO t (b, c) VALUES (OLD.c, 3); END",
        "CREATE TRIGGER ut4 AFTER INSERT ON t WHEN NEW.c = 3 BEGIN DELETE FROM t WHERE b = NEW.b; END",
        "CREATE TRIGGER ut5 BEFORE INSERT ON t WHEN NEW.c = 1 AND NEW.b = 0 BEGIN SELECT RAISE(IGNORE); END",
        "CREATE TRIGGER ut6 AFTER INSERT ON t WHEN NEW.b = 1 BEGIN"
        " INSERT OR REPLACE INTO t (b, c) VALUES (0, NEW.c), (2, NEW.c); END",
    ]
    ddl += draw(st.lists(st.sampled_from(triggers), unique=True, max_size=3))
    return ddl


@st.composite
def statements(draw: st.DrawFn) -> str:
    value = lambda: draw(VALUES)  # noqa: E731
    column = lambda: draw(st.sampled_from("abc"))  # noqa: E731
    kind = draw(st.sampled_from(["insert"] * 4 + ["update"] * 3 + ["upsert", "delete", "control", "rowid"]))
    rows = ", ".join(f"({value()}, {value()}, {value()})" for _ in range(draw(st.integers(1, 3))))
    if kind == "insert":
        return f"INSERT {draw(POLICIES)} INTO t (a, b, c) VALUES {rows}"
    if kind == "rowid":
        return draw(
            st.sampled_from(
                [
                    f"INSERT OR REPLACE INTO t (rowid, b, c) VALUES (1, {value()}, {value()})",
                    f"UPDATE OR REPLACE t SET rowid = 2 WHERE b = {value()}",
                    "UPDATE OR REPLACE t SET rowid = rowid + 1",
                ]
            )
        )
    if kind == "update":
        where = draw(st.sampled_from(["", f" WHERE {column()} = {value()}"]))
        sets = draw(st.sampled_from([f"{column()} = {value()}", f"{column()} = {column()}, b = {value()}"]))
        return f"UPDATE {draw(POLICIES)} t SET {sets}{where}"
    if kind == "upsert":
        action = draw(
            st.sampled_from(["NOTHING", f"UPDATE SET {column()} = {value()}", "UPDATE SET c = excluded.b"])
        )
        return f"INSERT INTO t (a, b, c) VALUES {rows} ON CONFLICT DO {action}"
    if kind == "delete":
        return draw(st.sampled_from(["DELETE FROM t", f"DELETE FROM t WHERE {column()} = {value()}"]))
    return draw(st.sampled_from(CONTROLS))


def play(ddl: list[str], script: list[Any]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder) / "s.db", "t", *ddl)
        try:
            with contextlib.suppress(sqlite3.Error):
                world.con.execute("INSERT OR IGNORE INTO t (a, b, c) VALUES (1, 1, 1), (2, 2, 2), (3, 3, 3)")
            for step in script:
                if step == "follow":
                    if not world.con.in_transaction:
                        world.follow()
                elif step == "acknowledge":
                    if not world.con.in_transaction:
                        world.source.acknowledge("warehouse", world.position)
                else:
                    with contextlib.suppress(sqlite3.Error):
                        world.con.execute(step).fetchall()
            if world.con.in_transaction:
                world.con.execute("COMMIT")
            world.follow()
        finally:
            world.con.close()


STEPS = st.lists(
    st.one_of(statements(), statements(), statements(), st.sampled_from(["follow", "acknowledge"])),
    min_size=4,
    max_size=20,
)


@settings(max_examples=250, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
@given(shapes(), STEPS)
def test_log_sum_is_state_difference(ddl: list[str], script: list[str]) -> None:
    note(";\n".join([*ddl, *script]))
    play(ddl, script)


@pytest.mark.long
@settings(max_examples=4000, deadline=None, print_blob=True, suppress_health_check=[HealthCheck.too_slow])
@given(shapes(), STEPS)
def test_log_sum_is_state_difference_long(ddl: list[str], script: list[str]) -> None:
    note(";\n".join([*ddl, *script]))
    play(ddl, script)
