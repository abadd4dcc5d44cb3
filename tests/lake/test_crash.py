"""A process that dies at any point of a publication leaves the former frame or the new one, whole."""

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from stillframe.errors import Busy
from stillframe.lake import Frame, Lake, tables
from stillframe.lake.conformance import frame_of, view_of, write
from stillframe.lake.frames import FrameLog
from stillframe.lake.layout import Attempt, attempt_name, owner_of
from stillframe.lake.owner import Owner

SPAWN = multiprocessing.get_context("spawn")


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def _dying_before_commit(folder: Path) -> None:
    lake = Lake.open(folder)
    write(lake, "changes", "v", range(2))
    lake.attempt("staging").mkdir()
    FrameLog._commit_once = _die  # type: ignore[method-assign]
    lake.publish(frame_of(2, view_of("v", write(lake, "data", "v", range(9)))), lake.newest())


def _dying_after_commit(folder: Path) -> None:
    lake = Lake.open(folder)
    whole = FrameLog._commit_once

    def commit_and_die(self: FrameLog, *args: object, **kwargs: object) -> None:
        whole(self, *args, **kwargs)  # type: ignore[arg-type]
        _die()

    FrameLog._commit_once = commit_and_die  # type: ignore[method-assign]
    lake.publish(frame_of(2, view_of("v", write(lake, "data", "v", range(9)), settled=2)), lake.newest())


def _dying_before_settling(folder: Path) -> None:
    lake = Lake.open(folder)
    view = view_of("v", write(lake, "data", "v", range(9)), settled=2)
    lake.publish(frame_of(2, view), lake.newest())
    tables._step = _die  # type: ignore[assignment]
    lake.settle(view)


def _dying_between_forgetting_and_removing(folder: Path) -> None:
    from stillframe.lake import housekeeping

    lake = Lake.open(folder)
    lake.publish(frame_of(2, view_of("v", write(lake, "data", "v", range(9)), settled=2)), lake.newest())
    housekeeping._remove = _die  # type: ignore[assignment]
    lake.settle(lake.frame(2).views["v"])
    time.sleep(0.01)
    lake.vacuum(timedelta(0))


def _killed(child: Callable[[Path], None], folder: Path) -> None:
    process = SPAWN.Process(target=child, args=(folder,))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    lake = Lake.open(tmp_path / "warehouse", create=True)
    view = view_of("v", write(lake, "data", "v", range(3)))
    lake.publish(frame_of(1, view), None)
    lake.settle(view)
    return lake


def _parquet(lake: Lake) -> set[str]:
    return {p.relative_to(lake.path).as_posix() for p in lake.path.rglob("[0-9p]*.parquet")}


def test_killed_before_the_commit_nothing_happened(lake: Lake) -> None:
    before = _parquet(lake)
    former = lake.newest()
    _killed(_dying_before_commit, lake.path)
    assert lake.newest() == former
    assert len(_parquet(lake)) == len(before) + 3
    removed = lake.sweep()
    assert sorted(Path(path).parts[0] for path in removed) == ["frames", "staging", "views", "views"]
    assert _parquet(lake) == before
    assert lake.sweep() == ()
    lake.publish(frame_of(2), former)


def test_killed_after_the_commit_all_happened(lake: Lake) -> None:
    _killed(_dying_after_commit, lake.path)
    frame = lake.newest()
    assert frame is not None
    assert (frame.number, frame.views["v"].rows) == (2, 9)
    before = _parquet(lake)
    assert lake.sweep() == ()
    assert _parquet(lake) == before
    assert lake.settle(frame.views["v"])


def test_killed_before_settling_the_table_shows_the_former_frame(lake: Lake) -> None:
    _killed(_dying_before_settling, lake.path)
    frame = lake.newest()
    assert frame is not None
    assert lake.settled_frame("v") == 1
    assert lake.settled_files("v") == lake.frame(1).files
    assert lake.sweep() == ()
    assert lake.settle(frame.views["v"])
    assert lake.settled_files("v") == frame.files


def test_killed_while_vacuuming_nothing_needed_is_lost(lake: Lake) -> None:
    _killed(_dying_between_forgetting_and_removing, lake.path)
    assert [f.number for f in lake.history()] == [2]
    frame = lake.frame(2)
    orphan = _parquet(lake) - frame.files - {p for p in _parquet(lake) if p.startswith("frames/")}
    assert len(orphan) == 1
    assert lake.vacuum(timedelta(0)).files == 0, "the file's process lives: it is this one"
    assert frame.files <= _parquet(lake)


def _race(folder: Path, number: int, me: int, barrier: object, answers: object) -> None:
    lake = Lake.open(folder)
    after = lake.newest()
    barrier.wait()  # type: ignore[attr-defined]
    try:
        lake.publish(frame_of(number, view_of(f"of {me}")), after)
        answers.put(me)  # type: ignore[attr-defined]
    except Busy:
        answers.put(None)  # type: ignore[attr-defined]


def _racer(folder: Path, rounds: int, me: int, barrier: object, answers: object) -> None:
    for number in range(2, rounds + 2):
        _race(folder, number, me, barrier, answers)
        barrier.wait()  # type: ignore[attr-defined]


def test_of_eight_processes_one_wins_each_round(lake: Lake) -> None:
    processes, rounds = 8, 5
    barrier, answers = SPAWN.Barrier(processes), SPAWN.Queue()
    racers = [
        SPAWN.Process(target=_racer, args=(lake.path, rounds, i, barrier, answers)) for i in range(processes)
    ]
    for racer in racers:
        racer.start()
    given = [answers.get(timeout=120) for _ in range(processes * rounds)]
    for racer in racers:
        racer.join(60)
    history = lake.history()
    assert [f.number for f in history] == list(range(rounds + 1, 0, -1))
    winners = sorted(me for me in given if me is not None)
    assert winners == sorted(int(next(iter(f.views)).removeprefix("of ")) for f in history[:-1])
    assert not [path for path in lake.sweep() if path.startswith("frames/")], "a loser left its file"


def test_a_publication_whose_answer_was_lost_counts_once(lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = FrameLog._commit_once

    def commit_and_fail(self: FrameLog, *args: object, **kwargs: object) -> None:
        whole(self, *args, **kwargs)  # type: ignore[arg-type]
        raise OSError("the answer was lost")

    monkeypatch.setattr(FrameLog, "_commit_once", commit_and_fail)
    published = lake.publish(frame_of(2), lake.newest())
    assert lake.newest() == published
    assert [f.number for f in lake.history()] == [2, 1]


def test_housekeeping_beside_a_publisher_loses_nothing(lake: Lake) -> None:
    code = (
        "import sys; from pathlib import Path; from stillframe.lake import Lake\n"
        "lake = Lake.open(Path(sys.argv[1]))\n"
        "while not (lake.path / 'stop').exists(): lake.compact(); lake.sweep()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(lake.path)])
    try:
        published: list[Frame] = lake.history()
        for number in range(2, 40):
            published.insert(0, lake.publish(frame_of(number), published[0]))
            assert lake.newest() == published[0]
    finally:
        (lake.path / "stop").touch()
        assert process.wait(60) == 0
    assert lake.history() == published


def test_a_read_that_loses_a_file_to_compaction_starts_again(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(2, 6):
        lake.publish(frame_of(number), lake.newest())
    before, whole, compacted = lake.history(), FrameLog._entries, []

    def compact_first(self: FrameLog, *args: object) -> object:
        if not compacted:
            compacted.append(True)
            Lake.open(lake.path).compact()
        return whole(self, *args)  # type: ignore[arg-type]

    monkeypatch.setattr(FrameLog, "_entries", compact_first)
    assert lake.history() == before
    assert compacted


def _publish_on_demand(folder: Path, pipe: object) -> None:
    lake = Lake.open(folder)
    view = view_of("v", write(lake, "data", "v", range(9)), settled=2)
    pipe.send("written")  # type: ignore[attr-defined]
    pipe.recv()  # type: ignore[attr-defined]
    lake.publish(frame_of(2, view), lake.newest())


def test_what_a_process_publishes_just_before_it_dies_is_not_swept(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = SPAWN.Pipe()
    process = SPAWN.Process(target=_publish_on_demand, args=(lake.path, theirs))
    process.start()
    assert ours.poll(60)
    ours.recv()
    whole = Attempt.abandoned

    def after_its_death(self: Attempt, now: datetime) -> bool:
        if process.is_alive():
            ours.send("publish")
            process.join(60)
        return whole(self, now)

    monkeypatch.setattr(Attempt, "abandoned", after_its_death)
    assert lake.sweep() == ()
    assert process.exitcode == 0
    assert lake.frame(2).files <= _parquet(lake)


def test_owner_is_judged_only_on_evidence() -> None:
    me = Owner.this_process()
    assert Owner.parse(str(me)) == me == owner_of(attempt_name())
    assert me.alive() is True
    assert Owner(me.machine, me.pid, me.start + 1).alive() is False
    assert Owner("elsewhere.0a1b2c3d", me.pid, me.start).alive() is None
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    start = int(Path(f"/proc/{child.pid}/stat").read_text().rpartition(")")[2].split()[19])
    owner = Owner(me.machine, child.pid, start)
    assert owner.alive() is True
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    assert owner.alive() is False, "a corpse counts as alive"
    child.communicate()
    assert owner.alive() is False


def test_an_unknown_owner_gets_a_day(lake: Lake) -> None:
    folder = lake.attempt("data", "v")
    stranger = folder.with_name("20260101T000000000000-elsewhere.0a1b2c3d-1-1-00000000")
    foreign = folder.with_name("notes")
    for path in (stranger, foreign):
        path.mkdir()
        (path / "part.parquet").touch()
    assert Attempt(stranger, owner_of(stranger.name)).owner is not None
    assert lake.sweep() == ()
    yesterday = time.time() - 25 * 3600
    for path in (stranger / "part.parquet", stranger, foreign):
        os.utime(path, (yesterday, yesterday))
    assert lake.sweep() == (lake.path.joinpath(stranger).relative_to(lake.path).as_posix(),)
    assert foreign.exists(), "something in it was touched today"
