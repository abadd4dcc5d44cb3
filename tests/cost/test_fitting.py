"""Prices from times: those that made the times are found again, and none is negative."""

from __future__ import annotations

import os
from itertools import product
from random import Random

import pytest

from stillframe.errors import StillframeError
from stillframe.runtime.calibrating import refuse_nonsense
from stillframe.runtime.fitting import Fit, fitted
from stillframe.runtime.trials import PRICES

SEED = int(os.environ.get("STILLFRAME_SEED", "20"))
NAMES = ("job", "row", "byte")
NONE = dict.fromkeys(NAMES, 0.0)  # nothing is expected
SOUND = dict.fromkeys(PRICES, 0.001)


def times(charges: list[dict[str, float]], prices: dict[str, float]) -> list[float]:
    return [sum(each[name] * price for name, price in prices.items()) for each in charges]


def test_prices_that_made_the_times_are_found() -> None:
    for seed in range(SEED, SEED + 20):
        random = Random(seed)
        prices = {
            "job": random.uniform(0.01, 1),
            "row": random.choice([0, 1e-6]),
            "byte": 10 ** -random.uniform(7, 9),
        }
        charges = [
            {"job": 1.0, "row": 10 ** random.uniform(1, 7), "byte": 10 ** random.uniform(1, 9)}
            for _ in range(9)
        ]
        fit = fitted(charges, times(charges, prices), NONE)
        assert fit.prices == pytest.approx(prices, rel=1e-4, abs=1e-12), f"STILLFRAME_SEED={seed}"
        assert fit.median_error < 1e-6 and fit.explained == pytest.approx(1)


def test_no_prices_from_a_grid_are_better() -> None:
    """With noise, and with times that fall while a charge grows, which only a negative price could follow."""
    for seed in range(SEED, SEED + 8):
        random = Random(seed)
        charges = [{name: random.uniform(0, 10) for name in NAMES} for _ in range(6)]
        taken = [max(0.1, 3 + each["job"] - 0.5 * each["row"] + random.uniform(-1, 1)) for each in charges]
        fit = fitted(charges, taken, NONE)
        assert min(fit.prices.values()) >= 0

        def missed(prices: dict[str, float], charges=charges, taken=taken) -> float:
            return sum((t / time - 1) ** 2 for t, time in zip(times(charges, prices), taken, strict=True))

        steps = [i / 5 for i in range(11)]
        best = min(missed(dict(zip(NAMES, grid, strict=True))) for grid in product(steps, repeat=3))
        assert missed(dict(fit.prices)) <= best + 1e-9, f"STILLFRAME_SEED={seed}"


def test_prices_that_cannot_be_told_apart_are_not_made_up() -> None:
    """Two prices that are always charged alike: one gets all of it, and what it explains is the same."""
    charges = [{"job": 1.0, "row": 1.0, "byte": float(n)} for n in range(1, 6)]
    fit = fitted(charges, [2 + 3.0 * n for n in range(1, 6)], NONE)
    assert fit.prices["job"] + fit.prices["row"] == pytest.approx(2)
    assert fit.prices["byte"] == pytest.approx(3)


def test_a_price_that_nothing_is_charged_for_is_none() -> None:
    charges = [{"job": 1.0, "row": float(n), "byte": 0.0} for n in range(1, 4)]
    assert fitted(charges, [2.0, 3.0, 4.0], NONE).prices["byte"] == 0


def test_what_jobs_do_not_tell_is_as_expected_on_a_machine_as_fast_as_this() -> None:
    """Two prices that are always charged alike, expected as one to three, here twice as dear."""
    charges = [{"job": 1.0, "row": 1.0, "byte": float(n)} for n in range(1, 6)]
    fit = fitted(charges, [8 + 2.0 * n for n in range(1, 6)], {"job": 1.0, "row": 3.0, "byte": 1.0})
    assert fit.prices == pytest.approx({"job": 2.0, "row": 6.0, "byte": 2.0})
    fit = fitted(charges, [12 + 2.0 * n for n in range(1, 6)], {"job": 1.0, "row": 3.0, "byte": 1.0})
    assert fit.prices["row"] > 2 * fit.prices["job"] > 0 and fit.median_error < 0.03


@pytest.mark.parametrize(
    ("free", "error", "told"),
    [
        (["per_job", "per_stage", "per_file_written"], 0.1, "a job would cost nothing"),
        (["per_byte_scanned"], 0.1, "reading would cost nothing"),
        (["per_row_made", "per_byte_written"], 0.1, "writing would cost nothing"),
        ([], 0.5, "the middle job is missed by 50%"),
    ],
)
def test_nonsense_is_refused(free: list[str], error: float, told: str) -> None:
    with pytest.raises(StillframeError) as refused:
        refuse_nonsense(Fit({**SOUND, **dict.fromkeys(free, 0.0)}, (error, -error), 0.9))
    assert refused.value.code == "NO_PRICES" and told in refused.value.detail and refused.value.hint


def test_a_good_fit_is_not_refused() -> None:
    refuse_nonsense(Fit({**SOUND, "per_job": 0.0, "per_row_made": 0.0}, (0.2, -0.3, 0.9), 0.9))
