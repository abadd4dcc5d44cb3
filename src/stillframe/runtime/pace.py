"""When a session begins, so that lag stays under a target at the least cost.

A session that takes n rows lasts about fixed + each·n seconds, so the more rows it takes the less each costs.
Taking all that waits, as late as its oldest change allows, makes the fewest sessions:

    begin   once   age of the oldest + expected(rows that wait + a surge) reaches the target

where a surge is the most that came between two looks of late. Let any t seconds bring at most g·(1 + t/w)
rows, with looks every w seconds: then lag stays under any target of at least

    2·(fixed + each·g) / (1 - each·g/w)     and     w + fixed + 2·each·g

while at a steady g rows in w seconds no way to begin sessions keeps it under 2·fixed / (1 - each·g/w).

There is no clock in here: ages and durations are given, in seconds.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Collection, Iterable
from itertools import combinations
from statistics import median

SESSIONS = 32  # that are remembered: older ones say nothing any more
SAFE = 0.9  # of the sessions lasted no longer than is expected
AGED = 0.98  # of a surge is left after a look


class Pace:
    def __init__(self, target: float, aged: float = AGED) -> None:
        self.target = target
        self._aged = aged
        self._took: deque[tuple[int, float]] = deque(maxlen=SESSIONS)
        self._each, self._known = 0.0, False
        self._surge = 0.0
        self._waited: int | None = 0

    def looked(self, rows: int) -> None:
        """So many rows wait now. What came while a session lasted is no surge."""
        grown = 0 if self._waited is None else rows - self._waited
        self._surge = max(float(grown), self._surge * self._aged)
        self._waited = rows

    def took(self, rows: int, seconds: float) -> None:
        """A session showed the rows that waited, and lasted so long."""
        self._took.append((rows, seconds))
        self._each, self._known = _row_adds(self._took)
        self._waited = None

    def slack(self, age: float, rows: int) -> float:
        """How long a session may still be put off; not at all if it is not positive."""
        return self.target - age - self.expected(rows + self._surge)

    def expected(self, rows: float) -> float:
        """How long a session with so many rows lasts at most, nine times out of ten. Nothing is known before
        the first one: then there is no time to lose."""
        if not self._took:
            return math.inf
        lasted = sorted(
            seconds + self._each * (rows - n if self._known else max(0.0, rows - n))
            for n, seconds in self._took
        )
        return max(0.0, lasted[math.ceil(SAFE * len(lasted)) - 1])


def _row_adds(took: Collection[tuple[int, float]]) -> tuple[float, bool]:
    """The seconds that a row adds, and whether sessions of other sizes tell: if not, it is taken to be all
    that a row of an average session took, which is the most it can be."""
    most = median(seconds / max(n, 1) for n, seconds in took)
    sizes = [n for n, _ in took]
    if max(sizes) < 2 * min(sizes) + 1:
        return most, False
    slopes = [((t - s) / (m - n), abs(m - n)) for (n, s), (m, t) in combinations(took, 2) if m != n]
    return min(max(_weighted_median(slopes), 0.0), most), True


def _weighted_median(values: Iterable[tuple[float, float]]) -> float:
    """Pairs of sessions that differ more say more of what a row adds, and no few of them decide."""
    ordered = sorted(values)
    left = sum(weight for _, weight in ordered) / 2
    for value, weight in ordered:
        left -= weight
        if left <= 0:
            return value
    return ordered[-1][0]
