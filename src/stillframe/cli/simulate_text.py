"""What `simulate` prints for people. Steps of a schedule stand on lines of their own, numbered, never folded:
so that a schedule copied from here replays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby, pairwise
from typing import Any

from rich import box
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from stillframe.algebra import Bag
from stillframe.consistency import Level, Property
from stillframe.simulator import Scenario
from stillframe.simulator.outcome import Outcome, simulation_of
from stillframe.simulator.replay import Replay, replay
from stillframe.simulator.words import in_flight, rows_text, state_words
from stillframe.simulator.world import Simulation, World

_COLUMNS = ("algorithm", "level", "schedules", "worlds", "messages", "bytes", "final view")
_NUMBERS = ("schedules", "worlds", "messages", "bytes")
_EXACT = 10_000_000
_MARGIN = " " * 6
_MOST_FINALS = 5
_ARROW = " → "
_HOLDS = "holds: the view computed from the sources"
_SHOWS = "shows: the view readers see"
_MOVES = "moves: messages on their way"
_KEEPS = "keeps: what the warehouse remembers"
_STYLES = {
    Level.NONE: "red",
    Level.CONVERGENT: "yellow",
    Level.WEAK: "yellow",
    Level.STRONG: "green",
    Level.COMPLETE: "bold green",
}
_MEANING: dict[Property, str] = {
    "convergence": "when all is quiet, the view is not the view of the sources",
    "weak": "the view shows a state that no cut of the sources' transactions gives",
    "pairwise": "the view shows two states in an order in which the sources never had them",
    "consistency": "no one order of the sources' transactions explains all view states in turn",
    "completeness": "the view passes over a state that the sources went through",
}


@dataclass(frozen=True)
class TooMany:
    """An exploration given up at `most` worlds."""

    scenario: str
    algorithm: str
    view: str
    most: int


Result = Outcome | TooMany


def scenario_text(
    scenario: Scenario, results: Sequence[Result], file: str, named: Sequence[str]
) -> Iterator[Any]:
    """A table for each view; then which algorithms do not apply and why, and how to see more."""
    for number, view in enumerate(dict.fromkeys(result.view for result in results)):
        if number:
            yield Text()
        of_view = [result for result in results if result.view == view]
        heading = f"{scenario.name}, view {view}" if len(scenario.views) > 1 else scenario.name
        yield Text.assemble((heading, "bold"), f": {_about(scenario, of_view)}")
        yield Text()
        shown = [each for each in of_view if isinstance(each, TooMany) or each.reason is None]
        if shown:
            yield _table(shown)
            yield Text()
        yield from _refusals(of_view, named)
        yield from _expected(of_view)
    yield from _how_to_see_more(results, file, named)


def _about(scenario: Scenario, results: Sequence[Result]) -> str:
    parts = [_many(len(scenario.transactions), "transaction"), _many(len(scenario.sources), "source")]
    if scenario.crashes:
        parts.append(_many(scenario.crashes, "crash", "crashes"))
    parts += [f"{source} may {', '.join(sorted(how))}" for source, how in scenario.channels.items() if how]
    parts += [f"{source} {how}" for source, how in scenario.isolation.items()]
    explored = next((each for each in results if isinstance(each, Outcome) and each.reason is None), None)
    if explored is None or explored.exhaustive:
        return f"{', '.join(parts)}; every schedule"
    return f"{', '.join(parts)}; {explored.schedules:,} random schedules, seed {explored.seed}"


def _table(results: Sequence[Result]) -> Table:
    sampled = any(isinstance(each, Outcome) and not each.exhaustive for each in results)
    made = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, padding=(0, 1, 0, 0))
    columns = [column for column in _COLUMNS if not (sampled and column == "worlds")]
    for column in columns:
        made.add_column(column, justify="right" if column in _NUMBERS else "left", overflow="fold")
    for result in results:
        cells = _cells(result)
        made.add_row(*(cells[column] for column in columns))
    return made


def _cells(result: Result) -> dict[str, Text]:
    cells = dict.fromkeys(_COLUMNS, Text(""))
    cells["algorithm"] = Text(result.algorithm)
    if isinstance(result, TooMany):
        more = Text(f"> {_number(result.most)}", style="yellow")
        return cells | {"level": Text("?", style="yellow"), "worlds": more}
    wrong = sum(final != result.expected for final in result.finals)
    some = "" if wrong == len(result.finals) else f" of {len(result.finals)}"
    return cells | {
        "level": Text(str(result.level), style=_STYLES[result.level]),
        "schedules": Text(_number(result.schedules)),
        "worlds": Text(_number(result.worlds)),
        "messages": Text(_span(result.messages)),
        "bytes": Text(_span(result.bytes)),
        "final view": Text(f"{wrong}{some} wrong", style="red") if wrong else Text("right"),
    }


def _refusals(results: Sequence[Result], named: Sequence[str]) -> Iterator[Text]:
    """Algorithms refused for the same reason share a line; what to do about it, for those asked for."""
    refused: dict[tuple[str, str, str], list[str]] = {}
    for result in results:
        if isinstance(result, Outcome) and result.reason is not None:
            message, detail = result.reason.message, result.reason.detail
            why = message.removeprefix(f"{result.algorithm} ")
            about = "it" if why != message else ""
            detail = f" ({detail})" if detail else ""
            refused.setdefault((about, why + detail, result.reason.hint), []).append(result.algorithm)
    for (about, why, hint), algorithms in refused.items():
        several = len(algorithms) > 1
        subject = ("each " if several else "it ") if about else ""
        does = "do" if several else "does"
        yield Text(f"{', '.join(algorithms)} {does} not apply: {subject}{why}", style="dim")
        if hint and any(algorithm in named for algorithm in algorithms):
            yield Text(f"hint: {hint}", style="cyan")


def _expected(results: Sequence[Result]) -> Iterator[Text]:
    expected = next((each.expected for each in results if isinstance(each, Outcome) and each.expected), None)
    if expected is not None:
        yield Text(f"the right final view: {rows_text(expected)}", style="dim")


def _how_to_see_more(results: Sequence[Result], file: str, named: Sequence[str]) -> Iterator[Text]:
    unseen = [
        each
        for each in results
        if isinstance(each, Outcome) and each.counterexample is not None and each.algorithm not in named
    ]
    if unseen:
        lowest = min(unseen, key=lambda each: list(Level).index(each.level))
        yield Text("to see the schedule that keeps an algorithm below the next level, name it:")
        yield Text(f"  stillframe simulate {file} --algorithm {lowest.algorithm}", style="cyan")


def result_text(scenario: Scenario, result: Outcome) -> Iterator[Any]:
    """Why an algorithm is not one level higher."""
    example = result.counterexample
    if result.verdict is None:
        return
    yield Text()
    name = _named(scenario, result)
    if example is None:
        every = "no schedule" if result.exhaustive else f"none of {result.schedules:,} schedules"
        yield Text.assemble((f"{name} is {result.level}", "bold"), f": {every} breaks anything")
        return
    yield Text.assemble((f"{name} breaks {example.breaks}", "bold"), f": {_MEANING[example.breaks]}")
    how = "a shortest schedule that shows it" if result.exhaustive else "the simplest schedule found"
    yield Text(f"{how}; {_HOLDS}, {_SHOWS}", style="dim")
    yield Text()
    simulation = simulation_of(scenario, result.algorithm, result.view)
    walked = replay(simulation, example.schedule)
    yield from _steps(simulation, walked, closely=False)
    yield Text()
    yield _labelled(
        *_summary(simulation, walked, result),
        *_endings(result),
        ("replay", "run this with --json > run.json, then with --schedule run.json"),
    )


def _named(scenario: Scenario, result: Outcome) -> str:
    return f"{result.algorithm} on view {result.view}" if len(scenario.views) > 1 else result.algorithm


def replay_text(scenario: Scenario, simulation: Simulation, walked: Replay, result: Outcome) -> Iterator[Any]:
    """Every step of a schedule with what it leaves, then the verdict."""
    steps = _many(len(walked.steps), "step")
    yield Text.assemble((scenario.name, "bold"), f", {_named(scenario, result)}: {steps}")
    yield Text(f"{_HOLDS}, {_SHOWS}, {_MOVES}, {_KEEPS}", style="dim")
    yield Text()
    yield from _steps(simulation, walked, closely=True)
    yield Text()
    assert result.verdict is not None
    held = [name for name, holds in result.verdict.holds.items() if holds]
    broken = [name for name, holds in result.verdict.holds.items() if not holds]
    yield Text.assemble(
        "level ",
        (str(result.level), _STYLES[result.level]),
        f": it has {', '.join(held)}" if held else ": it has no property",
        f", and breaks {', '.join(broken)}" if held and broken else "",
    )
    notes = list(_summary(simulation, walked, result))
    if walked.possible:
        early = "the schedule ends early and is judged as it stands, against all transactions there are"
        notes += [("early", early), ("next", " | ".join(walked.possible))]
    yield _labelled(*notes)


def _steps(simulation: Simulation, walked: Replay, *, closely: bool) -> Iterator[Any]:
    """Steps with what changed; closely, also what is on its way and what the warehouse keeps."""
    seen = 0
    words = ""
    worlds = [walked.first, *(step.world for step in walked.steps)]
    yield _note("shows", f"{rows_text(simulation.bags[simulation.views(worlds[0])[0]])}  (state 0)")
    for number, (before, after) in enumerate(pairwise(worlds), 1):
        yield f"{number:>4}  {walked.steps[number - 1].label}"
        if before.done != after.done and _computed(simulation, before) != _computed(simulation, after):
            yield _note("holds", rows_text(_computed(simulation, after)))
        views = simulation.views(after)
        for state in range(seen + 1, len(views)):
            yield _note("shows", f"{rows_text(simulation.bags[views[state]])}  (state {state})", "bold")
        seen = len(views) - 1
        if closely:
            moving = [f"{a} → {b}: {', '.join(m)}" for a, b, m in in_flight(simulation, after)]
            yield _note("moves", "; ".join(moving) or "nothing")
            words, told = state_words(simulation, after), words
            if words != told:
                yield _note("keeps", words or "nothing besides the view")


def _computed(simulation: Simulation, world: World) -> Bag:
    cut = tuple(simulation.count(source, world.done) for source in range(len(simulation.sources.names)))
    content = simulation.judge.content(cut)
    assert isinstance(content, int)
    return simulation.bags[content]


def _note(label: str, text: str, style: str = "dim") -> Padding:
    return Padding(_labelled((label, text), style=style), (0, 0, 0, len(_MARGIN)), expand=False)


def _labelled(*notes: tuple[str, str], style: str = "") -> Table:
    """Labels, and texts that fold to the right of them."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="dim")
    grid.add_column(overflow="fold")
    for label, text in notes:
        grid.add_row(label, Text(text, style=style))
    return grid


def _summary(simulation: Simulation, walked: Replay, result: Outcome) -> Iterator[tuple[str, str]]:
    """What the sources held and the view showed, one after the other, and why that is a failure."""
    worlds = [walked.first, *(step.world for step in walked.steps)]
    held = [rows_text(bag) for bag, _ in groupby(_computed(simulation, world) for world in worlds)]
    shown = [rows_text(simulation.bags[view]) for view in simulation.views(worlds[-1])]
    yield "held", _ARROW.join(held)
    yield "shown", _ARROW.join(shown)
    example = result.counterexample
    if example is not None and example.reason:
        yield "why", example.reason
        if "(" in example.reason:
            yield "", "A cut says how many transactions of each source it takes."


def _endings(result: Outcome) -> Iterator[tuple[str, str]]:
    if result.verdict is not None and not result.verdict.convergence:
        for number, final in enumerate(result.finals[:_MOST_FINALS]):
            right = "  (right)" if final == result.expected else ""
            yield "ends" if not number else "", rows_text(final) + right
        if len(result.finals) > _MOST_FINALS:
            yield "", f"and {len(result.finals) - _MOST_FINALS} more, over all schedules"


def _number(number: int) -> str:
    """Exact while it is easily read; of any length after that."""
    return f"{number:,}" if number < _EXACT else f"{Decimal(number):.1e}".replace("e+", "e")


def _span(pair: tuple[int, int]) -> str:
    low, high = pair
    return _number(low) if low == high else f"{_number(low)}-{_number(high)}"


def _many(count: int, one: str, several: str = "") -> str:
    return f"{count} {one if count == 1 else several or one + 's'}"
