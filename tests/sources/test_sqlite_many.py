"""Many rows come another way round: processes of their own read what Python would read, or nothing."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from conforming import must_keep
from sqlite_world import ME, World
from world_sqlite import sqlite_world

from stillframe.errors import CaptureGap, ValueMismatch
from stillframe.sources import Position
from stillframe.sources.conformance import ALL_CHECKS, Check
from stillframe.sources.sqlite import many

DDL = (
    "CREATE TABLE t (id INTEGER PRIMARY KEY, flag BOOLEAN, x REAL, name TEXT, day DATE, price DECIMAL(15,2),"
    " rate DECIMAL(12,6))"
)
ROWS: list[tuple[object, ...]] = [
    (1, 1, 0.5, "plain", "2024-02-29", 1.25, 0.000001),
    (2, 0, -0.0, "a\0b", "0001-01-01", -17, 3),
    (3, None, None, None, None, None, None),
    (4, 1, 1e300, "ß 東 🜚", "9999-12-31", 0.1 + 0.2, 999999.123456),
    (5, 0, float("inf"), "", "1582-10-10", 1e12, -0.0),
    (-(2**63), 1, 5e-324, "'; --", "1970-01-01", 9999999999999, 1.1 * 3),
    (2**63 - 1, 1, 2.0, " ", "2000-01-01", 0.07 * 100, 0.1),
]


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[bool]]:
    """Every read is asked of the processes, a half of it of each; whether they answered."""
    answers: list[bool] = []
    answer = many.Helper.answer

    def watched(helper: many.Helper) -> bool:
        try:
            answers.append(answer(helper))
        except BaseException:
            answers.append(False)
            raise
        return answers[-1]

    monkeypatch.setattr(many, "LEAST_ROWS", 0)
    monkeypatch.setattr(many, "WORTH_STARTING", 0)
    monkeypatch.setattr(many, "cores", lambda: 2)
    monkeypatch.setattr(many.Helper, "answer", watched)
    yield answers


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "t.db", "t", DDL)


def write(world: World, *rows: tuple[object, ...]) -> None:
    for row in rows:
        world.run((f"INSERT INTO t VALUES ({', '.join('?' * 7)})", row))


def table(world: World, after: Position, upto: Position) -> pa.Table:
    return pa.Table.from_batches(list(world.source.changes("t", world.columns, after, upto)))


def test_differential_it_reads_what_python_reads(world: World, asked: list[bool]) -> None:
    before = world.position
    write(world, *ROWS)
    world.run(
        "UPDATE t SET name = name || '!', price = price + 0.1 WHERE id < 5", "DELETE FROM t WHERE id = 3"
    )
    upto = world.source.position(ME, ["t"])
    found = table(world, before, upto)
    assert asked == [True, True]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many, "LEAST_ROWS", 1 << 40)
        expected = table(world, before, upto)
    assert asked == [True, True]
    assert found.schema == expected.schema
    assert repr(found.to_pylist()) == repr(expected.to_pylist())  # as text: -0.0 is not 0.0 there


def test_nothing_is_read_where_nothing_changed(world: World, asked: list[bool]) -> None:
    upto = world.source.position(ME, ["t"])
    assert list(world.source.changes("t", world.columns, upto, upto)) == []
    assert all(asked)


def test_those_are_asked_that_gain_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = many.HELPERS
    there = {first: True, second: False}
    monkeypatch.setattr(many.Helper, "is_there", lambda helper: there[helper])
    monkeypatch.setattr(many, "cores", lambda: 2)
    least, start = many.LEAST_ROWS, many.WORTH_STARTING
    assert many.worth_asking(least - 1) == []
    assert many.worth_asking(least) == many.worth_asking(2 * start - 1) == [first]
    assert many.worth_asking(2 * start) == [first, second]
    there[second] = True
    assert many.worth_asking(2 * least) == [first, second]
    monkeypatch.setattr(many, "cores", lambda: 1)
    assert many.worth_asking(2 * start) == [first]
    monkeypatch.setattr(many, "cores", lambda: 2)
    there[first] = False
    assert many.worth_asking(least) == [second]
    there[second] = False
    assert many.worth_asking(start - 1) == []


def test_one_that_is_interrupted_leaves_no_answer_to_the_next(
    world: World, asked: list[bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    before = world.position
    write(world, *ROWS)
    upto = world.source.position(ME, ["t"])
    first = table(world, before, upto)
    answer, left = many.Helper.answer, [KeyboardInterrupt()]

    def interrupted(helper: many.Helper) -> bool:
        if left:
            raise left.pop()
        return answer(helper)

    monkeypatch.setattr(many.Helper, "answer", interrupted)
    with pytest.raises(KeyboardInterrupt):
        table(world, before, upto)
    half = world.source.position(ME, ["t"])
    world.run("DELETE FROM t")
    last = world.source.position(ME, ["t"])
    assert table(world, half, last).num_rows == len(ROWS)
    assert repr(table(world, before, upto).to_pylist()) == repr(first.to_pylist())
    assert all(asked)


@pytest.mark.parametrize(
    ("column", "value", "told"),
    [
        ("flag", 2, "flag"),
        ("flag", "yes", "flag"),
        ("x", "much", "x"),
        ("name", b"\xff", "name"),
        ("day", "2024-2-1", "day"),
        ("day", "2023-02-29", "day"),
        ("day", 20240201, "day"),
        ("price", "a lot", "price"),
        ("price", 1.005, "price"),
        ("price", 10**13, "price"),
        ("price", 2**60 + 1, "price"),
        ("price", b"1", "price"),
        ("x", b"1", "x"),
        ("day", b"2024-02-01", "day"),
    ],
)
def test_a_value_that_is_wrong_is_told_as_ever(
    world: World, asked: list[bool], column: str, value: object, told: str
) -> None:
    before = world.position
    write(world, *ROWS[:3])
    world.run((f"UPDATE t SET {column} = ? WHERE id = 2", (value,)))
    upto = world.source.position(ME, ["t"])
    with pytest.raises(ValueMismatch, match=f"column '{told}'"):
        table(world, before, upto)
    assert sorted(asked) == [False, True]


@pytest.mark.parametrize(
    ("column", "value"),
    [("name", 17), ("name", 1.5), ("name", b"y"), ("day", b"2024-02-01"), ("x", 3), ("id", 2.5), ("id", "2")],
)
@pytest.mark.parametrize("late", [False, True], ids=["among the first", "after them"])
def test_a_value_of_another_kind_is_never_taken_for_one_of_the_column(
    world: World, asked: list[bool], monkeypatch: pytest.MonkeyPatch, column: str, value: object, late: bool
) -> None:
    """The driver guesses types by a first batch, and takes some values of others for texts and numbers. The
    log keeps any value: of a table that was made otherwise, or by somebody else."""
    monkeypatch.setattr(many, "HELPERS", many.HELPERS[:1])
    before = world.position
    write(world, *([(n, 1, 0.5, "plain", "2024-02-29", 1, 1) for n in range(40_000 if late else 3)]))
    upto = world.source.position(ME, ["t"])
    place = world.columns.index(column)
    world.run((f"UPDATE _stillframe_log SET v{place} = ? WHERE seq = ?", (value, upto.sequence)))
    with pytest.raises(ValueMismatch, match=f"column '{column}'"):
        table(world, before, upto)
    assert asked == [False]


def test_text_that_is_not_utf_8_is_told_as_ever(world: World, asked: list[bool]) -> None:
    before = world.position
    write(world, *ROWS[:3])
    world.run("UPDATE t SET name = CAST(x'61ff' AS TEXT) WHERE id = 2")
    with pytest.raises(ValueMismatch, match="not UTF-8"):
        table(world, before, world.source.position(ME, ["t"]))
    assert sorted(asked) == [False, True]


def test_numbers_that_need_a_look_are_read_by_python(world: World, asked: list[bool]) -> None:
    before = world.position
    write(world, *ROWS[:1])
    world.run("UPDATE t SET price = '12.50' WHERE id = 1", "UPDATE t SET rate = 123456 WHERE id = 1")
    found = table(world, before, world.source.position(ME, ["t"]))
    assert found.num_rows == 5
    world.run("CREATE TABLE u (id INTEGER PRIMARY KEY, big DECIMAL(38,0))")
    at = world.source.attach(ME, ["t", "u"])
    world.run(f"INSERT INTO u VALUES (1, {2**62 + 1})")
    upto = world.source.position(ME, ["t", "u"])
    (batch,) = world.source.changes("u", ["big"], at, upto)
    assert int(batch.column(0)[0].as_py()) == 2**62 + 1
    assert False in asked[-2:]


def test_rows_that_are_missing_by_then_are_not_left_out(world: World, asked: list[bool]) -> None:
    """Between the caller's look at the log and the processes', somebody deletes of it."""
    before = world.position
    write(world, *ROWS)
    upto = world.source.position(ME, ["t"])
    give = many.Helper.give

    def late(helper: many.Helper, request: many.Request) -> None:
        world.run(("DELETE FROM _stillframe_log WHERE seq = ?", (before.sequence + 1,)))
        give(helper, request)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(many.Helper, "give", late)
        assert table(world, before, upto).num_rows == len(ROWS)  # the caller's own snapshot has it
    assert sorted(asked) == [False, True]
    with pytest.raises(CaptureGap):
        table(world, before, upto)


def test_one_that_was_killed_is_started_again(world: World, asked: list[bool]) -> None:
    before = world.position
    write(world, *ROWS)
    upto = world.source.position(ME, ["t"])
    first = table(world, before, upto)
    process = many.HELPERS[0]._process
    assert process is not None
    os.kill(process.pid, signal.SIGSTOP)  # so that it is there when it is asked, and dies over it
    os.kill(process.pid, signal.SIGKILL)
    process.poll = lambda: None  # type: ignore[method-assign]
    assert repr(table(world, before, upto).to_pylist()) == repr(first.to_pylist())
    assert repr(table(world, before, upto).to_pylist()) == repr(first.to_pylist())
    assert asked.count(False) == 1 and asked[-2:] == [True, True]


def test_it_ends_with_the_one_that_started_it() -> None:
    program = (
        "import os, sys; from stillframe.sources.sqlite import many; many.HELPERS[0]._start();"
        " print(many.HELPERS[0]._process.pid, flush=True); os.kill(os.getpid(), 9)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    process = Path(f"/proc/{int(ended.stdout)}/cmdline")
    for _ in range(200):
        if not process.exists() or b"many_process" not in process.read_bytes():
            return
        time.sleep(0.05)
    raise AssertionError("it is still there")


BRIEFLY = ("check_a_transaction_of_100_000_rows", "check_texts_of_any_script", "check_columns_asked_for")


@pytest.mark.parametrize("check", [c for c in ALL_CHECKS if c.name in BRIEFLY], ids=lambda c: c.name)
def test_what_sqlite_promises_is_kept_by_it(check: Check, tmp_path: Path, asked: list[bool]) -> None:
    must_keep(check, lambda: sqlite_world(tmp_path))
    assert asked
