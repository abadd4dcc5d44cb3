"""The conformance suite itself: no check is forgotten, and a report says what became of each."""

from __future__ import annotations

import ast
from dataclasses import replace
from pathlib import Path

import pytest
from world_sqlite import sqlite_world

from stillframe.sources import conformance
from stillframe.sources.conformance import ALL_CHECKS, CHECKS, LONG_CHECKS, Verdict, World, run

FOLDER = Path(conformance.__file__).parent


def test_every_check_is_listed_once() -> None:
    written = [
        node.name
        for file in sorted(FOLDER.glob("*.py"))
        for node in ast.parse(file.read_text()).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("check_")
    ]
    assert sorted(check.name for check in ALL_CHECKS) == sorted(written)
    assert {*CHECKS, *LONG_CHECKS} == {*ALL_CHECKS} and LONG_CHECKS


def test_the_suite_needs_no_pytest() -> None:
    assert not [file for file in FOLDER.glob("*.py") if "pytest" in file.read_text()]


def _broken(world: World) -> None:
    raise AssertionError("so it is")


def _failing(world: World) -> None:
    raise KeyError("lost")


def test_a_report(tmp_path: Path) -> None:
    fast = next(check for check in CHECKS if check.name == "check_savepoints")
    lacking = next(check for check in CHECKS if check.name == "check_truncation_is_named")
    checks = [fast, lacking, replace(fast, function=_broken), replace(fast, function=_failing)]
    report = run(lambda: sqlite_world(tmp_path), checks)
    assert [o.verdict for o in report.outcomes] == [
        Verdict.KEPT,
        Verdict.NOT_OFFERED,
        Verdict.BROKEN,
        Verdict.BROKEN,
    ]
    assert report.broken == ("_broken", "_failing") and report.not_offered == ("check_truncation_is_named",)
    assert [o.message for o in report.outcomes[2:]] == ["so it is", "KeyError: 'lost'"]
    assert all("test_conformance_suite.py" in o.where for o in report.outcomes[2:])
    for text in ("check_savepoints", "not offered", "so it is"):
        assert text in str(report)


@pytest.mark.parametrize("check", ALL_CHECKS, ids=lambda check: check.name)
def test_needs_and_unless_do_not_exclude_each_other(check: conformance.Check) -> None:
    assert not check.needs & check.unless
