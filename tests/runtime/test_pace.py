"""When sessions begin, by simulation: arrivals, and sessions that last fixed + each·rows seconds. Compared
with a search through all ways to begin sessions that knows what will come."""

from __future__ import annotations

import math
import os
import random
from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import pytest

from stillframe.runtime.pace import SESSIONS, Pace

SEED = int(os.environ.get("STILLFRAME_SEED", "41"))
TINY = 1e-6


@dataclass(frozen=True)
class World:
    """Rows arrive at times, in order. A session fixes what has arrived and lasts fixed + each·rows."""

    arrivals: tuple[float, ...]
    fixed: float
    each: float

    def lasts(self, rows: int) -> float:
        return self.fixed + self.each * rows

    def session(self, shown: int, begin: float) -> tuple[int, float, float]:
        """Rows shown after it, when it ends, and how old the oldest row is then."""
        taken = bisect_right(self.arrivals, begin + TINY)
        end = begin + self.lasts(taken - shown)
        return taken, end, end - self.arrivals[shown]


def paced(world: World, pace: Pace, look: float) -> tuple[list[float], list[float]]:
    """When sessions begin, and how old the oldest row of each is when it is shown."""
    now, shown, begins, lags = 0.0, 0, [], []
    while shown < len(world.arrivals):
        assert now < 1e5, "sessions are put off for ever"
        waiting = bisect_right(world.arrivals, now + TINY) - shown
        pace.looked(waiting)
        slack = pace.slack(now - world.arrivals[shown], waiting) if waiting else look
        if waiting and slack <= TINY:
            begins.append(now)
            shown, end, lag = world.session(shown, now)
            pace.took(waiting, end - now)
            lags.append(lag)
            now = end
        else:
            now += min(look, slack)
    return begins, lags


def fewest(world: World, target: float) -> int | None:
    """The least number of sessions that show every row in time, if each takes all that waits; None if no
    choice of beginnings does. Sessions that take the same rows best begin with the last of them."""
    free = {0: 0.0}  # when a session may begin at the earliest, by rows shown
    for sessions in range(1, len(world.arrivals) + 1):
        after: dict[int, float] = {}
        for shown, at in free.items():
            for last in world.arrivals[shown:]:
                taken, end, lag = world.session(shown, max(at, last))
                if lag > target + TINY:
                    break
                after[taken] = min(after.get(taken, math.inf), end)
        if len(world.arrivals) in after:
            return sessions
        free = after
    return None


def bursts(rng: random.Random, looks: int, most: int) -> tuple[float, ...]:
    """At most so many rows in each look, quiet and busy times by turns."""
    arrivals: list[float] = []
    busy = rng.random()
    for look in range(looks):
        if rng.random() < 0.1:
            busy = rng.choice([0.0, 0.02, 0.3, 1.0])
        rows = sum(rng.random() < busy for _ in range(most))
        arrivals += [look + 1.0] * rows if rng.random() < 0.3 else [look + rng.random() for _ in range(rows)]
    return tuple(sorted(arrivals)) or (1.0,)


def kept(world: World, surge: int) -> float:
    """The least target that is always kept, if a second brings at most so many rows."""
    load = world.each * surge
    return max(2 * (world.fixed + load) / (1 - load), 1 + world.fixed + 2 * load)


def knowing(target: float, world: World, surge: int) -> Pace:
    """A pace that has seen sessions of this world, and does not forget its largest surge."""
    pace = Pace(target, aged=1.0)
    for rows in (1, 10, 100):
        pace.took(rows, world.lasts(rows))
    pace.looked(0)
    pace.looked(surge)
    pace.looked(0)
    return pace


def test_sessions_of_one_price_are_as_few_as_can_be():
    """If rows add nothing, what is done is the best there is: no more sessions than a choice that knows all
    that will come, and every row in time, for any arrivals whatever."""
    rng = random.Random(SEED)
    for case in range(150):
        fixed = rng.choice([1, 2, 3])
        target = rng.randint(2 * fixed, 12)
        world = World(tuple(sorted(rng.randint(0, 40) for _ in range(rng.randint(1, 25)))), fixed, 0.0)
        begins, lags = paced(world, knowing(target, world, 0), 1.0)
        print(f"seed {SEED} case {case}: {world} target {target}: {begins}")
        assert max(lags) <= target + TINY
        assert len(begins) == fewest(world, target)


def test_lag_stays_under_every_target_that_can_be_kept():
    """However rows come, if no second brings more than is known: down to the bound that the module names."""
    rng = random.Random(SEED + 1)
    for case in range(150):
        fixed, surge = rng.uniform(0.05, 4.0), rng.randint(1, 40)
        load = rng.uniform(0.0, 0.8)
        world = World(bursts(rng, 300, surge), fixed, load / surge)
        target = kept(world, surge) * rng.choice([1.0, 1.0, 1.2, 2.0, 5.0])
        begins, lags = paced(world, knowing(target, world, 2 * surge), 1.0)
        print(f"seed {SEED} case {case}: {fixed=} {surge=} {load=} {target=} {len(begins)} {max(lags)}")
        assert max(lags) <= target + TINY


def test_at_a_steady_rate_nobody_keeps_a_lower_target():
    """The other side of the bound: beginning at once, again and again, is late by then, and so is a pace."""
    for load in (0.1, 0.5, 0.8):
        world = World(tuple(i / 20 for i in range(8000)), 1.0, load / 20)
        least = 2.0 / (1 - load)
        for target in (least * 0.9, 0.0):
            _, lags = paced(world, knowing(target, world, 1), 0.05)
            assert max(lags[len(lags) // 2 :]) > least * 0.9
        _, lags = paced(world, knowing(least * 1.1 + 0.2, world, 2), 0.05)
        assert max(lags) <= least * 1.1 + 0.2


def test_sessions_are_nearly_as_few_as_can_be():
    """Where rows cost, too, what will come decides, and is not known: few more sessions in all than by
    the best choice of one who knows it."""
    rng = random.Random(SEED + 2)
    made = best = eager = 0
    for _ in range(60):
        fixed, surge = rng.uniform(0.2, 1.5), rng.randint(1, 6)
        load = rng.uniform(0.0, 0.5)
        world = World(bursts(rng, 40, surge), fixed, load / surge)
        target = kept(world, surge) * rng.uniform(1.0, 4.0)
        begins, lags = paced(world, knowing(target, world, 2 * surge), 1.0)
        least = fewest(world, target)
        assert least is not None and max(lags) <= target + TINY
        assert least <= len(begins) <= least * 1.5 + 1, (SEED, world, target)
        made, best, eager = made + len(begins), best + least, eager + len(paced(world, Pace(0.0), 1.0)[0])
    print(f"seed {SEED}: {made} sessions, {best} at best, {eager} if begun at once")
    assert made <= best * 1.15
    assert eager >= best * 2


def test_nothing_known_leaves_no_time_to_lose():
    pace = Pace(10.0)
    assert pace.slack(0.0, 1) < 0
    pace.took(1, 2.0)
    assert pace.slack(0.0, 1) == pytest.approx(8.0)
    assert pace.slack(5.0, 1) == pytest.approx(3.0)


def learned(lasts: Callable[[int], float], sizes: Sequence[int]) -> Pace:
    pace = Pace(100.0)
    for rows in sizes:
        pace.took(rows, lasts(rows))
    return pace


def test_what_a_session_lasts_is_learned():
    rng = random.Random(SEED + 3)
    sizes = [rng.randint(1, 2000) for _ in range(SESSIONS)]
    line = learned(lambda rows: 2.0 + rows / 500, sizes)
    assert line.expected(0) == pytest.approx(2.0) and line.expected(4000) == pytest.approx(10.0)
    noisy = learned(lambda rows: (2.0 + rows / 500) * rng.uniform(0.8, 1.2), sizes)
    assert 2.0 * 0.8 < noisy.expected(100) < 2.2 * 1.6 and 10.0 * 0.7 < noisy.expected(4000) < 10.0 * 1.5


def test_a_few_strange_sessions_decide_nothing():
    usual = learned(lambda rows: 1.0 + rows / 1000, range(100, 100 + 30 * 50, 50))
    expected = usual.expected(500)
    usual.took(200, 90.0)
    usual.took(1500, 0.0)
    assert usual.expected(500) == pytest.approx(expected, rel=0.1)


def test_what_changed_is_believed_soon_and_forgotten_in_time():
    pace = learned(lambda rows: 1.0, [10] * SESSIONS)
    for _ in range(4):
        pace.took(10, 5.0)
    assert pace.expected(10) == pytest.approx(5.0)
    for _ in range(SESSIONS):
        pace.took(10, 1.0)
    assert pace.expected(10) == pytest.approx(1.0)


def test_sessions_of_one_size_leave_larger_ones_to_be_feared():
    """What a row adds is not known from sessions of about one size: at most, all that a row of them took."""
    pace = learned(lambda rows: 1.0, [100, 110, 120])
    assert pace.expected(1000) == pytest.approx(1.0 + 900 / 110, rel=0.1)
    assert pace.expected(1) == pytest.approx(1.0)


def test_a_surge_is_remembered_for_a_while():
    pace = learned(lambda rows: 1.0 + rows / 10, [10, 20, 40])
    calm = pace.slack(0.0, 5)
    for rows in (0, 0, 50):
        pace.looked(rows)
    pace.took(50, 6.0)
    pace.looked(5)
    assert pace.slack(0.0, 5) == pytest.approx(calm - 5.0, abs=0.2)
    for _ in range(500):
        pace.looked(5)
    assert pace.slack(0.0, 5) == pytest.approx(calm, abs=0.1)
