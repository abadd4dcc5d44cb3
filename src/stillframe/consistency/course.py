"""What happened at the sources, and which cuts of it respect global transactions and dependency.

Part q is *needed* by part p when q comes before p at the same source, when both belong to one global
transaction, or when p depends on q. A cut is *closed* when it holds whatever its parts need. So the closed
cuts are the ideals of a preorder, and three laws follow:

- the union and the intersection of closed cuts are closed;
- a closed cut is the union of the least closed cuts that hold its last part at each source;
- the closed cuts next above a closed cut each add one class of parts that need each other: one transaction,
  one global transaction, or, where needs run in a circle, the whole circle, which can only come together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from operator import le

Cut = tuple[int, ...]
Part = tuple[int, int]


def below(lower: Cut, upper: Cut) -> bool:
    """Whether every transaction of the first cut is in the second."""
    return all(map(le, lower, upper))


@dataclass(frozen=True)
class Course:
    """Committed transactions per source; global transactions by their parts, a part being a source's index
    and a number from 1; and further dependencies as (later part, earlier part)."""

    lengths: tuple[int, ...]
    groups: tuple[frozenset[Part], ...] = ()
    depends: frozenset[tuple[Part, Part]] = frozenset()

    def __post_init__(self) -> None:
        if any(length < 0 for length in self.lengths):
            raise ValueError(f"a source has a negative number of transactions: {self.lengths}")
        for part in (*(part for group in self.groups for part in group), *sum(self.depends, ())):
            source, number = part
            if not (0 <= source < len(self.lengths) and 1 <= number <= self.lengths[source]):
                raise ValueError(f"there is no part {part} in a course of lengths {self.lengths}")

    @property
    def empty(self) -> Cut:
        return (0,) * len(self.lengths)

    @property
    def full(self) -> Cut:
        return self.lengths

    def has_cut(self, cut: Cut) -> bool:
        return len(cut) == len(self.lengths) and below(self.empty, cut) and below(cut, self.full)

    def closed(self, cut: Cut) -> bool:
        return all(below(least[taken], cut) for least, taken in zip(self._least, cut, strict=True))

    def steps(self, cut: Cut) -> tuple[Cut, ...]:
        """The closed cuts next above a closed one."""
        grown = {
            tuple(map(max, cut, least[taken + 1]))
            for least, taken, length in zip(self._least, cut, self.lengths, strict=True)
            if taken < length
        }
        return tuple(
            sorted(each for each in grown if not any(other != each and below(other, each) for other in grown))
        )

    @cached_property
    def _least(self) -> tuple[tuple[Cut, ...], ...]:
        """For every source and number, the least closed cut that holds that many of its transactions.
        It grows with the number, so one pass per source meets each part once."""
        needs = self._needs
        return tuple(self._least_of(source, needs) for source in range(len(self.lengths)))

    def _least_of(self, source: int, needs: Mapping[Part, Iterable[Part]]) -> tuple[Cut, ...]:
        cut = list(self.empty)
        found = [tuple(cut)]
        for number in range(1, self.lengths[source] + 1):
            wanted = [(source, number)]
            while wanted:
                at, upto = wanted.pop()
                while cut[at] < upto:
                    cut[at] += 1
                    wanted.extend(needs.get((at, cut[at]), ()))
            found.append(tuple(cut))
        return tuple(found)

    @property
    def _needs(self) -> dict[Part, set[Part]]:
        needs: dict[Part, set[Part]] = {}
        for group in self.groups:
            for part in group:
                needs.setdefault(part, set()).update(group)
        for later, earlier in self.depends:
            needs.setdefault(later, set()).add(earlier)
        return needs
