"""Corners of worlds with faults: each of these once went wrong."""

from __future__ import annotations

import pytest

from stillframe.algebra import Bag
from stillframe.consistency import Level
from stillframe.errors import ProjectError
from stillframe.protocol import ALGORITHMS, PUBLISHED
from stillframe.protocol.events import Answered
from stillframe.simulator import read
from stillframe.simulator.explore import explore
from stillframe.simulator.outcome import simulate, simulation_of
from stillframe.simulator.settings import claim

SHORT_LIVED = """
name: a row comes and goes while a query reads
relations:
  r1: {source: x, columns: [A], key: [A], rows: []}
  r2: {source: y, columns: [B], key: [B], rows: []}
view: SELECT r1.A, r2.B FROM r1 CROSS JOIN r2
updates: ["insert r2 [1]", "insert r1 [1]", "delete r1 [1]"]
isolation: {x: read-committed}
"""


def test_nobody_sees_a_row_go_that_never_came() -> None:
    simulation = simulation_of(read(SHORT_LIVED, "short"), "basic")
    explore(simulation)
    messages = [simulation.messages[number] for number in range(len(simulation.messages))]
    answers = [m.answers[0] for m in messages if isinstance(m, Answered) and m.id == "Q[U1].x"]
    assert {simulation.bags.content(answer) for answer in answers} == {Bag(), Bag.of([(1, 1)])}


def test_steps_that_differ_have_labels_that_differ() -> None:
    text = """
name: two answers to one question
relations:
  r1: {source: x, columns: [A], rows: []}
  r2: {source: y, columns: [B], rows: []}
view: SELECT r1.A, r2.B FROM r1 CROSS JOIN r2
updates: ["insert r2 [1]", "insert r1 [1]"]
channels: {x: [repeat, reorder]}
"""
    simulation = simulation_of(read(text, "repeat"), "basic")
    for world in explore(simulation).worlds:
        steps = simulation.steps(world)
        assert len({step.label for step in steps}) == len(steps)
    # Two answers to one question, that the first came before U2 and the second after it, wait together.
    labels = {step.label for world in explore(simulation).worlds for step in simulation.steps(world)}
    assert any(label.endswith("(2)") for label in labels)


@pytest.mark.parametrize("fault", ["lose", "repeat", "reorder"])
@pytest.mark.parametrize("algorithm", [*ALGORITHMS, *PUBLISHED])
def test_no_fault_is_more_than_a_protocol_can_bear(algorithm: str, fault: str) -> None:
    """Wrong views are to be expected, errors are not."""
    text = f"""
name: a product under faults
relations:
  r1: {{source: x, columns: [A], key: [A], rows: []}}
  r2: {{source: x, columns: [B], key: [B], rows: [[1]]}}
  r3: {{source: x, columns: [C], key: [C], rows: [[1]]}}
view: SELECT r1.A, r2.B, r3.C FROM r1 CROSS JOIN r2 CROSS JOIN r3
updates: ["insert r1 [1]", "delete r2 [1]"]
channels: {{x: [{fault}]}}
"""
    assert simulate(read(text, "faults"), algorithm).verdict is not None


@pytest.mark.parametrize(
    ("algorithm", "option", "value"),
    [("rv", "s", "two"), ("rv", "s", 0), ("eca", "batch", 1), ("c-strobe", "k", True), ("eca", "nope", 1)],
)
def test_a_bad_parameter_is_refused_by_name(algorithm: str, option: str, value: object) -> None:
    scenario = read(SHORT_LIVED.replace("isolation: {x: read-committed}", ""), "params")
    given = type(scenario)(
        scenario.name,
        scenario.relations,
        scenario.views,
        scenario.transactions,
        params={algorithm: {option: value}},
    )
    with pytest.raises(ProjectError, match=option):
        simulate(given, algorithm)


@pytest.mark.parametrize("algorithm", ["t-strobe", "g-strobe", "c-t-strobe"])
def test_parts_of_a_global_transaction_ask_under_their_own_names(algorithm: str) -> None:
    """The part at x asks about nothing, and is answered at once; the part at y waits for another answer."""
    text = """
name: a part that undoes itself
relations:
  r1: {source: y, columns: [A, B], key: [A, B], rows: [[2, 1]]}
  r2: {source: x, columns: [C, D], key: [C], rows: [[2, null]]}
  r3: {source: x, columns: [E, F], key: [F], rows: [[null, 1]]}
view: SELECT r3.E AS o0, r1.A AS o1 FROM r2, r3, r1 WHERE r2.C = r3.E AND r2.C <> r1.B AND r2.C + r1.B > r1.A
updates:
  - delete r2 [2, null]
  - global: g2
    updates: ["delete r1 [2, 1]", "insert r2 [2, null]", "delete r2 [2, null]", "insert r1 [2, 2]"]
crashes: 1
"""
    given = read(text, "parts")
    found = simulate(given, algorithm)
    assert found.level >= Level(claim(simulation_of(given, algorithm).protocol, given))
