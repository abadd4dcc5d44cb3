"""Consumers of snapshots, and every way the snapshots can stop being what a frame takes them for."""

from __future__ import annotations

import fcntl
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest
from exports import ME, Exports, bag, files

from stillframe.algebra.bag import Bag
from stillframe.errors import CaptureGap, SourceError
from stillframe.sources import Position
from stillframe.sources.snapshots import store as snapshot_store
from stillframe.sources.snapshots.source import SnapshotSource

HEADER = ("id", "n")


def world(tmp_path: Path, rows: int = 1) -> Exports:
    made = Exports(tmp_path)
    made.write(HEADER, [(i, 0) for i in range(rows)])
    return made


def next_rows(made: Exports, n: int, rows: int = 1) -> None:
    made.write(HEADER, [(i, n) for i in range(rows)])


def test_two_consumers_at_different_speeds(tmp_path: Path) -> None:
    made = world(tmp_path)
    source = made.source
    slow = source.attach("slow", ["t"])
    assert source.attach(ME, ["t"]) == slow
    for n in range(1, 5):
        next_rows(made, n)
        at = source.position(ME, ["t"])
        source.acknowledge(ME, at)
    status = source.log_status()
    assert {c.name: (c.position, c.behind) for c in status.consumers} == {ME: (5, 0), "slow": (1, 4)}
    assert made.change(slow, at, *HEADER) == Bag({(0, 0): -1, (0, 4): 1})
    assert len(source.transactions(["t"], slow, at)) == 4
    source.acknowledge("slow", at)
    assert files(source.folder) == ["5", "5/0.parquet", "lock", "state.json"]
    with pytest.raises(CaptureGap, match="trimmed too far"):
        source.check(slow, ["t"])


def test_attaching_again_keeps_the_place(tmp_path: Path) -> None:
    made = world(tmp_path)
    first = made.source.attach(ME, ["t"])
    next_rows(made, 1)
    second = made.source.attach(ME, ["t"])
    assert second.sequence == 2
    made.source.attach("other", [])
    made.source.acknowledge("other", made.source.position("other", []))
    assert made.change(first, second, *HEADER) == Bag({(0, 0): -1, (0, 1): 1})


def test_the_last_detach_leaves_no_trace(tmp_path: Path) -> None:
    made = world(tmp_path)
    source = made.source
    source.attach(ME, ["t"])
    source.attach("other", ["t"])
    (source.folder / "capture.json").write_text("{}")  # somebody else's
    source.detach("nobody")
    source.detach(ME)
    assert [c.name for c in source.log_status().consumers] == ["other"]
    source.detach("other")
    assert files(source.folder) == ["capture.json"]
    (source.folder / "capture.json").unlink()
    source.folder.rmdir()
    source.detach("other")
    source.attach(ME, ["t"])
    source.release(ME, [])
    assert not source.folder.exists() and files(made.folder) == ["a.csv"]


def test_an_attach_that_fails_leaves_no_trace(tmp_path: Path) -> None:
    made = world(tmp_path)
    with pytest.raises(SourceError, match="no relation 'u'") as said:
        made.source.attach(ME, ["u"])
    assert said.value.code == "NO_RELATION" and not made.source.folder.exists()
    keyed = SnapshotSource(type(made.reader)("t", made.reader.pattern, ("n",)), made.source.folder)
    next_rows(made, 0, rows=2)
    with pytest.raises(SourceError) as said:
        keyed.attach(ME, ["t"])
    assert said.value.code == "BAD_KEY" and not keyed.folder.exists()
    made.source.attach(ME, ["t"])
    before = files(made.source.folder)
    with pytest.raises(SourceError):
        keyed.attach("other", ["t"])
    assert files(made.source.folder) == before
    assert [c.name for c in made.source.log_status().consumers] == [ME]


def test_capture_limit_drops_those_left_behind(tmp_path: Path) -> None:
    made = world(tmp_path, rows=10)
    source = SnapshotSource(made.reader, tmp_path / "kept", capture_limit=25)
    dead = source.attach("dead", ["t"])
    source.attach(ME, ["t"])
    for n in (1, 2):
        next_rows(made, n, rows=10)
        source.acknowledge(ME, source.position(ME, []))
        source.position("dead", ["t"])
    next_rows(made, 3, rows=10)
    last = source.position(ME, [])
    SnapshotSource(made.reader, tmp_path / "kept").acknowledge(ME, last)
    source.check(dead, ["t"])
    source.acknowledge(ME, last)
    for act in (lambda: source.position("dead", ["t"]), lambda: source.beat("dead")):
        with pytest.raises(CaptureGap, match=r"'dead' was dropped.*capture limit"):
            act()
    with pytest.raises(CaptureGap, match="trimmed too far"):
        source.check(dead, ["t"])
    assert [c.name for c in source.log_status().consumers] == [ME]
    back = source.attach("dead", ["t"])
    source.check(back, ["t"])
    source.position("dead", ["t"])
    source.detach(ME)
    source.detach("dead")
    assert not source.folder.exists()


def test_who_is_unknown_is_told(tmp_path: Path) -> None:
    made = world(tmp_path)
    source = made.source
    for act in (lambda: source.position(ME, []), lambda: source.beat(ME), lambda: source.release(ME, ["t"])):
        with pytest.raises(CaptureGap, match="never attached"):
            act()
    at = source.attach(ME, ["t"])
    for act in (
        lambda: source.position("ghost", ["t"]),
        lambda: source.acknowledge("ghost", at),
        lambda: source.beat("ghost"),
        lambda: source.release("ghost", ["t"]),
    ):
        with pytest.raises(CaptureGap, match="'ghost' is not registered"):
            act()
    with pytest.raises(CaptureGap, match="'u' is not captured"):
        source.position(ME, ["u"])
    with pytest.raises(CaptureGap, match="'u' is not captured"):
        source.check(at, ["u"])
    with pytest.raises(SourceError) as said:
        made.rows(at, "id", "x")
    assert said.value.code == "NO_COLUMN" and "id, n" in said.value.detail


def delete_snapshots(made: Exports) -> None:
    for path in made.source.folder.iterdir():
        if path.is_dir():
            shutil.rmtree(path)


def truncate_file(made: Exports) -> None:
    for path in made.source.folder.glob("*/0.parquet"):
        path.write_bytes(path.read_bytes()[:-7])


def same_size_other_bytes(made: Exports) -> None:
    for path in made.source.folder.glob("*/0.parquet"):
        path.write_bytes(b"x" * path.stat().st_size)


def lose_state(made: Exports) -> None:
    (made.source.folder / "state.json").unlink()


def spoil_state(made: Exports) -> None:
    (made.source.folder / "state.json").write_text('{"format": 1, "identity": ')


def another_folder(made: Exports) -> None:
    shutil.rmtree(made.source.folder)
    made.source.attach(ME, ["t"])
    made.source.position(ME, [])
    next_rows(made, 9)
    made.source.position(ME, [])


def restore(made: Exports, and_then: int = 0) -> None:
    """Put a copy of the folder from before the newest snapshot in its place; take others."""
    folder = made.source.folder
    document = json.loads((folder / "state.json").read_text())
    document["snapshots"].pop()
    document["last"] -= 1
    shutil.rmtree(folder / str(document["last"] + 1))
    (folder / "state.json").write_text(json.dumps(document))
    next_rows(made, 77)
    for n in range(and_then):
        next_rows(made, 100 + n)
        made.source.position(ME, [])


GAPS: list[tuple[str, Callable[[Exports], None]]] = [
    ("deleted or altered by hand", delete_snapshots),
    ("deleted or altered by hand", truncate_file),
    ("detached, or deleted", lose_state),
    ("is damaged", spoil_state),
    ("another database", another_folder),
    ("restored from an older copy", restore),
    ("restored from an older copy, and others", lambda made: restore(made, 1)),
    ("restored from an older copy, and others", lambda made: restore(made, 2)),
]


@pytest.mark.parametrize("message, happens", GAPS)
def test_capture_gap(tmp_path: Path, message: str, happens: Callable[[Exports], None]) -> None:
    made = world(tmp_path)
    source = made.source
    source.attach(ME, ["t"])
    next_rows(made, 1)
    lost = source.position(ME, ["t"])
    happens(made)
    acts: list[Callable[[], object]] = [
        lambda: source.check(lost, ["t"]),
        lambda: list(source.state("t", HEADER, lost)),
        lambda: list(source.changes("t", HEADER, lost, lost)),
        lambda: source.transactions(["t"], lost, lost),
        lambda: source.without(lost, lost, [1]),
        lambda: source.behind(["t"], lost),
        lambda: source.waiting_since(["t"], lost),
    ]
    for act in acts:
        with pytest.raises(CaptureGap, match=message) as gap:
            act()
        assert gap.value.code == "CAPTURE_GAP" and "refresh --full" in gap.value.hint
    back = source.attach(ME, ["t"])
    source.check(back, ["t"])
    assert bag(source.state("t", HEADER, back)) == bag(now(made))
    next_rows(made, 50)
    on = source.position(ME, ["t"])
    assert made.rows(on, *HEADER) == Bag.of([(0, 50)])
    if back.source == lost.source:
        assert back.sequence >= lost.sequence
    source.acknowledge(ME, on)


def test_a_restored_folder_that_takes_the_same_snapshot_again_is_where_it_was(tmp_path: Path) -> None:
    made = world(tmp_path)
    first = made.source.attach(ME, ["t"])
    next_rows(made, 77)
    second = made.source.position(ME, ["t"])
    restore(made)
    with pytest.raises(CaptureGap, match=r"restored from an older copy \("):
        made.source.check(second, ["t"])
    assert made.source.position(ME, ["t"]) == second
    assert made.change(first, second, *HEADER) == Bag({(0, 0): -1, (0, 77): 1})


def now(made: Exports) -> list[pa.RecordBatch]:
    return [batch for _, batch in made.reader.read({"t": HEADER})]


def test_a_file_of_the_same_size_with_other_bytes_is_a_gap_when_it_is_read(tmp_path: Path) -> None:
    made = world(tmp_path)
    at = made.source.attach(ME, ["t"])
    same_size_other_bytes(made)
    with pytest.raises(CaptureGap, match="deleted or altered by hand"):
        made.rows(at, *HEADER)


def test_a_state_of_another_version_is_told(tmp_path: Path) -> None:
    made = world(tmp_path)
    made.source.attach(ME, ["t"])
    state = made.source.folder / "state.json"
    state.write_text(state.read_text().replace('"format": 1', '"format": 99'))
    for act in (lambda: made.source.position(ME, []), lambda: made.source.attach(ME, ["t"])):
        with pytest.raises(SourceError, match="another version") as said:
            act()
        assert said.value.code == "CAPTURE_FORMAT"


def test_a_position_of_elsewhere(tmp_path: Path) -> None:
    made = world(tmp_path)
    at = made.source.attach(ME, ["t"])
    with pytest.raises(CaptureGap, match="another database"):
        made.source.acknowledge(ME, Position("snapshot-elsewhere", at.sequence, at.mark))


def test_who_waits_too_long_for_the_lock_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_store, "WAIT_SECONDS", 0.1)
    made = world(tmp_path)
    at = made.source.attach(ME, ["t"])
    with (made.source.folder / "lock").open("r+") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(SourceError, match="stayed locked") as said:
            made.source.position(ME, [])
        assert said.value.code == "LOCKED"
        assert made.rows(at, *HEADER) == Bag.of([(0, 0)])  # reading waits for nobody
        made.source.check(at, ["t"])
    made.source.position(ME, [])
