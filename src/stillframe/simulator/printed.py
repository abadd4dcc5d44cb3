"""Schedules as they were printed: a JSON or YAML list of labels, an object that holds one, a whole document
of a simulation, or the numbered lines of the text output.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import yaml

from stillframe.simulator.replay import ScheduleError
from stillframe.simulator.scenario import ONLY_VIEW
from stillframe.simulator.yaml_text import parse

_NUMBERED = re.compile(r"^ *(\d+)  +(\S.*: .*\S) *$", re.MULTILINE)
_FORMS = 'it is a list of steps, {"schedule": [steps]}, or what `stillframe simulate` printed, --json or not'


@dataclass(frozen=True)
class Printed:
    """A schedule, and whose it is, as far as the text says so."""

    schedule: tuple[str, ...]
    algorithm: str | None = None
    view: str | None = None
    scenario: str | None = None


def read_schedules(text: str) -> tuple[Printed, ...]:
    """Every schedule a text holds; `ScheduleError` where it is none of the forms."""
    value = _parsed(text)
    found = None if value is None else _schedules(value)
    if found is None:
        found = list(_numbered(text)) or None
    if found is None:
        raise ScheduleError("this is not a schedule", hint=_FORMS)
    return tuple(found)


def choose(
    found: tuple[Printed, ...], algorithm: str | None, view: str | None, scenario: str | None
) -> Printed:
    """The one schedule that is of this algorithm, view and scenario, where it says what it is of."""
    left = [
        each
        for each in found
        if _fits(each.algorithm, algorithm) and _fits(each.view, view) and _fits(each.scenario, scenario)
    ]
    if len(left) == 1:
        return left[0]
    there = ", ".join(dict.fromkeys(_whose(each) for each in found)) or "none"
    if not left:
        wanted = _whose(Printed((), algorithm, view, scenario))
        raise ScheduleError(f"there is no schedule of {wanted}", detail=f"the schedules there: {there}")
    raise ScheduleError(
        "there are several schedules",
        detail=f"they are of: {there}",
        hint="name one with --algorithm NAME and, of several views, --view NAME; or keep one in the file",
    )


def _fits(said: str | None, asked: str | None) -> bool:
    return said is None or asked is None or said == asked


def _whose(printed: Printed) -> str:
    words = [
        printed.algorithm or "an algorithm not named",
        f"on view {printed.view}" if printed.view not in (None, ONLY_VIEW) else "",
        f"in {printed.scenario}" if printed.scenario else "",
    ]
    return " ".join(filter(None, words))


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return parse(text)
    except yaml.YAMLError:
        return None


def _schedules(value: Any) -> list[Printed] | None:
    """None for what is no schedule at all."""
    match value:
        case {"results": list(results)}:
            inner = [found for each in results for found in _schedules(each) or ()]
            return [replace(each, scenario=_name(value, "scenario")) for each in inner]
        case {"replay": dict(inner)} | {"counterexample": dict(inner)}:
            return [
                replace(each, algorithm=_name(value, "algorithm"), view=_name(value, "view"))
                for each in _schedules(inner) or ()
            ]
        case {"counterexample": None}:
            return []
        case {"schedule": list(steps)}:
            labels = _labels(steps)
            if labels is None:
                return None
            return [Printed(labels, *(_name(value, key) for key in ("algorithm", "view", "scenario")))]
        case [{"results": _}, *_]:
            return [found for each in value for found in _schedules(each) or ()]
        case list():
            labels = _labels(value)
            return None if labels is None else [Printed(labels)]
    return None


def _labels(steps: list[Any]) -> tuple[str, ...] | None:
    """YAML reads `- x: answers Q` as a mapping; it is the label all the same."""
    labels = list[str]()
    for step in steps:
        match step:
            case str():
                labels.append(step.strip())
            case dict() if len(step) == 1 and all(isinstance(each, str) for each in (*step, *step.values())):
                labels.extend(f"{actor}: {act}" for actor, act in step.items())
            case _:
                return None
    return tuple(labels)


def _name(value: dict[str, Any], key: str) -> str | None:
    found = value.get(key)
    return found if isinstance(found, str) else None


def _numbered(text: str) -> Iterator[Printed]:
    """Each schedule is numbered from 1 on."""
    labels = list[str]()
    for line in _NUMBERED.finditer(text):
        number = int(line[1])
        if number == 1 and labels:
            yield Printed(tuple(labels))
            labels = []
        if number == len(labels) + 1:
            labels.append(line[2])
    if labels:
        yield Printed(tuple(labels))
