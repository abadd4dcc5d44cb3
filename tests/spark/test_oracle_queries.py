"""What a query means, by Spark itself: names, types and rows of each text of queries.txt, through
`spark.sql` and through our own resolution and naive evaluation; and its normal form means the same."""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from spark_expressions import comparable, spark_type

from stillframe.algebra import Bag, Column, Scan, Schema, evaluate, normalize
from stillframe.algebra.types import BIGINT, DATE, INT, STRING, decimal
from stillframe.engine.session import Engine
from stillframe.sql import Names, resolve

pytestmark = pytest.mark.engine

QUERIES = (Path(__file__).parent / "queries.txt").read_text(encoding="utf-8").splitlines()
TABLES = {
    "a": ({"id": INT, "name": STRING, "v": INT}, [(1, "x", 1), (1, "x", 1), (2, None, 3), (3, "xy", None)]),
    "b": ({"bid": INT, "amount": decimal(6, 2)}, [(1, Decimal("1.50")), (3, Decimal("-2.00")), (3, None)]),
    "e": ({"W": BIGINT, "id": BIGINT}, [(10, 1), (30, 3), (30, 3)]),
    "c": (
        {"id": BIGINT, "name": STRING, "w": BIGINT, "d": DATE},
        [(1, "x", 5, date(2024, 1, 1)), (2, None, 6, None), (3, "z", 7, date(1970, 1, 1))],
    ),
}
SCHEMAS = {
    name: Schema(tuple(Column(column, type_) for column, type_ in columns.items()))
    for name, (columns, _) in TABLES.items()
}
Run = Callable[[str], Any]


@pytest.fixture(scope="module")
def run(request: pytest.FixtureRequest, engine_name: str) -> Run:
    if engine_name != "spark":
        pytest.skip("Apache Spark is the oracle here")
    engine: Engine = request.getfixturevalue("engine")
    for name, (columns, rows) in TABLES.items():
        ddl = ", ".join(f"{column} {type_}" for column, type_ in columns.items())
        engine.maintenance.createDataFrame(rows, ddl).createOrReplaceTempView(name)
    return engine.sql


def contents(scan: Scan) -> Bag:
    return Bag.of(TABLES[scan.relation][1])


@pytest.mark.parametrize("text", QUERIES)
def test_names_types_and_rows_are_sparks(run: Run, text: str) -> None:
    plan = resolve(text, Names(views=SCHEMAS))
    frame = run(text)
    expected_columns = [(field.name, spark_type(field.dataType)) for field in frame.schema.fields]
    assert [(column.name, str(column.type)) for column in plan.schema] == expected_columns
    expected = Bag.of([comparable(value) for value in row] for row in frame.collect())
    for form in (plan, normalize(plan)):
        rows = evaluate(form, contents).rows()
        assert Bag.of([comparable(value) for value in row] for row in rows) == expected
