"""The properties of a history and the levels made of them.

The properties imply one another: completeness gives consistency and convergence, consistency gives pairwise,
pairwise gives weak; convergence and weak are independent. A level is a set of properties, and each level's
set holds the one below it: none < convergent < weak < strong < complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal

Property = Literal["convergence", "weak", "pairwise", "consistency", "completeness"]

PROPERTIES: tuple[Property, ...] = ("convergence", "weak", "pairwise", "consistency", "completeness")


class Level(StrEnum):
    """Compared by strength, also with a level's plain name; a name that is no level is a `ValueError`."""

    NONE = "none"
    CONVERGENT = "convergent"
    WEAK = "weak"
    STRONG = "strong"
    COMPLETE = "complete"

    @property
    def needs(self) -> frozenset[Property]:
        return _NEEDS[self]

    @classmethod
    def of(cls, holds: Mapping[Property, bool]) -> Level:
        """The highest level all of whose properties hold."""
        held = {each for each in PROPERTIES if holds[each]}
        return max((level for level in cls if level.needs <= held), key=_RANK.__getitem__)

    def __lt__(self, other: str) -> bool:
        return _RANK[self] < _RANK[Level(other)]

    def __le__(self, other: str) -> bool:
        return _RANK[self] <= _RANK[Level(other)]

    def __gt__(self, other: str) -> bool:
        return _RANK[self] > _RANK[Level(other)]

    def __ge__(self, other: str) -> bool:
        return _RANK[self] >= _RANK[Level(other)]


_RANK: dict[Level, int] = {level: rank for rank, level in enumerate(Level)}

_NEEDS: dict[Level, frozenset[Property]] = {
    Level.NONE: frozenset(),
    Level.CONVERGENT: frozenset({"convergence"}),
    Level.WEAK: frozenset({"convergence", "weak"}),
    Level.STRONG: frozenset({"convergence", "weak", "pairwise", "consistency"}),
    Level.COMPLETE: frozenset(PROPERTIES),
}
