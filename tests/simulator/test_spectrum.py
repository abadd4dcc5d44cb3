"""The consistency spectrum, derived from a small battery: where each algorithm stands, and that every
witness is one."""

from __future__ import annotations

import json
from concurrent.futures.process import BrokenProcessPool

import pytest

from stillframe.consistency import Level
from stillframe.protocol import ALGORITHMS, Setting
from stillframe.simulator import read, spectrum
from stillframe.simulator.explore import verdict
from stillframe.simulator.outcome import rows_document, simulate, simulation_of
from stillframe.simulator.replay import replay
from stillframe.simulator.settings import claim
from stillframe.simulator.spectrum import PAPERS, Cell, Placement, battery, cell, document

EACH = 4
CENTRALISED, ONE, SINGLE, LOCAL, GLOBAL = Setting
EXPECTED = {
    "basic": ("complete", "none", "none", "none", "none"),
    "eca": ("complete", "strong", None, "convergent", None),
    "lca": ("complete", "complete", None, "convergent", None),
    "strobe": ("complete", "strong", "strong", "convergent", "convergent"),
    "t-strobe": ("complete", "strong", "strong", "strong", "weak"),
    "g-strobe": ("complete", "strong", "strong", "strong", "strong"),
    "c-strobe": ("complete", "complete", "complete", "convergent", "convergent"),
    "c-t-strobe": ("complete", "complete", "complete", "complete", "weak"),
    "tid": ("complete", "strong", "strong", "strong", "weak"),
}


@pytest.fixture(scope="module")
def cells():
    return spectrum.spectrum(0, EACH, tuple(EXPECTED), workers=1)


@pytest.fixture(scope="module")
def placed(cells):
    return [made for made in cells if made.level is not None]


def test_each_algorithm_stands_where_exploration_puts_it(cells):
    found = {name: tuple(c.level for c in cells if c.algorithm == name) for name in EXPECTED}
    assert found == EXPECTED
    assert [c.setting for c in cells] == [*Setting] * len(EXPECTED)


def test_none_is_below_what_its_paper_or_its_own_file_promises(placed):
    assert [(c.algorithm, c.setting) for c in placed if c.compared == "below"] == []
    for made in placed:
        simulation = simulation_of(made.witness.scenario, made.algorithm)
        assert made.level >= claim(simulation.protocol, made.witness.scenario), (made.algorithm, made.setting)


def test_papers_speak_of_algorithms_there_are_and_of_levels():
    assert set(PAPERS) == set(ALGORITHMS)
    for placements in PAPERS.values():
        assert all(Level(placement.level) and placement.where for placement in placements.values())


@pytest.mark.parametrize(
    ("level", "promised", "compared"),
    [
        (Level.STRONG, "strong", "equal"),
        (Level.COMPLETE, "strong", "above"),
        (Level.WEAK, "strong", "below"),
        (Level.WEAK, None, None),
        (None, "strong", None),
    ],
)
def test_found_and_promised_are_compared(level, promised, compared):
    paper = promised and Placement(promised, "a paper")
    assert Cell("strobe", SINGLE, level, paper or None).compared == compared


def test_every_witness_replays_to_a_history_that_breaks_what_it_says(placed):
    for told in document(placed)["cells"]:
        witness = told["witness"]
        if witness["breaks"] is None:
            continue
        simulation = simulation_of(read(witness["scenario"]), told["algorithm"])
        walked = replay(simulation, witness["schedule"])
        run = walked.run(simulation)
        again = verdict(simulation, run.views)
        where = told["algorithm"], told["setting"]
        assert walked.possible == (), where
        assert [rows_document(simulation.bags[bag]) for bag in run.views] == witness["views"]
        assert again.level == told["level"], where
        assert not again.holds[witness["breaks"]], where
        assert 0 <= witness["state"] < len(run.views) and witness["reason"], where


def test_what_breaks_is_what_the_next_level_adds(placed):
    adds = {"none": "convergence", "convergent": "weak", "weak": "consistency", "strong": "completeness"}
    for made in placed:
        example = made.witness.example
        assert (example and example.breaks) == adds.get(made.level), (made.algorithm, made.setting)


def test_where_nothing_breaks_the_witness_is_what_was_explored(placed):
    complete = [made for made in placed if made.level is Level.COMPLETE]
    assert complete
    for made in complete:
        again = simulate(made.witness.scenario, made.algorithm)
        assert again.level is Level.COMPLETE
        assert again.schedules == made.witness.schedules <= made.schedules
        assert made.schedules >= made.scenarios > 0


@pytest.mark.parametrize(
    ("algorithm", "setting"),
    [("strobe", ONE), ("eca", ONE), ("strobe", SINGLE), ("t-strobe", LOCAL), ("lca", ONE), ("c-strobe", ONE)],
)
def test_the_witness_is_the_shortest_of_the_battery_or_the_most_explored(algorithm, setting, placed):
    (made,) = (c for c in placed if (c.algorithm, c.setting) == (algorithm, setting))
    found = [o for o in (simulate(s, algorithm) for s in battery(setting, 0, EACH)) if o.verdict]
    lowest = [o for o in found if o.level == made.level]
    if made.witness.example is None:
        assert made.witness.schedules == max(o.schedules for o in lowest)
    else:
        shortest = min(len(o.counterexample.schedule) for o in lowest)
        assert len(made.witness.example.schedule) <= shortest


def test_an_algorithm_is_not_placed_where_it_accepts_nothing_and_the_cell_says_why(cells):
    refused = [c for c in cells if c.level is None]
    assert {(c.algorithm, c.setting) for c in refused} == {
        (name, setting) for name in ("eca", "lca") for setting in (SINGLE, GLOBAL)
    }
    for made in refused:
        assert made.reason == f"{made.algorithm} is for views over one source"
        assert (made.scenarios, made.schedules, made.witness) == (0, 0, None)


def test_a_battery_holds_only_its_own_setting_and_follows_the_seed():
    for setting in Setting:
        drawn = list(battery(setting, 3, 2))
        assert drawn == list(battery(setting, 3, 2)) != list(battery(setting, 4, 2))
        assert all(scenario.centralised == (setting is CENTRALISED) for scenario in drawn)
        assert all(len(t.updates) == 1 for s in drawn for t in s.transactions if setting in (ONE, SINGLE))


def test_the_document_is_json_and_numbers_what_is_placed(cells):
    told = document(cells, 0, EACH)
    assert json.loads(json.dumps(told)) == told
    assert told["settings"] == [str(setting) for setting in Setting]
    assert told["levels"] == ["none", "convergent", "weak", "strong", "complete"]
    assert (told["seed"], told["scenarios"]) == (0, EACH)
    numbers = [c["witness"]["number"] for c in told["cells"] if c["applicable"]]
    assert numbers == list(range(1, len(numbers) + 1))
    for each in told["cells"]:
        assert each["applicable"] == (each["level"] is not None) == (each["witness"] is not None)
        assert each["applicable"] == (each["reason"] is None)
        assert each["exhaustive"] and each["compared"] in (None, "equal", "above", "below")


FEW = ("basic", "strobe")


def test_processes_find_what_one_process_finds():
    heard = list[Cell]()
    found = spectrum.spectrum(0, 0, FEW, workers=2, told=heard.append)
    assert found == spectrum.spectrum(0, 0, FEW, workers=1)
    assert {(c.algorithm, c.setting) for c in heard} == {(c.algorithm, c.setting) for c in found}
    assert len(heard) == len(found) == len(FEW) * len(Setting)


class NoPool:
    def __init__(self, *_, **__):
        raise OSError("no semaphores here")


class Dying(spectrum.ProcessPoolExecutor):
    """Processes that are gone after the first cells."""

    left = 3

    def submit(self, work, *arguments):
        self.left -= 1
        if self.left < 0:
            raise BrokenProcessPool("they are gone")
        return super().submit(work, *arguments)


@pytest.mark.parametrize("pool", [NoPool, Dying])
def test_without_processes_all_is_done_here(pool, monkeypatch):
    monkeypatch.setattr(spectrum, "ProcessPoolExecutor", pool)
    heard = list[Cell]()
    found = spectrum.spectrum(0, 0, FEW, workers=2, told=heard.append)
    assert len(heard) == len(found) == len(FEW) * len(Setting)
    assert found == spectrum.spectrum(0, 0, FEW, workers=1)


def test_an_error_of_the_listener_is_not_taken_for_one_of_the_processes():
    def told(_):
        raise OSError("nobody listens")

    with pytest.raises(OSError, match="nobody listens"):
        spectrum.spectrum(0, 0, FEW, workers=2, told=told)


def test_too_many_worlds_are_sampled_and_the_cell_says_so(monkeypatch):
    monkeypatch.setattr(spectrum, "_MOST_WORLDS", 40)
    made = cell("basic", SINGLE, 0, 2)
    assert 0 < made.sampled <= made.scenarios
    assert made.level is Level.NONE
    assert document([made])["cells"][0]["exhaustive"] is False
