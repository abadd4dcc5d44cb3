"""The list of tests that `make test` leaves out: what goes on it, and that its tests are still there."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).parents[1]


@pytest.fixture
def tool() -> ModuleType:
    spec = importlib.util.spec_from_file_location("slow_tests", ROOT / "tools" / "slow_tests.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_slowest_go_but_the_quickest_case_of_each_test_stays(tool: ModuleType) -> None:
    seconds = {"tests/a.py::one[x]": 2.5, "tests/a.py::one[y]": 600.0, "tests/b.py::two": 500.0}
    assert tool.left_out("sail", seconds) == {"tests/a.py::one[y]"}
    assert tool.left_out("sail", {**seconds, "tests/b.py::three": 400.0}) == {
        "tests/a.py::one[y]",
        "tests/b.py::two",
    }
    assert tool.left_out("sail", {"tests/a.py::one": 700.0}) == set()


def test_seconds_are_those_of_a_test_and_of_what_was_set_up_for_it(tool: ModuleType, tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text(
        "sail   2.50s call     tests/a.py::one[a b]\n"
        "sail   1.00s setup    tests/a.py::one[a b]\n"
        "live   3.00s teardown tests/sources/c.py::two\n"
        "sail   tests/a.py ..... [ 5%]\n"
    )
    found = tool.measured([str(log)])
    assert dict(found["sail"]) == {"tests/a.py::one[a b]": 3.5}
    assert dict(found["live"]) == {"tests/sources/c.py::two": 3.0}


def test_what_is_on_the_list_is_there() -> None:
    for line in (ROOT / "tests" / "slow.txt").read_text(encoding="utf-8").splitlines():
        engine, test = line.split(" ", 1)
        file, name = test.split("[", 1)[0].split("::", 1)
        assert engine in ("sail", "spark")
        assert "[/" not in test, "a case is named by where the project lies"
        assert f"def {name}(" in (ROOT / file).read_text(encoding="utf-8"), line
