"""The report says what was kept, and says it the same way every time."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.tpch.experiments import Kept, Options
from benchmarks.tpch.phases import Phases, functions
from benchmarks.tpch.report import report

MACHINE = {"processor": "a", "cores": 2, "memory_bytes": 2**30, "python": "3.11", "load_average": [0.5, 1, 1]}


def one(who: str, median: float, *, exact: bool = True, **more: Any) -> dict[str, Any]:
    work = {"median": median, "p95": median, "times": 2, "cpu_seconds": 1.0, "bytes_written": 10}
    return {
        "who": who,
        "workload": {"percent": 1, "spread": "uniform", "scale": 1},
        "machine": MACHINE,
        "versions": {"duckdb": "1"},
        "peak_memory_bytes": 2**20,
        "work": {"load": work, "refresh": work},
        "phases": {},
        "exact": {"joined": {"exact": exact}},
        **more,
    }


def kept(folder: Path, experiment: str, *found: dict[str, Any]) -> str:
    document = {"experiment": experiment, "scale": 1, "measurements": found}
    (folder / f"{experiment}.json").write_text(json.dumps(document), encoding="utf-8")
    text = report(folder).read_text(encoding="utf-8")
    assert report(folder).read_text(encoding="utf-8") == text
    for drawing in folder.glob("*.svg"):
        ElementTree.fromstring(drawing.read_text(encoding="utf-8"))
    return text


def test_peers_stand_beside_ours_with_their_ratio(tmp_path: Path) -> None:
    text = kept(tmp_path, "peers", one("stillframe on sail", 2.0), one("DuckDB", 0.5))
    assert "| DuckDB / stillframe on sail | 0.25 |" in text
    assert "NO" not in text


def test_what_was_measured_of_another_commit_has_no_ratio(tmp_path: Path) -> None:
    before = {**MACHINE, "commit": "0123abc"}
    text = kept(tmp_path, "peers", one("stillframe on sail", 2.0), one("DuckDB", 0.5, machine=before))
    assert "| DuckDB |" in text and "DuckDB / stillframe" not in text


def test_a_wrong_result_and_a_failure_are_said(tmp_path: Path) -> None:
    failed = {"who": "pathway", "workload": {"percent": 1}, "failed": "line\nno such sink"}
    text = kept(tmp_path, "peers", one("DuckDB", 0.5, exact=False), failed)
    assert "| NO |" in text
    assert "Failed: pathway, 1 %: `no such sink`" in text


def test_the_automatic_choice_against_always_choosing_right(tmp_path: Path) -> None:
    found = []
    for percent, incremental, full, auto in ((3, 6.0, 4.0, 7.5), (1, 1.0, 4.0, 1.0)):
        taken = {"incremental": {"median": incremental}, "full": {"median": full}, "auto": {"median": auto}}
        size = {
            "percent": percent,
            "chosen": [{"joined": "full by cost"}, {"joined": "incremental"}],
            **taken,
        }
        found.append(one("stillframe on sail", 1.0, engine="sail", sizes=[size]))
    text = kept(tmp_path, "sweep", *found)
    assert "| 3 | 6 | 4 | 7.5 | 4 | 1 of 2 |" in text
    assert "`auto` takes 1.70 times what always choosing right takes" in text
    assert "Computing anew is the cheaper from about 2.2 % on" in text
    assert "Exact after the last change: yes" in text


def test_growth_is_told_from_one_size_to_the_next(tmp_path: Path) -> None:
    found = [
        one("stillframe on sail", taken, engine="sail", size=size) for size, taken in ((1, 2.0), (2, 2.5))
    ]
    assert "| 2 | 2.5 | 1.25 |" in kept(tmp_path, "growth", *found)


def test_the_functions_that_are_timed_are_there() -> None:
    for name, owner, attribute in functions():
        assert callable(getattr(owner, attribute)), name


def test_a_phase_has_its_own_time_and_not_that_of_those_within(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter([0.0, 1.0, 11.0, 13.0])  # outer begins, inner begins, inner ends, outer ends
    monkeypatch.setattr("benchmarks.tpch.phases.time.perf_counter", lambda: next(clock))
    phases = Phases()
    with phases.phase("outer"), phases.phase("inner"):
        pass
    monkeypatch.undo()
    assert phases.take() == {"outer": 3.0, "inner": 10.0}
    assert phases.take() == {}


def test_what_was_broken_off_goes_on_where_it_was(tmp_path: Path) -> None:
    options = Options(results=tmp_path, say=lambda _: None)
    taken = list[str]()

    def measure(kept: Kept, name: str, **found: Any) -> None:
        kept.add({"name": name}, lambda: taken.append(name) or found)

    first = Kept(options, "peers")
    measure(first, "a", seconds=1)
    measure(first, "b", failed="no such sink")
    again = Kept(replace(options, resume=True), "peers")
    for name in "abc":
        measure(again, name, seconds=2)
    assert taken == ["a", "b", "b", "c"]
    found = json.loads(again.end().read_text(encoding="utf-8"))["measurements"]
    assert [(one["name"], one["seconds"]) for one in found] == [("a", 1), ("b", 2), ("c", 2)]
    anew = Kept(options, "peers")
    measure(anew, "a", seconds=3)
    assert taken[-1] == "a" and len(anew.found) == 1
