"""What the ECA paper says of costs, as far as it is about single messages: 5.6, 6.1, and example 6 with the
queries Q1 to Q7 that D.2 writes out for it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from papers_steps import NOTHING, PrintedEca, behaviour, rows, scenario

from stillframe.simulator import Transaction, Update
from stillframe.simulator.outcome import simulate

# 5.6: properties.


@pytest.mark.parametrize("algorithm", ["eca", "lca"])
@pytest.mark.parametrize("number", range(1, 10))
def test_section_5_6_when_updates_are_rare_eca_sends_what_the_basic_algorithm_sends(
    number: int, algorithm: str
) -> None:
    rare = replace(scenario(f"eca_example_{number}"), centralised=True)
    assert behaviour(rare, algorithm) == behaviour(rare, "basic")


@pytest.mark.parametrize("number", range(2, 10))
def test_section_5_6_when_updates_are_frequent_it_does_not(number: int) -> None:
    often = scenario(f"eca_example_{number}")
    assert behaviour(often, "eca") != behaviour(often, "basic")


# 6.2 and D.2: the scenario of the performance study.

T1, T2, T3, T4 = "[7, 2]", "[2, 8]", "[8, 6]", "[8, 2]"
VIEW_6 = "[3, 1], [7, 1], [7, 4], [7, 6], [9, 1], [9, 4], [9, 6]"


def test_example_6_best_case_no_query_is_compensated() -> None:
    """Q1, Q2 and Q3 of D.2."""
    walk = PrintedEca("eca_example_6")
    steps = [
        ("U1", f"{T1} ⋈ r2 ⋈ r3", "[7, 1], [7, 4]", "[3, 1], [7, 1], [7, 4], [9, 1], [9, 4]"),
        ("U2", f"r1 ⋈ {T2} ⋈ r3", NOTHING, "[3, 1], [7, 1], [7, 4], [9, 1], [9, 4]"),
        ("U3", f"r1 ⋈ r2 ⋈ {T3}", "[7, 6], [9, 6]", VIEW_6),
    ]
    for id, query, answer, view in steps:
        walk.happens(id)
        walk.receives_update(id, query)
        walk.answers_query(id, answer)
        walk.hears_answer(id, collect=answer, unanswered=[], view=view)
    walk.ends(VIEW_6)


def worst_case(walk: PrintedEca) -> None:
    walk.receives_update("U1", f"{T1} ⋈ r2 ⋈ r3")
    walk.receives_update("U2", f"r1 ⋈ {T2} ⋈ r3 - {T1} ⋈ {T2} ⋈ r3", unanswered=["U1"])
    walk.receives_update(
        "U3",
        f"r1 ⋈ r2 ⋈ {T3} - {T1} ⋈ r2 ⋈ {T3} - r1 ⋈ {T2} ⋈ {T3} + {T1} ⋈ {T2} ⋈ {T3}",
        unanswered=["U1", "U2"],
    )


def test_example_6_worst_case_every_query_is_compensated() -> None:
    """Q4, Q5 and Q6 of D.2; the last term of Q6 is not sent."""
    walk = PrintedEca("eca_example_6")
    walk.happens("U1", "U2", "U3")
    worst_case(walk)
    assert rows(walk.held["Q[U3].x"]) == "[7, 6]"
    walk.answers_query("U1", "[7, 1], [7, 4], [7, 6]")
    walk.hears_answer("U1", collect="[7, 1], [7, 4], [7, 6]", unanswered=["U2", "U3"])
    walk.answers_query("U2", "[9, 6]")
    walk.hears_answer("U2", collect="[7, 1], [7, 4], [7, 6], [9, 6]", unanswered=["U3"])
    walk.answers_query("U3", NOTHING)
    walk.hears_answer("U3", collect="[7, 1], [7, 4], [7, 6], [9, 6]", unanswered=[], view=VIEW_6)
    walk.ends(VIEW_6)


def test_example_6_a_fourth_update_compensates_the_other_relations_only() -> None:
    """Q7 of D.2: nothing with U1, which changed the same relation; what holds three rows is not sent."""
    study = scenario("eca_example_6")
    fourth = Transaction("U4", (Update("r1", True, (8, 2)),))
    walk = PrintedEca(replace(study, transactions=(*study.transactions, fourth)))
    walk.happens("U1", "U2", "U3", "U4")
    worst_case(walk)
    walk.receives_update(
        "U4",
        f"{T4} ⋈ r2 ⋈ r3 - {T4} ⋈ {T2} ⋈ r3 - {T4} ⋈ r2 ⋈ {T3} + {T4} ⋈ {T2} ⋈ {T3}",
        unanswered=["U1", "U2", "U3"],
    )
    assert rows(walk.held["Q[U4].x"]) == "[8, 6]"


# 6.1: messages. k updates, recomputed after every s.


@pytest.mark.parametrize(("s", "messages"), [(1, 6), (2, 4), (3, 2)])
def test_section_6_1_recomputing_sends_two_messages_for_every_s_updates(s: int, messages: int) -> None:
    found = simulate(replace(scenario("eca_example_6"), params={"rv": {"s": s}}), "rv")
    assert found.messages == (messages, messages)


@pytest.mark.parametrize("number", range(1, 10))
@pytest.mark.parametrize("algorithm", ["basic", "eca", "lca"])
def test_section_6_1_eca_sends_two_messages_for_every_update(number: int, algorithm: str) -> None:
    given = scenario(f"eca_example_{number}")
    found, updates = simulate(given, algorithm), len(given.transactions)
    assert found.messages == (2 * updates, 2 * updates)
