"""Columns and relations that come, go, change their types or hold bad values: each is judged by itself."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exports import ME, Exports, bag, files, put

from stillframe.algebra import types as t
from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap, SourceError, ValueMismatch
from stillframe.sources import Position
from stillframe.sources.files.reader import FilesReader
from stillframe.sources.snapshots.source import SnapshotSource
from stillframe.sources.sqlite.snapshot_reader import SqliteSnapshotReader


def test_a_column_that_comes_later_is_a_gap_for_itself_only(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(("id", "n"), [(1, 10), (2, 20)])
    first = world.source.attach(ME, ["t"])
    world.write(("id", "n", "more"), [(1, 10, "x"), (2, 21, "y")])
    second = world.source.position(ME, ["t"])
    assert world.change(first, second, "id", "n") == Bag({(2, 20): -1, (2, 21): 1})
    world.source.check(first, ["t"])
    with pytest.raises(CaptureGap, match="'more' of 't' is not in snapshot 1"):
        world.change(first, second, "id", "more")
    with pytest.raises(CaptureGap, match="'more' of 't' is not in snapshot 1"):
        world.rows(first, "more")
    assert world.rows(second, "more") == Bag.of([("x",), ("y",)])
    world.write(("id", "n", "more"), [(1, 10, "z")])
    third = world.source.position(ME, ["t"])
    assert world.change(second, third, "more") == Bag({("x",): -1, ("y",): -1, ("z",): 1})


def test_a_column_that_goes_is_a_gap_for_itself_only(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(("id", "n", "more"), [(1, 10, "x")])
    first = world.source.attach(ME, ["t"])
    world.write(("id", "n"), [(1, 11)])
    assert world.source.describe()["t"].schema.names == ("id", "n")
    second = world.source.position(ME, ["t"])
    assert world.change(first, second, "n") == Bag({(10,): -1, (11,): 1})
    assert world.rows(first, "more") == Bag.of([("x",)])
    with pytest.raises(CaptureGap, match="'more' of 't' is not in snapshot 2"):
        world.change(first, second, "more")
    world.write(("id", "n", "more"), [(1, 11, "y")])
    third = world.source.position(ME, ["t"])
    assert world.change(first, third, "more") == Bag({("x",): -1, ("y",): 1})
    tagged = world.source.changes("t", ("more",), first, third, tagged=True)
    with pytest.raises(CaptureGap, match="'more' of 't' is not in snapshot 2"):
        list(tagged)


def test_columns_that_change_places_are_the_same_columns(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(("a", "b"), [("x", "y")])
    first = world.source.attach(ME, ["t"])
    world.write(("b", "a"), [("y", "x")])
    second = world.source.position(ME, ["t"])
    assert world.change(first, second, "a", "b") == Bag()
    world.write(("b", "a"), [("x", "y")])
    third = world.source.position(ME, ["t"])
    assert world.change(first, third, "a", "b") == Bag({("x", "y"): -1, ("y", "x"): 1})


def test_names_that_change_places_over_the_same_values_are_a_change(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(("a", "b"), [("x", "y")])
    first = world.source.attach(ME, ["t"])
    world.write(("b", "a"), [("x", "y")])
    second = world.source.position(ME, ["t"])
    assert second != first
    assert world.change(first, second, "a", "b") == Bag({("x", "y"): -1, ("y", "x"): 1})
    assert world.source.behind(["t"], first) == 2


def parquet(path: Path, **columns: pa.Array) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    put(path, sink.getvalue().to_pybytes())


def test_a_retyped_column_is_a_gap_for_itself_only(tmp_path: Path) -> None:
    path = tmp_path / "in" / "a.parquet"
    parquet(path, id=pa.array([1]), n=pa.array([1], pa.int32()))
    source = SnapshotSource(FilesReader("t", str(tmp_path / "in" / "*.parquet")), tmp_path / "kept")
    first = source.attach(ME, ["t"])
    parquet(path, id=pa.array([1]), n=pa.array([1], pa.int64()))
    assert source.describe()["t"].schema.types == (t.BIGINT, t.BIGINT)
    second = source.position(ME, ["t"])
    assert bag(source.changes("t", ("id",), first, second)) == Bag()
    with pytest.raises(CaptureGap, match="'n' of 't' changed its type") as gap:
        list(source.changes("t", ("id", "n"), first, second))
    assert gap.value.detail == "INT in snapshot 1, BIGINT in 2"
    assert source.behind(["t"], first) == 1
    again = source.attach(ME, ["t"])
    assert bag(source.state("t", ("n",), again)) == Bag.of([(1,)])


def test_types_that_the_project_declares_anew_are_read_anew(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(("id", "n"), [(1, 10)])
    first = world.source.attach(ME, ["t"])
    other = SnapshotSource(
        FilesReader("t", world.reader.pattern, (), {"n": "decimal(10,2)"}), world.source.folder
    )
    assert other.describe()["t"].schema.types == (t.BIGINT, t.decimal(10, 2))
    second = other.position(ME, ["t"])
    assert second.sequence == 2
    with pytest.raises(CaptureGap, match="changed its type"):
        list(other.changes("t", ("n",), first, second))
    assert bag(other.changes("t", ("id",), first, second)) == Bag()


def test_a_bad_value_loses_its_column_only(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(("id", "n", "d"), [(1, 10, "2024-01-01"), (2, 20, None)])
    first = world.source.attach(ME, ["t"])
    world.write(("id", "n", "d"), [(1, "many", "2024-01-01"), (3, 20, "soon")])
    second = world.source.position(ME, ["t"])
    assert world.source.describe()["t"].schema.types == (t.BIGINT, t.BIGINT, t.DATE)
    assert world.change(first, second, "id") == Bag({(2,): -1, (3,): 1})
    for column, value, line in (("n", "many", 2), ("d", "soon", 3)):
        for act in (
            lambda c=column: world.rows(second, c),
            lambda c=column: world.change(first, second, "id", c),
        ):
            with pytest.raises(ValueMismatch) as said:
                act()
            expected = f"column '{column}' of {world.folder / 'a.csv'} holds '{value}' in line {line}"
            assert expected in said.value.message and said.value.code == "VALUE_MISMATCH"
            assert f"columns: {{{column}: " in said.value.hint
    assert world.source.behind(["t"], first) >= 1
    world.write(("id", "n", "d"), [(7, 7, None), (1, "many", "2024-01-01"), (3, 20, "soon")])
    moved = world.source.position(ME, ["t"])
    with pytest.raises(ValueMismatch, match="in line 3"):
        world.rows(moved, "n")
    world.write(("id", "n", "d"), [(1, 11, "2024-01-01"), (3, 20, "2024-02-02")])
    mended = world.source.position(ME, ["t"])
    assert world.change(first, mended, "id", "n") == Bag({(1, 10): -1, (2, 20): -1, (1, 11): 1, (3, 20): 1})


def test_a_bad_value_that_moves_to_another_line_is_named_where_it_is(tmp_path: Path) -> None:
    """Also where all that can be read is as before."""
    world = Exports(tmp_path)
    world.write(("id", "n"), [(1, 10), (1, 20)])
    world.source.attach(ME, ["t"])
    for rows, line in (([(1, "bad"), (1, 2)], 2), ([(1, 2), (1, "bad")], 3)):
        world.write(("id", "n"), rows)
        at = world.source.position(ME, ["t"])
        with pytest.raises(ValueMismatch, match=f"in line {line}"):
            world.rows(at, "n")


def test_types_are_learned_once(tmp_path: Path) -> None:
    """Of a column in which no value was seen nothing was learned."""
    world = Exports(tmp_path)
    world.write(("id", "n", "empty"), [(1, 10, None)])
    world.source.attach(ME, ["t"])
    world.write(("id", "n", "empty"), [("one", 10.5, 7)])
    assert world.source.describe()["t"].schema.types == (t.BIGINT, t.BIGINT, t.BIGINT)
    at = world.source.position(ME, ["t"])
    assert world.rows(at, "empty") == Bag.of([(7,)])
    for column in ("id", "n"):
        with pytest.raises(ValueMismatch, match=f"column '{column}'"):
            world.rows(at, column)
    world.write(("id", "n", "empty"), [])
    empty = world.source.position(ME, ["t"])
    assert world.source.describe()["t"].schema.types == (t.BIGINT, t.BIGINT, t.BIGINT)
    assert world.rows(empty, "id", "n") == Bag()
    world.source.detach(ME)
    world.write(("id", "n", "empty"), [("one", 10.5, 7)])
    assert world.source.describe()["t"].schema.types == (t.STRING, t.decimal(18, 6), t.BIGINT)


def test_a_bad_value_in_the_key_stops_the_source(tmp_path: Path) -> None:
    world = Exports(tmp_path, key=("id",))
    world.write(("id", "n"), [(1, 10)])
    first = world.source.attach(ME, ["t"])
    world.write(("id", "n"), [("one", 10)])
    with pytest.raises(ValueMismatch, match="'one'"):
        world.source.position(ME, [])
    world.write(("id", "n"), [(1, 10), (1, 11)])
    with pytest.raises(SourceError, match="the key id = 1 is there 2 times") as said:
        world.source.position(ME, [])
    assert said.value.code == "BAD_KEY"
    assert files(world.source.folder) == ["1", "1/0.parquet", "lock", "state.json"]
    assert world.rows(first, "id", "n") == Bag.of([(1, 10)])


# -- several relations


class Tables:
    def __init__(self, root: Path) -> None:
        self.con = sqlite3.connect(root / "s.db", isolation_level=None)
        self.con.execute("PRAGMA journal_mode=WAL")
        for name in ("t", "u"):
            self.con.execute(f"CREATE TABLE {name} (id INTEGER PRIMARY KEY, n INTEGER, s TEXT)")
            self.con.execute(f"INSERT INTO {name} VALUES (1, 10, 'a'), (2, 20, 'b')")
        self.source = SnapshotSource(SqliteSnapshotReader("s", root / "s.db"), root / "kept")

    def rows(self, relation: str, at: Position, *columns: str) -> Bag:
        return bag(self.source.state(relation, columns, at))


def test_a_relation_is_kept_from_when_it_is_needed(tmp_path: Path) -> None:
    world = Tables(tmp_path)
    first = world.source.attach(ME, ["t"])
    with pytest.raises(CaptureGap, match="'u' is not captured"):
        world.rows("u", first, "id")
    second = world.source.attach(ME, ["u"])
    assert second.sequence == 2
    world.source.check(first, ["t"])
    world.source.check(second, ["t", "u"])
    with pytest.raises(CaptureGap, match="'u' is captured only since later"):
        world.source.check(first, ["u"])
    world.con.execute("UPDATE u SET n = 0 WHERE id = 1")
    third = world.source.position(ME, ["t", "u"])
    assert [c.rows for c in world.source.transactions(["t", "u"], second, third)] == [{"u": 4}]
    assert world.source.transactions(["t"], second, third) == ()
    assert world.source.behind(["t"], second) == 0 and world.source.behind(["t", "u"], second) == 2
    same = [(world.source.folder / str(n) / "0.parquet").stat().st_ino for n in (1, 2, 3)]
    assert len(set(same)) == 1, "one copy on disk of what did not change"


def test_a_released_relation_is_not_read_any_more(tmp_path: Path) -> None:
    world = Tables(tmp_path)
    first = world.source.attach(ME, ["t", "u"])
    world.source.release(ME, ["t"])
    world.con.execute("DELETE FROM u")
    assert world.source.position(ME, ["t"]) == first
    with pytest.raises(CaptureGap, match="'u' is not captured"):
        world.source.position(ME, ["u"])
    world.con.execute("DELETE FROM t WHERE id = 1")
    second = world.source.position(ME, ["t"])
    document = json.loads((world.source.folder / "state.json").read_text())
    assert [sorted(s["parts"]) for s in document["snapshots"]] == [["t", "u"], ["t"]]
    third = world.source.attach(ME, ["u"])
    assert third.sequence == 3
    assert bag(world.source.changes("u", ("id",), first, third)) == Bag({(1,): -1, (2,): -1})
    assert [c.rows for c in world.source.transactions(["t", "u"], first, third)] == [{"t": 3}, {"u": 2}]
    with pytest.raises(CaptureGap, match="'u' is captured only since later"):
        world.source.check(second, ["u"])


def test_a_table_that_is_gone_stops_those_who_read_it_until_it_is_back(tmp_path: Path) -> None:
    world = Tables(tmp_path)
    first = world.source.attach(ME, ["t", "u"])
    world.con.execute("DROP TABLE t")
    world.con.execute("UPDATE u SET n = 0 WHERE id = 1")
    gone = world.source.position(ME, [])
    acts: list[Callable[[], object]] = [
        lambda: world.source.position(ME, ["t"]),
        lambda: world.source.check(first, ["t"]),
        lambda: world.rows("t", gone, "id"),
        lambda: list(world.source.changes("t", ("id",), first, gone)),
        lambda: world.source.behind(["t"], first),
    ]
    for act in acts:
        with pytest.raises(CaptureGap, match="relation 't' is gone"):
            act()
    assert world.source.position(ME, ["u"]) == gone
    world.source.check(first, ["u"])
    assert bag(world.source.changes("u", ("n",), first, gone)) == Bag({(10,): -1, (0,): 1})
    with pytest.raises(SourceError, match="no relation 't'"):
        world.source.attach(ME, ["t"])
    world.con.execute("CREATE TABLE t (id INTEGER PRIMARY KEY, n INTEGER, s TEXT)")
    world.con.execute("INSERT INTO t VALUES (2, 20, 'b'), (3, 30, 'c')")
    back = world.source.position(ME, ["t", "u"])
    assert bag(world.source.changes("t", ("id",), first, back)) == Bag({(1,): -1, (3,): 1})
    assert [c.number for c in world.source.transactions(["t", "u"], first, back)] == [2, 3]
    tagged = world.source.changes("t", ("id",), first, back, tagged=True)
    assert {tag for batch in tagged for tag in batch.columns[-1].to_pylist()} == {3}


@pytest.mark.parametrize(
    "change", ["ALTER TABLE t DROP COLUMN s", "ALTER TABLE t RENAME COLUMN s TO r", "UPDATE t SET s = x'00'"]
)
def test_a_column_of_a_table_that_cannot_be_read_any_more(tmp_path: Path, change: str) -> None:
    world = Tables(tmp_path)
    first = world.source.attach(ME, ["t", "u"])
    world.con.execute(change)
    second = world.source.position(ME, ["t", "u"])
    assert bag(world.source.changes("t", ("id", "n"), first, second)) == Bag()
    with pytest.raises(SourceError) as said:
        list(world.source.changes("t", ("id", "s"), first, second))
    assert said.value.code in ("CAPTURE_GAP", "VALUE_MISMATCH") and "'s'" in said.value.message
    assert world.rows("t", first, "s") == Bag.of([("a",), ("b",)])
    assert world.rows("u", second, "s") == Bag.of([("a",), ("b",)])
