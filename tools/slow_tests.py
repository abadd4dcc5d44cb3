"""Which tests `make test` leaves to `make test-more`: `slow_tests.py LOG...` writes `tests/slow.txt`.

The logs are what both printed with DURATIONS="--durations=0 --durations-min=0.05". Three processes share two
cores, each with so many seconds of tests. Where there are more the slowest go, but for what nothing else
would show (`KEPT`) and the quickest case of each test. A test that was not there when the list was made runs.
"""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from pathlib import Path

SECONDS = 800.0  # of each process, as measured while all three run
QUICKEST = 3.0  # the quickest case of a test stays if it takes no longer
KEPT = (
    ("sail", "tests/cli/test_readme.py"),
    ("sail", "tests/cli/test_demo.py::test_the_demo_ends_by_itself_with_every_view_exact"),
    ("sail", "tests/faults/test_kill.py::test_killed_at_every_step_and_at_random"),
    ("sail", "tests/properties/test_frames_are_exact.py"),
    ("spark", "tests/faults/test_kill.py::test_killed_at_every_step_and_at_random"),
    ("spark", "tests/properties/test_frames_are_exact.py"),
    ("spark", "tests/cli/test_maintaining.py::test_a_project_as_it_is_made"),
    ("live", "tests/live/test_live_bank.py"),
    ("live", "tests/live/test_live_history.py::test_the_history_reaches_the_level_claimed[strobe]"),
)
ENGINES = {"sail": "sail", "live": "sail", "spark": "spark"}
LIST = Path(__file__).parents[1] / "tests" / "slow.txt"
LINE = re.compile(r"(sail|spark|live)\s+(\d+\.\d+)s (?:setup|call|teardown)\s+(tests/\S.*)")


def measured(logs: list[str]) -> dict[str, dict[str, float]]:
    """For each process the seconds of its tests, with what was set up for them first."""
    found: dict[str, dict[str, float]] = {name: defaultdict(float) for name in ENGINES}
    for log in logs:
        for line in Path(log).read_text(encoding="utf-8").splitlines():
            if match := LINE.fullmatch(line):
                found[match[1]][match[3]] += float(match[2])
    return found


def left_out(process: str, seconds: dict[str, float]) -> set[str]:
    quickest: dict[str, str] = {}
    for test in sorted(seconds, key=lambda test: (seconds[test], test)):
        quickest.setdefault(test.split("[", 1)[0], test)
    stay = {test for test in quickest.values() if seconds[test] <= QUICKEST}
    stay |= {test for test in seconds for name, kept in KEPT if name == process and test.startswith(kept)}
    total, out = sum(seconds.values()), set[str]()
    for test in sorted(seconds, key=lambda test: (-seconds[test], test)):
        if total > SECONDS and test not in stay:
            out.add(test)
            total -= seconds[test]
    print(f"{process}: {len(seconds) - len(out)} tests of {total:.0f} s stay, {len(out)} go")
    return out


def main(logs: list[str]) -> None:
    lines = {
        f"{ENGINES[process]} {test}"
        for process, seconds in measured(logs).items()
        for test in left_out(process, seconds)
    }
    LIST.write_text("".join(f"{line}\n" for line in sorted(lines)), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
