"""Which prices a plan is chosen by: those that were measured, or those that come with the package."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stillframe.runtime.prices import (
    BUILT_IN,
    Measured,
    measured,
    origin,
    prices,
    store,
    stored_at,
    this_machine,
)

AT = datetime(2026, 11, 16, 23, 30, tzinfo=UTC)
DEAR = replace(BUILT_IN["sail"], per_job=7.5)
FOUND = Measured(DEAR, AT, {**this_machine(), "pysail": "1"}, {"median_error": 0.1})


def test_without_a_warehouse_and_without_a_file_prices_are_built_in(tmp_path: Path) -> None:
    for warehouse in (None, tmp_path, tmp_path / "not there"):
        assert prices("sail", warehouse) == BUILT_IN["sail"]
        assert origin("sail", warehouse) == {"engine": "sail", "measured_at": None, "text": "built in"}


def test_measured_prices_are_those_of_their_engine_alone(tmp_path: Path) -> None:
    assert store(FOUND, tmp_path) == tmp_path / "calibration" / "sail.json"
    assert prices("sail", tmp_path) == DEAR
    assert prices("spark", tmp_path) == BUILT_IN["spark"]
    assert measured("sail", tmp_path) == FOUND
    told = origin("sail", tmp_path)
    assert told["text"] == "measured on this machine 2026-11-16"
    assert told["measured_at"] == "2026-11-16T23:30:00+00:00"


def test_measuring_again_counts_at_once(tmp_path: Path) -> None:
    store(FOUND, tmp_path)
    assert prices("sail", tmp_path).per_job == 7.5
    store(replace(FOUND, calibration=replace(DEAR, per_job=17.25)), tmp_path)
    assert prices("sail", tmp_path).per_job == 17.25


def test_a_warehouse_that_moved_says_so(tmp_path: Path) -> None:
    store(replace(FOUND, machine={**FOUND.machine, "cores": 1000}), tmp_path)
    assert origin("sail", tmp_path)["text"] == "measured on another machine 2026-11-16"
    assert prices("sail", tmp_path) == DEAR


@pytest.mark.parametrize(
    "change",
    [
        lambda text: "",
        lambda text: text[:40],
        lambda text: "[]",
        lambda text: text.replace('"per_job": 7.5', '"per_job": -1'),
        lambda text: text.replace('"per_job": 7.5', '"per_job": NaN'),
        lambda text: text.replace('"per_job": 7.5', '"per_job": "much"'),
        lambda text: text.replace('"per_job": 7.5,', ""),
        lambda text: text.replace('"engine": "sail"', '"engine": "spark"'),
    ],
)
def test_what_cannot_be_read_is_left_aside_and_told(tmp_path: Path, change) -> None:
    path = store(FOUND, tmp_path)
    text = path.read_text()
    assert change(text) != text
    path.write_text(change(text))
    assert prices("sail", tmp_path) == BUILT_IN["sail"]
    assert origin("sail", tmp_path)["text"] == "built in; the stored ones cannot be read"


def test_prices_of_a_newer_version_are_read(tmp_path: Path) -> None:
    path = store(FOUND, tmp_path)
    document = json.loads(path.read_text())
    document["prices"]["per_wish"] = 1
    stored_at("sail", tmp_path).write_text(json.dumps({**document, "more": []}))
    assert prices("sail", tmp_path) == DEAR
