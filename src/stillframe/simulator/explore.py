"""Every schedule of a simulation: worlds reached in different ways but equal are explored once.

A schedule is a path from the first world to one where nothing can happen any more. Worlds form a graph
without cycles, so paths are counted, and the costs of the cheapest and dearest found, without walking them
one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from random import Random

from stillframe.consistency import Verdict
from stillframe.simulator.world import Simulation, World

Watch = Callable[[int], None]

TOO_MANY = 5_000_000


class TooManyWorlds(Exception):
    """Exhaustive exploration would not end in reasonable time."""


@dataclass(frozen=True)
class Edge:
    to: int
    messages: int
    bytes: int


@dataclass
class Graph:
    """All worlds that can be reached, first reached first; `came` tells from where and by which step."""

    worlds: list[World] = field(default_factory=list)
    edges: list[list[Edge]] = field(default_factory=list)
    came: list[tuple[int, str] | None] = field(default_factory=list)

    def ends(self) -> Iterator[int]:
        return (number for number, edges in enumerate(self.edges) if not edges)

    def schedule(self, number: int) -> list[str]:
        """A shortest schedule that leads to a world."""
        steps = list[str]()
        while (step := self.came[number]) is not None:
            number, label = step
            steps.append(label)
        return steps[::-1]


def explore(simulation: Simulation, most: int = TOO_MANY, watch: Watch | None = None) -> Graph:
    """Breadth first, so the first way to a world is a shortest. `watch` hears how many worlds are done."""
    first = simulation.start()
    graph = Graph([first], [], [None])
    numbers = {first: 0}
    at = 0
    while at < len(graph.worlds):
        edges = list[Edge]()
        seen = set[Edge]()
        for label, world, messages, size in simulation.steps(graph.worlds[at]):
            number = numbers.get(world)
            if number is None:
                number = numbers[world] = len(graph.worlds)
                if number >= most:
                    raise TooManyWorlds(f"more than {most} worlds")
                graph.worlds.append(world)
                graph.came.append((at, label))
            edge = Edge(number, messages, size)
            if edge not in seen:
                seen.add(edge)
                edges.append(edge)
        graph.edges.append(edges)
        at += 1
        if watch is not None:
            watch(at)
    return graph


@dataclass(frozen=True)
class Totals:
    schedules: int
    messages: tuple[int, int]
    bytes: tuple[int, int]


def totals(graph: Graph) -> Totals:
    """How many schedules there are, and the least and most they send."""
    paths = [0] * len(graph.worlds)
    low = [(0, 0)] * len(graph.worlds)
    high = [(0, 0)] * len(graph.worlds)
    for number in _ends_first(graph):
        edges = graph.edges[number]
        if not edges:
            paths[number] = 1
            continue
        paths[number] = sum(paths[edge.to] for edge in edges)
        low[number] = _best(min, edges, low)
        high[number] = _best(max, edges, high)
    return Totals(paths[0], (low[0][0], high[0][0]), (low[0][1], high[0][1]))


def _best(choose: Callable[..., int], edges: list[Edge], known: list[tuple[int, int]]) -> tuple[int, int]:
    return (
        choose(edge.messages + known[edge.to][0] for edge in edges),
        choose(edge.bytes + known[edge.to][1] for edge in edges),
    )


def _ends_first(graph: Graph) -> list[int]:
    """Every world after all that follow it."""
    order, state = list[int](), [0] * len(graph.worlds)
    stack = [(0, 0)]
    state[0] = 1
    while stack:
        number, at = stack.pop()
        edges = graph.edges[number]
        if at < len(edges):
            stack.append((number, at + 1))
            following = edges[at].to
            if not state[following]:
                state[following] = 1
                stack.append((following, 0))
        else:
            order.append(number)
    return order


@dataclass(frozen=True)
class Run:
    """One schedule, walked."""

    schedule: tuple[str, ...]
    views: tuple[int, ...]
    messages: int
    bytes: int


def walk(simulation: Simulation, choose: Callable[[list[str]], int | None]) -> Run:
    """Follows one schedule; `choose` picks the next step by its place, or ends the walk."""
    world = simulation.start()
    schedule, messages, size = list[str](), 0, 0
    while steps := simulation.steps(world):
        place = choose([step.label for step in steps])
        if place is None:
            break
        step = steps[place]
        world = step.world
        schedule.append(step.label)
        messages += step.messages
        size += step.bytes
    return Run(tuple(schedule), simulation.views(world), messages, size)


def sample(simulation: Simulation, count: int, seed: int) -> Iterator[Run]:
    """Random schedules; the same seed gives the same ones."""
    for number in range(count):
        yield walk(simulation, _at_random(Random(f"{seed}/{number}")))


def _at_random(random: Random) -> Callable[[list[str]], int]:
    return lambda labels: random.randrange(len(labels))


def verdict(simulation: Simulation, views: tuple[int, ...]) -> Verdict:
    return simulation.judge.judge(views)
