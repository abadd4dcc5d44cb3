"""Cuts, chains and parts of a course in words, with the sources' names where they are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from stillframe.consistency.course import Course, Cut, Part

_SHOWN = 6


@dataclass(frozen=True)
class Words:
    course: Course
    sources: tuple[str, ...] = ()

    def cut(self, cut: Cut) -> str:
        if len(self.sources) != len(cut):
            return str(cut)
        return "(" + ", ".join(f"{name} {taken}" for name, taken in zip(self.sources, cut, strict=True)) + ")"

    def cuts(self, cuts: Sequence[Cut]) -> str:
        shown = ", ".join(map(self.cut, cuts[:_SHOWN]))
        return shown if len(cuts) <= _SHOWN else f"{shown} and {len(cuts) - _SHOWN} more"

    def chain(self, chain: Sequence[Cut]) -> str:
        return " <= ".join(map(self.cut, chain))

    def part(self, part: Part) -> str:
        source, number = part
        name = self.sources[source] if source < len(self.sources) else f"source {source}"
        return f"transaction {number} of {name}"

    def parts(self, parts: Sequence[Part]) -> str:
        return " and ".join(map(self.part, sorted(parts)))

    def not_closed(self, cut: Cut) -> str:
        """What a cut that is not closed does wrong, as a verb phrase."""

        def taken(part: Part) -> bool:
            return cut[part[0]] >= part[1]

        for group in self.course.groups:
            inside = [part for part in group if taken(part)]
            outside = [part for part in group if not taken(part)]
            if inside and outside:
                held, missing = self.parts(inside), self.parts(outside)
                return f"splits a global transaction: it holds {held} without {missing}"
        later, earlier = min(each for each in self.course.depends if taken(each[0]) and not taken(each[1]))
        return f"holds {self.part(later)} without {self.part(earlier)}, on which that depends"
