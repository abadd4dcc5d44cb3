"""Which transactions a frame leaves out, against the law read literally, and the steps of complete views."""

from __future__ import annotations

from collections import Counter
from itertools import chain, combinations

from hypothesis import given, settings
from hypothesis import strategies as st

from stillframe.runtime.whole import Interval, left_out, steps
from stillframe.sources.base import Committed

SOURCES = "xyz"


@st.composite
def worlds(draw: st.DrawFn) -> dict[str, Interval]:
    """Few transactions at up to three sources, some of them parts of global ones, some touching one row."""
    made: dict[str, Interval] = {}
    number = 0
    for source in SOURCES[: draw(st.integers(1, 3))]:
        committed, touched = [], {}
        for _ in range(draw(st.integers(0, 4))):
            number += 1
            group = draw(st.sampled_from(["", "", "g", "h"]))
            parts = {"": 0, "g": 2, "h": 3}[group]
            committed.append(Committed(number, {"t": 1}, group, parts))
            touched[number] = frozenset(draw(st.sets(st.integers(0, 2), max_size=2)))
        known = touched if draw(st.booleans()) else None
        made[source] = Interval(tuple(committed), lambda known=known: known)
    return made


def closed(intervals: dict[str, Interval], out: frozenset[int]) -> bool:
    """Both sentences of the law. A source has one part, however often it is marked."""
    parts: dict[str, set[str]] = {}
    for source, interval in intervals.items():
        for one in interval.committed:
            if one.group and one.number not in out:
                parts.setdefault(one.group, set()).add(source)
    for interval in intervals.values():
        touched = interval.touched()
        for place, one in enumerate(interval.committed):
            if one.number not in out:
                if one.group and len(parts[one.group]) < one.parts:
                    return False
                continue
            for later in interval.committed[place + 1 :]:
                dependent = touched is None or touched[one.number] & touched[later.number]
                if dependent and later.number not in out:
                    return False
    return True


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_oracle_the_least_closed_set_is_left_out(intervals: dict[str, Interval]) -> None:
    every = [one.number for interval in intervals.values() for one in interval.committed]
    sets = chain.from_iterable(combinations(every, size) for size in range(len(every) + 1))
    least = next(frozenset(chosen) for chosen in sets if closed(intervals, frozenset(chosen)))
    found = left_out(intervals)
    assert frozenset().union(*found.values()) == least
    for source, numbers in found.items():
        assert numbers <= {one.number for one in intervals[source].committed}


@settings(max_examples=300, deadline=None)
@given(worlds())
def test_steps_go_one_transaction_at_a_time_and_split_nothing(intervals: dict[str, Interval]) -> None:
    committed = {source: interval.committed for source, interval in intervals.items()}
    before = dict.fromkeys(committed, 0)
    whole = {""}
    for shown in steps(committed):
        taken = [one for source in committed for one in committed[source][before[source] : shown[source]]]
        assert taken, "a step shows something new"
        groups = {one.group for one in taken}
        assert len(groups) == 1
        assert len(taken) == 1 if groups <= whole else len(taken) >= taken[0].parts
        whole |= groups
        before = shown
    heads = [done[before[source]] for source, done in committed.items() if before[source] < len(done)]
    assert all(one.group not in whole for one in heads), "only global transactions hold a step back"
    ready = Counter(one.group for one in heads)
    assert all(ready[one.group] < one.parts for one in heads)


def test_what_builds_on_a_half_transaction_waits_with_it() -> None:
    half = Committed(1, {"t": 1}, "g", 2)
    after, apart = Committed(2, {"t": 1}), Committed(3, {"t": 1})
    rows = {1: frozenset({"a"}), 2: frozenset({"a", "b"}), 3: frozenset({"c"})}
    known = Interval((half, after, apart), lambda: rows)
    assert left_out({"x": known, "y": Interval((), dict)}) == {"x": frozenset({1, 2}), "y": frozenset()}
    ordered = Interval((half, after, apart), lambda: None)
    assert left_out({"x": ordered}) == {"x": frozenset({1, 2, 3})}
