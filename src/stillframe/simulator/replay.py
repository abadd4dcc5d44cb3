"""A printed schedule, run again; and a failing schedule made simpler.

In a world no two steps have one label, so a list of labels is a schedule. Any list of labels at all is a
*guide*: what of it can be taken is taken, in its order, and then always the first step possible. So every
guide, and every part of one, leads to a whole schedule, the same one each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from stillframe.consistency import Property
from stillframe.errors import ProjectError
from stillframe.simulator.explore import Run, verdict
from stillframe.simulator.world import Simulation, Step, World

MOST_TRIES = 2_000
_SHOWN = 12


class ScheduleError(ProjectError):
    """A schedule that is not written as one, or that cannot happen."""

    code = "BAD_SCHEDULE"


@dataclass(frozen=True)
class Replay:
    """The worlds a schedule passes through. `possible` are the steps that could still follow."""

    first: World
    steps: tuple[Step, ...]
    possible: tuple[str, ...]

    def run(self, simulation: Simulation) -> Run:
        last = self.steps[-1].world if self.steps else self.first
        return Run(
            tuple(step.label for step in self.steps),
            simulation.views(last),
            sum(step.messages for step in self.steps),
            sum(step.bytes for step in self.steps),
        )


def replay(simulation: Simulation, schedule: Sequence[str]) -> Replay:
    """Follows a schedule to its end, which need not be the end of all that can happen."""
    world = first = simulation.start()
    taken = list[Step]()
    for number, label in enumerate(schedule, 1):
        possible = simulation.steps(world)
        step = next((each for each in possible if each.label == label), None)
        if step is None:
            raise _impossible(number, label, [each.label for each in possible])
        taken.append(step)
        world = step.world
    return Replay(first, tuple(taken), tuple(step.label for step in simulation.steps(world)))


def _impossible(number: int, label: str, possible: list[str]) -> ScheduleError:
    if not possible:
        told = "nothing is: the schedule before it is whole"
    else:
        more = f" | and {len(possible) - _SHOWN} more" if len(possible) > _SHOWN else ""
        told = " | ".join(possible[:_SHOWN]) + more
    return ScheduleError(
        f"step {number} is not possible: {label}",
        detail=f"possible there: {told}",
        hint="steps are written as `stillframe simulate` prints them, for the same scenario and algorithm",
    )


def follow(simulation: Simulation, guide: Sequence[str]) -> Run:
    """The whole schedule a guide leads to."""
    world = simulation.start()
    schedule, messages, size = list[str](), 0, 0
    ahead = iter(guide)
    wanted = next(ahead, None)
    while steps := simulation.steps(world):
        by_label = {step.label: step for step in steps}
        while wanted is not None and wanted not in by_label:
            wanted = next(ahead, None)
        step = steps[0] if wanted is None else by_label[wanted]
        if wanted is not None:
            wanted = next(ahead, None)
        world = step.world
        schedule.append(step.label)
        messages += step.messages
        size += step.bytes
    return Run(tuple(schedule), simulation.views(world), messages, size)


def shrink(simulation: Simulation, schedule: Sequence[str], breaks: Property, tries: int = MOST_TRIES) -> Run:
    """A schedule that breaks the same property: never a longer one, nor one with more switches between
    sources and warehouse where it is as long. The same for the same schedule, always."""
    return _Shrinking(simulation, breaks, tries).shrink(tuple(schedule))


class _Shrinking:
    def __init__(self, simulation: Simulation, breaks: Property, tries: int) -> None:
        self.simulation = simulation
        self.breaks = breaks
        self.tries = tries

    def shrink(self, schedule: tuple[str, ...]) -> Run:
        best = self._failing(schedule)
        if best is None:
            raise ValueError(f"the schedule does not break {self.breaks}")
        while self.tries > 0:
            shorter = self._without_moves(self._without_steps(best))
            if _size(shorter) >= _size(best):
                return best
            best = shorter
        return best

    def _failing(self, guide: tuple[str, ...]) -> Run | None:
        self.tries -= 1
        run = follow(self.simulation, guide)
        return None if verdict(self.simulation, run.views).holds[self.breaks] else run

    def _without_steps(self, best: Run) -> Run:
        """Leaves out ever smaller pieces of the guide, while what it leads to is no bigger."""
        guide = best.schedule
        piece = max(1, len(guide) // 2)
        while self.tries > 0:
            at = 0
            while at < len(guide) and self.tries > 0:
                less = guide[:at] + guide[at + piece :]
                run = self._failing(less)
                if run is not None and _size(run) <= _size(best):
                    guide, best = less, run
                else:
                    at += piece
            if piece == 1:
                break
            piece //= 2
        return best

    def _without_moves(self, best: Run) -> Run:
        """Brings steps forward to where the same one acts already."""
        improved = True
        while improved and self.tries > 0:
            improved = False
            for guide in _moved(best.schedule):
                run = self._failing(guide)
                if run is not None and _size(run) < _size(best):
                    best, improved = run, True
                    break
                if self.tries <= 0:
                    break
        return best


def _size(run: Run) -> tuple[int, int]:
    """Fewer steps first, then fewer changes of who acts."""
    actors = [actor(label) for label in run.schedule]
    return len(actors), sum(a != b for a, b in pairwise(actors))


def actor(label: str) -> str:
    return label.partition(":")[0]


def _moved(schedule: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    """Schedules with one run of steps of one actor moved forward behind an earlier step of the same one."""
    actors = [actor(label) for label in schedule]
    for start in range(2, len(schedule)):
        if actors[start] == actors[start - 1]:
            continue
        for to in range(start - 1, 0, -1):
            if actors[to - 1] != actors[start] or actors[to] == actors[start]:
                continue
            for end in range(start + 1, len(schedule) + 1):
                piece = schedule[start:end]
                yield schedule[:to] + piece + schedule[to:start] + schedule[end:]
                if end == len(schedule) or actors[end] != actors[start]:
                    break
