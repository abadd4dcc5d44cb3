"""Negative controls: the battery catches every deliberate mistake."""

from __future__ import annotations

import pytest
from planted_protocols import PLANTED

from stillframe.consistency import Level
from stillframe.protocol import registry
from stillframe.simulator import is_sampled, scenarios
from stillframe.simulator.outcome import simulate, simulation_of
from stillframe.simulator.settings import claim
from stillframe.simulator.telling import telling_scenarios

SEED = 20  # the seed of the battery in test_battery
SCENARIOS = 200


@pytest.mark.parametrize("planted", PLANTED, ids=lambda planted: planted.__name__)
def test_a_planted_mistake_is_caught(planted: type, monkeypatch: pytest.MonkeyPatch) -> None:
    original, name = planted.name, f"planted-{planted.__name__}"  # type: ignore[attr-defined]
    mistaken = type(planted.__name__, (planted,), {"name": name})
    monkeypatch.setitem(registry.PUBLISHED, name, mistaken)  # type: ignore[attr-defined]
    for scenario in (*telling_scenarios(), *scenarios(SEED, SCENARIOS)):
        if is_sampled(scenario):
            continue
        outcome = simulate(scenario, name)
        if outcome.verdict is None:
            continue
        promised = claim(simulation_of(scenario, original).protocol, scenario)
        if outcome.level < Level(promised):
            return
    pytest.fail(f"{planted.__name__} passes the battery")
