"""Figure 1 of the paper on transaction ids: at read committed, what a query has seen and what the warehouse
takes it to have seen differ, though no message is lost and all arrive in order.

tx is the row of R with key 1, ty the one with key 2. T2 sets ty to 20 (the figure's third transaction), T3
sets tx to 10 (its first), the query is its second. Waiting for a lock is a commit in the middle of a read:
the query begins, meets ty as it was, and tx only when T3 has let it go.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from eca_over_sources import EcaOverSources
from papers_steps import NOTHING, Walk, explored, scenario

from stillframe.protocol import Protocol

TWO_SOURCES, ONE_SOURCE = "tid_figure_1", "tid_figure_1_one_source"
RIGHT = "[1, 10, 7], [2, 20, 7]"
TORN = "[1, 10, 7], [2, 2, 7]"  # no state of the source, whatever S holds


def figure_1(name: str, algorithm: str | type[Protocol[Any]]) -> Walk:
    """T0 to T10, as far as the source is concerned: T2 is reported before the answer, T3 after it."""
    walk = Walk(name, algorithm)
    walk.happens("U1")
    if name == ONE_SOURCE:
        walk.reports("U1")
    walk.receives("U1", asks="Q[U1].x: R ⋈ [7, 0]")
    walk.begins("Q[U1].x")
    walk.happens("T2")
    walk.reports("T2")
    walk.happens("T3")
    walk.answers("Q[U1].x", TORN, having_seen="T3.1")
    walk.reports("T3")
    return walk


def test_figure_1_eca_compensates_what_was_not_seen_and_not_what_was() -> None:
    walk = figure_1(ONE_SOURCE, "eca")
    walk.receives("T2", asks=["Q[T2.1].x: -[2, 2] ⋈ S", "Q[T2.2].x: [2, 20] ⋈ S"])
    walk.hears("Q[U1].x")
    walk.receives("T3", asks=["Q[T3.1].x: -[1, 1] ⋈ S", "Q[T3.2].x: [1, 10] ⋈ S"])
    answers = {"Q[T2.1].x": "-[2, 2, 7]", "Q[T2.2].x": "[2, 20, 7]", "Q[T3.1].x": "-[1, 1, 7]"}
    for query, answer in answers.items():
        walk.begins(query)
        walk.answers(query, answer)
        walk.hears(query)
    walk.begins("Q[T3.2].x")
    walk.answers("Q[T3.2].x", "[1, 10, 7]")
    wrong = "-[1, 1, 7], [1, 10, 7], [1, 10, 7], [2, 2, 7]"
    walk.hears("Q[T3.2].x", view=wrong)
    walk.ends(wrong)


def test_figure_1_eca_with_whole_transactions_is_wrong_too() -> None:
    batch = replace(scenario(ONE_SOURCE), params={"eca": {"batch": True}})
    level, finals = explored(batch, "eca")
    assert level == "none"
    assert {RIGHT, "-[1, 1, 7], [1, 10, 7], [1, 10, 7], [2, 2, 7]"} <= finals


def test_figure_1_with_the_update_at_another_source_compensation_is_wrong_too() -> None:
    walk = figure_1(TWO_SOURCES, EcaOverSources)
    walk.receives("T2", asks=["Q[T2.1].y: -[2, 2] ⋈ S", "Q[T2.2].y: [2, 20] ⋈ S"])
    walk.hears("Q[U1].x")
    walk.receives("T3", asks=["Q[T3.1].y: -[1, 1] ⋈ S", "Q[T3.2].y: [1, 10] ⋈ S"])
    answers = {"Q[T2.1].y": "-[2, 2, 7]", "Q[T2.2].y": "[2, 20, 7]", "Q[T3.1].y": "-[1, 1, 7]"}
    for query, answer in answers.items():
        walk.answers(query, answer)
        walk.hears(query)
    walk.answers("Q[T3.2].y", "[1, 10, 7]")
    walk.hears("Q[T3.2].y", view="-[1, 1, 7], [1, 10, 7], [1, 10, 7], [2, 2, 7]")


def test_figure_1_keys_save_t_strobe_on_the_printed_schedule() -> None:
    walk = figure_1(TWO_SOURCES, "t-strobe")
    walk.receives("T2", asks="Q[T2].y: [2, 20] ⋈ S")
    walk.hears("Q[U1].x")
    walk.receives("T3", asks="Q[T3].y: [1, 10] ⋈ S")
    walk.answers("Q[T2].y", "[2, 20, 7]")
    walk.hears("Q[T2].y")
    walk.answers("Q[T3].y", "[1, 10, 7]")
    walk.hears("Q[T3].y", view=RIGHT)
    walk.ends(RIGHT)


def test_figure_1_t_strobe_shows_a_torn_read_when_both_are_reported_late() -> None:
    walk = Walk(TWO_SOURCES, "t-strobe")
    walk.happens("U1")
    walk.receives("U1", asks="Q[U1].x: R ⋈ [7, 0]")
    walk.begins("Q[U1].x")
    walk.happens("T2", "T3")
    walk.answers("Q[U1].x", TORN, having_seen="T3.1")
    walk.hears("Q[U1].x", view=TORN)
    assert explored(TWO_SOURCES, "t-strobe") == ("convergent", {RIGHT})


def test_figure_1_tid_reads_again_and_is_right() -> None:
    """The same events at the source while tid's query is read there."""
    walk = Walk(TWO_SOURCES, "tid")
    walk.happens("U1")
    walk.receives("U1", asks=["P1.x", "P1.y"])
    walk.answers("P1.x", NOTHING)
    walk.hears("P1.x")
    walk.answers("P1.y", NOTHING)
    walk.hears("P1.y", asks="S1.y: S (change)")
    walk.answers("S1.y", "[7, 0]")
    walk.hears("S1.y", asks="S1.y.x: R (after) ⋈ [7, 0]")
    walk.begins("S1.y.x")
    walk.happens("T2")
    walk.reports("T2")
    walk.happens("T3")
    assert not [label for label in walk.choices if label.startswith("x: answers")]
    walk.begins("S1.y.x", again=True)
    walk.answers("S1.y.x", "[1, 1, 7], [2, 2, 7]")
    walk.reports("T3")
    walk.receives("T2")
    walk.hears("S1.y.x", view="[1, 1, 7], [2, 2, 7]", asks=["P2.x", "P2.y"])


@pytest.mark.parametrize("name", [TWO_SOURCES, ONE_SOURCE])
def test_figure_1_tid_is_right_on_every_schedule(name: str) -> None:
    assert explored(name, "tid") == ("strong", {RIGHT})


@pytest.mark.parametrize("algorithm", ["basic", "eca", "lca", "eca-key-published"])
def test_figure_1_who_does_not_converge_at_read_committed(algorithm: str) -> None:
    level, finals = explored(ONE_SOURCE, algorithm)
    assert level == "none"
    assert RIGHT in finals
    assert len(finals) > 1


@pytest.mark.parametrize("algorithm", ["rv", "eca-key", "strobe", "c-strobe"])
def test_figure_1_who_converges_though_torn_reads_are_shown(algorithm: str) -> None:
    assert explored(ONE_SOURCE, algorithm) == ("convergent", {RIGHT})


@pytest.mark.parametrize(
    ("name", "algorithm"), [(ONE_SOURCE, "eca"), (ONE_SOURCE, "t-strobe"), (TWO_SOURCES, "t-strobe")]
)
def test_figure_1_where_reads_are_atomic_nothing_goes_wrong(name: str, algorithm: str) -> None:
    atomic = replace(scenario(name), isolation={}, params={"eca": {"batch": True}})
    assert explored(atomic, algorithm) == ("strong", {RIGHT})


def test_figure_1_who_never_asks_is_not_concerned() -> None:
    assert explored(ONE_SOURCE, "sc") == ("complete", {RIGHT})
