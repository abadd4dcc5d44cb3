"""The closed cuts of a course as bits, so that a set of cuts is one integer.

A view content *is*, for the search, the set of closed cuts that have it. Both searches then advance a set of
cuts from state to state, and what a set advances to depends on the set alone, so it is computed once for all
histories of the course:

- a chain that explains the states so far can end exactly in the cuts of state i that lie on or above an end
  for state i-1; any chain of closed cuts extends to a merge of the sources' orders;
- a serial order whose distinct contents so far are states 0..i passes exactly through the cuts of state i
  that are one step above such a place for state i-1, and those reached from there without a new content.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from itertools import product

from stillframe.consistency.course import Course, Cut


class _Union:
    """The union of a table's entries over a set, remembered by set."""

    def __init__(self, table: Sequence[int]) -> None:
        self._table = table
        self._known: dict[int, int] = {}

    def __call__(self, members: int) -> int:
        found = self._known.get(members)
        if found is None:
            found = 0
            left = members
            while left:
                lowest = left & -left
                found |= self._table[lowest.bit_length() - 1]
                left ^= lowest
            self._known[members] = found
        return found


class Lattice:
    """`cuts` ascend in size: the first is empty, the last full. `having` gives a content's set of cuts."""

    def __init__(self, course: Course, content: Callable[[Cut], Hashable]) -> None:
        above = _closed_cuts(course)
        self.cuts: tuple[Cut, ...] = tuple(sorted(above, key=lambda cut: (sum(cut), cut)))
        self.having: dict[Hashable, int] = {}
        number = {cut: at for at, cut in enumerate(self.cuts)}
        contents = [content(cut) for cut in self.cuts]
        for at, found in enumerate(contents):
            self.having[found] = self.having.get(found, 0) | 1 << at
        self.full = 1 << len(self.cuts) - 1
        nexts = [[number[step] for step in above[cut]] for cut in self.cuts]
        upwards = [0] * len(self.cuts)
        spread = [0] * len(self.cuts)
        for at in reversed(range(len(self.cuts))):
            upwards[at] = spread[at] = 1 << at
            for step in nexts[at]:
                upwards[at] |= upwards[step]
                if contents[step] == contents[at]:
                    spread[at] |= spread[step]
        self._onwards = _Union(upwards)
        self._steps = _Union([sum(1 << step for step in steps) for steps in nexts])
        self._spread = _Union(spread)
        self._course = course
        self._content = content
        self._split: dict[Hashable, Cut] = {}
        self._unseen: Iterator[Cut] = self._split_cuts()

    def consistent(self, history: Sequence[int]) -> bool:
        ends = self.every
        for having in history:
            ends = self._onwards(ends) & having
            if not ends:
                return False
        return True

    def pairwise(self, history: Sequence[int]) -> bool:
        return all(
            self._onwards(earlier) & later for at, earlier in enumerate(history) for later in history[at:]
        )

    def complete(self, history: Sequence[int]) -> bool:
        """For a history without equal neighbours."""
        places = self._spread(1 & history[0])
        for having in history[1:]:
            places = self._spread(self._steps(places) & having)
            if not places:
                return False
        return bool(places & self.full)

    @property
    def every(self) -> int:
        return (1 << len(self.cuts)) - 1

    def cuts_of(self, state: Hashable) -> tuple[Cut, ...]:
        having = self.having.get(state, 0)
        return tuple(cut for at, cut in enumerate(self.cuts) if having >> at & 1)

    def split_cut(self, state: Hashable) -> Cut | None:
        """A cut that is not closed and has this content. Contents are evaluated only as far as needed."""
        while state not in self._split:
            cut = next(self._unseen, None)
            if cut is None:
                return None
            self._split.setdefault(self._content(cut), cut)
        return self._split[state]

    def _split_cuts(self) -> Iterator[Cut]:
        closed = frozenset(self.cuts)
        every = product(*(range(length + 1) for length in self._course.lengths))
        return (cut for cut in every if cut not in closed)


def _closed_cuts(course: Course) -> dict[Cut, tuple[Cut, ...]]:
    """Every closed cut, with those next above it; each is reached from the empty cut step by step."""
    found: dict[Cut, tuple[Cut, ...]] = {}
    waiting = [course.empty]
    while waiting:
        cut = waiting.pop()
        if cut not in found:
            found[cut] = course.steps(cut)
            waiting.extend(found[cut])
    return found
