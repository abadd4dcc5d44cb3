"""Verbs that change something: attach, detach, refresh, run, drop, rename, compact, vacuum."""

from __future__ import annotations

import argparse
import signal
import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from stillframe.cli.output import Output, table
from stillframe.cli.progress import progress
from stillframe.errors import StillframeError
from stillframe.lake.frame import Frame
from stillframe.runtime import Result, Warehouse
from stillframe.runtime.config import parse_duration
from stillframe.runtime.definitions import Definitions
from stillframe.sql import Reason, Refused

REMEMBERED_FRAMES = 10_000


def attach(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    tables = warehouse.attach()
    for source, names in tables.items():
        output.say(f"{source}: changes of {', '.join(names)} are captured")
    output.document({"attached": tables})
    return 0


def detach(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    warehouse.detach()
    for source in warehouse.sources:
        output.say(f"{source}: nothing is captured for {warehouse.project.name} any more")
    output.document({"detached": list(warehouse.sources)})
    return 0


# -- refresh


def refresh(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    with progress(warehouse, output.err, "opening the project"):
        result = warehouse.maintain(options.views, full=options.full, settle=options.settle)
    refused = {} if options.views else warehouse.definitions().refused
    views = {name: outcome.to_json() for name, outcome in result.outcomes.items()}
    for name, reasons in refused.items():
        views[name] = _refused_outcome(reasons[0].code)
    output.text(_outcomes_table(views))
    output.say(f"frame {result.frame.number}")
    output.document(
        {
            "frame": result.frame.number,
            "vector": {source: position.to_json() for source, position in result.vector.items()},
            "views": views,
        }
    )
    for name, outcome in result.failures.items():
        assert outcome.error is not None
        output.error(outcome.error, f"view {name} is stopped")
    for name, reasons in refused.items():
        output.error(Refused(reasons), _refusal(name))
    return 1 if result.failures or refused else 0


def _refusal(name: str) -> str:
    """A view's name, or that of a file in which something is no view."""
    return f"file {name} is refused" if name.endswith(".sql") else f"view {name} is refused"


def _refused_outcome(code: str) -> dict[str, Any]:
    return {
        "mode": "refused",
        "reason": code,
        "algorithm": None,
        "rows_in": 0,
        "rows_out": 0,
        "seconds": 0.0,
    }


def _outcomes_table(views: Mapping[str, Mapping[str, Any]]) -> Any:
    made = table(
        "view", "mode", "reason", "rows in", "rows out", "seconds", right=("rows in", "rows out", "seconds")
    )
    for name, view in views.items():
        style = "red" if view["mode"] in ("stopped", "refused") else ""
        numbers = (str(view["rows_in"]), str(view["rows_out"]), f"{view['seconds']:.2f}")
        made.add_row(name, view["mode"], view["reason"], *numbers, style=style)
        if view.get("detail"):
            made.add_row("", "", view["detail"].splitlines()[0], "", "", "", style="dim")
    return made


# -- run


@dataclass
class Log:
    """What a run has done, frame by frame."""

    warehouse: Warehouse
    output: Output
    frames: deque[dict[str, Any]] = field(default_factory=lambda: deque(maxlen=REMEMBERED_FRAMES))
    count: int = 0
    rows_in: int = 0
    rows_out: int = 0
    complaints: dict[str, str] = field(default_factory=dict)
    refused: dict[str, tuple[Reason, ...]] = field(default_factory=dict)
    failing: bool = False
    late: int = 0  # frames that showed a change later than the target

    def record(self, result: Result) -> None:
        self.failing = False
        self.complaints.pop("", None)
        rows_in = sum(o.rows_in for o in result.outcomes.values())
        rows_out = sum(o.rows_out for o in result.outcomes.values())
        seconds = sum(o.seconds for o in result.outcomes.values())
        lag = self._lag()
        self.count, self.rows_in, self.rows_out = (
            self.count + 1,
            self.rows_in + rows_in,
            self.rows_out + rows_out,
        )
        entry = {
            "frame": result.frame.number,
            "published_at": result.frame.published_at,
            "rows_in": rows_in,
            "rows_out": rows_out,
            "seconds": round(seconds, 3),
            "lag": lag,
            "age": None if result.age is None else round(result.age, 1),
            "views": {name: outcome.mode for name, outcome in result.outcomes.items()},
        }
        self.frames.append(entry)
        self.output.say(
            f"frame {result.frame.number:<6} {rows_in:>6} rows in  {rows_out:>6} rows out  "
            f"{seconds:6.2f} s  lag {lag} changes{self._shown_after(result.age)}"
        )
        for name in result.outcomes:
            error = result.outcomes[name].error
            if error is None:
                self.complaints.pop(name, None)
            else:
                self.complain(name, error, f"view {name} is stopped")

    def _shown_after(self, age: float | None) -> str:
        """How old the oldest change was when it was shown, against the target."""
        target = self.warehouse.project.target_lag
        if age is None or target is None:
            return ""
        self.late += age > target
        return f"  shown after {age:.1f} s{' (late)' if age > target else ''}"

    def _lag(self) -> int | None:
        """Changes committed since the frame was fixed; None where a source does not say."""
        counts = [
            source["transactions"]
            for view in self.warehouse.status()["views"].values()
            for source in view["lag"].values()
        ]
        return None if None in counts else max(counts, default=0)

    def look(self, definitions: Definitions) -> None:
        """What is refused now and was not before, or not for these reasons."""
        for name, reasons in definitions.refused.items():
            if self.refused.get(name) != reasons:
                self.output.error(Refused(reasons), _refusal(name))
        self.refused = dict(definitions.refused)

    def complain(self, about: str, error: StillframeError, subject: str = "") -> None:
        """Once, not at every attempt."""
        if self.complaints.get(about) != str(error):
            self.complaints[about] = str(error)
            self.output.error(error, subject)


def run(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    every = parse_duration(options.every).total_seconds()
    log = Log(warehouse, output)
    log.look(warehouse.definitions())
    engine = warehouse.project.spark.get("engine", "spark")
    with stopped_by_signals() as (stop, take_over):
        with progress(warehouse, output.err, f"starting the engine ({engine})"):
            _ = warehouse.engine
        take_over()
        output.say(f"looking for changes every {every:g} s{_aim(warehouse)}; Ctrl-C ends")
        while not stop.is_set():
            try:
                warehouse.run(every, stop=stop, on_result=log.record, on_look=log.look)
            except StillframeError as error:
                # A source that is away for a while, or another process at work: told once, tried again.
                log.failing = True
                log.complain("", error)
                stop.wait(max(every, 1.0))
    late = "" if warehouse.pace is None else f", {log.late} later than the target"
    output.say(f"{log.count} frames, {log.rows_in} rows in, {log.rows_out} rows out{late}")
    output.document(
        {
            "frames": list(log.frames),
            "count": log.count,
            "rows_in": log.rows_in,
            "rows_out": log.rows_out,
            "target_lag": warehouse.project.target_lag,
            "late": log.late,
        }
    )
    return 1 if log.failing else 0


def _aim(warehouse: Warehouse) -> str:
    target = warehouse.project.target_lag
    return "" if target is None else f", to show each within {target:g} s"


@contextmanager
def stopped_by_signals() -> Iterator[tuple[threading.Event, Any]]:
    """An event that SIGTERM and Ctrl-C set instead of breaking off the frame in hand. PySpark puts its own
    handler of Ctrl-C in place when it starts; the second value takes the place back."""
    stop = threading.Event()
    signals = (signal.SIGTERM, signal.SIGINT)
    former = {number: signal.getsignal(number) for number in signals}

    def take_over() -> None:
        for number in signals:
            signal.signal(number, lambda *_: stop.set())

    take_over()
    try:
        yield stop, take_over
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)


# -- changing what there is


def _published(frame: Frame | None) -> str:
    return f"frame {frame.number}" if frame else "no frame held it"


def drop(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    frame = warehouse.drop(options.view)
    output.say(f"dropped {options.view} ({_published(frame)})")
    output.document({"dropped": options.view, "frame": frame.number if frame else None})
    return 0


def rename(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    frame = warehouse.rename(options.view, options.new)
    output.say(f"renamed {options.view} to {options.new} ({_published(frame)})")
    output.document({"renamed": options.view, "to": options.new, "frame": frame.number if frame else None})
    return 0


def compact(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    began = time.perf_counter()
    with progress(warehouse, output.err, "settling"):
        warehouse.compact()
    seconds = round(time.perf_counter() - began, 2)
    frame = warehouse.lake.newest()
    settled = {name: view.settled for name, view in frame.shown.items()} if frame else {}
    output.say(f"settled {len(settled)} views in {seconds:.2f} s")
    output.document({"settled": settled, "seconds": seconds})
    return 0


def vacuum(warehouse: Warehouse, options: argparse.Namespace, output: Output) -> int:
    retention = parse_duration(options.retention) if options.retention else None
    removed = warehouse.vacuum(retention)
    output.say(
        f"removed {removed.frames} revisions of frames, {removed.files} files ({removed.bytes} bytes), "
        f"{removed.tables} tables"
    )
    output.document(
        {
            "frames": removed.frames,
            "files": removed.files,
            "bytes": removed.bytes,
            "tables": removed.tables,
        }
    )
    return 0
