"""Settling and merging move rows into other files, and change no frame: after each of many small frames
every view is what its source has, whatever was rewritten, and whoever failed in between."""

from __future__ import annotations

import os
import resource
import sqlite3
from collections import Counter
from dataclasses import replace
from random import Random

import pytest
from deltalake import DeltaTable
from tests.room import driver_takes

from shops import Shop
from stillframe.engine import Room
from stillframe.errors import LakeError
from stillframe.runtime import Step, Warehouse, settle
from stillframe.runtime.config import SettleBound

pytestmark = pytest.mark.engine

SEED = int(os.environ.get("STILLFRAME_SEED", "11"))
FRAMES = 10
DDL = """
CREATE TABLE sale (id INTEGER PRIMARY KEY, town TEXT, amount INT NOT NULL, share REAL);
"""
QUERIES = {
    "keyed": "SELECT id, town, amount FROM {sale}",
    "bag": "SELECT town, amount FROM {sale} WHERE amount > 1",
    "floats": "SELECT id, share FROM {sale}",
}


class Failed(Exception):
    """What an observer raises in the place of a kill."""


@pytest.fixture
def rewritings(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Warehouse:
    shop.source("shop", DDL)
    shop.views(
        "".join(
            f"CREATE MATERIALIZED VIEW {name} AS {query.format(sale='shop.sale')};\n"
            for name, query in QUERIES.items()
        )
    )
    monkeypatch.setattr(settle, "FEW_ROWS", 4)
    monkeypatch.setattr(settle, "CHEAP_SHARE", 9.0)
    driver_takes(30, monkeypatch.setattr, beside=True)
    monkeypatch.setattr(Room, "rewrites", property(lambda room: room.beside))  # so little room as it is
    warehouse = shop.open()
    warehouse.project = replace(warehouse.project, settle=SettleBound(rows=0.4, files=3, seconds=9999))
    return warehouse


def expected(shop: Shop, name: str) -> Counter[tuple[object, ...]]:
    with sqlite3.connect(shop.root / "shop.db") as connection:
        return Counter(connection.execute(QUERIES[name].format(sale="sale")).fetchall())


def change(shop: Shop, random: Random, frame: int) -> None:
    """Rows come, twice many of them; then a few change, old acquaintances most: they go, come back, go."""
    with sqlite3.connect(shop.root / "shop.db") as connection:
        for i in range({0: 60, 1: 50}.get(frame, random.randint(1, 5))):
            known = 100 * frame + i if frame < 2 else random.randint(1, 12) + random.choice([0, 100])
            row = (known, random.choice(["Oslo", None]), random.randint(1, 3), random.choice([0.5, -0.0]))
            if frame > 1 and random.random() < 0.4:
                connection.execute("DELETE FROM sale WHERE id = ?", row[:1])
            else:
                connection.execute("INSERT OR REPLACE INTO sale VALUES (?, ?, ?, ?)", row)


@pytest.mark.slow_on_spark
def test_no_frame_changes_by_it(rewritings: Warehouse, shop: Shop) -> None:
    random, seen, kept = Random(SEED), Counter[Step](), 0
    print(f"STILLFRAME_SEED={SEED}")
    failing = False

    def observe(step: Step, subject: str) -> None:
        seen[step] += 1
        if failing and step is Step.REWRITTEN:
            raise Failed

    rewritings.observe = observe
    for frame in range(FRAMES):
        change(shop, random, frame)
        before = rewritings.bring_forward().frame
        failing = random.random() < 0.2
        try:
            rewritings.settle_due()
        except Failed:
            assert rewritings.frame() == before
        failing = False
        rewritings.settle_due(everything=frame % 4 == 3)
        now = rewritings.frame()
        for name in QUERIES:
            rows = Counter(tuple(row) for row in rewritings.view(name).collect())
            assert rows == expected(shop, name), (frame, name)
            old, new = (each.views[name] for each in (before, now))
            if old.base != new.base:
                kept += len(set(old.base) & set(new.base))
                table = DeltaTable(str(rewritings.lake.table_path(name))).to_pyarrow_table()
                assert table.num_rows == new.rows
            assert len({file.frame for file in new.changes}) < 3
    assert seen[Step.MERGED] and seen[Step.SETTLED] > len(QUERIES)
    assert kept, "settling left no file as it was"
    assert all(found.ok for found in rewritings.verify_all().values())


def test_a_merging_overtaken_by_a_session_keeps_what_it_brought(rewritings: Warehouse, shop: Shop) -> None:
    random = Random(SEED)
    for frame in range(3):
        change(shop, random, frame)
        rewritings.bring_forward()
    others = shop.open()

    def overtake(step: Step, subject: str) -> None:
        if step is Step.REWRITTEN and subject == "keyed":
            shop.write(
                "shop", "DELETE FROM sale WHERE id < 30", "INSERT INTO sale VALUES (99, 'Bergen', 3, 1.5)"
            )
            others.bring_forward()

    change(shop, random, 3)
    rewritings.bring_forward()
    rewritings.observe = overtake
    rewritings.project = replace(rewritings.project, settle=SettleBound(rows=9.0, files=3, seconds=9999))
    rewritings.settle_due()
    state = rewritings.frame().views["keyed"]
    assert sorted({(file.since, file.frame) for file in state.changes}) == [(2, 2), (3, 4), (5, 5)]
    for name in QUERIES:
        assert Counter(tuple(row) for row in rewritings.view(name).collect()) == expected(shop, name)


def test_a_session_that_a_merging_overtakes_publishes_on_the_merged_files(
    rewritings: Warehouse, shop: Shop
) -> None:
    random = Random(SEED)
    rewritings.project = replace(rewritings.project, settle=SettleBound(rows=9.0, files=3, seconds=9999))
    for frame in range(4):
        change(shop, random, frame)
        rewritings.bring_forward()
    others = shop.open()
    others.project = rewritings.project

    def overtake(step: Step, subject: str) -> None:
        if step is Step.COMPUTED:
            others.settle_due()

    rewritings.observe = overtake
    change(shop, random, 4)
    rewritings.bring_forward()
    state = rewritings.frame().views["keyed"]
    assert sorted({(file.since, file.frame) for file in state.changes}) == [(2, 2), (3, 4), (5, 5)]
    for name in QUERIES:
        assert Counter(tuple(row) for row in rewritings.view(name).collect()) == expected(shop, name)


def test_a_disk_that_is_full_leaves_a_view_as_it_was(rewritings: Warehouse, shop: Shop) -> None:
    """Full for files of a hundred bytes, so that the driver's own writing fails."""
    random = Random(SEED)
    for frame in range(4):
        change(shop, random, frame)
        rewritings.bring_forward()
    before, room = rewritings.frame(), Room(2 * Room.rows, beside=True)
    there = set((shop.root / "warehouse").rglob("*.parquet"))
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, hard))
    try:
        with pytest.raises(LakeError, match="keyed could not be folded in"):
            settle.settle(rewritings.lake, lambda: rewritings.engine, before, "keyed", room=room)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert rewritings.frame() == before
    assert set((shop.root / "warehouse").rglob("*.parquet")) == there
    settled = settle.settle(rewritings.lake, lambda: rewritings.engine, before, "keyed", room=room)
    assert settled is not None and not settled.views["keyed"].changes
    assert Counter(tuple(row) for row in rewritings.view("keyed").collect()) == expected(shop, "keyed")
