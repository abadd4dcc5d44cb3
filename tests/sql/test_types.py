"""Result types, pinned: each was checked against Apache Spark 4.2 in ANSI mode (tests/spark asks again)."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from stillframe.algebra import Column, Schema
from stillframe.algebra.types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    INT,
    SMALLINT,
    STRING,
    TIMESTAMP,
    TINYINT,
    decimal,
)
from stillframe.sql import Names, resolve
from stillframe.sql.functions import BUILDERS

COLUMNS = {
    **dict.fromkeys(("k", "i", "j"), INT),
    **dict.fromkeys(("s", "u"), STRING),
    **dict.fromkeys(("b", "c"), BOOLEAN),
    **dict.fromkeys(("dt", "dt2"), DATE),
    "ti": TINYINT,
    "si": SMALLINT,
    "bi": BIGINT,
    "d2": decimal(10, 2),
    "d8": decimal(20, 8),
    "d38": decimal(38, 10),
    "x": DOUBLE,
    "ts": TIMESTAMP,
    "bin": BINARY,
}
CATALOG = Names(views={"t": Schema(tuple(Column(name, type_) for name, type_ in COLUMNS.items()))})
PINNED = (Path(__file__).parent / "types.txt").read_text(encoding="utf-8").splitlines()


@pytest.mark.parametrize("line", PINNED)
def test_result_type(line: str) -> None:
    expression, _, expected = line.rpartition(" => ")
    assert str(resolve(f"SELECT {expression} AS v FROM t", CATALOG).schema[0].type) == expected


def test_the_page_of_functions_names_every_function() -> None:
    page = (Path(__file__).parents[2] / "docs" / "functions.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`([a-z_0-9]+)`", page.partition("Narrower")[0]))
    assert named == {*BUILDERS, "trim", "substring", "substr"}
