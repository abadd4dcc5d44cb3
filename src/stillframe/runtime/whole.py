"""Global transactions stay whole: which transactions a frame leaves out, and in which steps a view that shows
every transaction advances.

Law (left out): E is the least set such that
  - of a global transaction with a part that is missing, or in E, every part is in E;
  - at each source, what comes after a member of E and touches a row that it touched is in E; where only
    order is known, everything that comes after it is.
So what a frame shows is a cut that splits nothing and builds on nothing it leaves out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Iterator, Mapping
from dataclasses import dataclass

from stillframe.sources.base import Committed

Touched = Mapping[int, frozenset[Hashable]]


@dataclass(frozen=True)
class Interval:
    """What one source committed since the last frame, in order. `touched` tells the rows of each transaction,
    by its number; None where only the order is known."""

    committed: tuple[Committed, ...]
    touched: Callable[[], Touched | None]


Groups = Mapping[str, Mapping[str, int]]  # the parts of global transactions that frames show, by source


def left_out(intervals: Mapping[str, Interval], shown: Groups | None = None) -> dict[str, frozenset[int]]:
    """The numbers of E at each source. Parts that are `shown` already are not missing."""
    out: dict[str, set[int]] = {source: set() for source in intervals}
    known: dict[str, Touched | None] = {}
    while True:
        grown = False
        for source, number in _broken(intervals, out, shown or {}):
            out[source].add(number)
            grown = True
        if not grown:
            return {source: frozenset(numbers) for source, numbers in out.items()}
        for source, interval in intervals.items():
            if out[source]:
                if source not in known:
                    known[source] = interval.touched()
                _spread(interval.committed, known[source], out[source])


def _broken(
    intervals: Mapping[str, Interval], out: Mapping[str, Collection[int]], shown: Groups
) -> Iterator[tuple[str, int]]:
    """The parts that are still in, of global transactions that are not whole."""
    parts: dict[str, set[str]] = {group: set(places) for group, places in shown.items()}
    wanted: dict[str, int] = {}
    inside = [
        (source, one)
        for source, interval in intervals.items()
        for one in interval.committed
        if one.group and one.number not in out[source]
    ]
    for source, one in inside:
        parts.setdefault(one.group, set()).add(source)
        wanted[one.group] = max(wanted.get(one.group, 0), one.parts)
    for source, one in inside:
        if len(parts[one.group]) < wanted[one.group]:
            yield source, one.number


def shown_in_part(
    intervals: Mapping[str, Interval], out: Mapping[str, Collection[int]], shown: Groups
) -> dict[str, dict[str, int]]:
    """The global transactions of which parts are shown, now or before, and others are not."""
    known = {group: dict(places) for group, places in shown.items()}
    wanted: dict[str, int] = {}
    for source, interval in intervals.items():
        for one in interval.committed:
            if one.group and one.number not in out[source]:
                known.setdefault(one.group, {})[source] = one.number
                wanted[one.group] = max(wanted.get(one.group, 0), one.parts)
    return {g: places for g, places in known.items() if g not in wanted or len(places) < wanted[g]}


def _spread(committed: tuple[Committed, ...], touched: Touched | None, out: set[int]) -> None:
    rows = set[Hashable]()
    begun = False
    for one in committed:
        if touched is None:
            begun = begun or one.number in out
            if begun:
                out.add(one.number)
        elif one.number in out or not rows.isdisjoint(touched.get(one.number, frozenset())):
            out.add(one.number)
            rows |= touched.get(one.number, frozenset())


def steps(committed: Mapping[str, tuple[Committed, ...]]) -> Iterator[dict[str, int]]:
    """How many transactions of each source are shown after each step: one more each time, or all parts of one
    global transaction. Ends where a part is missing, or two global transactions wait for each other."""
    shown = dict.fromkeys(committed, 0)
    whole = set[str]()
    while True:
        heads = {s: done[shown[s]] for s, done in committed.items() if shown[s] < len(done)}
        alone = next((s for s, one in heads.items() if not one.group or one.group in whole), None)
        if alone is not None:
            shown[alone] += 1
        else:
            ready = Counter(one.group for one in heads.values())
            group = next((one.group for one in heads.values() if ready[one.group] >= one.parts), None)
            if group is None:
                return
            whole.add(group)
            for source, one in heads.items():
                shown[source] += one.group == group
        yield dict(shown)
