"""Both engines mean what the algebra means: every function and every cast, on every type's extremes,
compiled for the engine that runs and compared value by value with the naive evaluator."""

from __future__ import annotations

import os

import pytest
from conformance_bench import RAISES, Bench, Table, plainly
from conformance_world import Group, Meaning, groups, meaning, refused_on_sail, stops_on_sail, uncovered

from stillframe.algebra import Scalar
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
            some = list(raises) if ALL_ERRORS else [raises[len(raises) // 2]]
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
        if (answer := table.raises(scalar, n)) is not RAISES
    ]
