"""Checks that any `Storage` must pass.

`CHECKS` are independent functions of a maker: `make(folder)` opens the warehouse at a folder, and makes it
if need be; two calls with one folder give two handles to the same warehouse. Each check takes an empty
folder of its own and raises AssertionError where the storage breaks a promise.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import Barrier

import pyarrow as pa
import pyarrow.parquet as pq

from stillframe.algebra.arrow import named_schema
from stillframe.algebra.schema import Column, Schema
from stillframe.algebra.types import BIGINT, STRING
from stillframe.errors import Busy, LakeError
from stillframe.lake.frame import CURRENT, ChangeFile, DataFile, Frame, ViewState
from stillframe.lake.storage import Storage

Maker = Callable[[Path], Storage]
Check = Callable[[Maker, Path], None]

SCHEMA = Schema((Column("id", BIGINT), Column("name", STRING)))
DAY = timedelta(days=1)


def write(
    storage: Storage, kind: str, table: str, ids: range, schema: Schema = SCHEMA
) -> tuple[DataFile, ...]:
    """One finished write, as an engine leaves it."""
    folder = storage.attempt(kind, table)
    folder.mkdir()
    columns = [pa.array(list(ids), pa.int64()), pa.array([f"row {i}" for i in ids], pa.string())]
    rows = pa.Table.from_arrays(columns, schema=named_schema(schema))
    pq.write_table(rows, folder / "part-00000.snappy.parquet")
    (folder / "_SUCCESS").touch()
    return storage.collect(folder)


def view_of(
    table: str,
    base: tuple[DataFile, ...] = (),
    changes: tuple[ChangeFile, ...] = (),
    settled: int = 1,
    schema: Schema = SCHEMA,
) -> ViewState:
    rows = sum(f.rows for f in base)
    return ViewState(
        table, schema, "SELECT …", "strong", "auto", CURRENT, base, changes, settled, settled, rows, {}
    )


def frame_of(number: int, *views: ViewState, revision: int = 0, published_at: str = "") -> Frame:
    return Frame(number, revision, published_at, {view.table: view for view in views})


def check_nothing_published(make: Maker, folder: Path) -> None:
    storage = make(folder)
    assert storage.newest() is None
    assert storage.history() == []
    try:
        storage.frame(1)
    except LakeError as error:
        assert error.code == "NO_SUCH_FRAME"
    else:
        raise AssertionError("a frame that was never published was found")


def check_published_is_read_back(make: Maker, folder: Path) -> None:
    storage = make(folder)
    base = write(storage, "data", "v", range(3))
    first = storage.publish(frame_of(1, view_of("v", base)), None)
    assert datetime.fromisoformat(first.published_at).tzinfo is not None
    second = storage.publish(frame_of(2, view_of("v", base)), first)
    again = storage.publish(frame_of(2, view_of("v", base, settled=2), revision=1), second)
    for handle in (storage, make(folder)):
        assert handle.newest() == again
        assert handle.frame(1) == first
        assert handle.frame(2) == again
        assert handle.history() == [again, first]
        assert handle.history(limit=1) == [again]
    try:
        storage.frame(7)
    except LakeError as error:
        assert error.code == "NO_SUCH_FRAME"
        assert "1 to 2" in error.detail
    else:
        raise AssertionError("frame 7 was found")


def check_stale_publisher_is_told(make: Maker, folder: Path) -> None:
    one, other = make(folder), make(folder)
    first = one.publish(frame_of(1), None)
    for stale in (None, replace(first, revision=5)):
        _must_be_busy(other, frame_of(9), stale)
    second = one.publish(frame_of(2), first)
    _must_be_busy(other, frame_of(2, revision=1), first)
    _must_be_busy(other, frame_of(3), first)
    assert other.newest() == second
    assert [f.number for f in one.history()] == [2, 1]


def check_one_of_many_threads_wins(make: Maker, folder: Path) -> None:
    threads, rounds = 16, 4
    newest: Frame | None = None
    make(folder)
    with ThreadPoolExecutor(threads) as pool:
        for number in range(1, rounds + 1):
            barrier = Barrier(threads)

            def race(
                i: int, number: int = number, after: Frame | None = newest, barrier: Barrier = barrier
            ) -> Frame | None:
                storage = make(folder)
                barrier.wait()
                try:
                    return storage.publish(frame_of(number, view_of(f"of thread {i}")), after)
                except Busy:
                    return None

            winners = [won for won in pool.map(race, range(threads)) if won]
            assert len(winners) == 1, f"round {number}: {len(winners)} winners"
            newest = make(folder).newest()
            assert newest == winners[0]
    assert [f.number for f in make(folder).history()] == list(range(rounds, 0, -1))


def check_missing_files_are_refused(make: Maker, folder: Path) -> None:
    storage = make(folder)
    base = write(storage, "data", "v", range(3))
    (storage.path / base[0].path).unlink()
    try:
        storage.publish(frame_of(1, view_of("v", base)), None)
    except LakeError as error:
        assert error.code == "MISSING_FILE"
    assert storage.newest() is None


def check_collect(make: Maker, folder: Path) -> None:
    storage = make(folder)
    attempt = storage.attempt("data", "v")
    assert attempt.parent.is_dir()
    assert not attempt.exists()
    assert storage.attempt("data", "v") != attempt
    assert storage.collect(attempt) == ()
    unfinished = attempt / "_temporary" / "0" / "task"
    unfinished.mkdir(parents=True)
    rows = pa.table({"id": [1, 2, 3]})
    for path in (attempt / "b.parquet", unfinished / "c.parquet", attempt / ".hidden.parquet"):
        pq.write_table(rows, path)
    pq.write_table(rows.slice(0, 0), attempt / "empty.parquet")
    for name in ("_SUCCESS", ".b.parquet.crc", "notes.txt"):
        (attempt / name).write_bytes(b"x")
    (file,) = storage.collect(attempt)
    assert storage.path / file.path == attempt / "b.parquet"
    assert (file.rows, file.bytes) == (3, (attempt / "b.parquet").stat().st_size)
    storage.discard(attempt)
    storage.discard(attempt)
    assert not attempt.exists()


def check_settling(make: Maker, folder: Path) -> None:
    storage = make(folder)
    assert storage.settled_files("v") == frozenset()
    assert storage.settled_frame("v") is None
    old, new = write(storage, "data", "v", range(3)), write(storage, "data", "v", range(5))
    view = view_of("v", old, settled=1)
    assert not storage.settle(view), "a view no frame has was settled"
    first = storage.publish(frame_of(1, view), None)
    assert storage.settle(view)
    assert storage.settled_files("v") == {f.path for f in old}
    assert storage.settled_frame("v") == 1
    grown = view_of("v", (*old, *new), settled=2)
    second = storage.publish(frame_of(2, grown), first)
    assert not storage.settle(view), "a table went back to a former frame"
    assert storage.settle(grown)
    assert storage.settle(grown)
    assert storage.settled_files("v") == {f.path for f in (*old, *new)}
    rewritten = view_of("v", new, settled=2)
    storage.publish(frame_of(2, rewritten, revision=1), second)
    assert storage.settle(rewritten)
    assert storage.settled_files("v") == {f.path for f in new}
    assert storage.settled_frame("v") == 2
    assert all((storage.path / f.path).exists() for f in old)


def check_repair(make: Maker, folder: Path) -> None:
    """A process that died after it published leaves tables behind; any handle, old or new, brings them on."""
    old, dead = make(folder), make(folder)
    newest: Frame | None = None
    for number in (1, 2, 3):
        view = view_of("v", write(dead, "data", "v", range(number)), settled=number)
        newest = dead.publish(frame_of(number, view), newest)
        for handle in (old, make(folder)):
            handle.repair()
            assert handle.settled_frame("v") == number
            assert handle.settled_files("v") == {f.path for f in view.base}


def check_merged_changes_are_read_back(make: Maker, folder: Path) -> None:
    storage = make(folder)
    (file,) = write(storage, "changes", "v", range(3))
    merged = ChangeFile(file.path, file.rows, file.bytes, frame=7, since=4)
    (later,) = write(storage, "changes", "v", range(2))
    plain = ChangeFile(later.path, later.rows, later.bytes, frame=8)
    storage.publish(frame_of(8, view_of("v", changes=(merged, plain))), None)
    for handle in (storage, make(folder)):
        newest = handle.newest()
        assert newest is not None
        assert [(f.since, f.frame) for f in newest.views["v"].changes] == [(4, 7), (8, 8)]


def check_another_schema_takes_the_table(make: Maker, folder: Path) -> None:
    storage = make(folder)
    view = view_of("v", write(storage, "data", "v", range(3)))
    first = storage.publish(frame_of(1, view), None)
    storage.settle(view)
    schema = Schema((Column("number", BIGINT), Column("label", STRING)))
    other = view_of("v", write(storage, "data", "v", range(4), schema), settled=2, schema=schema)
    second = storage.publish(frame_of(2, other), first)
    assert storage.settle(other)
    assert storage.settled_files("v") == {f.path for f in other.base}
    empty = view_of("v", settled=3)
    storage.publish(frame_of(3, empty), second)
    assert storage.settle(empty)
    assert storage.settled_files("v") == frozenset()


def check_sweep_spares_the_living(make: Maker, folder: Path) -> None:
    storage = make(folder)
    published = write(storage, "data", "v", range(3))
    in_flight = write(storage, "data", "v", range(3))
    storage.publish(frame_of(1, view_of("v", published)), None)
    staged = storage.attempt("staging")
    staged.mkdir()
    assert storage.sweep() == ()
    assert storage.sweep(datetime.now(UTC) + 9 * DAY) == ()
    assert all((storage.path / f.path).exists() for f in (*published, *in_flight))
    assert staged.exists()


def check_vacuum(make: Maker, folder: Path) -> None:
    storage = make(folder)
    now = datetime.now(UTC)
    ages = {1: now - 3 * DAY, 2: now - 2 * DAY, 3: now - timedelta(hours=30), 4: now - timedelta(hours=1)}
    files, newest = {}, None
    for number, moment in ages.items():
        files[number] = write(storage, "data", "v", range(number))
        frame = frame_of(number, view_of("v", files[number]), published_at=moment.isoformat())
        newest = storage.publish(frame, newest)
    in_flight = write(storage, "changes", "v", range(3))
    later = now + timedelta(hours=23)  # every file is younger than a day, frame 3 was superseded 24 h ago
    assert storage.vacuum(DAY, now).frames == 2
    assert [f.number for f in storage.history()] == [4, 3]
    assert all((storage.path / f.path).exists() for n in files for f in files[n])
    assert storage.vacuum(DAY, later).frames == 1
    assert storage.vacuum(timedelta(0)).files == 0, "files of a living process went before their day"
    removed = storage.vacuum(DAY, now + 2 * DAY)
    assert (removed.frames, removed.files) == (0, 4), removed
    assert [f.number for f in storage.history()] == [4]
    assert [(storage.path / files[n][0].path).exists() for n in files] == [False, False, False, True]
    assert not (storage.path / in_flight[0].path).exists()


def check_vacuum_removes_what_it_forgets(make: Maker, folder: Path) -> None:
    storage = make(folder)
    old, new = write(storage, "data", "v", range(3)), write(storage, "data", "v", range(4))
    (change,) = write(storage, "changes", "v", range(2))
    signed = ChangeFile(change.path, change.rows, change.bytes, 1)
    unnamed = (storage.path / signed.path).with_name("part-00001.parquet")
    pq.write_table(pa.table({"id": []}), unnamed)
    gone = view_of("dropped", write(storage, "data", "dropped", range(2)))
    first = storage.publish(frame_of(1, view_of("v", old, (signed,)), gone), None)
    assert storage.settle(first.views["v"])
    assert storage.settle(gone)
    settled = storage.publish(frame_of(2, view_of("v", new, settled=2)), first)
    in_flight = write(storage, "data", "v", range(3))
    now = datetime.now(UTC) + timedelta(seconds=1)
    removed = storage.vacuum(timedelta(0), now)
    assert (removed.frames, removed.files, removed.tables) == (1, 3, 1)
    assert storage.settled_files("v") == {f.path for f in old}
    assert (storage.path / old[0].path).exists(), "a file that another engine reads was removed"
    assert not unnamed.parent.exists()
    assert not (storage.path / gone.base[0].path).exists()
    assert storage.settled_files("dropped") == frozenset()
    assert all((storage.path / f.path).exists() for f in (*new, *in_flight))
    assert storage.settle(settled.views["v"])
    assert storage.newest() == settled


def check_compaction_loses_nothing(make: Maker, folder: Path) -> None:
    storage = make(folder)
    newest = None
    for number in range(1, 8):
        for revision in range(2):
            newest = storage.publish(frame_of(number, revision=revision), newest)
    before = storage.history()
    for _ in range(2):
        storage.compact()
        assert storage.history() == before
        assert storage.newest() == newest
        assert [storage.frame(n).revision for n in range(1, 8)] == [1] * 7
    newest = storage.publish(frame_of(8), newest)
    assert make(folder).history() == [newest, *before]


def check_copied_tables(make: Maker, folder: Path) -> None:
    storage = make(folder)
    base = (*write(storage, "data", "old", range(3)), *write(storage, "data", "old", range(4)))
    (change,) = write(storage, "changes", "old", range(2))
    view = view_of("old", base, (ChangeFile(change.path, change.rows, change.bytes, 1),))
    first = storage.publish(frame_of(1, view), None)
    copy = storage.copy_table_files("old", "new", view)
    assert (copy.table, len(copy.base), len(copy.changes)) == ("new", 2, 1)
    for one, other in zip(_paths(view), _paths(copy), strict=True):
        assert one != other
        assert (storage.path / one).read_bytes() == (storage.path / other).read_bytes()
    storage.publish(frame_of(2, replace(copy, settled=2)), first)
    storage.vacuum(timedelta(0), datetime.now(UTC) + timedelta(seconds=1))
    assert not any((storage.path / f.path).exists() for f in base)
    assert storage.settle(copy)
    assert storage.settled_files("new") == {f.path for f in copy.base}


def check_any_name(make: Maker, folder: Path) -> None:
    storage = make(folder)
    names = [
        "a b",
        "a/b",
        "../up",
        ".",
        "..",
        "_hidden",
        ".dot",
        "ünï-日本",
        "100%",
        "~7e",
        "k=v",
        "x*?[1]{2}",
    ]
    views = [view_of(name, write(storage, "data", name, range(i + 1))) for i, name in enumerate(names)]
    storage.publish(frame_of(1, *views), None)
    for view in views:
        assert (storage.path / view.base[0].path).resolve().is_relative_to(storage.path.resolve())
        assert storage.settle(view)
    for view in views:
        assert storage.settled_files(view.table) == {f.path for f in view.base}
    assert storage.vacuum(timedelta(0), datetime.now(UTC) + timedelta(seconds=1)).tables == 0


def check_exclusion_is_polite(make: Maker, folder: Path) -> None:
    one, other = make(folder), make(folder)
    with one.exclusive():
        try:
            with other.exclusive(wait_seconds=0.05):
                raise AssertionError("two held it at once")
        except Busy as busy:
            assert "process" in busy.detail
    with other.exclusive():
        pass


def _paths(view: ViewState) -> list[str]:
    return [*(f.path for f in view.base), *(f.path for f in view.changes)]


def _must_be_busy(storage: Storage, frame: Frame, after: Frame | None) -> None:
    try:
        storage.publish(frame, after)
    except Busy:
        return
    raise AssertionError(f"frame {frame.number} was published after a frame that is not the newest")


CHECKS: tuple[Check, ...] = (
    check_nothing_published,
    check_published_is_read_back,
    check_stale_publisher_is_told,
    check_one_of_many_threads_wins,
    check_missing_files_are_refused,
    check_collect,
    check_settling,
    check_repair,
    check_merged_changes_are_read_back,
    check_another_schema_takes_the_table,
    check_sweep_spares_the_living,
    check_vacuum,
    check_vacuum_removes_what_it_forgets,
    check_compaction_loses_nothing,
    check_copied_tables,
    check_any_name,
    check_exclusion_is_polite,
)
