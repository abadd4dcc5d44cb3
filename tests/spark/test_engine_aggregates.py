"""Sums and averages of decimals of every width, on both engines as the evaluator has them: rounded half up
once, and an error where 38 digits do not hold the result."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from conformance_bench import RAISES, Bench, Table
from pyspark.errors import PySparkException

from stillframe.algebra import Aggregate, Bag, EvaluationError, Measure, Output, Ref, Type, evaluate
from stillframe.algebra.functions import EXACT
from stillframe.algebra.types import BIGINT, INT, decimal
from stillframe.engine import Engine, EngineRefused

pytestmark = pytest.mark.engine

NARROW, MONEY, WIDE, FINEST = decimal(7, 2), decimal(15, 2), decimal(38, 6), decimal(38, 30)
TYPES = (NARROW, MONEY, decimal(28, 0), decimal(29, 10), WIDE, decimal(38, 0), decimal(38, 28))


@pytest.fixture(scope="module")
def bench(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(engine, Path(tmp_path_factory.mktemp("aggregates")))


def _digits(type_: Type, *wholes: int) -> list[Decimal]:
    return [EXACT.scaleb(Decimal(whole), -type_.scale) for whole in wholes]


ALL = ("sum", "avg", "count")


def _asked(
    table: Table, rows: list[tuple[Any, ...]], type_: Type, functions: tuple[str, ...] = ALL
) -> tuple[Any, Any]:
    """By group: what the engine has, and what the evaluator has."""
    value = Ref(1, type_)
    measures = tuple(Measure(function, function, value) for function in functions)
    plan = Aggregate(table.scan, (Output("k", Ref(0, INT)),), measures)
    try:
        expected: Any = evaluate(plan, lambda _: Bag.of([(*row, n) for n, row in enumerate(rows)]))
    except EvaluationError:
        expected = RAISES
    try:
        return Bag.of(table.selected(plan)), expected
    except PySparkException:
        return RAISES, expected


@pytest.mark.parametrize("type_", TYPES, ids=str)
def test_sums_and_averages_are_exact(bench: Bench, type_: Type) -> None:
    most = 10 ** min(type_.precision, 32) - 1  # 128 bits have room for the digits of an average
    groups = [
        _digits(type_, 2, 2, 1),
        _digits(type_, -2, -2, -1, 0),
        _digits(type_, 1, 0, 0, 0, 0, 0, 0, 0),
        _digits(type_, most, most, -most, 7),
        _digits(type_, most, most - 1),
        _digits(type_, 99_999, 123, -4, 5, 6, 7, 8),
        [None, *_digits(type_, 3, 4)],
        [None, None],
    ]
    rows = [(n, value) for n, group in enumerate(groups) for value in group]
    found, expected = _asked(bench.table((INT, type_), list(enumerate(rows))), rows, type_)
    assert found == expected and len(expected) == len(groups)


@pytest.mark.parametrize("type_", [t for t in TYPES if t.precision == 38], ids=str)
def test_a_sum_of_more_than_38_digits_raises(bench: Bench, type_: Type) -> None:
    most = 10**38 - 1
    for wholes in ([most, most], [-most, -most, -most], [most, 1], [most] * 4):
        rows = [(1, value) for value in _digits(type_, *wholes)]
        found, expected = _asked(bench.table((INT, type_), list(enumerate(rows))), rows, type_, ("sum",))
        assert found is expected is RAISES


def test_what_sail_cannot_add_up_is_refused(bench: Bench) -> None:
    table = bench.table((INT, FINEST), [(0, (1, *_digits(FINEST, 1)))])
    plan = Aggregate(table.scan, (Output("k", Ref(0, INT)),), (Measure("sum", "sum", Ref(1, FINEST)),))
    if bench.engine.kind == "sail":
        with pytest.raises(EngineRefused) as refused:
            table.selected(plan)
        assert refused.value.code == "ENGINE_DIFFERS" and refused.value.hint
    else:
        assert table.selected(plan)


def test_integers_are_summed_beyond_their_own_width(bench: Bench) -> None:
    rows = [(1, 2**63 - 1), (1, 2**63 - 1), (1, -(2**63)), (2, 5)]
    table = bench.table((INT, BIGINT), list(enumerate(rows)))
    plan = Aggregate(table.scan, (Output("k", Ref(0, INT)),), (Measure("sum", "sum", Ref(1, BIGINT)),))
    expected = evaluate(plan, lambda _: Bag.of([(*row, n) for n, row in enumerate(rows)]))
    if bench.engine.kind == "sail":  # where Spark adds in another order, it may raise
        assert Bag.of(table.selected(plan)) == expected
