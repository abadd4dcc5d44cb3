"""What an expression means, by Spark itself: each text runs through `spark.sql` over a small table, and
through our own resolution and naive evaluation; values and types must be the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from spark_expressions import COLUMNS, GROUPS, RAISES, ROWS, SCHEMA, comparable, spark_type

from stillframe.algebra import EvaluationError, evaluate
from stillframe.algebra.bag import Bag
from stillframe.engine.session import Engine
from stillframe.sql import Names, Refused, resolve

CATALOG = Names(views={"t": SCHEMA})
Run = Callable[[str], Any]


pytestmark = pytest.mark.engine


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest, engine_name: str) -> Run:
    if engine_name != "spark":
        pytest.skip("Apache Spark is the oracle here")
    engine: Engine = request.getfixturevalue("engine")
    ddl = ", ".join(f"{name} {type_}" for name, type_ in COLUMNS.items())
    engine.maintenance.createDataFrame(ROWS, ddl).createOrReplaceTempView("t")
    return engine.sql


def ours(text: str) -> tuple[str, list[Any]]:
    plan = resolve(f"SELECT k, {text} AS v FROM t", CATALOG)
    found = dict(evaluate(plan, lambda scan: Bag.of(ROWS)).rows())
    return str(plan.schema[1].type), [comparable(found[row[0]]) for row in ROWS]


def theirs(run: Run, texts: list[str]) -> list[tuple[str, list[Any]]]:
    listed = ", ".join(f"{text} AS v{i}" for i, text in enumerate(texts))
    frame = run(f"SELECT k, {listed} FROM t")
    rows = sorted(frame.collect(), key=lambda row: row[0])
    types = [spark_type(field.dataType) for field in frame.schema.fields[1:]]
    return [(t, [comparable(row[i + 1]) for row in rows]) for i, t in enumerate(types)]


@pytest.mark.parametrize("group", GROUPS)
def test_values_and_types_are_sparks(run: Run, group: str) -> None:
    texts = [text for text in GROUPS[group] if _typed(text)]
    wrong = [
        f"{text}\n  spark: {expected}\n  ours:  {ours(text)}"
        for text, expected in zip(texts, theirs(run, texts), strict=True)
        if ours(text) != expected
    ]
    assert not wrong, "\n".join(wrong)


def _typed(text: str) -> bool:
    """A column that is NULL and nothing else is refused; everything else listed must resolve."""
    try:
        resolve(f"SELECT {text} AS v FROM t", CATALOG)
    except Refused as refused:
        assert [r.message for r in refused.reasons] == ["column v is NULL and nothing else"], (text, refused)
        return False
    return True


@pytest.mark.parametrize("text", RAISES)
def test_what_raises_there_raises_here(run: Run, text: str) -> None:
    def evaluated() -> Any:
        return ours(text)

    try:
        theirs(run, [text])
    except Exception:
        with pytest.raises(EvaluationError):
            evaluated()
    else:
        evaluated()
