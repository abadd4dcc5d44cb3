"""The examples of the Strobe paper, 1 to 6, step by step: what is asked where, what answers, AL, Delta, the
view.

Numbers are the paper's. The query of update U1 travels as Q[U1].x and then as Q[U1].x.z; a compensating query
for what was deleted from r1 is Q[U1]/r1. Where the text keeps an action list AL, the state keeps the view
with AL applied to it.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from eca_over_sources import EcaKeyOverSources, EcaOverSources, RememberingEcaKeyOverSources
from papers_steps import NOTHING, Walk, behaviour, explored, rows, scenario

from stillframe.protocol.asking import next_source
from stillframe.protocol.terms import Term, answer_part, appearances
from stillframe.simulator import Transaction, Update

ROW = "[1, 2, 3, 4]"

# Example 1: what goes wrong.


@pytest.mark.parametrize("other", [3, 5, 6])
def test_examples_3_5_and_6_have_the_relations_and_updates_of_example_1(other: int) -> None:
    assert replace(scenario(f"strobe_example_{other}"), name="") == replace(
        scenario("strobe_example_1"), name=""
    )


def test_example_1_a_delete_taken_off_the_view_only_is_lost_on_an_answer_to_come() -> None:
    """The printed run, which handles the delete without a query, is ECA-Key's over several sources."""
    walk = Walk("strobe_example_1", EcaKeyOverSources)
    assert walk.views == [NOTHING]
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 3]")
    walk.answers("Q[U1].x", "[1, 2, 3]")
    walk.hears("Q[U1].x", asks="Q[U1].x.z: [1, 2, 3] ⋈ r3")
    walk.happens("U2")
    walk.receives("U2")
    walk.answers("Q[U1].x.z", ROW)
    walk.hears("Q[U1].x.z", view=ROW)
    walk.ends(ROW)
    assert explored("strobe_example_1", EcaKeyOverSources) == ("none", {NOTHING, ROW})


def test_example_1_eca_over_several_sources_ends_in_the_same_wrong_view() -> None:
    """The first query is compensated for a delete it did not see."""
    walk = Walk("strobe_example_1", EcaOverSources)
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 3]")
    walk.answers("Q[U1].x", "[1, 2, 3]")
    walk.hears("Q[U1].x", asks="Q[U1].x.z: [1, 2, 3] ⋈ r3")
    walk.happens("U2")
    walk.receives("U2", asks=["Q[U2].y: -[1, 2] ⋈ r2", "Q[U2].z: - -[1, 2] ⋈ [2, 3] ⋈ r3"])
    walk.answers("Q[U1].x.z", ROW)
    walk.hears("Q[U1].x.z")
    walk.answers("Q[U2].y", "-[1, 2, 3]")
    walk.hears("Q[U2].y", asks="Q[U2].y.z: -[1, 2, 3] ⋈ r3")
    walk.answers("Q[U2].z", ROW)
    walk.hears("Q[U2].z")
    walk.answers("Q[U2].y.z", "-[1, 2, 3, 4]")
    walk.hears("Q[U2].y.z", view=ROW)
    walk.ends(ROW)
    assert explored("strobe_example_1", EcaOverSources) == ("none", {NOTHING, ROW})


def test_example_1_the_basic_algorithm_takes_away_what_it_never_added() -> None:
    walk = Walk("strobe_example_1", "basic")
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 3]")
    walk.happens("U2")
    walk.answers("Q[U1].x", NOTHING)
    walk.receives("U2", asks="Q[U2].y: -[1, 2] ⋈ r2")
    walk.hears("Q[U1].x")
    walk.answers("Q[U2].y", "-[1, 2, 3]")
    walk.hears("Q[U2].y", asks="Q[U2].y.z: -[1, 2, 3] ⋈ r3")
    walk.answers("Q[U2].y.z", f"-{ROW}")
    walk.hears("Q[U2].y.z", view=f"-{ROW}")
    walk.ends(f"-{ROW}")
    assert explored("strobe_example_1", "basic") == ("none", {NOTHING, f"-{ROW}"})


def test_example_1_with_copies_is_right() -> None:
    walk = Walk("strobe_example_1", "sc")
    walk.happens("U1", "U2")
    walk.receives("U1", view=ROW)
    walk.receives("U2", view=NOTHING)
    walk.ends(NOTHING)


def test_example_1_eca_key_that_remembers_deletes_is_right() -> None:
    """What Strobe adds to ECA-Key is what ECA-Key lacks here."""
    assert explored("strobe_example_1", RememberingEcaKeyOverSources) == ("complete", {NOTHING})


# Example 2: where a query goes next.


def test_example_2_next_source() -> None:
    view = Walk("strobe_example_2", "strobe").simulation.view
    (query,) = appearances(view, "r2", view.slots[1].scan)
    assert next_source(view, query) == ("x", (0, 1))
    walk = Walk("strobe_example_2", "strobe")
    walk.happens("U1")
    (ask,) = walk.take("warehouse: receives U1 from y")
    assert walk.text(ask) == "Q[U1].x: r1 ⋈ [2, 3]"
    (question,) = ask.questions
    known = Term((answer_part(view, question, view.slots[0].scan),))
    assert known.bound == {0, 1}
    assert next_source(view, known) == ("z", (0, 1, 2))


@pytest.mark.parametrize(("relation", "visits"), [("r1", "yz"), ("r2", "xz"), ("r3", "yx")])
def test_example_2_a_query_goes_where_it_can_be_joined(relation: str, visits: str) -> None:
    """Never to a source from which a whole relation would have to be fetched."""
    view = Walk("strobe_example_2", "strobe").simulation.view
    (term,) = appearances(view, relation, view.slots[0].scan)
    found = ""
    while term.bound != view.everything:
        source, covers = next_source(view, term)
        found += source
        term = Term((replace(term.parts[0], slots=covers),))
    assert found == visits


def test_example_2_source_evaluate() -> None:
    walk = Walk("strobe_example_2", "strobe")
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 3]")
    walk.answers("Q[U1].x", "[1, 2, 3]")
    walk.hears("Q[U1].x", asks="Q[U1].x.z: [1, 2, 3] ⋈ r3")
    walk.answers("Q[U1].x.z", ROW)
    walk.hears("Q[U1].x.z", view=ROW)
    walk.ends(ROW)


# Example 3: Strobe.


class StrobeWalk(Walk):
    @property
    def applied(self) -> str:
        """The view with AL applied to it."""
        return rows(self.bag(self.state.working))

    @property
    def pending(self) -> list[tuple[str, list[str]]]:
        """UQS, and for each query what was deleted since it was sent."""
        return [
            (p.query.id, [f"{d.relation} {rows(self.bag(d.rows))}" for d in p.deletes])
            for p in self.state.pending
        ]


def test_example_3_strobe_avoids_the_deletion_anomaly() -> None:
    walk = StrobeWalk("strobe_example_3", "strobe")
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 3]")
    assert (walk.applied, walk.pending) == (NOTHING, [("Q[U1]", [])])
    walk.answers("Q[U1].x", "[1, 2, 3]")
    walk.hears("Q[U1].x", asks="Q[U1].x.z: [1, 2, 3] ⋈ r3")
    assert (walk.applied, walk.pending) == (NOTHING, [("Q[U1]", [])])
    walk.happens("U2")
    walk.receives("U2")
    assert (walk.applied, walk.pending) == (NOTHING, [("Q[U1]", ["r1 -[1, 2]"])])
    assert walk.state.received == ("U1", "U2")
    walk.answers("Q[U1].x.z", ROW)
    walk.hears("Q[U1].x.z")
    assert (walk.applied, walk.pending) == (NOTHING, [])
    assert walk.state.received == ()
    walk.ends(NOTHING)


def test_example_3_a_delete_before_the_query_reaches_its_source_needs_no_extra_action() -> None:
    walk = StrobeWalk("strobe_example_3", "strobe")
    walk.happens("U1", "U2")
    walk.receives("U2")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 3]")
    assert walk.pending == [("Q[U1]", [])]
    walk.answers("Q[U1].x", NOTHING)
    walk.hears("Q[U1].x")
    assert walk.pending == []
    walk.ends(NOTHING)


# Example 4: T-Strobe.


def test_example_4_strobe_shows_half_a_transaction() -> None:
    walk = Walk("strobe_example_4", "strobe")
    assert walk.views == ["[1, 2]"]
    walk.happens("T1")
    walk.receives("T1", view=[NOTHING, "[3, 4]"])
    walk.ends("[3, 4]")
    assert explored("strobe_example_4", "strobe") == ("convergent", {"[3, 4]"})


def test_example_4_t_strobe_shows_the_whole() -> None:
    walk = Walk("strobe_example_4", "t-strobe")
    walk.happens("T1")
    walk.receives("T1", view="[3, 4]")
    walk.ends("[3, 4]")
    level, finals = explored("strobe_example_4", "t-strobe")
    assert level >= "strong"
    assert finals == {"[3, 4]"}


@pytest.mark.parametrize(
    ("example", "further"),
    [
        ("eca_example_3", Update("r1", True, (1, 5))),
        ("eca_example_5", Update("r2", False, (2, 3))),
        ("strobe_example_1", Update("r1", True, (5, 2))),
        ("strobe_example_2", Update("r3", False, (3, 4))),
    ],
)
def test_section_5_3_on_single_updates_t_strobe_is_strobe(example: str, further: Update) -> None:
    given = scenario(example)
    longer = replace(given, transactions=(*given.transactions, Transaction("U", (further,)))).renumbered()
    assert behaviour(longer, "t-strobe") == behaviour(longer, "strobe")


def test_section_5_3_on_longer_transactions_it_is_not() -> None:
    given = scenario("strobe_example_4")
    assert behaviour(given, "t-strobe") != behaviour(given, "strobe")


# Examples 5 and 6: C-Strobe.


class CStrobeWalk(Walk):
    @property
    def inside(self) -> tuple[str, list[str], list[str]]:
        """Delta as the view shows it, UQS, and the queue."""
        current, queue = self.state.current, [unit.name for unit in self.state.queue]
        if current is None:
            return NOTHING, [], queue
        asked = [asked.query.id for asked in current.asked]
        return rows(self.shown(self.total(current.change))), asked, queue


C_STROBES = pytest.mark.parametrize("algorithm", ["c-strobe", "c-strobe-published"])


@C_STROBES
def test_example_5_c_strobe_asks_for_what_the_answer_may_lack(algorithm: str) -> None:
    walk = CStrobeWalk("strobe_example_5", algorithm)
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 3]")
    assert walk.inside == (NOTHING, ["Q[U1]"], [])
    walk.answers("Q[U1].x", "[1, 2, 3]")
    walk.hears("Q[U1].x", asks="Q[U1].x.z: [1, 2, 3] ⋈ r3")
    assert walk.inside == (NOTHING, ["Q[U1]"], [])
    walk.happens("U2")
    walk.receives("U2")
    assert walk.inside == (NOTHING, ["Q[U1]"], ["U2"])
    walk.answers("Q[U1].x.z", ROW)
    walk.hears("Q[U1].x.z", asks="Q[U1]/r1.z: [1, 2] ⋈ [2, 3] ⋈ r3")
    assert walk.inside == (ROW, ["Q[U1]/r1"], ["U2"])
    walk.answers("Q[U1]/r1.z", ROW)
    walk.hears("Q[U1]/r1.z", view=[ROW, NOTHING])
    assert walk.inside == (NOTHING, [], [])
    walk.ends(NOTHING)


@C_STROBES
def test_example_6_c_strobe_puts_back_what_the_answer_lacked(algorithm: str) -> None:
    walk = CStrobeWalk("strobe_example_6", algorithm)
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: r1 ⋈ [2, 3]")
    assert walk.inside == (NOTHING, ["Q[U1]"], [])
    walk.happens("U2")
    walk.receives("U2")
    assert walk.inside == (NOTHING, ["Q[U1]"], ["U2"])
    walk.answers("Q[U1].x", NOTHING)
    walk.hears("Q[U1].x", asks="Q[U1]/r1.z: [1, 2] ⋈ [2, 3] ⋈ r3")
    assert walk.inside == (NOTHING, ["Q[U1]/r1"], ["U2"])
    walk.answers("Q[U1]/r1.z", ROW)
    walk.hears("Q[U1]/r1.z", view=[ROW, NOTHING])
    assert walk.inside == (NOTHING, [], [])
    walk.ends(NOTHING)


def test_examples_5_and_6_strobe_may_pass_over_what_c_strobe_shows() -> None:
    """Where the insert arrives first, C-Strobe shows the state between the two updates on every schedule."""
    given = scenario("strobe_example_5")
    first, second = "warehouse: receives U1 from y", "warehouse: receives U2 from x"

    def shown(algorithm: str) -> set[tuple[str, ...]]:
        found = behaviour(given, algorithm)
        whole = [path for path, (*_, next_steps) in found.items() if not next_steps]
        return {found[path][2] for path in whole if path.index(first) < path.index(second)}

    assert shown("c-strobe") == {(NOTHING, ROW, NOTHING)}
    assert shown("strobe") == {(NOTHING,), (NOTHING, ROW, NOTHING)}
