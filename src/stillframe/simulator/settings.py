"""Which column of the consistency spectrum a scenario belongs to."""

from __future__ import annotations

from typing import Any

from stillframe.protocol import Protocol, Setting
from stillframe.simulator.scenario import Scenario


def setting_of(scenario: Scenario) -> Setting:
    if scenario.centralised and all(len(each.updates) == 1 for each in scenario.transactions):
        return Setting.CENTRALISED
    if any(len(scenario.parts(transaction)) > 1 for transaction in scenario.transactions):
        return Setting.GLOBAL_TRANSACTIONS
    if any(len(transaction.updates) > 1 for transaction in scenario.transactions):
        return Setting.LOCAL_TRANSACTIONS
    return Setting.SINGLE_UPDATES if len(scenario.sources) > 1 else Setting.ONE_SOURCE


def claim(protocol: Protocol[Any], scenario: Scenario) -> str:
    """The level a protocol promises for a scenario whose channels and sources are sound."""
    return protocol.claims(setting_of(scenario), coordinated=scenario.report == "coordinator")
