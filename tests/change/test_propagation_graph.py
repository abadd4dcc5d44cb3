"""What is known of a join's inputs, and what follows for sizes and prices."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from itertools import product
from math import prod
from random import Random

import pytest

from stillframe.algebra import Bag, Column, Filter, Join, Literal, Moment, Ref, Scan, Schema, call
from stillframe.algebra.types import INT
from stillframe.change.propagation import (
    Calibration,
    Input,
    JoinGraph,
    Leaf,
    Linear,
    Node,
    Size,
    Spark,
    Statistics,
    accesses,
    choose,
    join_graph,
    join_inputs,
)

SEED = int(os.environ.get("STILLFRAME_SEED", "20"))
PRICES = Calibration("any", 0.2, 0.04, 1e-7, 1e-9, 1e-8, 6e-9, 1e-8, 0.02, 2**20)


def keyed(name: str, *key: int) -> Scan:
    keys = frozenset({frozenset(key)}) if key else frozenset()
    return Scan(name, Schema((Column("a", INT, False), Column("b", INT, False)), keys))


def known(rows: float, distinct: dict[int, float] | None = None, **more: float) -> Statistics:
    return Statistics(Size(rows, **more), distinct or {})  # type: ignore[arg-type]


def equal(left: int, right: int) -> object:
    return call("=", Ref(left, INT), Ref(right, INT))


def graph_of(
    inputs: tuple[object, ...], conditions: tuple[object, ...], *statistics: Statistics
) -> JoinGraph:
    return join_graph(Join(inputs, conditions), statistics, frozenset("rst"))  # type: ignore[arg-type]


def test_the_size_of_a_change_is_counted() -> None:
    """Where everything joins with everything the assumption holds, and the size is what a count finds."""
    for seed in range(SEED, SEED + 30):
        random = Random(seed)
        count = random.randint(2, 3)
        sizes, before, after = [], [], []
        for _ in range(count):
            rows, deleted, inserted = random.randint(0, 4), random.randint(0, 4), random.randint(0, 3)
            deleted = min(deleted, rows)
            sizes.append(Size(rows, inserted, deleted))
            before.append(range(rows))
            after.append(range(deleted, rows + inserted))
        change = Bag.of(product(*after)) - Bag.of(product(*before))
        graph = JoinGraph(tuple(Input(i, f"R{i}") for i in range(count)), tuple(sizes))
        counted = sum(map(abs, change.values()))
        assert graph.change_rows(graph.everything) == counted, f"STILLFRAME_SEED={seed}"
        assert graph.rows(graph.everything) == prod(map(len, before))
        assert graph.rows_after(graph.everything) == prod(map(len, after))


def test_a_key_tells_how_many_rows_join() -> None:
    graph = graph_of((keyed("r"), keyed("s", 0)), (equal(1, 2),), known(6000), known(100))
    assert graph.rows(graph.everything) == pytest.approx(6000)


def test_distinct_values_tell_how_many_rows_join() -> None:
    graph = graph_of((keyed("r"), keyed("s")), (equal(0, 3),), known(1000, {0: 50}), known(200, {1: 20}))
    assert graph.rows(graph.everything) == pytest.approx(1000 * 200 / 50)


def test_a_composite_key_is_one_value() -> None:
    """Two columns of which each has few values, together a key: not one combination in 100 · 100."""
    statistics = known(6000, {0: 100, 1: 100}), known(500, {0: 100, 1: 100})
    graph = graph_of((keyed("r"), keyed("s", 0, 1)), (equal(0, 2), equal(1, 3)), *statistics)
    assert graph.rows(graph.everything) == pytest.approx(6000)
    plain = graph_of((keyed("r"), keyed("s")), (equal(0, 2), equal(1, 3)), *statistics)
    assert plain.selectivities == {frozenset({0, 1}): 1 / 6000}


def test_guesses() -> None:
    graph = graph_of((keyed("r"), keyed("s")), (equal(0, 2),), known(6000), known(100))
    assert graph.rows(graph.everything) == pytest.approx(6000)  # s is taken for the one with the key
    less = call("<", Ref(0, INT), Ref(2, INT))
    alone = call("<", Ref(0, INT), Literal(3, INT))
    three = call("<", call("+", Ref(0, INT), Ref(2, INT)), Ref(4, INT))
    inputs = (keyed("r"), keyed("s"), keyed("t"))
    graph = graph_of(inputs, (less, alone, three), known(3), known(3), known(3))
    third = pytest.approx(1 / 3)
    assert graph.selectivities == {
        frozenset({0, 1}): third,
        frozenset({0}): third,
        frozenset({0, 1, 2}): third,
    }


def test_an_empty_relation_divides_by_nothing() -> None:
    graph = graph_of((keyed("r", 0), keyed("s")), (equal(0, 2),), known(0), known(0))
    assert graph.rows(graph.everything) == 0


def test_what_does_not_change_is_known_not_to() -> None:
    join = Join((keyed("r"), keyed("s"), keyed("r")))
    statistics = [known(10, inserted=1), known(20, inserted=2), known(10, inserted=1)]
    graph = join_graph(join, statistics, frozenset("r"))
    assert [(each.name, each.changes) for each in graph.inputs] == [("r", True), ("s", False), ("r#2", True)]
    assert [size.change for size in graph.sizes] == [1, 0, 1]
    with pytest.raises(ValueError, match="s does not change"):
        JoinGraph(graph.inputs, tuple(each.size for each in statistics))


def test_inputs_are_named_by_what_they_read() -> None:
    inputs = (Filter(keyed("shop.r"), call("<", Ref(0, INT), Literal(1, INT))), keyed("s"))
    assert [each.name for each in join_inputs(Join(inputs), frozenset())] == ["shop.r", "s"]


@pytest.mark.parametrize(
    "nonsense",
    [
        lambda: Size(-1),
        lambda: Size(1, deleted=2),
        lambda: Size(1, ranges=0),
        lambda: Node((Leaf(Input(0, "R")),)),
        lambda: Node((Leaf(Input(0, "R")), Leaf(Input(0, "S")))),
        lambda: JoinGraph((), ()),
        lambda: JoinGraph((Input(0, "R"),), ()),
        lambda: JoinGraph((Input(1, "R"),), (Size(1),)),
        lambda: JoinGraph((Input(0, "R"),), (Size(1),), {frozenset({0, 1}): 0.5}),
        lambda: JoinGraph((Input(0, "R"),), (Size(1),), {frozenset({0}): 2}),
        lambda: replace(PRICES, per_job=-1),
        lambda: replace(PRICES, file_bytes=0),
    ],
)
def test_nonsense_is_refused(nonsense: object) -> None:
    with pytest.raises(ValueError):
        nonsense()  # type: ignore[operator]


def test_a_choice_from_a_join() -> None:
    """A fact relation between two small ones, with statistics: the large one is read once."""
    inputs = (keyed("r", 0), keyed("s"), keyed("t", 0))
    conditions = (equal(0, 2), equal(3, 4), equal(1, 5))
    graph = graph_of(
        inputs, conditions, known(100, inserted=1), known(10**6, inserted=100), known(100, inserted=1)
    )
    choice = choose(graph, Linear(graph))
    assert choice.tree is not None
    assert accesses(choice.tree)[graph.inputs[1]] == 1
    document = json.loads(json.dumps(choice.to_json()))
    assert document["reads"]["s"] == 1
    assert document["cost"] < document["alternatives"]["n-term"]


# The engine's prices.


def engine_graph(changed: float, ranges: int = 1) -> JoinGraph:
    inputs = (Input(0, "R"), Input(1, "S"), Input(2, "T"))
    sizes = (Size(10**6, changed), Size(10**6, 0, changed, ranges=ranges), Size(10**4, 1))
    return JoinGraph(inputs, sizes, {frozenset({0, 1}): 1e-6, frozenset({1, 2}): 1e-4})


R = frozenset({0})


def test_a_small_change_is_broadcast_and_a_large_one_shuffled() -> None:
    small, large = Spark(engine_graph(100), PRICES), Spark(engine_graph(10**5), PRICES)
    assert small.driver(R) == pytest.approx(0.04 + 100 * 100 * 1e-8)
    assert small.partner(R, 1, Moment.BEFORE) == pytest.approx(10**8 * 1e-9)
    assert large.driver(R) == pytest.approx(2 * 0.04 + 10**5 * 100 * 6e-9)
    assert large.partner(R, 1, Moment.AFTER) == pytest.approx(0.04 + 9 * 10**7 * 7e-9)


def test_ranges_that_no_row_falls_into_are_not_scanned() -> None:
    whole, cut = Spark(engine_graph(10), PRICES), Spark(engine_graph(10, ranges=1000), PRICES)
    assert cut.partner(R, 1, Moment.BEFORE) < whole.partner(R, 1, Moment.BEFORE) / 99
    assert cut.partner(R, 1, Moment.CHANGE) == whole.partner(R, 1, Moment.CHANGE)


def test_a_block_that_flows_on_costs_no_job() -> None:
    graph = engine_graph(100)
    writing, flowing = Spark(graph, PRICES), Spark(graph, PRICES, writes_blocks=False)
    pair = frozenset({0, 1})
    assert writing.keeping(pair) - flowing.keeping(pair) >= PRICES.per_job + PRICES.per_file_written
    assert writing.keeping(graph.everything) == flowing.keeping(graph.everything)


def test_recomputation_wins_where_nearly_all_changes() -> None:
    few, many = engine_graph(100), engine_graph(9 * 10**5)
    assert choose(few, Spark(few, PRICES)).cost < Spark(few, PRICES).recomputation()
    assert choose(many, Spark(many, PRICES)).cost > Spark(many, PRICES).recomputation()


def test_a_cross_product_is_dear_on_an_engine() -> None:
    graph = engine_graph(1000)
    spark = Spark(graph, PRICES)
    assert spark.keeping(frozenset({0, 2})) > 100 * spark.keeping(frozenset({0, 1}))


def test_calibrations_are_stored() -> None:
    stored = json.loads(json.dumps({**PRICES.to_json(), "of a newer version": 1}))
    assert Calibration.from_json(stored) == PRICES
