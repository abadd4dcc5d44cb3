"""Where the time of a refresh goes: the runtime's own functions, timed while a benchmark runs.

A phase's time is that spent in its functions and not in those of another phase which they call, so the
phases of a refresh add up to it; `other` is what none of them has. A function that is not there any more is
an error, not a phase of no time.
"""

from __future__ import annotations

import functools
import importlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

WORK = "stillframe.runtime.work"
PHASES = (
    ("resolve definitions", "stillframe.runtime.warehouse", "Warehouse.definitions"),
    ("recover", "stillframe.runtime.session", "Session.recover"),
    ("fix the vector", WORK, "Fixing.__init__"),
    ("read changes", "stillframe.runtime.reads", "Reads.change"),
    ("read states", "stillframe.runtime.reads", "Reads.state"),
    ("look up rows", "stillframe.runtime.reads", "Reads.looked_up"),
    ("pass changes on", WORK, "pass_on"),
    ("make the plan", "stillframe.runtime.compiling", "Compiler.change"),
    ("make the plan", "stillframe.runtime.compiling", "Compiler.keywise"),
    ("touched keys", "stillframe.runtime.computing", "Computing.net"),
    ("touched keys", "stillframe.runtime.computing", "Computing.keys"),
    ("compute and write", "stillframe.runtime.computing", "Computing.write"),
    ("recompute", WORK, "write_query"),
    ("collect files", "stillframe.lake.delta", "Lake.collect"),
    ("count the rows that came", "stillframe.runtime.standing", "Standing.advanced"),
    ("publish the frame", "stillframe.lake.delta", "Lake.publish"),
    ("settle: plain table", "stillframe.lake.delta", "Lake.settle"),
    ("settle: rewrite", "stillframe.runtime.warehouse", "settle"),
    ("settle: merge changes", "stillframe.runtime.warehouse", "merge"),
    ("acknowledge", "stillframe.runtime.session", "Session.acknowledge"),
    ("discard staging", "stillframe.lake.delta", "Lake.discard"),
)


def functions() -> Iterator[tuple[str, Any, str]]:
    """Each phase's name, and whose attribute its function is."""
    for name, module, path in PHASES:
        owner: Any = importlib.import_module(module)
        *outer, attribute = path.split(".")
        for part in outer:
            owner = getattr(owner, part)
        yield name, owner, attribute


class Phases:
    """Exclusive seconds of each phase since `take` was last called."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._running: list[tuple[str, float]] = []

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        now = time.perf_counter()
        if self._running:
            outer, since = self._running[-1]
            self.seconds[outer] = self.seconds.get(outer, 0.0) + now - since
        self._running.append((name, now))
        try:
            yield
        finally:
            now = time.perf_counter()
            own, since = self._running.pop()
            self.seconds[own] = self.seconds.get(own, 0.0) + now - since
            if self._running:
                self._running[-1] = (self._running[-1][0], now)

    def take(self) -> dict[str, float]:
        taken, self.seconds = self.seconds, {}
        return taken

    def watch(self) -> None:
        for name, owner, attribute in functions():
            setattr(owner, attribute, self._watched(name, getattr(owner, attribute)))

    def _watched(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*values: Any, **named: Any) -> Any:
            with self.phase(name):
                return function(*values, **named)

        return timed
