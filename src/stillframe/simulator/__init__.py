"""Small worlds: scenarios, how they are written, and batteries of them."""

from stillframe.simulator.battery import exhaustive, is_sampled, scenarios
from stillframe.simulator.outcome import Counterexample, Outcome, document, simulate
from stillframe.simulator.reading import load, read
from stillframe.simulator.replay import ScheduleError, shrink
from stillframe.simulator.scenario import Relation, Scenario, Transaction, Update
from stillframe.simulator.validity import ScenarioError
from stillframe.simulator.writing import write

__all__ = [
    "Counterexample",
    "Outcome",
    "Relation",
    "Scenario",
    "ScenarioError",
    "ScheduleError",
    "Transaction",
    "Update",
    "document",
    "exhaustive",
    "is_sampled",
    "load",
    "read",
    "scenarios",
    "shrink",
    "simulate",
    "write",
]
