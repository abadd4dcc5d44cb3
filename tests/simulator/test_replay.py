"""Schedules as values: printed, read back, replayed, completed, and made simpler."""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise

import pytest
import yaml

from stillframe.algebra import Bag
from stillframe.simulator import Scenario, ScenarioError, is_sampled, read, scenarios
from stillframe.simulator.explore import sample, verdict
from stillframe.simulator.outcome import document, simulate, simulation_of
from stillframe.simulator.printed import Printed, choose, read_schedules
from stillframe.simulator.replay import ScheduleError, follow, replay, shrink
from stillframe.simulator.words import in_flight, rows_text, state_words

PAIR = read(
    """
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2]]}
  r2: {source: x, columns: [B, C], key: [B], rows: []}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: ["insert r2 [2, 3]", "insert r1 [4, 2]"]
""",
    "pair",
)
TWICE = (  # the anomaly of the ECA paper: the first answer counts the second insert, and so does the second
    "x: U1 insert r2 [2, 3]",
    "x: U2 insert r1 [4, 2]",
    "warehouse: receives U1 from x",
    "warehouse: receives U2 from x",
    "x: answers Q[U1].x",
    "x: answers Q[U2].x",
    "warehouse: receives the answer to Q[U1].x from x",
    "warehouse: receives the answer to Q[U2].x from x",
)
ALGORITHMS = ("basic", "eca", "strobe", "t-strobe", "tid")


@cache
def drawn() -> tuple[Scenario, ...]:
    return tuple(each for each in scenarios(5, 30) if not is_sampled(each))


# Replaying


def test_a_schedule_replays_step_by_step() -> None:
    simulation = simulation_of(PAIR, "basic")
    walked = replay(simulation, TWICE)
    run = walked.run(simulation)
    assert walked.possible == () and run.schedule == TWICE and run.messages == 4
    assert [simulation.bags[bag] for bag in run.views] == [
        Bag(),
        Bag.of([(1, 2, 3), (4, 2, 3)]),
        Bag.of([(1, 2, 3), (4, 2, 3), (4, 2, 3)]),
    ]
    assert [len(simulation.views(step.world)) for step in walked.steps] == [1, 1, 1, 1, 1, 1, 2, 3]


def test_every_counterexample_replays_to_the_same_views() -> None:
    found = 0
    for scenario in drawn():
        for algorithm in ALGORITHMS:
            example = simulate(scenario, algorithm, most=20_000, explained=True).counterexample
            if example is None:
                continue
            found += 1
            simulation = simulation_of(scenario, algorithm)
            walked = replay(simulation, example.schedule)
            assert walked.possible == ()
            views = walked.run(simulation).views
            assert tuple(simulation.bags[bag] for bag in views) == example.views
            assert not verdict(simulation, views).holds[example.breaks]
            assert example.state is not None and example.state < len(views) and example.reason
    assert found >= 30


def test_a_step_that_is_not_possible_is_named_with_those_that_are() -> None:
    wrong = [*TWICE[:4], "x: answers Q[U2].x"]
    with pytest.raises(ScheduleError) as raised:
        replay(simulation_of(PAIR, "basic"), wrong)
    assert raised.value.message == "step 5 is not possible: x: answers Q[U2].x"
    assert raised.value.detail == "possible there: x: answers Q[U1].x"
    assert raised.value.exit_status == 2
    with pytest.raises(ScheduleError) as raised:
        replay(simulation_of(PAIR, "basic"), [*TWICE, "warehouse: time passes"])
    assert raised.value.message.startswith("step 9 is not possible") and "nothing is" in raised.value.detail


def test_a_schedule_may_end_early() -> None:
    walked = replay(simulation_of(PAIR, "basic"), TWICE[:3])
    assert walked.possible == ("x: answers Q[U1].x", "warehouse: receives U2 from x")
    assert replay(simulation_of(PAIR, "basic"), ()).possible == (TWICE[0],)


# Guides


def test_a_guide_is_completed_by_the_first_step_possible() -> None:
    simulation = simulation_of(PAIR, "basic")
    assert follow(simulation, TWICE).schedule == TWICE
    assert follow(simulation, ()) == follow(simulation, ["no such step", "x: answers Q[U7].x"])
    late = follow(simulation, [TWICE[0], TWICE[2], TWICE[4]]).schedule
    assert late[:3] == (TWICE[0], TWICE[2], TWICE[4]) and late[3] == TWICE[1]
    assert replay(simulation, late).possible == ()


# Shrinking


def actors_change(schedule: tuple[str, ...]) -> int:
    return sum(a.partition(":")[0] != b.partition(":")[0] for a, b in pairwise(schedule))


def test_a_failing_schedule_is_made_simpler_and_still_fails() -> None:
    simpler = tried = 0
    for scenario in drawn():
        for algorithm in ALGORITHMS:
            outcome = simulate(scenario, algorithm, schedules=20, seed=3)
            if outcome.counterexample is None:
                continue
            simulation = simulation_of(scenario, algorithm)
            before, breaks = outcome.counterexample.schedule, outcome.counterexample.breaks
            run = shrink(simulation, before, breaks)
            walked = replay(simulation, run.schedule)
            assert walked.possible == () and walked.run(simulation) == run
            assert not verdict(simulation, run.views).holds[breaks]
            sizes = [(len(schedule), actors_change(schedule)) for schedule in (run.schedule, before)]
            assert sizes[0] <= sizes[1], scenario.name
            simpler += sizes[0] < sizes[1]
            tried += 1
            assert run == shrink(simulation_of(scenario, algorithm), before, breaks)
    assert tried >= 30 and simpler >= tried / 2


def test_shrinking_drops_faults_that_are_not_to_blame() -> None:
    """Losing a message makes a schedule shorter; repeating one makes it longer, and is not to blame."""
    faulty = read(
        """
relations:
  r1: {source: x, columns: [A, B], key: [A], rows: [[1, 2]]}
  r2: {source: y, columns: [B, C], key: [B], rows: []}
view: SELECT r1.A, r1.B, r2.C FROM r1 JOIN r2 ON r1.B = r2.B
updates: ["insert r2 [2, 3]", "insert r1 [4, 2]"]
channels: {x: [lose, repeat, reorder], y: [lose, repeat, reorder]}
"""
    )
    simulation = simulation_of(faulty, "strobe")
    failing = [
        run.schedule
        for run in sample(simulation, 100, 1)
        if not verdict(simulation, run.views).convergence and any("repeats" in s for s in run.schedule)
    ]
    assert len(failing) >= 10
    for schedule in failing:
        simplest = shrink(simulation, schedule, "convergence").schedule
        assert not any("repeats" in step for step in simplest)
        assert any("loses" in step for step in simplest) and len(simplest) < len(schedule)


def test_only_a_failing_schedule_shrinks() -> None:
    with pytest.raises(ValueError, match="does not break weak"):
        shrink(simulation_of(PAIR, "eca"), TWICE, "weak")


def test_sampling_is_the_same_for_the_same_seed() -> None:
    outcomes = [simulate(PAIR, "basic", schedules=5, seed=seed, explained=True) for seed in (1, 1, 2)]
    assert outcomes[0] == outcomes[1] != outcomes[2]
    assert outcomes[0].seed == 1 and outcomes[0].schedules == 5 and not outcomes[0].exhaustive


def test_watching_tells_how_far_it_is() -> None:
    heard: list[int] = []
    outcome = simulate(PAIR, "basic", watch=heard.append)
    assert heard == [*range(1, outcome.worlds + 1)]
    heard.clear()
    simulate(PAIR, "basic", schedules=7, watch=heard.append)
    assert heard == [*range(1, 8)]


# Printed forms


def test_every_printed_form_is_read() -> None:
    result = document(simulate(PAIR, "basic"))
    steps = result["counterexample"]["schedule"]
    whole = {"scenario": "pair", "results": [document(simulate(PAIR, "sc")), result]}
    numbered = "".join(f"{n:>4}  {step}\n      shows  [1, 2]  (state 1)\n" for n, step in enumerate(steps, 1))
    forms = [
        json.dumps(steps),
        yaml.safe_dump(steps),
        "".join(f"- {step}\n" for step in steps),
        json.dumps({"schedule": steps}),
        yaml.safe_dump({"schedule": steps}),
        json.dumps(result),
        json.dumps(whole, indent=2),
        json.dumps([whole]),
        f"pair: 2 transactions, 1 source; every schedule\n\n{numbered}\nheld    empty → [1, 2, 3]\n",
    ]
    for text in forms:
        [printed] = read_schedules(text)
        assert printed.schedule == tuple(steps), text
    assert read_schedules(json.dumps([whole])) == (Printed(tuple(steps), "basic", "view", "pair"),)


def test_values_that_yaml_would_read_otherwise_are_read_as_printed() -> None:
    steps = ['x: U1 insert r1 ["a: b", " #"]', "x, y: g1 insert r1 [null, 2]; delete r2 [true]"]
    [numbered] = read_schedules("".join(f"{n:>4}  {step}\n" for n, step in enumerate(steps, 1)))
    [listed] = read_schedules(json.dumps(steps))
    assert numbered.schedule == listed.schedule == tuple(steps)


@pytest.mark.parametrize("text", ["", "nothing", "[1, 2]", "{}", '{"schedule": 3}', "a: [b", "- - x: y", "3"])
def test_what_is_no_schedule_is_refused(text: str) -> None:
    with pytest.raises(ScheduleError, match="not a schedule") as raised:
        read_schedules(text)
    assert raised.value.hint and raised.value.exit_status == 2


def test_one_of_several_schedules_is_chosen_by_its_names() -> None:
    several = (
        Printed(("a",), "basic", "v", "s"),
        Printed(("b",), "basic", "w", "s"),
        Printed(("c",), "eca", "v", "t"),
    )
    assert choose(several, "eca", None, None).schedule == ("c",)
    assert choose(several, "basic", "w", None).schedule == ("b",)
    assert choose((Printed(("d",)),), "eca", "v", "s").schedule == ("d",)
    with pytest.raises(ScheduleError, match="several"):
        choose(several, "basic", None, None)
    with pytest.raises(ScheduleError, match="no schedule of strobe") as raised:
        choose(several, "strobe", None, None)
    assert "eca on view v in t" in raised.value.detail
    with pytest.raises(ScheduleError, match="no schedule of sc"):
        choose(read_schedules(json.dumps(document(simulate(PAIR, "sc")))), "sc", None, None)


def test_a_schedule_error_is_not_a_scenario_error() -> None:
    assert not issubclass(ScheduleError, ScenarioError) and ScheduleError.code == "BAD_SCHEDULE"


# Words


def test_rows_in_words() -> None:
    assert rows_text(Bag()) == "empty"
    assert (
        rows_text(Bag({(1, "a b"): 1, (0, None): -1, (1, "c"): 3})) == '[0, null] ×-1, [1, "a b"], [1, c] ×3'
    )
    assert rows_text(Bag.of([(n,) for n in range(9)]), 2) == "[0], [1] and 7 more"


def test_channels_and_states_in_words() -> None:
    simulation = simulation_of(PAIR, "eca")
    worlds = [step.world for step in replay(simulation, TWICE).steps]
    assert list(in_flight(simulation, worlds[2])) == [
        ("x", "warehouse", ("U2",)),
        ("warehouse", "x", ("Q[U1].x",)),
    ]
    assert list(in_flight(simulation, worlds[5])) == [
        ("x", "warehouse", ("answer to Q[U1].x", "answer to Q[U2].x"))
    ]
    assert "unanswered Q[U1].x" in state_words(simulation, worlds[2])
    assert state_words(simulation, worlds[-1]) == ""


@pytest.mark.parametrize(
    "algorithm", ["rv", "sc", "eca-key", "eca-local", "lca", "strobe", "g-strobe", "c-strobe"]
)
def test_every_state_has_words(algorithm: str) -> None:
    simulation = simulation_of(PAIR, algorithm)
    walked = replay(simulation, follow(simulation, ()).schedule)
    told = [state_words(simulation, step.world) for step in walked.steps]
    assert any(told) and not any("Scan" in words or "object at" in words for words in told)
