"""What is held in memory of files: of those of the newest frame, also after they were settled."""

from __future__ import annotations

from pathlib import Path

from shops import Shop
from stillframe.lake.frame import Frame
from stillframe.lake.warm import WARM
from stillframe.runtime.outcome import Step

TABLES = (
    "CREATE TABLE {0} (id INTEGER PRIMARY KEY, v INTEGER NOT NULL); INSERT INTO {0} VALUES (1, 1), (2, 2)"
)


def files(root: Path, frame: Frame) -> set[Path]:
    held = (file for view in frame.views.values() for some in (view.base, view.changes) for file in some)
    return {root / file.path for file in held}


def warm(root: Path) -> set[Path]:
    return {place[0] for place in WARM._places if place[0].is_relative_to(root)}


def test_files_that_were_settled_give_way_before_others_are_read(shop: Shop) -> None:
    shop.source("a", TABLES.format("one"))
    shop.source("b", TABLES.format("other"))
    shop.views(
        "CREATE MATERIALIZED VIEW both AS SELECT one.id, other.v FROM a.one JOIN b.other ON one.v = other.id;"
    )
    shop.configure(extra="copies: all\n")
    wh = shop.open()
    root = shop.root / "warehouse"
    wh.refresh()
    for number in range(3, 6):
        shop.write("a", f"INSERT INTO one VALUES ({number}, 1)")
        wh.refresh()
    before = warm(root)
    assert before or shop.engine_name == "spark", "this test shows nothing"
    wh.settle_due(everything=True)
    shop.write("a", "INSERT INTO one VALUES (9, 2)")
    seen: list[set[Path]] = []

    def look(step: Step, _subject: str) -> None:
        if step is Step.FIXED:
            seen.append(warm(root) - files(root, wh.frame()))

    wh.observe = look
    wh.refresh()
    assert seen and not any(seen)
