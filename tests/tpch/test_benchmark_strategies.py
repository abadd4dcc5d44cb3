"""The paper's experiment in small: each relation is read as often as the expression says, counted in the
engine's own plans; the tree reads less than n terms; and every strategy leads to the same view."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.tpch.changes import Workload
from benchmarks.tpch.data import TABLES
from benchmarks.tpch.strategies import STRATEGIES, Trial
from tpch_benchmark import SCALE, tables

from stillframe.engine import Engine

__all__ = ["tables"]


@pytest.mark.engine
@pytest.mark.parametrize("percent", [10, pytest.param(2, marks=pytest.mark.long)])
def test_each_strategy_reads_what_its_expression_says_and_is_exact(
    engine: Engine, tmp_path: Path, percent: float
) -> None:
    trial = Trial(engine, Workload(SCALE, percent, 1), 1, tmp_path / "trial")
    counted = {}
    for strategy in STRATEGIES:
        counted[strategy] = trial.count(strategy)
        assert trial.exact(strategy), strategy
        if strategy != "recompute":
            reads = trial.expression(strategy).reads()
            assert counted[strategy] == {each.name: reads[each] for each in trial.graph.inputs}, strategy
    assert counted["recompute"] == dict.fromkeys(TABLES, 1)
    assert sum(counted["tree"].values()) < sum(counted["n-term"].values())
    assert counted["tree"]["lineitem"] < counted["n-term"]["lineitem"]
