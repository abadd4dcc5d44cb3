"""What adding up equal rows adds to an estimate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stillframe.algebra import (
    Aggregate,
    Column,
    Join,
    Measure,
    Output,
    Plan,
    Project,
    Ref,
    Scan,
    Schema,
    UnionAll,
    call,
)
from stillframe.algebra.plan import map_scans
from stillframe.algebra.types import BIGINT
from stillframe.change import body
from stillframe.runtime.asking import seconds_asked
from stillframe.runtime.estimating import Estimate, Estimator, Sized, sized
from stillframe.runtime.prices import BUILT_IN
from stillframe.runtime.reads import KEY_LIMIT
from stillframe.runtime.trial_data import Made
from stillframe.runtime.trials import PRICES as CHARGED
from stillframe.runtime.trials import Situation
from stillframe.runtime.widths import COLUMN_BYTES

ROWS = {"reading": 1000.0, "sensor": 100.0}
NOWHERE = Path("nowhere")  # nothing is written here
SHOWN = Situation(
    (Made(NOWHERE, "reading", 1000, 6, {"sensor": 100}), Made(NOWHERE, "sensor", 100, 4, {})), {"reading": 10}
).join
KEYLESS = map_scans(SHOWN, lambda scan, _: replace(scan, relation_schema=Schema(scan.schema.columns)))
COUNTED = Aggregate(KEYLESS, (Output("sensor", Ref(1, BIGINT)),), (Measure("rows", "count"),))
PRICES = replace(BUILT_IN["sail"], per_stage=3.0, per_byte_shuffled=0.5)
NO_HANDING_OVER = replace(PRICES, per_byte_shuffled=0.0)


def estimate(plan: Plan, prices=PRICES, *, change: float = 10, at_source: bool = False) -> Estimate:
    def size(name: str) -> Sized:
        return Sized(ROWS[name], change if name == "reading" else 0, 1e-30 if at_source else 0.0)

    return Estimator(prices, settle_rows=0).estimate(plan, size, rows=1000)


def test_a_change_is_added_up_before_it_is_written() -> None:
    added = estimate(SHOWN).incremental - estimate(SHOWN, NO_HANDING_OVER).incremental
    assert added == pytest.approx(0.5 * estimate(SHOWN).rows_out * COLUMN_BYTES * len(SHOWN.schema))


def test_anew_is_added_up_where_states_of_the_lake_changed() -> None:
    plain = estimate(KEYLESS, at_source=True).full
    added = estimate(KEYLESS).full - plain
    assert added == pytest.approx(3.0 + 0.5 * 1000 * COLUMN_BYTES * len(KEYLESS.schema))
    assert estimate(KEYLESS, change=0).full == pytest.approx(plain)


def test_anew_nothing_is_added_up_where_rows_have_keys() -> None:
    assert estimate(SHOWN).full == pytest.approx(estimate(SHOWN, at_source=True).full)


def test_groups_anew_are_added_up_below_and_above() -> None:
    added = estimate(COUNTED).full - estimate(COUNTED, at_source=True).full
    read, shown = 2, len(COUNTED.schema)  # the two columns that are compared, one of which is the key
    assert added == pytest.approx(
        2 * 3.0 + 0.5 * 1000 * COLUMN_BYTES * (read + shown), rel=0.03
    )  # sizes are rounded


def test_a_tree_is_searched_for_again_when_values_were_counted() -> None:
    join = body(SHOWN)
    assert isinstance(join, Join)
    estimator = Estimator(PRICES, settle_rows=0)

    def searched(values: float) -> int:
        def size(name: str) -> Sized:
            return Sized(ROWS[name], 10, distinct={"reading_sensor": values} if name == "reading" else {})

        estimator.tree(join, sized(join, size, frozenset(ROWS)))
        return len(estimator.trees)

    assert [searched(values) for values in (100, 100, 500, 100)] == [1, 1, 2, 2]


@pytest.mark.parametrize(("plan", "way"), [(SHOWN, "by columns"), (COUNTED, "by columns, then rows")])
def test_a_slower_driver_takes_longer_for_changes_and_not_for_computing_anew(plan: Plan, way: str) -> None:
    def of_driver(speed: float) -> Estimate:
        prices = replace(BUILT_IN["sail"], per_driver_second=speed)
        change = {"reading": 10.0}
        estimator = Estimator(prices, settle_rows=0, driver_rows=100_000)
        return estimator.estimate(plan, lambda name: Sized(ROWS[name], change.get(name, 0.0)), rows=1000)

    usual, slower = of_driver(1.0), of_driver(2.0)
    assert usual.way == slower.way == way
    assert slower.incremental == pytest.approx(2 * usual.incremental, rel=0.01)
    assert slower.full == usual.full


FREE = Estimator(replace(PRICES, **dict.fromkeys(CHARGED, 0.0)), settle_rows=0)  # but what sources take


def asked(plan: Plan, change: float, distinct: float | None = None) -> float:
    """Of a million sensors at their source, of which as many are looked for as readings changed."""

    def size(name: str) -> Sized:
        if name == "sensor":
            return Sized(1e6, 0, row_seconds=1.0)
        return Sized(1e6, change, distinct={} if distinct is None else {"reading_sensor": distinct})

    return FREE.estimate(plan, size, rows=1e6).incremental


def test_more_values_than_a_source_is_asked_for_read_all_of_it() -> None:
    assert asked(SHOWN, 100) == pytest.approx(100)
    assert asked(SHOWN, KEY_LIMIT) == pytest.approx(KEY_LIMIT)
    assert asked(SHOWN, KEY_LIMIT + 1) == pytest.approx(1e6)


def test_a_source_is_asked_for_values_and_not_for_rows() -> None:
    assert asked(SHOWN, 10 * KEY_LIMIT, distinct=50) == pytest.approx(50)
    assert asked(SHOWN, 10 * KEY_LIMIT, distinct=2 * KEY_LIMIT) == pytest.approx(1e6)


def test_a_value_that_many_rows_have_asks_for_all_of_them() -> None:
    """Readings at their source, of which as many are asked for as sensors that changed have."""

    def size(name: str) -> Sized:
        if name == "sensor":
            return Sized(1e6, 10)
        return Sized(1e6, 0, row_seconds=1.0, distinct={"reading_sensor": 1e4})

    assert FREE.estimate(SHOWN, size, rows=1e6).incremental == pytest.approx(10 * 100, rel=0.01)


def test_what_no_equality_joins_is_read_whole_if_anything_changed() -> None:
    join = body(SHOWN)
    assert isinstance(join, Join)
    apart = Join(join.inputs)
    assert asked(apart, 1) == pytest.approx(1e6)
    assert asked(apart, 0) < 1


@pytest.mark.parametrize(
    ("changed", "lines"),
    [
        (1, 15 * 4),  # a customer has fifteen orders of four lines each
        (KEY_LIMIT // 15, KEY_LIMIT // 15 * 15 * 4),
        (KEY_LIMIT // 15 + 1, 6e6),  # few customers, but more orders than a source is asked for
    ],
)
def test_what_is_met_on_the_way_is_looked_for_in_turn(changed: int, lines: float) -> None:
    def scan(name: str, *columns: str) -> Scan:
        return Scan(name, Schema(tuple(Column(column, BIGINT) for column in columns)))

    chain = Join(
        (scan("customer", "key"), scan("orders", "key", "customer"), scan("lines", "order")),
        (call("=", Ref(0, BIGINT), Ref(2, BIGINT)), call("=", Ref(1, BIGINT), Ref(3, BIGINT))),
    )
    sizes = {
        "customer": Sized(1e5, changed, distinct={"key": 1e5}),
        "orders": Sized(1.5e6, 0, distinct={"key": 1.5e6, "customer": 1e5}),
        "lines": Sized(6e6, 0, row_seconds=1.0, distinct={"order": 1.5e6}),
    }
    assert seconds_asked(chain, sizes.__getitem__) == (pytest.approx(lines), 6e6)


def test_nothing_is_asked_of_what_is_joined_with_nothing() -> None:
    readings, sensors = body(SHOWN).inputs

    def size(name: str) -> Sized:
        return Sized(1e6, 10 * KEY_LIMIT, row_seconds=1.0)

    def first(plan: Plan) -> Project:
        return Project(plan, (Output("first", Ref(0, BIGINT)),))

    both = UnionAll((first(readings), first(sensors)))
    assert FREE.estimate(both, size, rows=2e6).incremental < 1
