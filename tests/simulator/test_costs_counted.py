"""Counts beside the closed forms: equal where the forms' assumptions hold, and laws that hold on any data."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from stillframe.algebra import evaluate
from stillframe.protocol import NotApplicable
from stillframe.simulator import scenarios
from stillframe.simulator.costs import Counting, Schedule, count, prefixes, query_of
from stillframe.simulator.explore import explore, totals
from stillframe.simulator.formulas import Parameters, cost_in_turn, restorations_of, updates_in_turn
from stillframe.simulator.paper_relations import (
    apart,
    joined_and_passing,
    keyed,
    meeting,
    random,
    recomputing_every_time,
    rounds_of_deletes,
)

P = Parameters()
SIZES = [12, 20, 40, 100]
UPDATES = [1, 2, 3, 4, 6, 9, 12]
APART, TOGETHER = Schedule.APART, Schedule.TOGETHER


def rows(p, made):
    return made.term_bytes / p.S


def odd_pair(k, p):
    """Rows by which an odd number of pairs t1, t3 exceeds half of what it joins to."""
    first, _, third = updates_in_turn(k)
    return first * third % 2 * p.J / 2


@pytest.mark.parametrize("c", SIZES)
@pytest.mark.parametrize("k", UPDATES)
def test_eca_worst_is_its_formula(c, k):
    p = replace(P, C=c)
    made = count(meeting(p, k), "eca", TOGETHER, p.K)
    assert made.messages == cost_in_turn("messages", "eca", "worst", k, p)
    assert made.term_bytes == cost_in_turn("bytes", "eca", "worst", k, p) + p.S * odd_pair(k, p)
    assert made.io1 == cost_in_turn("io1", "eca", "worst", k, p)
    assert made.io2 == cost_in_turn("io2", "eca", "worst", k, p)


@pytest.mark.parametrize("c", SIZES)
def test_eca_best_is_its_formula(c):
    p = replace(P, C=c)
    for k, made in enumerate(prefixes(apart(p, 12), "eca", p.K)):
        assert made.messages == cost_in_turn("messages", "eca", "best", k, p)
        assert made.term_bytes == made.bytes == cost_in_turn("bytes", "eca", "best", k, p)
        assert made.io1 == cost_in_turn("io1", "eca", "best", k, p)
        assert made.io2 == cost_in_turn("io2", "eca", "best", k, p)


@pytest.mark.parametrize("c", SIZES)
@pytest.mark.parametrize("k", [3, 5, 6])
def test_rv_best_is_its_formula(c, k):
    p = replace(P, C=c)
    made = count(meeting(p, k), "rv", APART, p.K)
    for quantity, counted in (
        ("messages", made.messages), ("bytes", made.bytes), ("io1", made.io1), ("io2", made.io2)
    ):  # fmt: skip
        assert counted == cost_in_turn(quantity, "rv", "best", k, p)


@pytest.mark.parametrize("c", SIZES)
def test_rv_worst_is_its_formula_but_for_rows_that_are_missing(c):
    """The three relations begin with a row missing in each; a row is worth sigma J² rows of the view."""
    p = replace(P, C=c)
    missing, total = 3, 0
    for k, made in enumerate(prefixes(recomputing_every_time(apart(p, 12)), "rv", p.K)):
        if k:
            missing += 1 if (k - 1) // 3 % 2 else -1
            total += missing
        assert made.messages == cost_in_turn("messages", "rv", "worst", k, p)
        expected = cost_in_turn("bytes", "rv", "worst", k, p) - total * p.S * p.sigma * p.J**2
        assert made.bytes == expected
        assert made.io1 == cost_in_turn("io1", "rv", "worst", k, p)
        assert made.io2 == cost_in_turn("io2", "rv", "worst", k, p)


def test_bytes_cross_where_the_formulas_do():
    once = count(meeting(P, 100), "rv", APART).bytes
    best = prefixes(apart(P, 100), "eca")
    assert best[99].bytes < once <= best[100].bytes
    worst = [count(meeting(P, k), "eca", TOGETHER).term_bytes for k in (29, 30)]
    assert worst[0] < once <= worst[1]


@pytest.mark.parametrize(("attribute", "best", "worst"), [("io1", 3, 3), ("io2", 9, 6)])
def test_reads_cross_where_the_formulas_do(attribute, best, worst):
    once = getattr(count(meeting(P, 12), "rv", APART, P.K), attribute)
    spaced = [getattr(made, attribute) for made in prefixes(apart(P, 12), "eca", P.K)]
    assert spaced[best - 1] < once <= spaced[best]
    crowded = [getattr(count(meeting(P, k), "eca", TOGETHER, P.K), attribute) for k in (worst - 1, worst)]
    assert crowded[0] < once <= crowded[1]


# The instances.


@pytest.mark.parametrize("k", [0, 1, 3, 8, 12])
def test_when_updates_that_meet_have_happened_every_parameter_is_as_assumed(k):
    made = meeting(P, k)
    r1, r2, r3 = (made.final()[name] for name in ("r1", "r2", "r3"))
    assert [bag.size for bag in (r1, r2, r3)] == [P.C] * 3
    for bag, column in ((r1, 1), (r2, 0), (r2, 1), (r3, 0)):
        assert set(Counter(row[column] for row in bag.rows()).values()) == {P.J}
    assert evaluate(made.plan(), lambda scan: made.final()[scan.relation]).size == P.sigma * P.C * P.J**2


def test_updates_apart_leave_out_at_most_a_row():
    made = apart(P, 9)
    assert [len(relation.rows) for relation in made.relations] == [P.C - 1] * 3
    assert [bag.size for bag in made.final().values()] == [P.C] * 3


@pytest.mark.parametrize("c", [1, 2, 3, 4, 5, 7, 10])
def test_relations_too_small_for_the_parameters_are_still_relations(c):
    p = replace(P, C=c)
    for made, algorithm in ((apart(p, 6), "eca"), (meeting(p, 6), "eca"), (meeting(p, 6), "rv")):
        assert count(made, algorithm, TOGETHER, p.K).messages
    assert keyed(p, 1, sources=1)


def test_random_relations_join_about_as_assumed():
    found = [joined_and_passing(random(P, 0, seed, steady=False)) for seed in range(30)]
    assert sum(joined for joined, _ in found) / 30 == pytest.approx(P.C * P.J**2, rel=0.1)
    shares = [passing / joined for joined, passing in found]
    assert sum(shares) / 30 == pytest.approx(float(P.sigma), rel=0.1)


def test_random_updates_of_a_seed_begin_alike():
    """So that the first n updates of a longer run cost what n updates cost."""
    for steady in (True, False):
        short, long = random(P, 4, 1, steady=steady), random(P, 9, 1, steady=steady)
        assert short.relations == long.relations
        assert short.transactions == long.transactions[:4]


# Laws.


@pytest.mark.parametrize("seed", range(3))
def test_inserts_apart_cost_eca_what_the_view_grows_by(seed):
    p = replace(P, C=40)
    once = [count(random(p, k, seed, steady=False), "rv", APART).bytes for k in (1, 5, 9)]
    grown = prefixes(random(p, 9, seed, steady=False), "eca")
    first = joined_and_passing(random(p, 0, seed, steady=False))[1] * p.S
    assert [grown[k].bytes for k in (1, 5, 9)] == [size - first for size in once]


@pytest.mark.parametrize("schedule", Schedule)
@pytest.mark.parametrize("algorithm", ["eca", "lca", "strobe", "c-strobe", "tid", "basic"])
def test_cancelling_rows_never_adds_bytes(algorithm, schedule):
    made = count(keyed(replace(P, C=12), 9, sources=1), algorithm, schedule)
    assert made.bytes <= made.term_bytes


def test_together_answers_wait_for_every_update():
    scenario = keyed(replace(P, C=12), 6, sources=3)
    simulation = Counting(scenario, "c-strobe")
    world, labels = simulation.start(), []
    while (step := simulation.following(world, TOGETHER)) is not None:
        labels.append(step.label)
        world = step.world
    answers = [place for place, label in enumerate(labels) if ": answers " in label]
    happened = [place for place, label in enumerate(labels) if ": U" in label]
    assert len(happened) == 6 and answers and max(happened) < min(answers)


def test_apart_nothing_is_on_its_way_when_an_update_happens():
    simulation = Counting(keyed(replace(P, C=12), 6, sources=3), "strobe")
    world = simulation.start()
    while (step := simulation.following(world, APART)) is not None:
        if step.world.done != world.done:
            assert not any(world.up) and not any(world.down)
        world = step.world


# When updates are rare, ECA sends exactly what the basic algorithm sends.


def both(scenario):
    eca, basic = Counting(scenario, "eca"), Counting(scenario, "basic")
    return (eca.walk(APART), eca.sent), (basic.walk(APART), basic.sent)


@pytest.mark.parametrize(
    "scenario", [random(P, 9, 3, steady=True), meeting(P, 9), apart(P, 9)], ids=lambda s: s.name
)
def test_rare_updates_cost_eca_what_they_cost_basic_message_by_message(scenario):
    (costs, sent), (basic_costs, basic_sent) = both(scenario)
    assert len(sent) == 9
    assert sent == basic_sent
    assert costs == basic_costs


def test_rare_updates_cost_the_same_in_a_battery_of_scenarios():
    compared = 0
    for scenario in scenarios(7, 60):
        try:
            (costs, sent), (basic_costs, basic_sent) = both(scenario)
        except NotApplicable:
            continue
        if any(len(transaction.updates) > 1 for transaction in scenario.transactions):
            continue  # both take a transaction's updates one by one, so these are not apart
        assert (costs, sent) == (basic_costs, basic_sent), scenario.name
        compared += bool(sent)
    assert compared >= 8


def test_updates_that_are_not_rare_cost_eca_more_questions():
    eca, basic = Counting(meeting(P, 6), "eca"), Counting(meeting(P, 6), "basic")
    assert eca.walk(TOGETHER)[-1].terms > basic.walk(TOGETHER)[-1].terms
    assert eca.sent != basic.sent


# C-Strobe's compensating queries.


@pytest.mark.parametrize("relations", [2, 3, 4])
def test_c_strobe_compensates_as_often_as_levels_of_relations_allow(relations):
    simulation = Counting(rounds_of_deletes(relations), "c-strobe")
    made = simulation.walk(TOGETHER)[-1]
    assert made.queries - 1 == restorations_of(relations)
    asked = {query_of(sent.id) for sent in simulation.sent}
    orders = {tuple(query.split("/")[1:]) for query in asked}
    assert all(len(set(order)) == len(order) <= relations - 2 for order in orders)


def test_no_schedule_of_three_relations_makes_c_strobe_send_more():
    scenario = rounds_of_deletes(3)
    dearest = totals(explore(Counting(scenario, "c-strobe"))).messages[1]
    assert count(scenario, "c-strobe", TOGETHER).messages == dearest


@pytest.mark.parametrize(
    ("message", "query"),
    [
        ("Q[U1].x", "Q[U1]"),
        ("Q[U1].x.z", "Q[U1]"),
        ("Q[T1.2].x", "Q[T1.2]"),
        ("Q[U1]/r2/r3.s4", "Q[U1]/r2/r3"),
        ("S1.x.y", "S1"),
        ("P2.x", "P2"),
    ],
)
def test_the_query_of_a_message(message, query):
    assert query_of(message) == query
