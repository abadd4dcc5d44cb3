"""Snapshots are whole or not there: processes that are killed at every step, and several at once."""

from __future__ import annotations

import multiprocessing
import os
import random
import signal
import time
from collections.abc import Callable
from multiprocessing.queues import Queue
from pathlib import Path

import pytest
from exports import ME, Exports, Wrapped, csv_text, files, put

from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap, SourceError
from stillframe.sources import Position
from stillframe.sources.files.reader import FilesReader
from stillframe.sources.snapshots import store as snapshot_store
from stillframe.sources.snapshots.source import SnapshotSource

HEADER = ("id", "version")
FORK = multiprocessing.get_context("fork")

STEPS = ["draft", "read", "publish", "published", "write", "replaced", "sweep"]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def dying(world: Exports, step: str) -> SnapshotSource:
    """The source, in a process that is killed when it comes to a step. To be made in that process."""
    store = snapshot_store.Store

    def before(name: str) -> None:
        setattr(store, name, lambda *a, **k: die())

    def after(name: str) -> None:
        real: Callable[..., object] = getattr(store, name)
        setattr(store, name, lambda *a, **k: (real(*a, **k), die()))

    reader = world.reader
    match step:
        case "draft":
            after("draft")
        case "read":
            return SnapshotSource(Wrapped(world.reader, on_read=lambda _: die()), world.source.folder)
        case "publish" | "write" | "sweep":
            before(step)
        case "published":
            after("publish")
        case "replaced":
            after("write")
    return SnapshotSource(reader, world.source.folder)


def killed(act: Callable[[], object]) -> None:
    process = FORK.Process(target=act)
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, f"it came to its end: {process.exitcode}"


@pytest.mark.parametrize("step", STEPS)
def test_killed_while_it_takes_a_snapshot(tmp_path: Path, step: str) -> None:
    world = Exports(tmp_path)
    world.write(HEADER, [(1, 1)])
    first = world.source.attach(ME, ["t"])
    world.write(HEADER, [(1, 2)])
    if step == "sweep":
        (world.source.folder / ".draft-0").mkdir()
    killed(lambda: dying(world, step).position(ME, ["t"]))
    assert world.rows(first, *HEADER) == Bag.of([(1, 1)])
    second = world.source.position(ME, ["t"])
    assert second.sequence == 2
    assert world.rows(second, *HEADER) == Bag.of([(1, 2)])
    assert world.change(first, second, *HEADER) == Bag({(1, 1): -1, (1, 2): 1})
    assert files(world.source.folder) == ["1", "1/0.parquet", "2", "2/0.parquet", "lock", "state.json"]
    world.source.acknowledge(ME, second)
    assert files(world.source.folder) == ["2", "2/0.parquet", "lock", "state.json"]


@pytest.mark.parametrize("step", STEPS)
def test_killed_while_it_attaches(tmp_path: Path, step: str) -> None:
    world = Exports(tmp_path)
    world.write(HEADER, [(1, 1)])
    killed(lambda: dying(world, step).attach(ME, ["t"]))
    known = step == "replaced"
    if not known:
        with pytest.raises(CaptureGap):
            world.source.position(ME, ["t"])
    at = world.source.attach(ME, ["t"])
    assert world.rows(at, *HEADER) == Bag.of([(1, 1)])
    assert files(world.source.folder) == ["1", "1/0.parquet", "lock", "state.json"]
    world.source.detach(ME)
    assert not world.source.folder.exists()


@pytest.mark.parametrize("step", ["write", "replaced"])
def test_killed_while_it_acknowledges(tmp_path: Path, step: str) -> None:
    world = Exports(tmp_path)
    world.write(HEADER, [(1, 1)])
    first = world.source.attach(ME, ["t"])
    world.write(HEADER, [(1, 2)])
    second = world.source.position(ME, ["t"])
    killed(lambda: dying(world, step).acknowledge(ME, second))
    assert "1" in files(world.source.folder)
    if step == "write":
        assert world.rows(first, *HEADER) == Bag.of([(1, 1)])
    world.source.acknowledge(ME, second)
    assert files(world.source.folder) == ["2", "2/0.parquet", "lock", "state.json"]
    assert world.rows(second, *HEADER) == Bag.of([(1, 2)])


VERSIONS = 60
ROWS = 200


def version(n: int) -> str:
    return csv_text(HEADER, ((i, n) for i in range(ROWS)))


def following(folder: Path, pattern: str, name: str, done: Path, said: Queue[object]) -> None:
    """One warehouse of several: every state it sees is one version, and they never go back."""
    source = SnapshotSource(FilesReader("t", pattern, ("id",)), folder)
    rng = random.Random(name)
    try:
        at = source.attach(name, ["t"])
        seen, states = _version(source, at), 1
        while not done.exists() or seen < VERSIONS:
            upto = source.position(name, ["t"])
            now = _version(source, upto)
            assert now >= seen, f"from version {seen} back to {now}"
            change = [0, 0]
            for batch in source.changes("t", HEADER, at, upto):
                rows = batch.to_pylist()
                for row in rows:
                    change[row["c1"] == now] += row["__count"]
            assert change == ([0, 0] if now == seen else [-ROWS, ROWS]), f"{seen} to {now}: {change}"
            states += now != seen
            seen = now
            if rng.random() < 0.7:
                source.acknowledge(name, upto)
            at = upto
        source.detach(name)
        said.put(states)
    except BaseException as error:
        said.put(f"{name}: {type(error).__name__}: {error}")


def _version(source: SnapshotSource, at: Position) -> int:
    rows = [row for batch in source.state("t", HEADER, at) for row in batch.to_pylist()]
    assert len(rows) == ROWS and len({row["c1"] for row in rows}) == 1, "a state of two versions"
    return int(rows[0]["c1"])


def test_several_processes_one_folder_while_the_export_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "in" / "t.csv"
    put(path, version(0))
    said: Queue[object] = FORK.Queue()
    done, kept = tmp_path / "done", tmp_path / "kept"
    names = ["one", "two", "three"]
    followers = [
        FORK.Process(target=following, args=(kept, str(path), name, done, said), daemon=True)
        for name in names
    ]
    for process in followers:
        process.start()
    rng = random.Random(1)
    for n in range(1, VERSIONS + 1):
        put(path, version(n))
        time.sleep(rng.random() * 0.15)
    done.touch()
    found = [said.get(timeout=120) for _ in names]
    for process in followers:
        process.join(10)
    print(f"states seen: {found}")
    assert all(isinstance(states, int) for states in found), found
    assert max(found) > 2, "nothing was replaced while it was read"
    assert not kept.exists(), "the last one leaves no trace"


def test_source_errors_of_a_reader_are_not_taken_for_missing_snapshots(tmp_path: Path) -> None:
    world = Exports(tmp_path)
    world.write(HEADER, [(1, 1)])
    world.source.attach(ME, ["t"])

    def fail(_: int) -> None:
        raise SourceError("out of order", code="OUT_OF_ORDER")

    world.write(HEADER, [(1, 2)])
    broken = SnapshotSource(Wrapped(world.reader, on_read=fail), world.source.folder)
    with pytest.raises(SourceError) as said:
        broken.position(ME, ["t"])
    assert said.value.code == "OUT_OF_ORDER"
    assert files(world.source.folder) == ["1", "1/0.parquet", "lock", "state.json"]
