"""How much the driver takes upon itself: by the memory there is, and by where the engine runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from stillframe.engine import Room, is_beside, room_within
from stillframe.lake.warm import WARM
from stillframe.runtime import Warehouse, load_project


@pytest.mark.parametrize("memory", [0, 2**20, 512 * 2**20, 2**30])
def test_a_driver_of_little_memory_takes_the_least(memory: int) -> None:
    assert room_within(memory) == Room(beside=True)


def test_more_memory_is_more_room_in_every_way() -> None:
    one, other = room_within(2**30), room_within(6 * 2**30)
    assert other.rows == 6 * one.rows and other.bytes == 6 * one.bytes
    for name in ("whole", "read", "made", "bytes_made"):
        assert getattr(other, name) == 6 * getattr(one, name)
    assert other.bytes_made <= 6 * 2**30 // 4


def test_only_a_driver_of_more_than_the_least_writes_files_anew() -> None:
    assert not room_within(2**30).rewrites
    assert room_within(2**31).rewrites
    assert not Room(8 * Room.rows).rewrites, "there is a cluster"


def test_a_column_that_a_join_makes_can_be_addressed() -> None:
    assert room_within(2**50).bytes_made <= 2**31


@pytest.mark.parametrize(
    ("settings", "beside"),
    [
        ({}, True),
        ({"master": "local[*]"}, True),
        ({"engine": "sail"}, True),
        ({"master": "spark://host:7077"}, False),
        ({"master": "yarn"}, False),
        ({"remote": "sc://host"}, False),
        ({"conf": {"spark.master": "spark://host:7077"}}, False),
    ],
)
def test_only_an_engine_on_the_same_machine_is_beside(settings: dict[str, str], beside: bool) -> None:
    assert is_beside(settings) is beside


@pytest.mark.parametrize(
    ("spark", "memory", "rows"),
    [
        ("{engine: sail}", "8GiB", 8 * Room().rows),
        ("{engine: sail}", "0", Room().rows),
        ("{master: 'spark://host:7077'}", "8GiB", Room().rows),
    ],
)
def test_a_project_says_how_much(
    tmp_path: Path, spark: str, memory: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WARM, "room", WARM.room)  # is set back after it
    (tmp_path / "stillframe.yml").write_text(
        f"name: shop\nwarehouse: ./warehouse\nmemory: {memory}\nspark: {spark}\nsources: {{}}\n",
        encoding="utf-8",
    )
    assert Warehouse(project=load_project(tmp_path)).room.rows == rows
