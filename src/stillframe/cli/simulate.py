"""The verb `simulate`: scenarios to results, as text or as one JSON document."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from rich.text import Text

from stillframe.algebra import EvaluationError
from stillframe.cli.arguments import UsageError
from stillframe.cli.output import Output
from stillframe.cli.simulate_text import Result, TooMany, replay_text, result_text, scenario_text
from stillframe.errors import StillframeError
from stillframe.protocol import ALGORITHMS, PUBLISHED, NotApplicable
from stillframe.simulator import Scenario, ScenarioError, load
from stillframe.simulator.explore import TooManyWorlds, Watch
from stillframe.simulator.outcome import (
    clarified,
    document,
    judged_runs,
    rows_document,
    simulate,
    simulation_of,
)
from stillframe.simulator.printed import Printed, choose, read_schedules
from stillframe.simulator.replay import Replay, ScheduleError, replay
from stillframe.simulator.words import in_flight, state_words
from stillframe.simulator.world import Simulation

Progress = Callable[[str, int | None], Watch | None]

ALL = "all"
_EVERY_SO_MANY = 250


def simulate_verb(options: argparse.Namespace, output: Output) -> int:
    asked = Asked(options.algorithm)
    if options.schedule is not None:
        return _replay(options, asked, output)
    files = [(file, load(file)) for file in options.files]
    documents, too_many = list[dict[str, Any]](), list[TooMany]()
    for file, scenario in files:
        with _progress(output) as progress:
            results = [
                _explore(scenario, algorithm, view, options, progress)
                for view in _views(scenario, options.view)
                for algorithm in asked.algorithms
            ]
        if documents:
            output.text("")
        output.text(*scenario_text(scenario, results, file, asked.named))
        for result in results:
            if isinstance(result, TooMany):
                too_many.append(result)
            elif result.algorithm in asked.named:
                output.text(*result_text(scenario, result))
        documents.append({"scenario": scenario.name, "results": [_document(each) for each in results]})
    output.document(documents if len(files) > 1 else documents[0], data=True)
    for each in too_many:
        output.error(_too_many(each))
    return StillframeError.exit_status if too_many else 0


class Asked:
    """The algorithms a text asks for. `named` are those asked for by their own names."""

    def __init__(self, text: str) -> None:
        words = list(dict.fromkeys(word.strip().lower() for word in text.split(",") if word.strip()))
        every = (*ALGORITHMS, *PUBLISHED)
        for word in words:
            if word != ALL and word not in every:
                raise UsageError(
                    f"there is no algorithm {word}",
                    detail=f"there are: {', '.join(every)}",
                    hint=_meant(word),
                )
        if not words:
            raise UsageError("--algorithm names no algorithm", detail=f"there are: {', '.join(every)}")
        self.named = tuple(word for word in words if word != ALL)
        self.algorithms = tuple(dict.fromkeys([*(ALGORITHMS if ALL in words else ()), *self.named]))


def _meant(word: str) -> str:
    close = get_close_matches(word, (*ALGORITHMS, *PUBLISHED), 1)
    return f"did you mean {close[0]}?" if close else "several are written with commas, or `all`"


def _views(scenario: Scenario, asked: str | None) -> tuple[str, ...]:
    names = tuple(name for name, _ in scenario.views)
    if asked is None:
        return names
    if asked not in names:
        raise UsageError(
            f"there is no view {asked} in {scenario.name}", detail=f"there are: {', '.join(names)}"
        )
    return (asked,)


def _explore(
    scenario: Scenario, algorithm: str, view: str, options: argparse.Namespace, progress: Progress
) -> Result:
    try:
        return simulate(
            scenario,
            algorithm,
            view,
            schedules=options.schedules,
            seed=options.seed,
            most=options.worlds,
            explained=True,
            watch=progress(f"{scenario.name}, {algorithm}", options.schedules),
        )
    except TooManyWorlds:
        return TooMany(scenario.name, algorithm, view, options.worlds)
    except EvaluationError as error:
        raise _cannot_compute(scenario, algorithm, error) from error


@contextmanager
def _progress(output: Output) -> Iterator[Progress]:
    """One line on a terminal that tells how far each exploration is; nothing where stderr goes elsewhere."""
    if not output.err.is_terminal:
        yield lambda *_: None
        return
    with output.err.status("") as status:

        def begin(doing: str, schedules: int | None) -> Watch:
            status.update(Text(doing))
            kind = "worlds" if schedules is None else f"of {schedules:,} schedules"

            def watch(count: int) -> None:
                if count % _EVERY_SO_MANY == 0:
                    status.update(Text(f"{doing}: {count:,} {kind}"))

            return watch

        yield begin


def _document(result: Result) -> dict[str, Any]:
    if not isinstance(result, TooMany):
        return document(result)
    error = _too_many(result)
    nothing = ("worlds", "seed", "level", "holds", "expected", "counterexample", "messages", "bytes")
    return {
        "algorithm": result.algorithm,
        "view": result.view,
        "applicable": True,
        "reason": None,
        "schedules": 0,
        "exhaustive": False,
        "finals": [],
        **dict.fromkeys(nothing),
        "error": {"code": error.code, "message": error.message, "hint": error.hint},
    }


def _too_many(result: TooMany) -> StillframeError:
    return StillframeError(
        f"{result.algorithm} has more than {result.most:,} worlds in {result.scenario}",
        detail="exploring them all would take long, so nothing is said about it",
        hint="--schedules 1000 looks at so many random schedules; --worlds N goes on to N worlds",
        code="TOO_MANY_WORLDS",
    )


def _cannot_compute(scenario: Scenario, algorithm: str, error: EvaluationError) -> ScenarioError:
    return ScenarioError(
        f"{scenario.name}, {algorithm}: the view cannot be computed on rows that meet in it: {error}",
        hint="an algorithm may join rows that were never there together; let no rows of the scenario fail",
    )


# Replaying a printed schedule.


def _replay(options: argparse.Namespace, asked: Asked, output: Output) -> int:
    if len(options.files) > 1:
        raise UsageError("a schedule is of one scenario", hint="give one FILE with --schedule")
    if len(asked.named) > 1:
        raise UsageError("a schedule is of one algorithm", hint="name one with --algorithm NAME")
    scenario = load(options.files[0])
    named = asked.named[0] if asked.named else None
    wanted = _views(scenario, options.view)
    found = _printed(options.schedule)
    view = wanted[0] if len(wanted) == 1 else None
    whose = choose(found, named, view, scenario.name if len(found) > 1 else None)
    algorithm, view = named or whose.algorithm, view or whose.view
    if algorithm is None:
        raise UsageError("whose schedule is it?", hint="name the algorithm with --algorithm NAME")
    if view is None:
        raise UsageError(
            "of which view is it?", detail=f"there are: {', '.join(wanted)}", hint="name it with --view NAME"
        )
    try:
        simulation = simulation_of(scenario, Asked(algorithm).algorithms[0], _views(scenario, view)[0])
    except NotApplicable as reason:
        raise UsageError(reason.message, detail=reason.detail, hint=reason.hint) from reason
    try:
        walked = replay(simulation, whose.schedule)
        result = judged_runs(simulation, algorithm, view, [walked.run(simulation)])
        result = clarified(simulation, result, simpler=False)
    except EvaluationError as error:
        raise _cannot_compute(scenario, algorithm, error) from error
    output.text(*replay_text(scenario, simulation, walked, result))
    whole = {**document(result), "replay": _replay_document(simulation, walked)}
    output.document({"scenario": scenario.name, "results": [whole]}, data=True)
    return 0


def _printed(file: str) -> tuple[Printed, ...]:
    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ScheduleError(f"{file} cannot be read", detail=str(error)) from error
    try:
        return read_schedules(text)
    except ScheduleError as error:
        raise ScheduleError(f"{file}: {error.message}", detail=error.detail, hint=error.hint) from error


def _replay_document(simulation: Simulation, walked: Replay) -> dict[str, Any]:
    def shown(views: Sequence[int]) -> list[Any]:
        return [rows_document(simulation.bags[bag]) for bag in views]

    return {
        "schedule": [step.label for step in walked.steps],
        "complete": not walked.possible,
        "possible": list(walked.possible),
        "steps": [
            {
                "step": number,
                "label": step.label,
                "view": shown(simulation.views(step.world))[-1],
                "messages": step.messages,
                "bytes": step.bytes,
                "in_flight": [
                    {"from": sender, "to": receiver, "messages": list(messages)}
                    for sender, receiver, messages in in_flight(simulation, step.world)
                ],
                "state": state_words(simulation, step.world),
            }
            for number, step in enumerate(walked.steps, 1)
        ],
    }
