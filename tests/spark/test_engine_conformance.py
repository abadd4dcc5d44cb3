"""Both engines mean what the algebra means: every function and every cast, on every type's extremes,
compiled for the engine that runs and compared value by value with the naive evaluator."""

from __future__ import annotations

import os
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
from conformance_bench import RAISES, Bench, Table, plainly
from conformance_differences import BEYOND, DIFFERENCES, TODAY, Difference, Outcome
from conformance_sail import refused_on_sail, stops_on_sail
from conformance_world import Group, Meaning, groups, meaning, uncovered

from stillframe.algebra import (
    Bag,
    EvaluationError,
    Filter,
    Join,
    Literal,
    Ref,
    Scalar,
    call,
    evaluate,
    evaluate_scalar,
)
from stillframe.algebra.types import BIGINT, DATE, INT, STRING
from stillframe.engine import Engine, EngineRefused

pytestmark = pytest.mark.engine

GROUPS = {group.name: group for group in groups()}
ALL_ERRORS = bool(os.environ.get("STILLFRAME_LONG"))


@pytest.fixture(scope="module")
def bench(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    return Bench(engine, tmp_path_factory.mktemp("conformance"))


def test_every_function_and_every_cast_is_here() -> None:
    assert not uncovered()


@pytest.mark.parametrize("name", GROUPS)
def test_the_engine_means_what_the_algebra_means(bench: Bench, name: str) -> None:
    group = GROUPS[name]
    by_errors: dict[tuple[int, ...], list[tuple[str, Scalar, Meaning]]] = {}
    for text, scalar in group.expressions:
        if not _refused(bench.engine, text, scalar):
            means = _meant(bench.engine, group, scalar)
            by_errors.setdefault(means.raises, []).append((text, scalar, means))
    wrong: list[str] = []
    for raises, expressions in by_errors.items():
        rows = [(n, row) for n, row in enumerate(group.rows) if n not in raises]
        if rows:
            wrong += _differences(bench.table(group.types, rows), group, expressions)
        if raises:
            every = ALL_ERRORS or bench.engine.kind == "sail"  # an error costs a job of its own
            some = list(raises) if every else [raises[len(raises) // 2]]
            table = bench.table(group.types, [(n, group.rows[n]) for n in some])
            wrong += _missing_errors(table, group, expressions, some)
    assert not wrong, "\n".join(wrong)


def _refused(engine: Engine, text: str, scalar: Scalar) -> bool:
    try:
        engine.writer.text(scalar, str)
    except EngineRefused as refused:
        assert refused.code == "ENGINE_DIFFERS"
        assert engine.kind == "sail" and refused_on_sail(scalar), text
        return True
    assert not (engine.kind == "sail" and refused_on_sail(scalar)), text
    return False


def _meant(engine: Engine, group: Group, scalar: Scalar) -> Meaning:
    means = meaning(group, scalar)
    if engine.kind != "sail":
        return means
    stops = {n for n, value in means.values.items() if stops_on_sail(scalar, group.rows[n], value)}
    values = {n: value for n, value in means.values.items() if n not in stops}
    return Meaning(values, tuple(sorted(stops | set(means.raises))))


def _differences(table: Table, group: Group, expressions: list[tuple[str, Scalar, Meaning]]) -> list[str]:
    found = table.values([scalar for _, scalar, _ in expressions])
    return [
        f"{text} of {group.rows[n]}: {answers[n]!r}, not {plainly(value)!r}"
        for (text, _, means), answers in zip(expressions, found, strict=True)
        for n, value in means.values.items()
        if answers[n] != plainly(value)
    ]


def _missing_errors(
    table: Table, group: Group, expressions: list[tuple[str, Scalar, Meaning]], rows: list[int]
) -> list[str]:
    return [
        f"{text} of {group.rows[n]}: {answer!r}, no error"
        for text, scalar, _ in expressions
        for n in rows
        if (answer := table.value(scalar, n)) is not RAISES
    ]


@pytest.mark.parametrize("difference", DIFFERENCES, ids=lambda d: f"{d.name}: {d.sql} of {d.rows[0]}")
def test_a_difference_is_there_and_no_view_meets_it(bench: Bench, difference: Difference) -> None:
    scalar, row = difference.scalar, difference.rows[0]
    table = bench.table(difference.types, list(enumerate(difference.rows)))
    sail = bench.engine.kind == "sail"
    assert plainly(difference.sail) != plainly(difference.spark) or difference.outcome is Outcome.STOPS
    assert table.asked(difference.sql) == plainly(difference.sail if sail else difference.spark)
    if sail and difference.outcome is Outcome.REFUSED:
        with pytest.raises(EngineRefused) as refused:
            bench.engine.writer.text(scalar, str)
        assert refused.value.code == "ENGINE_DIFFERS" and refused.value.hint
    elif (sail and difference.outcome is Outcome.STOPS) or _evaluated(scalar, row) is RAISES:
        assert table.value(scalar, 0) is RAISES
    else:
        assert table.values([scalar])[0][0] == _evaluated(scalar, row)


def test_a_condition_guards_those_behind_it_in_filters_and_joins(bench: Bench) -> None:
    rows = [(7, 2), (7, 0), (-7, 2), (0, 0), (None, 0), (7, None)]
    table = bench.table((BIGINT, BIGINT), list(enumerate(rows)))
    scan = table.scan
    a, b, zero = Ref(0, BIGINT), Ref(1, BIGINT), Literal(0, BIGINT)
    nonzero, positive = call("<>", b, zero), call(">", call("div", a, b), zero)
    # Columns 3 to 5 are the second copy's.
    other = call(">", call("div", a, Ref(4, BIGINT)), zero)
    same = call("=", a, Ref(3, BIGINT))
    plans = (
        Filter(scan, call("and", nonzero, positive)),
        Filter(Filter(scan, nonzero), positive),
        Join((scan, scan), (same, call("<>", Ref(4, BIGINT), zero), other)),
    )
    for plan in plans:
        expected = evaluate(plan, lambda _: Bag.of([(*row, n) for n, row in enumerate(rows)]))
        assert expected and Bag.of(table.selected(plan)) == expected


@pytest.mark.parametrize(("name", "sql", "scalar", "row", "plain"), BEYOND, ids=lambda x: str(x)[:40])
def test_what_both_engines_answer_and_no_view_may_hold(
    bench: Bench, name: str, sql: str, scalar: Scalar, row: tuple[Any, ...], plain: Any
) -> None:
    types = tuple(
        DATE if isinstance(value, date) else INT if isinstance(value, int) else STRING for value in row
    )
    table = bench.table(types, [(0, row)])
    answer = table.asked(sql)
    assert answer.date() == datetime.now(UTC).date() if plain is TODAY else answer == plain
    assert table.value(scalar, 0) is RAISES is _evaluated(scalar, row)


def test_the_page_about_engines_names_every_difference() -> None:
    page = (Path(__file__).parents[2] / "docs" / "engines.md").read_text(encoding="utf-8")
    rows = {line.split("|")[1].strip() for line in page.splitlines() if line.startswith("| ")}
    assert rows >= {d.name for d in DIFFERENCES} | {name for name, *_ in BEYOND}


def _evaluated(scalar: Scalar, row: tuple[Any, ...]) -> Any:
    try:
        return plainly(evaluate_scalar(scalar, row))
    except EvaluationError:
        return RAISES
