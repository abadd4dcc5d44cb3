"""Every scenario file here, every algorithm, every schedule: the level each algorithm claims is reached, and
the final views are exactly the ones written down.

The files run as they are: `stillframe simulate tests/papers/scenarios/*.yml --algorithm all`.
"""

from __future__ import annotations

from functools import cache

import pytest
from papers_steps import NOTHING, SCENARIOS, rows, scenario

from stillframe.algebra import evaluate
from stillframe.protocol import ALGORITHMS, PUBLISHED, NotApplicable, join_view, make
from stillframe.simulator.faults import faulty
from stillframe.simulator.outcome import Outcome, simulate
from stillframe.simulator.settings import claim

FINALS = {
    "eca_example_1": "[1], [1]",
    "eca_example_2": "[1], [4]",
    "eca_example_3": NOTHING,
    "eca_example_4": "[1], [4]",
    "eca_example_5": "[3, 3], [3, 4]",
    "eca_example_6": "[3, 1], [7, 1], [7, 4], [7, 6], [9, 1], [9, 4], [9, 6]",
    "eca_example_7": "[1], [4]",
    "eca_example_8": NOTHING,
    "eca_example_9": "[1]",
    "strobe_example_1": NOTHING,
    "strobe_example_2": "[1, 2, 3, 4]",
    "strobe_example_3": NOTHING,
    "strobe_example_4": "[3, 4]",
    "strobe_example_5": NOTHING,
    "strobe_example_6": NOTHING,
    "tid_figure_1": "[1, 10, 7], [2, 20, 7]",
    "tid_figure_1_one_source": "[1, 10, 7], [2, 20, 7]",
}
ALSO_BY_BASIC = {
    "eca_example_2": {"[1], [4], [4]"},
    "eca_example_3": {"[1, 3]"},
    "eca_example_4": {"[1], [1], [4], [4]", "[1], [1], [4], [4], [4]"},
    "eca_example_5": {"[3, 3], [3, 4], [3, 4]", "-[1, 4], [3, 3], [3, 4], [3, 4]"},
    "eca_example_6": {
        "[3, 1], [7, 1], [7, 4], [7, 6], [7, 6], [9, 1], [9, 4], [9, 6], [9, 6]",
        "[3, 1], [7, 1], [7, 4], [7, 6], [7, 6], [7, 6], [9, 1], [9, 4], [9, 6], [9, 6]",
    },
    "eca_example_7": {"[1], [1], [4], [4]", "[1], [1], [4], [4], [4]"},
    "eca_example_8": {"[4]"},
    "eca_example_9": {"[1], -[4]"},
    "strobe_example_1": {"-[1, 2, 3, 4]"},
    "strobe_example_3": {"-[1, 2, 3, 4]"},
    "strobe_example_5": {"-[1, 2, 3, 4]"},
    "strobe_example_6": {"-[1, 2, 3, 4]"},
}
SAID = [
    ("eca_example_1", "basic", "complete"),
    *(("eca_example_2", algorithm, "strong") for algorithm in ("rv", "sc", "eca")),
    ("eca_example_3", "eca-key", "strong"),
    ("eca_example_5", "eca-key", "strong"),
    *((f"eca_example_{number}", "eca", "strong") for number in range(1, 10)),
    *((f"eca_example_{number}", "lca", "complete") for number in range(1, 10)),
    ("strobe_example_1", "sc", "strong"),
    ("strobe_example_3", "strobe", "strong"),
    ("strobe_example_4", "strobe", "convergent"),
    ("strobe_example_4", "t-strobe", "strong"),
    ("strobe_example_5", "c-strobe", "complete"),
    ("strobe_example_6", "c-strobe", "complete"),
    ("tid_figure_1", "tid", "strong"),
]
SOUND = [name for name in FINALS if not faulty(scenario(name))]
EVERY = [*ALGORITHMS, *PUBLISHED]


@cache
def outcome(name: str, algorithm: str) -> Outcome:
    return simulate(scenario(name), algorithm)


def finals(name: str, algorithm: str) -> set[str]:
    return {rows(bag) for bag in outcome(name, algorithm).finals}


def test_every_file_is_known_here() -> None:
    assert {path.stem for path in SCENARIOS.glob("*")} == set(FINALS)


@pytest.mark.parametrize("name", FINALS)
def test_the_final_view_written_down_is_the_view_of_the_last_states(name: str) -> None:
    given = scenario(name)
    states = given.final()
    assert rows(evaluate(given.plan(), lambda scan: states[scan.relation])) == FINALS[name]


@pytest.mark.parametrize("algorithm", EVERY)
@pytest.mark.parametrize("name", SOUND)
def test_every_algorithm_reaches_its_claim(name: str, algorithm: str) -> None:
    given, found = scenario(name), outcome(name, algorithm)
    try:
        protocol = make(algorithm, join_view(given.plan(), given.source_of))
    except NotApplicable as reason:
        assert found.reason is not None
        assert found.reason.code == reason.code
        return
    assert found.exhaustive
    assert found.level >= claim(protocol, given), found.counterexample
    also = ALSO_BY_BASIC.get(name, set()) if algorithm == "basic" else set()
    assert finals(name, algorithm) == {FINALS[name]} | also
    assert (found.level == "none") == bool(also)


@pytest.mark.parametrize(("name", "algorithm", "level"), SAID)
def test_every_algorithm_is_as_right_as_the_paper_says(name: str, algorithm: str, level: str) -> None:
    assert outcome(name, algorithm).level >= level
    assert finals(name, algorithm) == {FINALS[name]}


@pytest.mark.parametrize("name", FINALS)
def test_who_applies(name: str) -> None:
    given = scenario(name)
    keyed = all(relation.key for relation in given.relations)
    for algorithm, protocol in {**ALGORITHMS, **PUBLISHED}.items():
        refused = "one source" in protocol.needs and len(given.sources) > 1
        refused |= any("key" in need for need in protocol.needs) and not keyed
        assert (outcome(name, algorithm).verdict is None) == refused, algorithm
