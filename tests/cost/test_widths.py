"""How long rows are taken to be: texts as long as they were seen to be, all else alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from shops import Shop
from stillframe.algebra import (
    Aggregate,
    Column,
    Distinct,
    Filter,
    Join,
    Literal,
    Measure,
    Negate,
    Output,
    Plan,
    Project,
    Ref,
    Scan,
    Schema,
    Semi,
    UnionAll,
    Values,
    Window,
    call,
)
from stillframe.algebra.types import BIGINT, BOOLEAN, STRING
from stillframe.engine import text_bytes
from stillframe.lake.frame import DataFile, ViewState
from stillframe.runtime.estimating import Estimate, Estimator, Sized
from stillframe.runtime.learning import Learning
from stillframe.runtime.prices import BUILT_IN
from stillframe.runtime.statistics import Statistics, read_statistics
from stillframe.runtime.widths import COLUMN_BYTES, bytes_read, column_bytes, row_bytes, texts_read

ID, NOTE, MARK = Column("id", BIGINT, False), Column("note", STRING, True), Column("mark", STRING, True)
NOTES = Scan("a.notes", Schema((ID, NOTE, MARK), frozenset({frozenset({0})})))
KEYS = Scan("a.keys", Schema((ID,)))
KNOWN = {"a.notes": {"note": 400.0, "mark": 3.0}, "a.keys": {}}
C = COLUMN_BYTES
NOTE_REF, MARK_REF = Ref(1, STRING), Ref(2, STRING)
UPPER = call("upper", NOTE_REF)
MARKS = Project(NOTES, (Output("mark", MARK_REF),))
LONG = Project(NOTES, (Output("note", NOTE_REF),))


@pytest.mark.parametrize(
    ("plan", "widths"),
    [
        (NOTES, (C, 400, 3)),
        (Filter(NOTES, Literal(True, BOOLEAN)), (C, 400, 3)),
        (Negate(Distinct(NOTES)), (C, 400, 3)),
        (UnionAll((NOTES, NOTES)), (C, 400, 3)),
        (UnionAll((MARKS, LONG)), (400,)),
        (UnionAll((LONG,)), (400,)),
        (Semi(NOTES, KEYS, ()), (C, 400, 3)),
        (Join((KEYS, NOTES)), (C, C, 400, 3)),
        (Window(NOTES, (), ()), (C, 400, 3)),
        (Project(NOTES, (Output("m", MARK_REF), Output("n", NOTE_REF), Output("u", UPPER))), (3, 400, C)),
        (Aggregate(NOTES, (Output("m", MARK_REF),), (Measure("n", "count"),)), (3, C)),
        (Values(Schema((ID, NOTE)), ()), (C, C)),
    ],
)
def test_a_text_is_as_long_wherever_it_is_passed_on(plan: Plan, widths: tuple[float, ...]) -> None:
    assert column_bytes(plan, KNOWN.__getitem__) == widths
    assert row_bytes(plan, KNOWN.__getitem__) == sum(widths)


def test_only_what_is_read_counts() -> None:
    assert bytes_read(MARKS, KNOWN.__getitem__) == {"a.notes": 3}
    assert texts_read([MARKS]) == {"a.notes": {"mark": 2}}
    assert texts_read([MARKS, NOTES, KEYS]) == {"a.notes": {"note": 1, "mark": 2}, "a.keys": {}}


def test_long_texts_cost_more_to_read_and_to_write() -> None:
    def estimated(length: float) -> tuple[float, float, float]:
        sizes = Sized(1_000_000, 1_000, text_bytes={"note": length, "mark": length})
        found = Estimator(BUILT_IN["spark"], settle_rows=0.1).estimate(NOTES, lambda _: sizes, 1_000_000)
        return found.incremental, found.full, found.settling

    short, long = estimated(COLUMN_BYTES), estimated(400)
    assert all(more > less for more, less in zip(long, short, strict=True))


def test_texts_that_only_other_views_read_cost_nothing() -> None:
    """Joined with notes, of which not the note is shown: however long it is, which another view may know."""
    shown = Project(
        Join((KEYS, NOTES), (call("=", Ref(0, BIGINT), Ref(1, BIGINT)),)), (Output("m", Ref(3, STRING)),)
    )

    def estimated(**texts: float) -> Estimate:
        sizes = {"a.notes": Sized(1e6, 1e3, text_bytes=texts), "a.keys": Sized(1e6, 0)}
        return Estimator(BUILT_IN["spark"], settle_rows=0.1).estimate(shown, sizes.__getitem__, 1e6)

    assert estimated(note=5000.0) == estimated()
    assert estimated(mark=5000.0) != estimated()


def test_lengths_are_of_rows_of_some_files_on_average(tmp_path: Path) -> None:
    files = []
    for number in range(20):
        files.append(tmp_path / f"{number}.parquet")
        table = pa.table({"id": [1, 2, 3, 4], "note": ["x" * 10, "é" * 5, None, ""]})
        pq.write_table(table if number else table.slice(0, 0), files[-1])
    assert text_bytes(files, ["note"]) == [5.0]
    assert text_bytes(files[:1], ["note"]) is None
    assert text_bytes([], ["note"]) is None
    assert text_bytes([], []) == []


def test_lengths_are_of_row_groups_that_lie_apart(tmp_path: Path) -> None:
    """A column that was added later is NULL in the oldest rows."""
    table = pa.table({"note": pa.array([None] * 5000 + ["x" * 100] * 15_000)})
    pq.write_table(table, tmp_path / "one.parquet", row_group_size=1000)
    assert text_bytes([tmp_path / "one.parquet"], ["note"]) == [pytest.approx(75.0)]


@pytest.mark.parametrize("encoding", ["PLAIN", "DELTA_BYTE_ARRAY"])
def test_of_long_texts_few_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, encoding: str
) -> None:
    """However little room they take in the file: these have their beginning in common."""
    notes = ["a" * 10_000 + str(number).zfill(4) for number in range(500)]
    path = tmp_path / "one.parquet"
    kept = {"use_dictionary": False, "column_encoding": {"note": encoding, "mark": "PLAIN"}}
    pq.write_table(pa.table({"note": notes, "mark": ["xyz"] * 500}), path, **kept)
    read = dict[str, int]()
    batches = pq.ParquetFile.iter_batches

    def seen(file: pq.ParquetFile, *asked: Any, columns: list[str], **more: Any) -> Any:
        for batch in batches(file, *asked, columns=columns, **more):
            read.update(dict.fromkeys(columns, batch.num_rows))
            yield batch

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", seen)
    assert text_bytes([path], ["note", "mark"]) == [10_004.0, 3.0]
    assert read == {"note": 10, "mark": 250}


@pytest.mark.parametrize("copies", ["none", "all"])
def test_a_session_learns_how_long_texts_are(shop: Shop, copies: str) -> None:
    shop.source(
        "a",
        "CREATE TABLE notes (id INTEGER PRIMARY KEY, note TEXT, unread TEXT);"
        "INSERT INTO notes VALUES (1, 'four', 'x'), (2, 'eight ei', 'x');",
    )
    shop.views("CREATE MATERIALIZED VIEW shown AS SELECT id, note FROM a.notes;")
    shop.configure(extra=f"copies: {copies}\n")
    read = "copy~a.notes" if copies == "all" else "a.notes"
    with shop.open() as warehouse:
        warehouse.refresh()
        known = read_statistics(warehouse.project.warehouse, shop.engine_name)
        assert known.of(read).text_bytes == {"note": 6.0}
        assert warehouse.plan("shown")["statistics"][read]["text_bytes"] == {"note": 6.0}


def test_what_other_views_asked_of_it_stays_known_until_it_is_stale(tmp_path: Path) -> None:
    """Two views that are refreshed apart: one joins by a column, the other shows a text."""
    pq.write_table(pa.table({"kind": [1, 1], "note": ["four", "eight ei"]}), tmp_path / "one.parquet")
    notes = Schema((Column("kind", BIGINT), Column("note", STRING)))
    state = ViewState("v", notes, "", "", "", "", (DataFile("one.parquet", 2, 9),), (), 1, 1, 2, None)

    def learned(known: Statistics, joined: dict[str, int], texts: dict[str, int]) -> Statistics:
        return Learning._with_content(known, "v", joined, texts, state, None, tmp_path)

    joins, shows = ({"kind": 0}, {}), ({}, {"note": 1})
    for first, second in ((joins, shows), (shows, joins)):
        known = learned(Statistics().with_relation("v", rows=2.0), *first)
        known = learned(known.with_relation("v", changed_since=1.0), *second)
        both = known.of("v")
        assert (both.distinct, both.text_bytes) == ({"kind": 1.0}, {"note": 6.0})
        assert (both.counted_at, both.changed_since) == (2.0, 1.0), "not all was seen again"
    assert learned(known, {"kind": 0}, {}) == learned(known, {}, {"note": 1}) == known
    stale = known.with_relation("v", changed_since=2.0)
    assert learned(stale, {}, {}) == stale
    anew = learned(stale, {}, {"note": 1}).of("v")
    assert (anew.distinct, anew.text_bytes, anew.changed_since) == ({}, {"note": 6.0}, 0.0)


def test_a_column_that_was_no_text_yet_spoils_nothing(tmp_path: Path) -> None:
    """A view stands as it was, stopped, while those that read it read its column as its new text has it."""
    pq.write_table(pa.table({"note": [1, 2]}), tmp_path / "one.parquet")
    was = ViewState(
        "v",
        Schema((Column("note", BIGINT),)),
        "",
        "",
        "",
        "",
        (DataFile("one.parquet", 2, 9),),
        (),
        1,
        1,
        2,
        None,
    )
    known = Statistics().with_relation("v", rows=2.0)
    assert Learning._with_content(known, "v", {}, {"note": 0}, was, None, tmp_path) == known
