"""Prices that explain measured times best, none of them negative.

    minimise, over prices ≥ 0,
    Σ_t (estimate(t) / time(t) − 1)²  +  TRUST² · Σ_p (price(p) / expected(p) − 1)²

Errors are relative: a job of a tenth of a second counts as much as one of ten. Prices are expected in the
proportions that they are known to have elsewhere, on a machine as fast as this one: a price of which the jobs
say little stays near that.

Law: a minimum under price ≥ 0 is a minimum without that bound over the prices that are above zero in it. So
trying every set of prices finds one, and with eight of them that is nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean, median

TRUST = 0.3  # a price twice what was expected is as bad as a job missed by three tenths
SMALLEST = 1e-9  # of a pivot: prices that are asked for in fixed proportion cannot be told apart


@dataclass(frozen=True)
class Fit:
    """`errors` says of each job by which part of its time it is missed; `explained` is the part of the times'
    variance that the prices account for, one where they account for all."""

    prices: Mapping[str, float]
    errors: tuple[float, ...]
    explained: float

    @property
    def median_error(self) -> float:
        return median(map(abs, self.errors))


def fitted(
    charges: Sequence[Mapping[str, float]], times: Sequence[float], expected: Mapping[str, float]
) -> Fit:
    """`expected` names the prices; one that is expected to be nought is left to the times."""
    names = tuple(expected)
    rows = [[each[name] / time for name in names] for each, time in zip(charges, times, strict=True)]
    sides = [1.0] * len(rows)
    asked = [sum(each[name] * price for name, price in expected.items()) for each in charges]
    speed = (
        median(time / estimate for time, estimate in zip(times, asked, strict=True)) if all(asked) else 0.0
    )
    for i, name in enumerate(names):
        if speed and expected[name]:
            rows.append([TRUST / (speed * expected[name]) if j == i else 0.0 for j in range(len(names))])
            sides.append(TRUST)
    scales = [max(row[i] for row in rows) or 1.0 for i in range(len(names))]
    scaled = [[value / scale for value, scale in zip(row, scales, strict=True)] for row in rows]
    best = min(_solutions(scaled, sides, len(names)), key=lambda found: _missed(scaled, sides, found))
    prices = {name: value / scale for name, value, scale in zip(names, best, scales, strict=True)}
    estimates = [sum(each[name] * prices[name] for name in names) for each in charges]
    errors = tuple(estimate / time - 1 for estimate, time in zip(estimates, times, strict=True))
    return Fit(prices, errors, _explained(estimates, times))


def _solutions(rows: Sequence[Sequence[float]], sides: Sequence[float], count: int) -> Iterator[list[float]]:
    """For every set of prices, the best that they alone can do, where none is negative then."""
    yield [0.0] * count
    for size in range(1, count + 1):
        for chosen in combinations(range(count), size):
            found = _least_squares([[row[i] for i in chosen] for row in rows], sides)
            if found is not None and min(found) >= 0:
                whole = [0.0] * count
                for i, value in zip(chosen, found, strict=True):
                    whole[i] = value
                yield whole


def _missed(rows: Sequence[Sequence[float]], sides: Sequence[float], prices: Sequence[float]) -> float:
    return sum(
        (sum(a * p for a, p in zip(row, prices, strict=True)) - side) ** 2
        for row, side in zip(rows, sides, strict=True)
    )


def _least_squares(rows: Sequence[Sequence[float]], sides: Sequence[float]) -> list[float] | None:
    """The solution of the normal equations; None where there is not just one."""
    count = len(rows[0])
    matrix = [
        [
            *(sum(row[i] * row[j] for row in rows) for j in range(count)),
            sum(row[i] * side for row, side in zip(rows, sides, strict=True)),
        ]
        for i in range(count)
    ]
    for i in range(count):
        pivot = max(range(i, count), key=lambda r: abs(matrix[r][i]))
        if abs(matrix[pivot][i]) < SMALLEST:
            return None
        matrix[i], matrix[pivot] = matrix[pivot], matrix[i]
        for r in range(count):
            if r != i and matrix[r][i]:
                part = matrix[r][i] / matrix[i][i]
                matrix[r] = [a - part * b for a, b in zip(matrix[r], matrix[i], strict=True)]
    return [matrix[i][count] / matrix[i][i] for i in range(count)]


def _explained(estimates: Sequence[float], times: Sequence[float]) -> float:
    middle = fmean(times)
    spread = sum((time - middle) ** 2 for time in times)
    missed = sum((estimate - time) ** 2 for estimate, time in zip(estimates, times, strict=True))
    return 1 - missed / spread if spread else 0.0
