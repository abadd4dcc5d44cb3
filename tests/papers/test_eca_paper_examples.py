"""The examples of the ECA paper, 1 to 5 and 7 to 9, step by step: what is asked, what answers, COLLECT,
UQS, the view. Example 6 is a scenario without events; it is with the costs.

Numbers are the paper's. Its source is called x here, its query for update U1 travels as Q[U1].x.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from papers_steps import NOTHING, PrintedEca, Walk, explored, rows, scenario

from stillframe.protocol.eca import Eca
from stillframe.protocol.eca_key import EcaKey, EcaKeyState
from stillframe.protocol.events import Install
from stillframe.protocol.terms import total

# 1.1: the examples of the introduction.


def test_example_1_the_basic_algorithm_is_right_when_nothing_interferes() -> None:
    walk = Walk("eca_example_1", "basic")
    assert walk.views == ["[1]"]
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 3]")
    walk.answers("Q[U1].x", "[1]")
    walk.hears("Q[U1].x", view="[1], [1]")
    walk.ends("[1], [1]")
    assert explored("eca_example_1", "basic") == ("complete", {"[1], [1]"})


def test_example_2_the_basic_algorithm_counts_a_row_twice() -> None:
    walk = Walk("eca_example_2", "basic")
    assert walk.views == [NOTHING]
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 3]")
    walk.happens("U2")
    walk.receives("U2", asks="Q[U2].x: [4, 2] ⋈ r2")
    walk.answers("Q[U1].x", "[1], [4]")
    walk.hears("Q[U1].x", view="[1], [4]")
    walk.answers("Q[U2].x", "[4]")
    walk.hears("Q[U2].x", view="[1], [4], [4]")
    walk.ends("[1], [4], [4]")
    assert explored("eca_example_2", "basic") == ("none", {"[1], [4]", "[1], [4], [4]"})


def test_example_2_maintained_at_the_source_passes_through_both_states() -> None:
    """Centralised, each answer comes before the next update."""
    level, finals = explored(replace(scenario("eca_example_2"), centralised=True), "basic")
    assert (level, finals) == ("complete", {"[1], [4]"})
    walk = Walk(replace(scenario("eca_example_2"), centralised=True), "basic")
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 3]")
    walk.answers("Q[U1].x", "[1]")
    walk.hears("Q[U1].x", view="[1]")
    walk.happens("U2")
    walk.receives("U2", asks="Q[U2].x: [4, 2] ⋈ r2")
    walk.answers("Q[U2].x", "[4]")
    walk.hears("Q[U2].x", view="[1], [4]")
    walk.ends("[1], [4]")


def test_example_3_the_basic_algorithm_keeps_a_deleted_row() -> None:
    walk = Walk("eca_example_3", "basic")
    assert walk.views == ["[1, 3]"]
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: -[1, 2] ⋈ r2")
    walk.happens("U2")
    walk.receives("U2", asks="Q[U2].x: r1 ⋈ -[2, 3]")
    walk.answers("Q[U1].x", NOTHING)
    walk.hears("Q[U1].x")
    walk.answers("Q[U2].x", NOTHING)
    walk.hears("Q[U2].x")
    walk.ends("[1, 3]")
    assert explored("eca_example_3", "basic") == ("none", {NOTHING, "[1, 3]"})


# 1.2: the possible solutions, on the same examples.


def test_example_2_recomputed_after_the_second_update() -> None:
    walk = Walk(replace(scenario("eca_example_2"), params={"rv": {"s": 2}}), "rv")
    walk.happens("U1", "U2")
    walk.receives("U1")
    walk.receives("U2", asks="Q[U2].x: r1 ⋈ r2")
    walk.answers("Q[U2].x", "[1], [4]")
    walk.hears("Q[U2].x", view="[1], [4]")
    walk.ends("[1], [4]")


def test_example_2_with_copies_asks_nobody() -> None:
    walk = Walk("eca_example_2", "sc")
    walk.happens("U1", "U2")
    walk.receives("U1", view="[1]")
    walk.receives("U2", view="[1], [4]")
    walk.ends("[1], [4]")


def test_example_2_with_eca_the_second_answer_is_empty() -> None:
    """The text projects the compensated query on W and Y; the view shows W only."""
    walk = PrintedEca("eca_example_2")
    walk.happens("U1")
    walk.receives_update("U1", "r1 ⋈ [2, 3]")
    walk.happens("U2")
    walk.receives_update("U2", "[4, 2] ⋈ r2 - [4, 2] ⋈ [2, 3]", unanswered=["U1"])
    walk.answers_query("U1", "[1], [4]")
    walk.hears_answer("U1", collect="[1], [4]", unanswered=["U2"])
    walk.answers_query("U2", NOTHING)
    walk.hears_answer("U2", collect="[1], [4]", unanswered=[], view="[1], [4]")
    walk.ends("[1], [4]")


def test_example_3_with_eca_key_deletes_without_asking() -> None:
    walk = Walk("eca_example_3", "eca-key")
    walk.happens("U1", "U2")
    walk.receives("U1", view=NOTHING)
    walk.receives("U2")
    walk.ends(NOTHING)


def test_example_3_with_eca_is_right_where_the_basic_algorithm_is_not() -> None:
    walk = PrintedEca("eca_example_3")
    walk.happens("U1")
    walk.receives_update("U1", "-[1, 2] ⋈ r2")
    walk.happens("U2")
    walk.receives_update("U2", "r1 ⋈ -[2, 3] - -[1, 2] ⋈ -[2, 3]", unanswered=["U1"])
    walk.answers_query("U1", NOTHING)
    walk.hears_answer("U1", collect=NOTHING, unanswered=["U2"])
    walk.answers_query("U2", "-[1, 3]")
    walk.hears_answer("U2", collect="-[1, 3]", unanswered=[], view=NOTHING)
    walk.ends(NOTHING)


# 5.3: ECA.


def test_example_4_eca_compensates_three_insertions() -> None:
    walk = PrintedEca("eca_example_4")
    walk.happens("U1", "U2", "U3")
    walk.receives_update("U1", "[4, 2] ⋈ r2 ⋈ r3")
    walk.receives_update("U2", "r1 ⋈ r2 ⋈ [5, 3] - [4, 2] ⋈ r2 ⋈ [5, 3]", unanswered=["U1"])
    walk.receives_update(
        "U3",
        "r1 ⋈ [2, 5] ⋈ r3 - [4, 2] ⋈ [2, 5] ⋈ r3 - r1 ⋈ [2, 5] ⋈ [5, 3] + [4, 2] ⋈ [2, 5] ⋈ [5, 3]",
        unanswered=["U1", "U2"],
    )
    walk.answers_query("U1", "[4]")
    walk.hears_answer("U1", collect="[4]", unanswered=["U2", "U3"])
    walk.answers_query("U2", "[1]")
    walk.hears_answer("U2", collect="[1], [4]", unanswered=["U3"])
    walk.answers_query("U3", NOTHING)
    walk.hears_answer("U3", collect="[1], [4]", unanswered=[], view="[1], [4]")
    walk.ends("[1], [4]")


def test_example_4_the_basic_algorithm_is_wrong_on_the_same_events() -> None:
    walk = Walk("eca_example_4", "basic")
    walk.happens("U1", "U2", "U3")
    walk.receives("U1", asks="Q[U1].x: [4, 2] ⋈ r2 ⋈ r3")
    walk.receives("U2", asks="Q[U2].x: r1 ⋈ r2 ⋈ [5, 3]")
    walk.receives("U3", asks="Q[U3].x: r1 ⋈ [2, 5] ⋈ r3")
    walk.answers("Q[U1].x", "[4]")
    walk.hears("Q[U1].x", view="[4]")
    walk.answers("Q[U2].x", "[1], [4]")
    walk.hears("Q[U2].x", view="[1], [4], [4]")
    walk.answers("Q[U3].x", "[1], [4]")
    walk.hears("Q[U3].x", view="[1], [1], [4], [4], [4]")
    walk.ends("[1], [1], [4], [4], [4]")


def test_section_5_3_eca_is_not_complete_and_lca_is() -> None:
    assert explored("eca_example_2", "eca") == ("strong", {"[1], [4]"})
    assert explored("eca_example_2", "lca") == ("complete", {"[1], [4]"})


class HastyEca(Eca):
    """ECA that does not wait for UQS to be empty."""

    def settle(self, state: Any) -> Any:
        view = total((state.view, *state.collect))
        return replace(state, view=view, collect=(), collected=()), (Install(view, state.collected),)


class HastyEcaKey(EcaKey):
    def settle(self, state: EcaKeyState) -> Any:
        after = replace(state, view=state.collect, collected=())
        return after, (Install(state.collect, state.collected),)


@pytest.mark.parametrize(
    ("example", "algorithm", "view"),
    [("eca_example_2", HastyEca, "[1], [4]"), ("eca_example_5", HastyEcaKey, "[3, 3], [3, 4]")],
)
def test_sections_5_2_and_5_4_installing_each_answer_converges_without_consistency(
    example: str, algorithm: type, view: str
) -> None:
    assert explored(example, algorithm) == ("convergent", {view})


# 5.4: ECA-Key.


@pytest.mark.parametrize("algorithm", ["eca-key", "eca-key-published"])
def test_example_5_eca_key(algorithm: str) -> None:
    walk = Walk("eca_example_5", algorithm)

    def inside() -> tuple[str, list[str]]:
        return rows(walk.bag(walk.state.collect)), [sent.ask.id for sent in walk.state.unanswered]

    assert walk.views == ["[1, 3]"]
    assert inside() == ("[1, 3]", [])
    walk.happens("U1", "U2", "U3")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 4]")
    walk.receives("U2", asks="Q[U2].x: [3, 2] ⋈ r2")
    walk.receives("U3")
    assert inside() == (NOTHING, ["Q[U1].x", "Q[U2].x"])
    walk.answers("Q[U1].x", "[3, 4]")
    walk.hears("Q[U1].x")
    assert inside() == ("[3, 4]", ["Q[U2].x"])
    walk.answers("Q[U2].x", "[3, 3], [3, 4]")
    walk.hears("Q[U2].x", view="[3, 3], [3, 4]")
    assert inside() == ("[3, 3], [3, 4]", [])
    walk.ends("[3, 3], [3, 4]")


def test_example_5_the_first_query_answered_at_once() -> None:
    walk = Walk("eca_example_5", "eca-key")
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 4]")
    walk.answers("Q[U1].x", "[1, 4]")


def test_example_5_the_basic_algorithm_is_wrong_on_the_same_events() -> None:
    walk = Walk("eca_example_5", "basic")
    walk.happens("U1", "U2", "U3")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 4]")
    walk.receives("U2", asks="Q[U2].x: [3, 2] ⋈ r2")
    walk.receives("U3", asks="Q[U3].x: -[1, 2] ⋈ r2")
    walk.answers("Q[U1].x", "[3, 4]")
    walk.hears("Q[U1].x", view="[1, 3], [3, 4]")
    walk.answers("Q[U2].x", "[3, 3], [3, 4]")
    walk.hears("Q[U2].x", view="[1, 3], [3, 3], [3, 4], [3, 4]")
    walk.answers("Q[U3].x", "-[1, 3], -[1, 4]")
    walk.hears("Q[U3].x", view="-[1, 4], [3, 3], [3, 4], [3, 4]")
    walk.ends("-[1, 4], [3, 3], [3, 4], [3, 4]")


# Appendix A: more of ECA.


def test_example_7_eca_with_an_answer_between_the_updates() -> None:
    walk = PrintedEca("eca_example_7")
    walk.happens("U1")
    walk.receives_update("U1", "[4, 2] ⋈ r2 ⋈ r3")
    walk.happens("U2")
    walk.receives_update("U2", "r1 ⋈ r2 ⋈ [5, 3] - [4, 2] ⋈ r2 ⋈ [5, 3]", unanswered=["U1"])
    walk.answers_query("U1", NOTHING)
    walk.hears_answer("U1", collect=NOTHING, unanswered=["U2"])
    walk.happens("U3")
    walk.receives_update(
        "U3",
        "r1 ⋈ [2, 5] ⋈ r3 - r1 ⋈ [2, 5] ⋈ [5, 3] + [4, 2] ⋈ [2, 5] ⋈ [5, 3]",
        unanswered=["U2"],
    )
    walk.answers_query("U2", "[1]")
    walk.hears_answer("U2", collect="[1]", unanswered=["U3"])
    walk.answers_query("U3", "[4]")
    walk.hears_answer("U3", collect="[1], [4]", unanswered=[], view="[1], [4]")
    walk.ends("[1], [4]")


def test_example_7_has_the_relations_and_updates_of_example_4() -> None:
    assert replace(scenario("eca_example_7"), name="") == replace(scenario("eca_example_4"), name="")


def test_example_8_eca_with_two_deletions() -> None:
    walk = PrintedEca("eca_example_8")
    assert walk.views == ["[1], [4]"]
    walk.happens("U1")
    walk.receives_update("U1", "-[4, 2] ⋈ r2")
    walk.happens("U2")
    walk.receives_update("U2", "r1 ⋈ -[2, 3] - -[4, 2] ⋈ -[2, 3]", unanswered=["U1"])
    walk.answers_query("U1", NOTHING)
    walk.hears_answer("U1", collect=NOTHING, unanswered=["U2"])
    walk.answers_query("U2", "-[1], -[4]")
    walk.hears_answer("U2", collect="-[1], -[4]", unanswered=[], view=NOTHING)
    walk.ends(NOTHING)


def test_example_9_eca_with_a_deletion_and_an_insertion() -> None:
    walk = PrintedEca("eca_example_9")
    assert walk.views == [NOTHING]
    walk.happens("U1")
    walk.receives_update("U1", "-[4, 2] ⋈ r2")
    walk.happens("U2")
    walk.receives_update("U2", "r1 ⋈ [2, 3] - -[4, 2] ⋈ [2, 3]", unanswered=["U1"])
    walk.answers_query("U1", "-[4]")
    walk.hears_answer("U1", collect="-[4]", unanswered=["U2"])
    walk.answers_query("U2", "[1], [4]")
    walk.hears_answer("U2", collect="[1]", unanswered=[], view="[1]")
    walk.ends("[1]")


def test_example_8_the_basic_algorithm_is_wrong_on_the_same_events() -> None:
    walk = Walk("eca_example_8", "basic")
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: -[4, 2] ⋈ r2")
    walk.happens("U2")
    walk.receives("U2", asks="Q[U2].x: r1 ⋈ -[2, 3]")
    walk.answers("Q[U1].x", NOTHING)
    walk.hears("Q[U1].x")
    walk.answers("Q[U2].x", "-[1]")
    walk.hears("Q[U2].x", view="[4]")
    walk.ends("[4]")


def test_example_9_the_basic_algorithm_is_wrong_on_the_same_events() -> None:
    walk = Walk("eca_example_9", "basic")
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: -[4, 2] ⋈ r2")
    walk.happens("U2")
    walk.receives("U2", asks="Q[U2].x: r1 ⋈ [2, 3]")
    walk.answers("Q[U1].x", "-[4]")
    walk.hears("Q[U1].x", view="-[4]")
    walk.answers("Q[U2].x", "[1]")
    walk.hears("Q[U2].x", view="[1], -[4]")
    walk.ends("[1], -[4]")
