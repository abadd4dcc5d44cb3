"""Exploration merges worlds and counts paths; a simulator that does neither finds the same. And what each
algorithm keeps of its claim when less is given: crashes, faulty channels, read committed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from plain_schedules import Plain

from stillframe.algebra import Bag
from stillframe.consistency import Level
from stillframe.protocol import ALGORITHMS, NotApplicable
from stillframe.simulator import Scenario, is_sampled, read, scenarios
from stillframe.simulator.explore import TooManyWorlds, explore, totals
from stillframe.simulator.outcome import Outcome, simulate, simulation_of
from stillframe.simulator.settings import claim
from stillframe.simulator.world import Simulation

SEED = 11
ONE_BY_ONE = 200  # schedules that the second simulator walks in reasonable time
PATHS = 20_000


@cache
def explored(number: int, algorithm: str) -> Outcome | None:
    """The exploration of a scenario of the battery, if the algorithm applies and there are few worlds."""
    try:
        outcome = simulate(drawn()[number], algorithm, most=3_000)
    except TooManyWorlds:
        return None
    return outcome if outcome.verdict is not None else None


@cache
def drawn() -> tuple[Scenario, ...]:
    return tuple(each for each in scenarios(SEED, 70) if not is_sampled(each))


def small(algorithm: str, least: int, most: int) -> list[tuple[Scenario, Outcome]]:
    found = [(each, explored(number, algorithm)) for number, each in enumerate(drawn())]
    return [(each, outcome) for each, outcome in found if outcome and least <= outcome.schedules < most]


def histories(simulation: Simulation) -> frozenset[tuple[Bag, ...]]:
    graph = explore(simulation)
    seen = {simulation.views(graph.worlds[end]) for end in graph.ends()}
    return frozenset(tuple(simulation.bags[bag] for bag in views) for views in seen)


# Merging


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_differential_every_schedule_walked_one_by_one(algorithm: str) -> None:
    compared = small(algorithm, 1, ONE_BY_ONE)
    assert len(compared) >= 8
    for scenario, outcome in compared:
        plain = Plain(scenario, algorithm).findings()
        merged = (outcome.schedules, outcome.messages, outcome.bytes, outcome.verdict)
        assert merged == (plain.schedules, plain.messages, plain.bytes, plain.verdict), scenario.name
        assert histories(simulation_of(scenario, algorithm)) == plain.histories, scenario.name


def test_the_comparison_sees_enough() -> None:
    """More than thirty scenarios, and schedules that end in different levels and different costs."""
    compared = [pair for algorithm in ALGORITHMS for pair in small(algorithm, 1, ONE_BY_ONE)]
    assert len({scenario.name for scenario, _ in compared}) >= 30
    assert {outcome.level for _, outcome in compared} >= {"none", "convergent", "strong", "complete"}
    assert sum(outcome.messages[0] < outcome.messages[1] for _, outcome in compared) >= 10
    assert sum(outcome.bytes[0] < outcome.bytes[1] for _, outcome in compared) >= 30
    assert sum(len(outcome.finals) > 1 for _, outcome in compared) >= 5


@pytest.mark.parametrize("algorithm", ["basic", "strobe", "c-strobe", "tid"])
def test_paths_of_larger_scenarios_are_counted_right(algorithm: str) -> None:
    compared = small(algorithm, ONE_BY_ONE, PATHS)[:4]
    assert len(compared) >= 2
    for scenario, outcome in compared:
        simulation = simulation_of(scenario, algorithm)
        ends = paths(simulation)
        assert len(ends) == outcome.schedules, scenario.name
        assert span(messages for _, messages, _ in ends) == outcome.messages
        assert span(size for _, _, size in ends) == outcome.bytes
        seen = {tuple(simulation.bags[bag] for bag in simulation.views(world)) for world, _, _ in ends}
        assert seen == histories(simulation_of(scenario, algorithm))


def paths(simulation: Simulation) -> list[tuple[Any, int, int]]:
    """The end and the costs of every path, each walked."""
    ends, waiting = [], [(simulation.start(), 0, 0)]
    while waiting:
        world, messages, size = waiting.pop()
        steps = simulation.steps(world)
        if not steps:
            ends.append((world, messages, size))
        waiting += [(step.world, messages + step.messages, size + step.bytes) for step in steps]
    return ends


def span(numbers: Iterable[int]) -> tuple[int, int]:
    every = list(numbers)
    return min(every), max(every)


def test_the_first_way_to_a_world_is_a_shortest() -> None:
    scenario, _ = small("basic", 50, PATHS)[0]
    simulation = simulation_of(scenario, "basic")
    graph = explore(simulation)
    nearest = {graph.worlds[0]: 0}
    waiting = [graph.worlds[0]]
    for world in waiting:
        for step in simulation.steps(world):
            if step.world not in nearest:
                nearest[step.world] = nearest[world] + 1
                waiting.append(step.world)
    assert [len(graph.schedule(n)) for n in range(len(graph.worlds))] == [nearest[w] for w in graph.worlds]
    assert totals(graph).schedules > 50


def test_exploration_that_would_not_end_is_given_up() -> None:
    scenario, outcome = small("basic", 50, PATHS)[0]
    assert simulate(scenario, "basic", most=outcome.worlds).worlds == outcome.worlds
    with pytest.raises(TooManyWorlds):
        simulate(scenario, "basic", most=outcome.worlds - 1)


# Less than given

JOIN = "SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B"


def pair(updates: str, *, sources: str, r1: str = "[[1, 2]]", r2: str = "[]", **more: Any) -> Scenario:
    """r1(A, B) and r2(B, C), at one source or at two; all algorithms for as many sources apply."""
    made = read(
        f"""
relations:
  r1: {{source: {sources[0]}, columns: [A, B], key: [A], rows: {r1}}}
  r2: {{source: {sources[-1]}, columns: [B, C], key: [B], rows: {r2}}}
view: {JOIN}
updates: {updates}
""",
        f"{updates} at {sources}",
    )
    return replace(made, **more)


INSERTS = '["insert r2 [2, 3]", "insert r1 [4, 2]"]'
INSERT_AND_DELETE = '["insert r2 [2, 3]", "delete r1 [1, 2]"]'
COMES_AND_GOES = '["insert r1 [4, 2]", "delete r1 [4, 2]"]'
MODIFIED = '["insert r1 [4, 2]", ["delete r2 [2, 3]", "insert r2 [2, 4]"]]'
LATE_REPORTS = '["insert r1 [4, 2]", "delete r1 [4, 2]", "insert r2 [2, 3]"]'
TOGETHER = '["insert r1 [4, 9]", ["insert r2 [2, 3]", "insert r1 [5, 2]"]]'


def small_world(sources: str, **more: Any) -> list[Scenario]:
    return [
        pair(INSERTS, sources=sources, **more),
        pair(INSERT_AND_DELETE, sources=sources, **more),
        pair(COMES_AND_GOES, sources=sources, r2="[[2, 3]]", **more),
        pair(MODIFIED, sources=sources, r2="[[2, 3]]", **more),
    ]


def below_claim(worlds: Iterable[Scenario], algorithms: Iterable[str] = ALGORITHMS) -> dict[str, list[str]]:
    """The algorithms that miss their claim somewhere, and where."""
    missed: dict[str, list[str]] = {}
    for scenario in worlds:
        for algorithm in algorithms:
            outcome = simulate(scenario, algorithm)
            if outcome.verdict is None:
                continue
            promised = claim(simulation_of(scenario, algorithm).protocol, scenario)
            if outcome.level < promised:
                missed.setdefault(algorithm, []).append(f"{scenario.name}: {outcome.level} < {promised}")
    return missed


@pytest.mark.parametrize("sources", ["x", "xy"])
def test_nothing_breaks_where_all_is_given(sources: str) -> None:
    assert below_claim(small_world(sources)) == {}


@pytest.mark.parametrize("sources", ["x", "xy"])
@pytest.mark.parametrize("crashes", [1, 2])
def test_every_algorithm_recovers_from_crashes(sources: str, crashes: int) -> None:
    assert below_claim(small_world(sources, crashes=crashes)) == {}


def test_every_algorithm_recovers_from_a_crash_in_scenarios_of_the_battery() -> None:
    few = [replace(each, crashes=1) for each in drawn() if len(each.transactions) <= 2][:8]
    assert len(few) == 8
    assert below_claim(few) == {}


def test_a_crash_happens_between_any_two_steps_and_costs_what_was_asked() -> None:
    scenario = pair('["insert r2 [2, 3]"]', sources="xy", crashes=1)
    simulation = simulation_of(scenario, "strobe")
    graph = explore(simulation)
    before = [world for world in graph.worlds if world.rest.crashes]
    assert len(before) >= 5
    for world in before:
        labels = [step.label for step in simulation.steps(world)]
        assert labels.count("warehouse: crashes and starts anew") == 1
    assert simulate(replace(scenario, crashes=0), "strobe").messages == (2, 2)
    assert simulate(scenario, "strobe").messages == (2, 4)


FAULTS: Mapping[str, tuple[Mapping[str, Any], set[str]]] = {
    # A lost report is never heard of again; only tid asks where the sources stand.
    "lose": (
        {"channels": {"lose"}},
        {*ALGORITHMS} - {"basic", "tid"},
    ),
    # rv replaces the view whole; g-strobe counts what it has processed.
    "repeat": (
        {"channels": {"repeat"}},
        {*ALGORITHMS} - {"basic", "rv", "g-strobe", "tid"},
    ),
    "reorder": (
        {"channels": {"reorder"}},
        {*ALGORITHMS} - {"basic", "g-strobe", "tid"},
    ),
    # sc asks nothing; g-strobe waits for what an answer has shown by its number.
    "read-committed": (
        {"isolation": "read-committed"},
        {"rv", "eca", "eca-key", "eca-local", "lca", "strobe", "t-strobe", "c-strobe", "c-t-strobe"},
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_which_algorithms_break_under(fault: str) -> None:
    """`basic` claims nothing, so there is nothing for it to break."""
    given, breaking = FAULTS[fault]
    worlds = [
        pair(
            updates, sources=sources, r2=rows, **{key: dict.fromkeys(sources, v) for key, v in given.items()}
        )
        for updates, rows in (
            (INSERTS, "[]"),
            (INSERT_AND_DELETE, "[]"),
            (COMES_AND_GOES, "[[2, 3]]"),
            *([(TOGETHER, "[]"), (LATE_REPORTS, "[]")] if fault == "read-committed" else []),
        )
        for sources in (("x",) if updates in (TOGETHER, LATE_REPORTS) else ("x", "xy"))
    ]
    assert set(below_claim(worlds)) == breaking


def test_tid_keeps_its_claim_under_everything_at_once() -> None:
    worlds = [
        pair(updates, sources="xy", channels={"x": faults}, isolation={"y": "read-committed"}, crashes=1)
        for updates in ('["insert r2 [2, 3]"]', INSERT_AND_DELETE)
        for faults in ({"lose", "reorder"}, {"repeat"})
    ]
    assert below_claim(worlds, ["tid"]) == {}


def test_a_query_at_read_committed_sees_part_of_a_transaction() -> None:
    scenario = pair(TOGETHER, sources="x", isolation={"x": "read-committed"})
    simulation = simulation_of(scenario, "rv")
    labels = {step.label for world in explore(simulation).worlds for step in simulation.steps(world)}
    seen = {label.partition(" having seen ")[2] for label in labels if "having seen" in label}
    assert {"nothing new", "T2.1", "T2.2", "T2.1, T2.2"} <= seen
    assert simulate(scenario, "rv").level < Level.STRONG
    assert simulate(replace(scenario, isolation={}), "rv").level >= Level.STRONG


def test_an_algorithm_that_does_not_apply_is_an_outcome() -> None:
    outcome = simulate(pair(INSERTS, sources="xy"), "eca")
    assert isinstance(outcome.reason, NotApplicable) and outcome.verdict is None
    assert outcome.reason.code == "NEEDS_ONE_SOURCE"
