"""What a simulation found: levels, final views, costs, and a shortest schedule that breaks the next level."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import reduce
from operator import and_
from typing import Any

from stillframe.algebra import Bag
from stillframe.consistency import Level, Property, Verdict, explain
from stillframe.protocol import NotApplicable
from stillframe.simulator.explore import TOO_MANY, Graph, Run, Watch, explore, sample, totals, verdict
from stillframe.simulator.faults import FaultySimulation, faulty
from stillframe.simulator.replay import shrink
from stillframe.simulator.scenario import Scenario
from stillframe.simulator.world import Simulation


@dataclass(frozen=True)
class Counterexample:
    """`state` is the first of `views` that cannot be explained, and `reason` says why, where asked for."""

    breaks: Property
    schedule: tuple[str, ...]
    views: tuple[Bag, ...]
    state: int | None = None
    reason: str = ""


@dataclass(frozen=True)
class Outcome:
    """One algorithm on one view of one scenario. Without `verdict` the algorithm does not apply. `seed` is
    that of the random schedules; `expected` is the view of the sources when all has happened."""

    scenario: str
    algorithm: str
    view: str
    reason: NotApplicable | None = None
    schedules: int = 0
    worlds: int = 0
    exhaustive: bool = True
    verdict: Verdict | None = None
    finals: tuple[Bag, ...] = ()
    counterexample: Counterexample | None = None
    messages: tuple[int, int] = (0, 0)
    bytes: tuple[int, int] = (0, 0)
    seed: int | None = None
    expected: Bag | None = None

    @property
    def level(self) -> Level:
        return self.verdict.level if self.verdict else Level.NONE


def simulate(
    scenario: Scenario,
    algorithm: str,
    view: str | None = None,
    *,
    schedules: int | None = None,
    seed: int = 0,
    most: int = TOO_MANY,
    explained: bool = False,
    watch: Watch | None = None,
) -> Outcome:
    """Explores every schedule, or as many random ones as asked for. With `explained` the counterexample is
    made as simple as it gets, and says why it is one. `watch` hears how many worlds, or random schedules,
    there have been so far. `TooManyWorlds` where there are more than `most`."""
    name = view or scenario.views[0][0]
    try:
        simulation = simulation_of(scenario, algorithm, name)
    except NotApplicable as reason:
        return Outcome(scenario.name, algorithm, name, reason)
    if schedules is None:
        found = _exhaustive(simulation, algorithm, name, most, watch)
    else:
        runs = _counted(sample(simulation, schedules, seed), watch)
        found = replace(judged_runs(simulation, algorithm, name, runs), seed=seed)
    return clarified(simulation, found) if explained else found


def simulation_of(scenario: Scenario, algorithm: str, view: str | None = None) -> Simulation:
    return (FaultySimulation if faulty(scenario) else Simulation)(scenario, algorithm, view)


def _exhaustive(simulation: Simulation, algorithm: str, view: str, most: int, watch: Watch | None) -> Outcome:
    graph = explore(simulation, most, watch)
    ends = list(graph.ends())
    judged: dict[int, Verdict] = {}
    for end in ends:
        history = graph.worlds[end].views
        if history not in judged:
            judged[history] = verdict(simulation, simulation.views(graph.worlds[end]))
    overall = _all(judged.values())
    found = totals(graph)
    finals = dict.fromkeys(simulation.histories[graph.worlds[end].views][1] for end in ends)
    return Outcome(
        simulation.scenario.name,
        algorithm,
        view,
        schedules=found.schedules,
        worlds=len(graph.worlds),
        verdict=overall,
        finals=tuple(simulation.bags[bag] for bag in finals),
        counterexample=_first_breaking(simulation, graph, ends, judged, overall),
        messages=found.messages,
        bytes=found.bytes,
        expected=_expected(simulation),
    )


def _counted(runs: Iterable[Run], watch: Watch | None) -> Iterator[Run]:
    for number, run in enumerate(runs, 1):
        if watch is not None:
            watch(number)
        yield run


def _first_breaking(
    simulation: Simulation, graph: Graph, ends: list[int], judged: dict[int, Verdict], overall: Verdict
) -> Counterexample | None:
    """Worlds are numbered in the order they were reached, so the first end that breaks is nearest."""
    breaks = overall.breaks
    if breaks is None:
        return None
    end = next(end for end in ends if not judged[graph.worlds[end].views].holds[breaks])
    views = tuple(simulation.bags[bag] for bag in simulation.views(graph.worlds[end]))
    return Counterexample(breaks, tuple(graph.schedule(end)), views)


def judged_runs(simulation: Simulation, algorithm: str, view: str, runs: Iterable[Run]) -> Outcome:
    """What some schedules show. Of each history the shortest schedule is kept, the first of equals."""
    count, shortest = 0, dict[tuple[int, ...], Run]()
    messages, sizes = set[int](), set[int]()
    for run in runs:
        count += 1
        messages.add(run.messages)
        sizes.add(run.bytes)
        known = shortest.get(run.views)
        if known is None or len(run.schedule) < len(known.schedule):
            shortest[run.views] = run
    judged = {views: verdict(simulation, views) for views in shortest}
    overall = _all(judged.values())
    breaking = None
    if overall.breaks is not None:
        failing = (run for run in shortest.values() if not judged[run.views].holds[overall.breaks])
        run = min(failing, key=lambda run: len(run.schedule))
        breaking = Counterexample(
            overall.breaks, run.schedule, tuple(simulation.bags[bag] for bag in run.views)
        )
    return Outcome(
        simulation.scenario.name,
        algorithm,
        view,
        schedules=count,
        worlds=0,
        exhaustive=False,
        verdict=overall,
        finals=tuple(simulation.bags[bag] for bag in dict.fromkeys(views[-1] for views in shortest)),
        counterexample=breaking,
        messages=(min(messages), max(messages)),
        bytes=(min(sizes), max(sizes)),
        expected=_expected(simulation),
    )


def clarified(simulation: Simulation, outcome: Outcome, *, simpler: bool = True) -> Outcome:
    """With a counterexample that is simple, unless it must stay as it is, and says why it is one."""
    example = outcome.counterexample
    if example is None:
        return outcome
    views = tuple(simulation.bags.number(bag, simulation.view.schema.types) for bag in example.views)
    if simpler:
        run = shrink(simulation, example.schedule, example.breaks)
        views = run.views
        example = replace(example, schedule=run.schedule, views=tuple(simulation.bags[bag] for bag in views))
    why = explain(simulation.judge, views, breaks=example.breaks, sources=simulation.sources.names).failure
    if why is not None:
        example = replace(example, state=why.state, reason=why.reason)
    return replace(outcome, counterexample=example)


def _expected(simulation: Simulation) -> Bag:
    content = simulation.judge.content(simulation.judge.course.full)
    assert isinstance(content, int)
    return simulation.bags[content]


def _all(verdicts: Iterable[Verdict]) -> Verdict:
    return reduce(and_, verdicts)


def document(outcome: Outcome) -> dict[str, Any]:
    """The JSON shape of one result."""
    if outcome.verdict is None:
        assert outcome.reason is not None
        reason = outcome.reason.message + (f": {outcome.reason.detail}" if outcome.reason.detail else "")
        return {
            "algorithm": outcome.algorithm,
            "view": outcome.view,
            "applicable": False,
            "reason": reason,
            "code": outcome.reason.code,
            "hint": outcome.reason.hint,
            "schedules": 0,
            "worlds": None,
            "exhaustive": True,
            "seed": None,
            "level": None,
            "holds": None,
            "finals": [],
            "expected": None,
            "counterexample": None,
            "messages": None,
            "bytes": None,
        }
    example = outcome.counterexample
    return {
        "algorithm": outcome.algorithm,
        "view": outcome.view,
        "applicable": True,
        "reason": None,
        "schedules": outcome.schedules,
        "worlds": outcome.worlds if outcome.exhaustive else None,
        "exhaustive": outcome.exhaustive,
        "seed": outcome.seed,
        "level": str(outcome.level),
        "holds": {str(name): held for name, held in outcome.verdict.holds.items()},
        "finals": [rows_document(bag) for bag in outcome.finals],
        "expected": None if outcome.expected is None else rows_document(outcome.expected),
        "counterexample": example
        and {
            "breaks": str(example.breaks),
            "schedule": list(example.schedule),
            "views": [rows_document(bag) for bag in example.views],
            "state": example.state,
            "reason": example.reason or None,
        },
        "messages": {"min": outcome.messages[0], "max": outcome.messages[1]},
        "bytes": {"min": outcome.bytes[0], "max": outcome.bytes[1]},
    }


def rows_document(bag: Bag) -> list[dict[str, Any]]:
    return [{"row": list(row), "count": count} for row, count in sorted(bag.items(), key=_sortable)]


def _sortable(item: tuple[tuple[Any, ...], int]) -> list[tuple[bool, str, Any]]:
    return [(value is not None, type(value).__name__, 0 if value is None else value) for value in item[0]]
