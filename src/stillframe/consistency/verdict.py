"""A verdict says which properties a history has, and nothing about why."""

from __future__ import annotations

from dataclasses import dataclass

from stillframe.consistency.levels import PROPERTIES, Level, Property


@dataclass(frozen=True)
class Verdict:
    convergence: bool
    weak: bool
    pairwise: bool
    consistency: bool
    completeness: bool

    @property
    def holds(self) -> dict[Property, bool]:
        return {each: bool(getattr(self, each)) for each in PROPERTIES}

    @property
    def level(self) -> Level:
        return Level.of(self.holds)

    @property
    def breaks(self) -> Property | None:
        """What keeps a history from the next level. The pairwise form is no level of its own, so where it
        fails, consistency is what breaks."""
        return next((each for each, held in self.holds.items() if not held and each != "pairwise"), None)

    def __and__(self, other: Verdict) -> Verdict:
        """What holds in both histories. Levels are conjunctions, so its level is the lower of the two."""
        return Verdict(*(getattr(self, each) and getattr(other, each) for each in PROPERTIES))
