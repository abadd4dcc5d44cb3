"""Exports as they come: several files, missing, malformed, unlike each other, replaced meanwhile."""

from __future__ import annotations

import os
import pickle
import threading
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from exports import ME, Exports, Wrapped, bag, put

from stillframe.algebra import types as t
from stillframe.algebra.bag import Bag
from stillframe.errors import SourceError
from stillframe.sources.files import csv as files_csv
from stillframe.sources.files import stamp as files_stamp
from stillframe.sources.files.reader import FilesReader
from stillframe.sources.snapshots import reader as snapshot_reader
from stillframe.sources.snapshots.source import SnapshotSource, Unstable


def rows(reader: FilesReader, *columns: str) -> Bag:
    return bag(batch for _, batch in reader.read({reader.name: columns}))


def parquet(path: Path, table: pa.Table) -> None:
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink)
    put(path, sink.getvalue().to_pybytes())


def error(act: Callable[[], object]) -> SourceError:
    with pytest.raises(SourceError) as said:
        act()
    assert said.value.message and not said.value.message.endswith(".")
    return said.value


def test_several_files_are_one_relation_called_like_the_source(tmp_path: Path) -> None:
    put(tmp_path / "in" / "a.csv", "currency,rate\nUSD,1.0842\n")
    put(tmp_path / "in" / "b.csv", "rate,currency\n0.85,GBP\n\n1,EUR")
    put(tmp_path / "in" / "deep" / "c.csv", "currency,rate\r\nJPY,163.5\r\n")
    put(tmp_path / "in" / ".hidden.csv", "x\n1\n")
    flat = FilesReader("rates", str(tmp_path / "in" / "*.csv"), ("currency",))
    (relation,) = flat.describe().values()
    assert relation.name == "rates" and relation.schema.names == ("currency", "rate")
    assert relation.schema.types == (t.STRING, t.decimal(18, 6))
    assert relation.schema.keys == {frozenset({0})} and not relation.schema[0].nullable
    assert rows(flat, "currency").size == 3
    deep = FilesReader("rates", str(tmp_path / "in" / "**" / "*.csv"), ("currency",))
    assert {row[0] for row in rows(deep, "currency", "rate")} == {"USD", "GBP", "EUR", "JPY"}
    assert flat.rows("rates") == 3 and pickle.loads(pickle.dumps(flat)) == flat
    assert list(flat.read({"other": ("x",)})) == []


def test_parquet_files_are_one_relation(tmp_path: Path) -> None:
    for i in range(3):
        table = pa.table({"id": pa.array([i], pa.int64()), "name": pa.array([f"n{i}"]).dictionary_encode()})
        parquet(
            tmp_path / f"{i}.parquet",
            table if i else table.cast(pa.schema({"id": "int64", "name": "string"})),
        )
    reader = FilesReader("t", str(tmp_path / "*.parquet"), ("id",))
    assert rows(reader, "name", "id") == Bag.of([("n0", 0), ("n1", 1), ("n2", 2)])
    assert reader.rows("t") == 3 and rows(reader) == Bag({(): 3})


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", b"\xef\xbb\xbfid,n\r\n1,2\r\n")
    assert rows(FilesReader("t", str(tmp_path / "a.csv")), "id", "n") == Bag.of([(1, 2)])


def test_an_export_without_rows_is_an_empty_relation(tmp_path: Path) -> None:
    for text in ("id,n", "id,n\n", '"id","n"\r\n', "\n\nid,n\n\n"):
        put(tmp_path / "a.csv", text)
        reader = FilesReader("t", str(tmp_path / "a.csv"), ("id",), {"n": "bigint"})
        assert reader.describe()["t"].schema.types == (t.STRING, t.BIGINT)
        assert rows(reader, "id", "n") == Bag()
    parquet(tmp_path / "a.parquet", pa.table({"id": pa.array([], pa.int64())}))
    assert rows(FilesReader("t", str(tmp_path / "a.parquet"), ("id",)), "id") == Bag()


def test_rows_longer_than_a_block(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks end anywhere: inside a row, a quoted text or a character."""
    monkeypatch.setattr(files_csv, "BLOCK_BYTES", 300)
    texts = ["ä" * (i % 100) + '\n"' * (i % 3) for i in range(200)]
    body = "".join(f'{i},"{text.replace(chr(34), chr(34) * 2)}"\n' for i, text in enumerate(texts))
    put(tmp_path / "a.csv", "id,s\n" + body)
    reader = FilesReader("t", str(tmp_path / "a.csv"), ("id",))
    assert rows(reader, "id", "s") == Bag.of(list(enumerate(texts)))
    put(tmp_path / "a.csv", "id,s\n1," + "x" * 1000 + "\n")
    said = error(lambda: rows(reader, "id"))
    assert said.code == "MALFORMED_FILE" and "never closed" in said.message


# -- what is wrong with a file is said, with its place

MALFORMED: list[tuple[str | bytes, str]] = [
    (b"", "has no header row"),
    (b"\n\n", "has no header row"),
    ("id,n\n1,2\n3\n", "line 3 has 1 fields, the header has 2"),
    ('id,n\n"a\nb",2\n\n1,2,3\n', "line 5 has 3 fields, the header has 2"),
    (b"id,n\n1,2\n\xff,3\n", "not UTF-8 text: line 3 is not"),
    (b"id,\xe4\n1,2\n", "not UTF-8 text: line 1 is not"),
    ("id,n\n1,2\n".encode("utf-16"), "not UTF-8 text: line 1 is not"),
    ('id,n\n1,"2\n3,4\n', "the row that begins in line 2 is not closed"),
    ('id,n\n1,2\n3,"', "the row that begins in line 3 is not closed"),
    (
        'id,n\n0,"x\ny"\n1,"abc\n2,x\n3,"def"\n',
        "the row that begins in line 4 is not closed, or closed too early",
    ),
    ('id,"n', "is not closed"),
]


@pytest.mark.parametrize("content, message", MALFORMED)
def test_malformed_csv(tmp_path: Path, content: str | bytes, message: str) -> None:
    path = tmp_path / "a.csv"
    put(path, content)
    said = error(FilesReader("t", str(path)).describe)
    assert said.code == "MALFORMED_FILE" and str(path) in said.message and said.hint
    assert message in said.message


@pytest.mark.parametrize("content", [b"", b"PAR1", b"id,n\n1,2\n", b"PAR1" + b"x" * 100 + b"PAR1"])
def test_malformed_parquet(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.parquet"
    put(path, content)
    said = error(FilesReader("t", str(path)).describe)
    assert said.code == "MALFORMED_FILE" and str(path) in said.message and "export it again" in said.hint


@pytest.mark.parametrize("where", ["rows", "footer"])
def test_damaged_parquet(tmp_path: Path, where: str) -> None:
    path = tmp_path / "a.parquet"
    parquet(path, pa.table({"id": pa.array(range(10000)), "s": pa.array([str(i) * 9 for i in range(10000)])}))
    content = bytearray(path.read_bytes())
    begin, end = (100, 20000) if where == "rows" else (len(content) - 200, len(content) - 100)
    content[begin:end] = b"\xff" * (end - begin)
    put(path, bytes(content))
    said = error(lambda: rows(FilesReader("t", str(path)), "id", "s"))
    assert said.code == "MALFORMED_FILE" and str(path) in said.message


def test_a_parquet_file_that_was_not_written_to_its_end(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    parquet(path, pa.table({"id": pa.array(range(1000))}))
    put(path, path.read_bytes()[:-50])
    assert error(FilesReader("t", str(path)).describe).code == "MALFORMED_FILE"


def test_no_files(tmp_path: Path) -> None:
    (tmp_path / "folder.csv").mkdir()
    said = error(FilesReader("t", str(tmp_path / "*.csv")).describe)
    assert said.code == "NO_FILES" and str(tmp_path / "*.csv") in said.detail


def test_files_of_other_kinds(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "id\n1\n")
    put(tmp_path / "b.txt", "id\n1\n")
    said = error(FilesReader("t", str(tmp_path / "*")).describe)
    assert said.code == "UNKNOWN_FILE" and "b.txt is neither a .csv nor a .parquet" in said.message
    (tmp_path / "b.txt").unlink()
    parquet(tmp_path / "c.parquet", pa.table({"id": [1]}))
    said = error(FilesReader("t", str(tmp_path / "*")).describe)
    assert said.code == "UNKNOWN_FILE" and "c.parquet is not of the same kind as" in said.message


def test_files_with_other_columns_are_named(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "id,n\n1,2\n")
    put(tmp_path / "b.csv", "id,m\n1,2\n")
    said = error(FilesReader("t", str(tmp_path / "*.csv")).describe)
    assert said.code == "FILES_DIFFER" and f"{tmp_path / 'b.csv'} has other columns" in said.message
    assert "m" in said.detail and "n" in said.detail
    put(tmp_path / "b.csv", "id,n,n\n1,2,3\n")
    assert error(FilesReader("t", str(tmp_path / "*.csv")).describe).code == "FILES_DIFFER"
    parquet(tmp_path / "a.parquet", pa.table({"id": pa.array([1], pa.int32())}))
    parquet(tmp_path / "b.parquet", pa.table({"id": pa.array([1], pa.int64())}))
    said = error(FilesReader("t", str(tmp_path / "*.parquet")).describe)
    assert said.code == "FILES_DIFFER" and "id INT" in said.detail and "id BIGINT" in said.detail


def test_columns_without_a_name_of_their_own_are_refused(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", ",id,Name,name,x,x\n0,1,a,b,c,d\n")
    reader = FilesReader("t", str(tmp_path / "a.csv"))
    relation = reader.describe()["t"]
    assert relation.schema.names == ("id",)
    assert set(relation.refused) == {"", "Name", "name", "x"} and "only in case" in relation.refused["name"]
    assert rows(reader, "id") == Bag.of([(1,)])
    table = pa.table([pa.array([1]), pa.array([2]), pa.array([3])], names=["id", "Name", "name"])
    parquet(tmp_path / "a.parquet", table)
    assert set(FilesReader("t", str(tmp_path / "a.parquet")).describe()["t"].refused) == {"Name", "name"}


def test_an_unreadable_file(tmp_path: Path) -> None:
    if os.geteuid() == 0:  # who may read everything meets other obstacles
        put(tmp_path / "a.csv", "id\n1\n")
        (tmp_path / "b.csv").symlink_to(tmp_path / "b.csv")
        reader = FilesReader("t", str(tmp_path / "*.csv"))
        assert rows(reader, "id") == Bag.of([(1,)])
        return
    put(tmp_path / "a.csv", "id\n1\n")
    (tmp_path / "a.csv").chmod(0)
    said = error(FilesReader("t", str(tmp_path / "a.csv")).describe)
    assert said.code == "UNREADABLE_FILE" and "a.csv" in said.detail


# -- keys


def test_a_key_that_is_there_twice_is_named_with_its_places(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", 'id,k\n1,"x\ny"\n2,z\n')
    put(tmp_path / "b.csv", 'id,k\n3,x\n2,z\n1,"x\ny"\n')
    reader = FilesReader("t", str(tmp_path / "*.csv"), ("k", "id"))
    said = error(lambda: rows(reader, "id"))
    assert said.code == "BAD_KEY"
    named = {"k = z, id = 2": ("line 4", "line 3"), "k = x\ny, id = 1": ("line 2", "line 4")}
    (found,) = [places for key, places in named.items() if f"the key {key} is there 2 times" in said.message]
    for place, name in zip(found, ("a.csv", "b.csv"), strict=True):
        assert f"{place} of {tmp_path / name}" in said.detail
    assert rows(FilesReader("t", str(tmp_path / "*.csv")), "id").size == 5


def test_equal_keys_in_other_words(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "k\n1.50\n1.5\n")
    assert error(lambda: rows(FilesReader("t", str(tmp_path / "a.csv"), ("k",)), "k")).code == "BAD_KEY"
    for values in ([0.0, -0.0], [float("nan"), -float("nan")]):
        parquet(tmp_path / "a.parquet", pa.table({"k": values}))
        reader = FilesReader("t", str(tmp_path / "a.parquet"), ("k",))
        said = error(lambda reader=reader: rows(reader, "k"))
        assert said.code == "BAD_KEY" and "row 1 of" in said.detail


def test_a_key_is_never_null(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "k,n\nx,1\n,2\n")
    reader = FilesReader("t", str(tmp_path / "a.csv"), ("k",))
    said = error(lambda: rows(reader, "n"))
    assert (
        said.code == "BAD_KEY" and f"key column 'k' is NULL in line 3 of {tmp_path / 'a.csv'}" in said.message
    )
    put(tmp_path / "a.csv", 'k,n\nx,1\n"",2\n')
    assert rows(reader, "k") == Bag.of([("x",), ("",)])


def test_a_key_the_files_do_not_have(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "id,n\n1,1\n")
    said = error(FilesReader("t", str(tmp_path / "a.csv"), ("ID",)).describe)
    assert said.code == "NO_COLUMN" and "id, n" in said.detail and "compared exactly" in said.hint
    said = error(FilesReader("t", str(tmp_path / "a.csv"), (), {"m": "int"}).describe)
    assert said.code == "NO_COLUMN" and "no column 'm', which the project declares" in said.message
    known = FilesReader("t", str(tmp_path / "a.csv"), ("id",))
    known = known.knowing(known.describe())
    put(tmp_path / "a.csv", "n\n1\n")
    assert error(known.describe).code == "SCHEMA_CHANGED"


# -- files that move while they are read


def big(n: int) -> str:
    return "id,n\n" + "".join(f"{i},{n}\n" for i in range(100))


def rename_over(path: Path) -> None:
    put(path, big(2))


def rewrite_in_place(path: Path) -> None:
    with path.open("r+") as file:
        file.truncate(0)
        file.write(big(2))


def same_size_in_place(path: Path) -> None:
    with path.open("r+") as file:
        file.write(big(2))


def append(path: Path) -> None:
    with path.open("a") as file:
        file.write("100,2\n")


MOVES: list[Callable[[Path], None]] = [
    rename_over,
    rewrite_in_place,
    same_size_in_place,
    append,
    lambda path: put(path.with_name("z.csv"), big(2)),
    lambda path: path.with_name("b.csv").unlink(),
    lambda path: path.with_name("b.csv").rename(path.with_name("c.csv")),
    lambda path: (path.unlink(), path.with_name("b.csv").unlink(), put(path, big(2)))[2],
]


@pytest.mark.parametrize("move", MOVES, ids=lambda move: getattr(move, "__name__", "move"))
@pytest.mark.parametrize("moment", [0, 1])
def test_what_moves_while_it_is_read_is_of_no_state(
    tmp_path: Path, move: Callable[[Path], None], moment: int
) -> None:
    for name in ("a.csv", "b.csv"):
        put(tmp_path / name, big(1))
    reading = FilesReader("t", str(tmp_path / "*.csv"), (), {"n": "bigint"}).read({"t": ("id", "n")})
    for _ in range(moment + 1):
        next(reading)
    move(tmp_path / "a.csv")
    with pytest.raises(Unstable, match="were replaced while they were read") as said:
        list(reading)
    assert said.value.code == "FILES_UNSTABLE" and "rename it when it is whole" in said.value.hint


def test_a_value_that_is_bad_because_the_file_moves_is_no_bad_value(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", big(1))
    put(tmp_path / "b.csv", big(1))
    reading = FilesReader("t", str(tmp_path / "*.csv"), (), {"n": "bigint"}).read({"t": ("id", "n")})
    next(reading)
    (tmp_path / "b.csv").write_text("id,n\n1,half of a num")
    with pytest.raises(Unstable):
        list(reading)


def test_a_read_is_tried_again_until_the_files_keep_still(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(("id", "n"), [(1, 0)])
    world.source.attach(ME, ["t"])
    left = [3]

    def move(_: int) -> None:
        if left[0]:
            left[0] -= 1
            world.write(("id", "n"), [(1, 10 - left[0])])

    world.write(("id", "n"), [(1, 1)])
    moving = SnapshotSource(Wrapped(world.reader, on_read=move), world.source.folder)
    at = moving.position(ME, ["t"])
    assert (at.sequence, left) == (2, [0])
    assert world.rows(at, "id", "n") == Bag.of([(1, 10)])


def test_files_that_never_keep_still(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_reader, "FIRST_PAUSE_SECONDS", 0.001)
    world = Exports(tmp_path)
    world.write(("id", "n"), [(1, 0)])
    first = world.source.attach(ME, ["t"])
    tried = [0]

    def move(_: int) -> None:
        tried[0] += 1
        world.write(("id", "n"), [(1, tried[0])])

    world.write(("id", "n"), [(1, -1)])
    moving = SnapshotSource(Wrapped(world.reader, on_read=move), world.source.folder)
    with pytest.raises(SourceError) as said:
        moving.position(ME, ["t"])
    assert said.value.code == "FILES_UNSTABLE" and tried == [snapshot_reader.ATTEMPTS]
    assert world.rows(first, "n") == Bag.of([(0,)])
    assert world.rows(world.source.position(ME, ["t"]), "n") == Bag.of([(tried[0],)])


def test_a_sign_is_given_only_when_a_later_write_would_show(tmp_path: Path) -> None:
    """Writes of the same size in quick succession may bear the same times; the sign waits them out."""
    path = tmp_path / "a.csv"
    reader = FilesReader("t", str(path))
    for i in range(8):
        path.write_text(f"id\n{i}\n")
        first = reader.fingerprint(["t"])
        path.write_text(f"id\n{i + 1}\n")
        second = reader.fingerprint(["t"])
        assert first is not None and second is not None and first != second
        assert time.time() - path.stat().st_ctime >= files_stamp.TICK_SECONDS
        assert reader.fingerprint(["t"]) == second


def test_times_of_another_clock_are_no_sign(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file system whose clock is ahead may give a time again that was seen before."""
    path = tmp_path / "a.csv"
    put(path, "id\n1\n")
    ahead = files_stamp.Stamp.of(path)
    monkeypatch.setattr(files_stamp.time, "time", lambda: ahead.changed / 1e9 - 100)
    assert FilesReader("t", str(path)).fingerprint(["t"]) is None


def test_when_the_state_began(tmp_path: Path) -> None:
    put(tmp_path / "a.csv", "id\n1\n")
    put(tmp_path / "b.csv", "id\n1\n")
    os.utime(tmp_path / "a.csv", (1_000_000_000, 1_000_000_000))
    os.utime(tmp_path / "b.csv", (1_100_000_000, 1_100_000_000))
    found = FilesReader("t", str(tmp_path / "*.csv")).changed_at()
    assert found == datetime.fromisoformat("2004-11-09T11:33:20+00:00")


def test_replaced_in_a_loop_every_state_read_is_one_that_was_written(tmp_path: Path) -> None:
    """Two files that belong together are replaced one after the other, whole each time."""
    world = Exports(tmp_path)
    stop = threading.Event()

    def write() -> None:
        n = 0
        while not stop.is_set():
            n += 1
            for name in ("a.csv", "b.csv"):
                world.write(("id", "n"), [(i, n) for i in range(500)], name)
            stop.wait(0.05 + (n % 5) * 0.08)

    for name in ("a.csv", "b.csv"):
        world.write(("id", "n"), [(i, 0) for i in range(500)], name)
    source = world.source
    at = source.attach(ME, ["t"])
    writer = threading.Thread(target=write)
    writer.start()
    seen = set()
    try:
        for _ in range(15):
            upto = source.position(ME, ["t"])
            state = bag(source.state("t", ("n",), upto))
            assert sorted(state.values()) in ([1000], [500, 500]), state
            versions = sorted(n for (n,) in state)
            assert versions[-1] - versions[0] <= 1, "a state of two files that were never side by side"
            seen.add(upto.sequence)
            assert state - bag(source.state("t", ("n",), at)) == bag(source.changes("t", ("n",), at, upto))
            at = upto
    finally:
        stop.set()
        writer.join()
    print(f"{len(seen)} states")
