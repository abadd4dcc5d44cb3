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


def reaches(text: str, algorithm: str) -> tuple[Level, Level]:
    """The level reached, and the level claimed."""
    given = read(text, "case")
    promised = Level(claim(simulation_of(given, algorithm).protocol, given))
    return simulate(given, algorithm).level, promised


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_true_is_not_one(algorithm: str) -> None:
    """A bag of [1, true] and one of [1, 1] are two bags, though Python finds them equal."""
    text = """
name: true and one
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: []}
  r2: {source: x, columns: [B, F], key: [B], rows: []}
view: SELECT r1.A, r2.B, r2.F FROM r1 JOIN r2 ON r1.B = r2.B WHERE r2.F
updates: ["insert r1 [1, 1]", "insert r2 [1, true]"]
"""
    found, promised = reaches(text, algorithm)
    assert found >= promised


@pytest.mark.parametrize("algorithm", ["rv", "eca", "eca-key", "eca-local", "lca", "sc", "tid"])
def test_a_report_by_another_source_is_not_ordered_with_answers(algorithm: str) -> None:
    text = """
name: reported by y, answered by x
relations:
  r1: {source: x, columns: [A], key: [A], rows: []}
  r9: {source: y, columns: [E], key: [E], rows: []}
view: SELECT r1.A FROM r1
updates:
  - ["insert r1 [1]", "insert r1 [2]", "insert r1 [4]"]
  - {global: g2, updates: ["insert r9 [1]", "insert r1 [3]"]}
report: coordinator
params: {rv: {s: 3}, eca: {batch: true}, eca-key: {batch: true}, eca-local: {batch: true}, lca: {batch: true}}
"""
    found, promised = reaches(text, algorithm)
    assert found >= max(promised, Level.CONVERGENT)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_centralised_transactions_are_claimed_as_transactions(algorithm: str) -> None:
    text = """
name: transactions in one database
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: []}
  r2: {source: x, columns: [B, C], key: [B], rows: []}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: [["insert r1 [1, 1]", "insert r2 [1, 1]"], ["delete r1 [1, 1]", "insert r1 [1, 2]"]]
centralised: true
"""
    found, promised = reaches(text, algorithm)
    assert found >= promised


@pytest.mark.parametrize("algorithm", ["rv", "eca", "eca-local", "lca", "eca-key", "strobe", "tid"])
def test_a_relation_that_is_only_there_or_not(algorithm: str) -> None:
    """Nothing of r3 is shown and nothing joins it, but without a row in it the view is empty."""
    shown = "r1.A, r2.B" if algorithm != "eca-key" else "r1.A, r2.B, r3.C"
    text = f"""
name: no condition
relations:
  r1: {{source: x, columns: [A], key: [A], rows: []}}
  r2: {{source: x, columns: [B], key: [B], rows: [[1]]}}
  r3: {{source: x, columns: [C], key: [C], rows: []}}
view: SELECT {shown} FROM r1, r2, r3
updates: ["insert r1 [1]", "insert r3 [7]", "delete r2 [1]"]
"""
    found, promised = reaches(text, algorithm)
    assert found >= promised


@pytest.mark.parametrize("algorithm", ["t-strobe", "g-strobe", "c-t-strobe"])
def test_two_parts_that_ask_the_same_source(algorithm: str) -> None:
    text = """
name: both parts ask y
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: []}
  r2: {source: y, columns: [B, C], key: [B], rows: [[1, 2]]}
  r3: {source: z, columns: [C, D], key: [C], rows: [[2, 3]]}
view: SELECT r1.A, r1.B, r2.C, r3.D FROM r1 JOIN r2 ON r1.B = r2.B JOIN r3 ON r2.C = r3.C
updates:
  - global: g1
    updates: ["insert r1 [5, 1]", "insert r1 [6, 1]", "insert r3 [9, 1]", "delete r3 [9, 1]"]
"""
    found, promised = reaches(text, algorithm)
    assert found >= promised
