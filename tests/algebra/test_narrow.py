"""Plans that carry no more than is looked at have the same rows, also where an order leaves rows equal."""

from __future__ import annotations

from random import Random

import pytest

from stillframe.algebra import (
    Bag,
    Column,
    Ordering,
    Output,
    Plan,
    Project,
    Ref,
    Scan,
    Schema,
    Window,
    Windowed,
    evaluate,
)
from stillframe.algebra.narrow import narrow
from stillframe.algebra.plan import walk
from stillframe.algebra.types import INT

COLUMNS = tuple(Column(name, INT, name != "a") for name in "abcd")
LOOSE = Scan("s.loose", Schema(COLUMNS))
KEYED = Scan("s.keyed", Schema(COLUMNS, frozenset({frozenset({0})})))
A, B, C, D = (Ref(i, INT, column.name) for i, column in enumerate(COLUMNS))
ROW_NUMBER = Windowed("n", "row_number")
LAG = Windowed("l", "lag", (C,))


def shown(window: Window, *positions: int) -> Plan:
    columns = ((p, window.schema[p].type) for p in positions)
    return Project(window, tuple(Output(f"c{p}", Ref(p, type_)) for p, type_ in columns))


PLANS = {
    "first rows": shown(Window(LOOSE, (), (Ordering(B),), (), 2), 2),
    "first rows of a partition": shown(Window(LOOSE, (D,), (Ordering(B),), (), 1), 2),
    "places": shown(Window(LOOSE, (D,), (Ordering(B),), (ROW_NUMBER, LAG)), 2, 4),
    "the row before": shown(Window(LOOSE, (D,), (Ordering(B),), (ROW_NUMBER, LAG)), 2, 5),
    "a key": shown(Window(KEYED, (D,), (Ordering(B),), (ROW_NUMBER, LAG)), 2, 5),
}


@pytest.mark.parametrize("name", PLANS)
def test_the_same_rows_among_equal_ones(name: str) -> None:
    plan = PLANS[name]
    for seed in range(40):
        random = Random(seed)
        rows = Bag.of((i, *(random.choice((None, 0, 1)) for _ in "bcd")) for i in random.sample(range(9), 6))

        def contents(_: Scan, rows: Bag = rows) -> Bag:
            return rows

        assert evaluate(narrow(plan), contents) == evaluate(plan, contents), f"seed {seed}"


def test_columns_behind_a_key_decide_nothing() -> None:
    plan = shown(Window(KEYED, (), (Ordering(B),), (), 2), 1)
    (window,) = (node for node in walk(narrow(plan)) if isinstance(node, Window))
    assert window.input.schema.names == ("a", "b")
