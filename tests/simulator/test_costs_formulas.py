"""The closed forms of the performance study (ECA paper, 6.1 to 6.3 and appendix D): values, and where they
cross."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import pytest

from stillframe.simulator.formulas import (
    Parameters,
    cost,
    cost_in_turn,
    cost_of_three,
    crossover,
    messages_of_rv,
    pairs,
    pairs_in_turn,
    restorations_of,
)

P = Parameters()
SERIES = [("rv", "best"), ("rv", "worst"), ("eca", "best"), ("eca", "worst")]


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("bytes", [3200, 9600, 96, 120]),
        ("io1", [15, 45, 15, 18]),
        ("io2", [125, 375, 45, 60]),
    ],
)
def test_three_updates(quantity, expected):
    assert [cost_of_three(quantity, *series, P) for series in SERIES] == expected


@pytest.mark.parametrize(
    ("quantity", "expected"),
    [
        ("messages", [2, 60, 60, 60]),
        ("bytes", [3200, 96000, 960, 3280]),
        ("io1", [15, 450, 150, 440]),
        ("io2", [125, 3750, 450, 1900]),
    ],
)
def test_thirty_updates(quantity, expected):
    assert [cost(quantity, *series, 30, P) for series in SERIES] == expected


def test_messages_of_recomputing_every_s_updates():
    assert [messages_of_rv(10, s) for s in (1, 3, 5, 10)] == [20, 8, 4, 2]


@pytest.mark.parametrize("c", [20, 40, 100, 300])
@pytest.mark.parametrize("quantity", ["bytes", "io1", "io2"])
@pytest.mark.parametrize("series", SERIES)
def test_updates_in_turn_are_the_form_for_three(c, quantity, series):
    """Also where J is not less than I, so that relations are better read whole."""
    p = replace(P, C=c)
    assert cost_in_turn(quantity, *series, 3, p) == cost_of_three(quantity, *series, p)


def test_the_two_forms_of_the_worst_case_disagree_for_three_updates():
    assert cost_of_three("bytes", "eca", "worst", P) - cost("bytes", "eca", "worst", 3, P) == 8
    assert (pairs_in_turn(3), pairs(3)) == (3, 2)


@pytest.mark.parametrize("k", range(12))
def test_pairs_in_turn_counts_pairs(k):
    assert pairs_in_turn(k) == sum(a % 3 != b % 3 for a, b in combinations(range(k), 2))


@pytest.mark.parametrize(
    ("quantity", "case", "at", "first"),
    [
        ("bytes", "best", 100, 100),
        ("bytes", "worst", 29.5749, 30),
        ("io1", "best", 3, 3),
        ("io1", "worst", 2.6954, 3),
        ("io2", "best", 8.3333, 9),
        ("io2", "worst", 5.5394, 6),
    ],
)
def test_crossovers_with_recomputing_once(quantity, case, at, first):
    found = crossover(
        lambda k: cost(quantity, "eca", case, k, P), lambda k: cost(quantity, "rv", "best", k, P)
    )
    assert (found.at, found.first) == (pytest.approx(at, abs=1e-4), first)


def test_curves_that_do_not_meet_are_not_said_to():
    with pytest.raises(ValueError, match="do not meet"):
        crossover(lambda k: k, lambda k: k + 1)


@pytest.mark.parametrize(("c", "first"), [(50, 20), (100, 30), (200, 44), (400, 64)])
def test_a_larger_relation_moves_the_crossover_out(c, first):
    p = replace(P, C=c)
    worst, once = ("eca", "worst"), ("rv", "best")
    found = crossover(lambda k: cost("bytes", *worst, k, p), lambda k: cost("bytes", *once, k, p))
    assert found.first == first


def test_restorations_of_c_strobe_pass_the_factorial_of_the_text():
    assert [restorations_of(n) for n in (1, 2, 3, 4, 5)] == [0, 0, 2, 9, 40]
