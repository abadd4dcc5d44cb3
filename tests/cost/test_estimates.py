"""What adding up equal rows adds to an estimate."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from stillframe.algebra import Aggregate, Join, Measure, Output, Plan, Ref, Schema
from stillframe.algebra.plan import map_scans
from stillframe.algebra.types import BIGINT
from stillframe.change import body
from stillframe.runtime.estimating import COLUMN_BYTES, Estimate, Estimator, Sized, sized
from stillframe.runtime.prices import BUILT_IN
from stillframe.runtime.trial_data import Made
from stillframe.runtime.trials import Situation

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
