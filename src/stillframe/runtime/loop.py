"""Refreshing until stopped: a session when there is work, and beside it settling and the heartbeat."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from stillframe.errors import StillframeError
from stillframe.lake.frame import HELD, STOPPED, Frame
from stillframe.runtime.definitions import Definitions
from stillframe.runtime.status import log_positions, transactions_behind
from stillframe.sources.base import Source

if TYPE_CHECKING:
    from stillframe.runtime.outcome import Result
    from stillframe.runtime.warehouse import Warehouse

BEAT_SECONDS = 30.0
PASSING = ("LOCKED",)  # a source says nothing of its views by it


class Watch:
    """Tells whether there is work. A stopped view is tried again only when its text or its sources are not
    those it was last tried with; so what it was tried with is remembered."""

    def __init__(self) -> None:
        self._seen: dict[str, object] = {}
        self._tried: dict[str, object] = {}

    def tried(self) -> None:
        """A session came to its end since `has_work` was asked."""
        self._tried = self._seen

    def has_work(
        self,
        frame: Frame | None,
        definitions: Definitions,
        sources: Mapping[str, Source],
        loading: frozenset[str] = frozenset(),
    ) -> bool:
        """`loading` are views that a session leaves alone for now."""
        states = frame.views if frame else {}
        stopped: dict[str, object] = {}
        work = any(name in states and states[name].state != STOPPED for name in definitions.refused)
        for view in definitions.views.values():
            if view.name in loading:
                continue
            state = states.get(view.name)
            if state is None:
                work = True
            elif state.state == STOPPED:
                upstream = [(states[u].state, states[u].changed) for u in view.upstream if u in states]
                stopped[view.name] = (view.text.select, log_positions(sources, view.sources), upstream)
                work = work or (state.reason or {}).get("code") in PASSING
            elif state.state == HELD or (state.definition, state.schema) != (view.text.select, view.schema):
                work = True
            else:
                behind = transactions_behind(sources, view.relations, state)
                work = work or any(n != 0 for n in behind.values())
        self._seen = stopped
        return work or any(self._tried.get(name) != now for name, now in stopped.items())


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
    try:
        while not stop.is_set():
            began = time.monotonic()
            if on_look is not None:
                on_look(warehouse.definitions())
            if warehouse.loading() and (loader is None or not loader.is_alive()):
                loader = threading.Thread(target=_load_quietly, args=[warehouse], name="load", daemon=True)
                loader.start()
            if warehouse.moved():
                result = warehouse.bring_forward(beside=True)
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
            stop.wait(max(0.0, every - (time.monotonic() - began)))
    finally:
        if settler is not None:
            settler.join()


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
