"""Opening, naming, keeping fast, and housekeeping beside readers."""

import json
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.dataset as ds
import pytest
from hypothesis import given
from hypothesis import strategies as st

from stillframe.errors import Busy, LakeError
from stillframe.lake import Lake
from stillframe.lake.conformance import frame_of, view_of, write
from stillframe.lake.layout import decode_name, encode_name


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake.open(tmp_path / "warehouse", create=True)


def _code(folder: Path, create: bool = False) -> str:
    with pytest.raises(LakeError) as refused:
        Lake.open(folder, create)
    return refused.value.code


def test_a_folder_that_is_no_warehouse(tmp_path: Path) -> None:
    assert _code(tmp_path) == "NO_WAREHOUSE"
    assert _code(tmp_path / "100%", create=True) == "BAD_PATH"
    assert list(tmp_path.iterdir()) == []


def test_the_format_is_checked(lake: Lake) -> None:
    marker = lake.path / "stillframe.json"
    assert json.loads(marker.read_text()) == {"format": 1}
    for text, code in (
        ('{"format": 2}', "UNKNOWN_FORMAT"),
        ("{}", "BAD_FORMAT"),
        ("half a li", "BAD_FORMAT"),
    ):
        marker.write_text(text)
        assert _code(lake.path, create=True) == code
        assert marker.read_text() == text


def test_creation_that_was_cut_short_is_finished(lake: Lake) -> None:
    (lake.path / "stillframe.json").unlink()
    assert Lake.open(lake.path, create=True).publish(frame_of(1), None).number == 1


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=40))
def test_names_are_reversible_and_harmless(name: str) -> None:
    folder = encode_name(name) if len(name.encode()) <= 85 else ""
    if folder:
        assert decode_name(folder) == name
        assert folder.isascii()
        assert not set(folder) & set("/\\ %=*?[]{}:#\0") and folder[0] not in "._"


def test_names_too_long_or_empty_are_refused() -> None:
    for name in ("", "x" * 256, "日" * 86):
        with pytest.raises(LakeError):
            encode_name(name)


def test_the_newest_frame_takes_one_file(lake: Lake) -> None:
    newest = None
    for number in range(1, 61):
        newest = lake.publish(frame_of(number), newest)
    files = sorted((lake.path / "frames").glob("*.parquet"))
    assert len(files) == 60
    assert list((lake.path / "frames" / "_delta_log").glob("*.checkpoint.parquet"))
    for file in files[:-1]:
        file.unlink()
    assert lake.newest() == newest
    with pytest.raises(LakeError, match="missing"):
        lake.history()


def test_compaction_leaves_few_files(lake: Lake) -> None:
    newest = None
    for number in range(1, 30):
        newest = lake.publish(frame_of(number), newest)
    lake.compact()
    assert len(list((lake.path / "frames").glob("*.parquet"))) == 2
    assert lake.vacuum(timedelta(0), datetime.now(UTC) + timedelta(seconds=1)).frames == 28
    assert len(list((lake.path / "frames").glob("*.parquet"))) == 1
    assert lake.history() == [newest]


def test_forgetting_a_part_of_a_compacted_file_keeps_the_rest(lake: Lake) -> None:
    now, newest, frames = datetime.now(UTC), None, []
    for number in range(1, 9):
        moment = (now - timedelta(hours=10 - number)).isoformat()
        newest = lake.publish(frame_of(number, published_at=moment), newest)
        frames.append(newest)
    lake.compact()
    assert lake.vacuum(timedelta(hours=5), now).frames == 4
    assert lake.history() == frames[:3:-1]
    assert lake.frame(5) == frames[4]
    with pytest.raises(LakeError) as unknown:
        lake.frame(4)
    assert "5 to 8" in unknown.value.detail


def test_vacuum_under_a_running_reader(lake: Lake) -> None:
    """A reader takes the newest frame; a second later it is superseded, and vacuumed beside."""
    now = datetime.now(UTC)
    long_ago, lately = (now - timedelta(days=5)).isoformat(), (now - timedelta(seconds=1)).isoformat()
    base = write(lake, "data", "v", range(1000))
    first = lake.publish(frame_of(1, view_of("v", base), published_at=long_ago), None)
    read = ds.dataset([str(lake.path / f.path) for f in first.views["v"].base]).to_batches(batch_size=10)
    rows = next(read).num_rows
    settled = write(lake, "data", "v", range(5))
    lake.publish(frame_of(1, view_of("v", settled), revision=1, published_at=lately), first)
    assert lake.vacuum(timedelta(hours=24), now + timedelta(hours=23)).files == 0
    assert ds.dataset([str(lake.path / f) for f in first.files]).count_rows() == 1000
    assert rows + sum(batch.num_rows for batch in read) == 1000
    assert lake.vacuum(timedelta(hours=24), now + timedelta(hours=25)).files == 1
    assert not (lake.path / base[0].path).exists()


def test_a_removed_file_outlives_readers_of_the_table(lake: Lake) -> None:
    """Another engine may have opened the table just before it was settled, long after the frame was made."""
    import os

    old = view_of("v", write(lake, "data", "v", range(3)))
    long_ago = datetime.now(UTC) - timedelta(days=9)
    first = lake.publish(frame_of(1, old, published_at=long_ago.isoformat()), None)
    lake.settle(old)
    file = lake.path / old.base[0].path
    os.utime(file, (long_ago.timestamp(), long_ago.timestamp()))
    new = view_of("v", write(lake, "data", "v", range(4)), settled=2)
    lake.publish(frame_of(2, new, published_at=(long_ago + timedelta(days=1)).isoformat()), first)
    assert lake.settle(new)
    assert lake.vacuum(timedelta(days=1)).frames == 1
    assert file.exists()
    assert lake.vacuum(timedelta(days=1), datetime.now(UTC) + timedelta(days=2)).files == 1
    assert not file.exists()


def test_dropped_tables_leave_no_trace(lake: Lake) -> None:
    view = view_of("gone for good", write(lake, "data", "gone for good", range(3)))
    first = lake.publish(frame_of(1, view), None)
    lake.settle(view)
    lake.publish(frame_of(2), first)
    assert lake.table_path(view.table).exists()
    assert lake.vacuum(timedelta(0), datetime.now(UTC) + timedelta(seconds=1)).tables == 1
    assert not lake.table_path(view.table).exists()


def test_the_holder_is_named(lake: Lake) -> None:
    code = (
        "import sys; from stillframe.lake import Lake\n"
        "with Lake.open(sys.argv[1]).exclusive(): print('held', flush=True); input()"
    )
    command = [sys.executable, "-c", code, str(lake.path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(Busy) as busy, lake.exclusive(wait_seconds=0.1):
            pass
        assert f"process {holder.pid} " in busy.value.detail
        holder.kill()
        with lake.exclusive(wait_seconds=30):
            pass


def test_frames_must_follow(lake: Lake) -> None:
    first = lake.publish(frame_of(1), None)
    for number, revision in ((1, 0), (0, 9)):
        with pytest.raises(LakeError) as refused:
            lake.publish(frame_of(number, revision=revision), first)
        assert refused.value.code == "BAD_SUCCESSOR"
