"""Live histories carry vectors. Here: what each installed view is said to reflect is what it shows, checked,
not searched for, along random schedules of every algorithm that promises strong consistency."""

from __future__ import annotations

from random import Random

import pytest

from stillframe.consistency import Cut, Level
from stillframe.protocol import ALGORITHMS, NotApplicable
from stillframe.simulator import scenarios
from stillframe.simulator.settings import claim
from stillframe.simulator.world import Simulation

SEED = 31
SCENARIOS = 60
WALKS = 5


def vectored(simulation: Simulation, rng: Random) -> tuple[list[int], list[Cut]]:
    """One schedule's views with the cut each is said to be of."""
    world = simulation.start()
    states, reflected = [simulation.histories[world.views][1]], set[object]()
    vectors: list[Cut] = [cut(simulation, reflected)]
    while steps := simulation.steps(world):
        step = rng.choice(steps)
        if step.label.startswith("warehouse"):
            for bag, newly in shown(simulation, world, step.label):
                reflected |= newly
                states.append(bag)
                vectors.append(cut(simulation, reflected))
        world = step.world
    return states, vectors


def shown(simulation: Simulation, world: object, label: str) -> tuple[tuple[int, frozenset[object]], ...]:
    name = label.rpartition(" ")[2]
    if label == "warehouse: time passes":
        message = simulation._tick
    else:
        message = world.up[simulation.sources.numbers[name]][0]  # type: ignore[attr-defined]
    return simulation.reaction(world.state, message).shows  # type: ignore[attr-defined]


def cut(simulation: Simulation, reflected: set[object]) -> Cut:
    """How many transactions of each source are reflected whole; what is reflected must be a prefix."""
    counts = []
    for source, entries in enumerate(simulation.sources.at_source):
        name = simulation.sources.names[source]
        there = [
            (name, number) in reflected or all(id in reflected for id in ids_at(simulation, entry, name))
            for number, entry in enumerate(entries, 1)
        ]
        count = there.index(False) if False in there else len(there)
        assert not any(there[count:]), "what a view reflects is no prefix"
        counts.append(count)
    return tuple(counts)


def ids_at(simulation: Simulation, entry: int, source: str) -> list[str]:
    updates = simulation.sources.entries[entry].transaction.updates
    ids = simulation.sources.update_ids[entry]
    return [
        i for i, u in zip(ids, updates, strict=True) if simulation.scenario.source_of(u.relation) == source
    ]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_views_are_of_the_vectors_they_carry(algorithm: str) -> None:
    checked = 0
    for scenario in scenarios(SEED, SCENARIOS):
        try:
            simulation = Simulation(scenario, algorithm)
        except NotApplicable:
            continue
        promised = Level(claim(simulation.protocol, scenario))
        if promised < Level.STRONG:
            continue
        for walk in range(WALKS):
            states, vectors = vectored(simulation, Random(f"{SEED}/{scenario.name}/{walk}"))
            assert simulation.judge.verify(states, vectors).level >= promised
            checked += 1
    assert checked or algorithm == "basic"
