"""Columns held in memory: what the file says, no more than there is room for, read once if they fit."""

from __future__ import annotations

from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillframe import memory
from stillframe.algebra.arrow import numbers
from stillframe.lake import warm
from stillframe.lake.warm import Warm, room

GROUPS, ROWS, NAMES = 6, 50, ("a", "b", "c")


@pytest.fixture
def table(tmp_path: Path) -> pa.Table:
    random = Random(1)
    made = pa.table(
        {
            "a": range(GROUPS * ROWS),
            "b": ["x" * random.randrange(30) for _ in range(GROUPS * ROWS)],
            "c": [None if random.random() < 0.5 else i for i in range(GROUPS * ROWS)],
        }
    )
    pq.write_table(made, tmp_path / "file", row_group_size=ROWS)
    return made


def test_what_is_held_is_what_the_file_says_and_fits(table: pa.Table, tmp_path: Path) -> None:
    for bytes_ in (0, 500, 1_000, 5_000, 1 << 20):
        random, held = Random(bytes_), Warm(bytes_)
        for _ in range(60):
            with held.file(tmp_path / "file") as file:
                for _ in range(3):
                    group, names = random.randrange(GROUPS), random.sample(NAMES, random.randrange(1, 4))
                    found = file.columns(group, names)
                    expected = table.slice(group * ROWS, ROWS)
                    assert [c.to_pylist() for c in found] == [expected.column(n).to_pylist() for n in names]
                    assert held.held <= bytes_
                    assert held.held == sum(column.nbytes for column in held._things.values())


def test_what_fits_is_read_once(table: pa.Table, tmp_path: Path) -> None:
    held = Warm(1 << 20)
    with held.file(tmp_path / "file") as file:
        file.columns(2, ["a", "b"])
    (tmp_path / "file").unlink()
    with held.file(tmp_path / "file") as file:
        assert (
            file.columns(2, ["b", "a"])[1].to_pylist() == table.column("a").to_pylist()[2 * ROWS : 3 * ROWS]
        )
        with pytest.raises(FileNotFoundError):
            file.columns(2, ["a", "c"])


@pytest.mark.usefixtures("table")
def test_of_more_than_fits_a_part_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read = list[int]()
    original = pq.ParquetFile.read_row_group

    def counted(file: pq.ParquetFile, group: int, names: list[str]) -> pa.Table:
        read.append(group)
        return original(file, group, names)

    monkeypatch.setattr(pq.ParquetFile, "read_row_group", counted)
    held = Warm(GROUPS // 2 * ROWS * 8)
    for _ in range(20):
        with held.file(tmp_path / "file") as file:
            for group in range(GROUPS):
                file.columns(group, ["a"])
    assert GROUPS < len(read) < 18 * GROUPS


def test_the_room_is_a_share_of_the_memory_that_may_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memory, "CGROUPS", tmp_path)
    monkeypatch.setattr(memory, "GROUPS", tmp_path / "groups")
    free = room()
    assert free > 0

    def said(folder: str, file: str, limit: object) -> int:
        (tmp_path / folder).mkdir(parents=True, exist_ok=True)
        (tmp_path / folder / file).write_text(f"{limit}\n", encoding="ascii")
        return room()

    assert said("", "memory.max", "max") == free
    assert said("", "memory.max", 1 << 28) == (1 << 28) // warm.SHARE
    assert said("memory", "memory.limit_in_bytes", 1 << 27) == (1 << 27) // warm.SHARE
    assert said("memory", "memory.limit_in_bytes", 2**63 - 4096) == (1 << 28) // warm.SHARE
    (tmp_path / "groups").write_text("0::/a/b\n7:cpu,memory:/c\n3:pids:/d\n", encoding="ascii")
    assert said("a/b", "memory.max", "max") == (1 << 28) // warm.SHARE
    assert said("a", "memory.max", 1 << 26) == (1 << 26) // warm.SHARE
    assert said("memory/c", "memory.limit_in_bytes", 1 << 25) == (1 << 25) // warm.SHARE
    assert said("d", "memory.max", 1) == (1 << 25) // warm.SHARE


def test_rows_by_the_order_of_their_values(tmp_path: Path) -> None:
    for seed in range(60):
        random = Random(seed)
        type_ = random.choice([pa.int64(), pa.int32(), pa.date32()])
        values = [random.choice([None, *range(-5, 20)]) for _ in range(random.choice([0, 1, 7, 60]))]
        if random.random() < 0.3:
            values.sort(key=lambda v: (v is None, v))
        column = pa.array(values, pa.int32()).cast(type_)
        pq.write_table(pa.table({"a": column}), tmp_path / str(seed))
        wanted = sorted(random.sample(range(-7, 23), random.randrange(8)))
        held = Warm(random.choice([0, 1 << 20]))
        for _ in range(2):
            with held.file(tmp_path / str(seed)) as file:
                if values:
                    found = file.ordered(0, "a").having(numbers(pa.array(wanted, pa.int64())))
                    assert found.tolist() == sorted(found.tolist())
                    assert found.tolist() == [i for i, v in enumerate(values) if v in wanted], f"seed {seed}"


@pytest.mark.usefixtures("table")
def test_what_is_no_longer_read_gives_way(tmp_path: Path) -> None:
    held = Warm(1 << 20)
    here, there = tmp_path / "here", tmp_path / "there"
    for folder in (here, there):
        folder.mkdir()
        for name in ("old", "new"):
            (folder / name).write_bytes((tmp_path / "file").read_bytes())
            with held.file(folder / name) as file:
                file.columns(0, ["a"])
                file.ordered(1, "a")
    held.keep(here, {here / "new"})
    left = {place[0] for place in held._things}
    assert left == {here / "new", there / "old", there / "new"}
    assert set(held._places) == held._things.keys()
    assert held.held == sum(column.nbytes for column in held._things.values())


@pytest.mark.usefixtures("table")
def test_a_limit_holds_at_once(tmp_path: Path) -> None:
    held = Warm(1 << 20)
    with held.file(tmp_path / "file") as file:
        for group in range(GROUPS):
            file.columns(group, NAMES)
        before = held.held
        held.limit(before // 2)
        assert 0 < held.held <= before // 2
        held.limit(0)
        assert held.held == 0 and not held._things and not held._places
        assert len(file.columns(0, NAMES)) == 3
