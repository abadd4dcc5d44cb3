"""Refreshing until stopped: a session when there is work, with a target for lag as late as that allows, and
beside it settling and the heartbeat."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from stillframe.errors import StillframeError
from stillframe.lake.frame import HELD, STOPPED, Frame
from stillframe.runtime.definitions import Definitions
from stillframe.runtime.pace import Pace
from stillframe.runtime.status import log_positions, transactions_behind
from stillframe.sources.base import Source

if TYPE_CHECKING:
    from stillframe.runtime.outcome import Result
    from stillframe.runtime.warehouse import Warehouse

BEAT_SECONDS = 30.0
PASSING = ("LOCKED",)  # a source says nothing of its views by it
STORES_PASSING = (*PASSING, "UNREACHABLE", "STORE_ERROR")  # nor does a store
LOOKS = 4  # within a target, at least
PROMPT = 0.02  # seconds that are no delay


@dataclass(frozen=True)
class Waiting:
    """What a session now could show that the newest frame does not: about so many changed rows; and `more`,
    which is not put off: a view that begins or is held, or a source that does not say."""

    rows: int = 0
    more: bool = False

    def __bool__(self) -> bool:
        return self.more or self.rows > 0


class Watch:
    """Tells whether there is work. A stopped view is tried again only when its text or its sources are not
    those it was last tried with; so what it was tried with is remembered."""

    def __init__(self) -> None:
        self._seen: dict[str, object] = {}
        self._tried: dict[str, object] = {}

    def tried(self) -> None:
        """A session came to its end since `waiting` was asked."""
        self._tried = self._seen

    def waiting(
        self,
        frame: Frame | None,
        definitions: Definitions,
        sources: Mapping[str, Source],
        loading: frozenset[str] = frozenset(),
    ) -> Waiting:
        """`loading` are views that a session leaves alone for now."""
        states = frame.views if frame else {}
        stopped: dict[str, object] = {}
        rows: dict[str, int] = {}
        more = any(name in states and states[name].state != STOPPED for name in definitions.refused)
        for view in definitions.views.values():
            if view.name in loading:
                continue
            state = states.get(view.name)
            if state is None:
                more = True
            elif state.state == STOPPED:
                upstream = [(states[u].state, states[u].changed) for u in view.upstream if u in states]
                text = (view.text.select, tuple(sorted(view.text.options.items())))
                stopped[view.name] = (text, log_positions(sources, view.sources), upstream)
                passing = STORES_PASSING if view.served is not None else PASSING
                more = more or (state.reason or {}).get("code") in passing
            elif state.state == HELD or (state.definition, state.schema) != (view.text.select, view.schema):
                more = True
            else:
                for source, behind in transactions_behind(sources, view.relations, state).items():
                    more = more or behind is None
                    rows[source] = max(rows.get(source, 0), behind or 0)
        self._seen = stopped
        changed = any(self._tried.get(name) != now for name, now in stopped.items())
        return Waiting(sum(rows.values()) or int(changed), more)


class Timing:
    """Puts sessions off while a target for lag allows it; without one, never."""

    def __init__(self, pace: Pace | None, clock: Callable[[], float] = time.monotonic) -> None:
        self.age: float | None = None  # of the oldest change that the last session showed, when it did
        self._pace = pace
        self._clock = clock
        self._quiet = clock()  # what waits came later
        self._oldest = 0.0

    def slack(self, waiting: Waiting, since: Callable[[], datetime | None]) -> float:
        """How long there is no need for a session."""
        now = self._clock()
        if self._pace is None:
            return 0.0 if waiting else math.inf
        self._pace.looked(waiting.rows)
        if not waiting.rows:
            self._quiet = now
            return 0.0 if waiting.more else math.inf
        self._oldest = _age(since(), now - self._quiet)
        return 0.0 if waiting.more else self._pace.slack(self._oldest, waiting.rows)

    @contextmanager
    def session(self, waiting: Waiting) -> Iterator[None]:
        began, self.age = self._clock(), None
        yield
        lasted, self._quiet = self._clock() - began, began
        if self._pace is not None and waiting.rows:
            self.age = self._oldest + lasted
            if not waiting.more:
                self._pace.took(waiting.rows, lasted)


def run(
    warehouse: Warehouse,
    every: float,
    stop: threading.Event,
    on_result: Callable[[Result], None] | None,
    on_look: Callable[[Definitions], None] | None,
) -> None:
    settler: threading.Thread | None = None
    loader: threading.Thread | None = None
    beaten = time.monotonic()
    shown: int | None = None
    timing = Timing(warehouse.pace)
    if warehouse.pace is not None:
        every = min(every, warehouse.pace.target / LOOKS)
    try:
        while not stop.is_set():
            began = time.monotonic()
            if on_look is not None:
                on_look(warehouse.definitions())
            if warehouse.loading() and (loader is None or not loader.is_alive()):
                loader = threading.Thread(target=_load_quietly, args=[warehouse], name="load", daemon=True)
                loader.start()
            waiting = warehouse.waiting()
            slack = timing.slack(waiting, warehouse.waiting_since)
            if waiting and slack <= PROMPT:
                slack = every
                with timing.session(waiting):
                    result = warehouse.bring_forward(beside=True)
                result = replace(result, age=timing.age)
                if on_result is not None and result.frame.number != shown:
                    on_result(result)
                shown = result.frame.number
            if settler is None or not settler.is_alive():
                settler = threading.Thread(
                    target=_settle_quietly, args=[warehouse], name="settle", daemon=True
                )
                settler.start()
            if time.monotonic() - beaten > BEAT_SECONDS:
                _beat(warehouse)
                beaten = time.monotonic()
            stop.wait(max(0.0, min(every, slack) - (time.monotonic() - began)))
    finally:
        if settler is not None:
            settler.join()


def _age(since: datetime | None, at_most: float) -> float:
    """Of the oldest change, by its writer's clock; where nobody says, or that clock is ahead of this one, the
    most it can be."""
    told = -1.0 if since is None else (datetime.now(UTC) - since).total_seconds()
    return told if told >= 0 else at_most


def _load_quietly(warehouse: Warehouse) -> None:
    """What fails is tried again when it is next looked for; what was read stays."""
    with suppress(StillframeError):
        warehouse.load_due()


def _settle_quietly(warehouse: Warehouse) -> None:
    """Settling only moves rows into another form; what fails now is tried again at the next frame."""
    with suppress(StillframeError):
        warehouse.settle_due()


def _beat(warehouse: Warehouse) -> None:
    """Tell the sources that this consumer lives, though there may be nothing to do."""
    for source in warehouse.sources.values():
        with suppress(StillframeError):
            source.beat(warehouse.project.name)
