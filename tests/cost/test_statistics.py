"""What sessions learn, how it is aged, and what a lost or broken file of it costs: nothing but time."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from math import inf
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillframe.runtime import distinct
from stillframe.runtime.distinct import distinct_values, sampled
from stillframe.runtime.prices import BUILT_IN, Measured, store, stored_at
from stillframe.runtime.statistics import (
    FILE,
    GROWTH,
    Experience,
    Relation,
    Statistics,
    aged,
    priced,
    read_statistics,
    write_statistics,
)


def test_after_five_sessions_less_than_a_quarter_is_left_of_what_was() -> None:
    known = 1000.0
    for _ in range(5):
        known = aged(known, 0.0)
    assert known < 250
    assert aged(None, 7.0) == 7.0


def test_what_was_learned_is_near_the_truth_soon() -> None:
    learned = Experience()
    for _ in range(12):
        learned = learned.with_measure(1000, estimated=1.0, measured=4.0)
    assert learned.factor(1000) == pytest.approx(4.0, rel=0.1)
    for _ in range(12):
        learned = learned.with_measure(1000, estimated=1.0, measured=0.5)
    assert learned.factor(1000) == pytest.approx(0.5, rel=0.1)


def test_changes_of_another_size_are_judged_half_as_much_for_each_decade() -> None:
    learned = Experience({3: 2.0})
    assert learned.factor(1000) > learned.factor(10_000) > learned.factor(100_000) > 1
    assert learned.factor(10_000) == pytest.approx(learned.factor(1000) ** 0.5)
    assert learned.factor(100) == learned.factor(10_000)


def test_one_odd_measure_does_not_take_over() -> None:
    learned = Experience()
    for _ in range(10):
        learned = learned.with_measure(10, 1.0, 1.0)
    assert learned.with_measure(10, 1.0, 1e9).factor(10) < 3
    assert Experience().with_measure(10, 1.0, 1e9).factor(10) < 30**0.5 + 0.1
    assert Experience().with_measure(10, 0.0, 1.0).factor(10) == 1
    assert Experience().with_measure(10, 1.0, 0.0).factor(10) == 1


def test_what_a_trial_shows_replaces_what_was_believed() -> None:
    learned = Experience({3: 2.0})
    assert learned.with_measure(1000, 1.0, 1.5, trial=True).factor(1000) == pytest.approx(1.5)
    assert learned.with_measure(10_000, 1.0, 1.5, trial=True).factor(10_000) == pytest.approx(1.5)


def test_what_was_set_aside_is_kept(tmp_path: Path) -> None:
    known = Statistics().with_set_aside({"v": 0.5}).with_set_aside({"w": 1.0, "v": 0.75})
    write_statistics(tmp_path, "sail", known)
    assert read_statistics(tmp_path, "sail") == known
    assert known.only(["v"]).set_aside == {"v": 0.75}


def test_engines_learn_for_themselves_and_share_what_they_know_of_relations(tmp_path: Path) -> None:
    known = Statistics().with_relation("shop.orders", rows=10.0, distinct={"customer": 3.0})
    write_statistics(tmp_path, "sail", known.with_measure("v", "full", 100, 1.0, 9.0))
    write_statistics(tmp_path, "spark", known.with_measure("v", GROWTH, 10, 1.0, 2.5))
    on_sail, on_spark = read_statistics(tmp_path, "sail"), read_statistics(tmp_path, "spark")
    assert on_sail.of("shop.orders") == on_spark.of("shop.orders") == known.of("shop.orders")
    assert on_sail.factor("v", "full", 100) > 1 == on_spark.factor("v", "full", 100)
    assert on_spark.factor("v", GROWTH, 10) > 1 == on_sail.factor("v", GROWTH, 10)


def test_what_was_learned_beside_other_prices_is_dropped(tmp_path: Path) -> None:
    known = Statistics().with_relation("shop.orders", rows=10.0).with_measure("v", "full", 100, 1.0, 9.0)
    write_statistics(tmp_path, "sail", known)
    write_statistics(tmp_path, "spark", known)
    assert read_statistics(tmp_path, "sail") == known
    dear = replace(BUILT_IN["sail"], per_job=9.0)
    store(Measured(dear, datetime.now(UTC), {}, {}), tmp_path)
    assert read_statistics(tmp_path, "sail") == replace(known, experience={})
    assert read_statistics(tmp_path, "spark") == known
    write_statistics(tmp_path, "sail", known)
    stored_at("sail", tmp_path).unlink()
    assert read_statistics(tmp_path, "sail").experience == {}, "nor is it kept for when they come back"


@pytest.mark.parametrize(
    "text",
    [
        *("", "[]", "{}", '{"relations": 1, "engines": {}}', '{"engines": [1]}'),
        '{"relations": {"a.t": {"rows": NaN}}, "engines": {}}',
        '{"relations": {"a.t": {"rows": 1e999}}, "engines": {}}',
        '{"relations": {"a.t": {"rows": 1' + 400 * "0" + '}}, "engines": {}}',
        '{"relations": {"a.t": {"rows": "many"}}, "engines": {}}',
        '{"relations": {"a.t": {"distinct": {"x": 0}}}, "engines": {}}',
        '{"relations": {}, "set_aside": {"v": -Infinity}, "engines": {}}',
        '{"relations": {}, "engines": {"sail": {"v": {"full": {"3": 1000}}}}}',
    ],
)
def test_a_file_that_cannot_be_read_is_as_good_as_none(tmp_path: Path, text: str) -> None:
    (tmp_path / FILE).write_text(text.replace('"sail"', f'"{priced("sail", tmp_path)}"'))
    assert read_statistics(tmp_path, "sail") == Statistics()
    write_statistics(tmp_path, "sail", Statistics().with_set_aside({"v": 1.0}))
    assert read_statistics(tmp_path, "sail").set_aside == {"v": 1.0}


def test_what_a_newer_version_keeps_is_left_aside(tmp_path: Path) -> None:
    write_statistics(tmp_path, "sail", Statistics().with_relation("a.t", rows=1.0))
    document = json.loads((tmp_path / FILE).read_text())
    document["relations"]["a.t"]["of a newer version"] = 1
    (tmp_path / FILE).write_text(json.dumps(document))
    assert read_statistics(tmp_path, "sail").of("a.t") == Relation(rows=1.0)


def test_views_that_are_gone_are_forgotten() -> None:
    known = Statistics().with_set_aside({"v": 1.0, "w": 1.0}).with_relation("a.t", rows=1.0)
    known = known.with_measure("w", "full", 1, 1.0, 2.0)
    assert known.only(["v"]) == Statistics().with_set_aside({"v": 1.0})


@pytest.mark.parametrize(
    "values, rows, least, most",
    [
        (list(range(1000)), 1000, 1000, 1000),  # a key, all of it seen
        (list(range(1000)), 100_000, 100_000, 100_000),  # each seen once: all are taken to be different
        ([i % 500 for i in range(1000)], 100_000, 500, 500),  # none seen once: there are no others
        ([i % 10 for i in range(1000)], 1_000_000, 10, 10),
        ([None] * 5, 100, 1, 1),
        ([], 100, 1, 1),
        (["a", "a", "b"], 3, 2, 2),
    ],
)
def test_values_are_counted_from_a_sample(
    values: list[object], rows: float, least: float, most: float
) -> None:
    sample = pa.chunked_array([pa.array(values, pa.string() if "a" in values else pa.int64())])
    found = distinct_values(sample, rows)
    assert least <= found <= most
    assert found < inf


@pytest.mark.parametrize("values", [10, 1_000, 10_000, 100_000, 1_000_000])
def test_values_that_are_equally_frequent_are_counted_well(values: int) -> None:
    """As of a column that refers to a key: a join would be thought to lose most of its rows if it seemed to
    have more values than the key."""
    rows, read = 6_000_000, 20_000
    rng = np.random.default_rng(values)
    sample = pa.chunked_array([pa.array(rng.integers(0, values, read))])
    true = values * (1 - (1 - 1 / values) ** rows)
    # Of a million, only two hundred are seen twice.
    assert distinct_values(sample, rows) == pytest.approx(true, rel=0.2)


def test_null_is_no_value() -> None:
    sample = pa.chunked_array([pa.array([*range(100), *[None] * 900], pa.int64())])
    assert distinct_values(sample, 10_000) == 1_000


@pytest.mark.parametrize("files", [1, 5])
@pytest.mark.parametrize("read", [50_000, 4_000_000])
def test_a_sample_is_of_rows_that_lie_apart(
    files: int, read: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of lines that lie beside those of the same order, and readings in which every sensor comes before one
    comes again: rows side by side would tell of next to no order, and of as many sensors as rows."""
    monkeypatch.setattr(distinct, "READ_ROWS", read)
    rows, orders, sensors = 400_000, 100_000, 20_000
    numbers = np.arange(rows)
    table = pa.table({"other": numbers, "order": numbers // 4, "sensor": numbers % sensors})
    paths = [tmp_path / f"{i}.parquet" for i in range(files)]
    for i, path in enumerate(paths):
        part = table.slice(i * rows // files, rows // files)
        pq.write_table(part, path, row_group_size=10_000)
    sample = sampled(paths, ["sensor", "order"])
    assert sample is not None and sample.column_names == ["sensor", "order"]
    assert sample.num_rows == pytest.approx(20_000, rel=0.05)
    assert sensors / 2.5 < distinct_values(sample.column(0), rows) < sensors * 2
    least = orders * min(1, read / rows) / 1.5
    assert least < distinct_values(sample.column(1), rows) < orders * 1.5


def test_of_no_rows_there_is_no_sample(tmp_path: Path) -> None:
    pq.write_table(pa.table({"a": pa.array([], pa.int64())}), tmp_path / "empty.parquet")
    assert sampled([], ["a"]) is None
    found = sampled([tmp_path / "empty.parquet"], ["a"])
    assert found is None or found.num_rows == 0
    pq.write_table(pa.table({"a": [7]}), tmp_path / "one.parquet")
    assert sampled([tmp_path / "empty.parquet", tmp_path / "one.parquet"], ["a"]) == pa.table({"a": [7]})
