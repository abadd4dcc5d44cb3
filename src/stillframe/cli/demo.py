"""`demo`: real databases, real writers, every frame shown, every view verified while the writers go on."""

from __future__ import annotations

import argparse
import shlex
import tempfile
import time
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.text import Text

from stillframe.cli.demo_screen import Line, Screen
from stillframe.cli.demo_world import Writers, make_project
from stillframe.cli.output import Output
from stillframe.cli.planning import DRIFT
from stillframe.cli.progress import describe
from stillframe.cli.scaffold import fresh_folder
from stillframe.runtime import Verification, Warehouse, open_project
from stillframe.runtime.outcome import Step
from stillframe.sources import Position

ENGINES = {"spark": "Apache Spark", "sail": "Sail"}
CHECKS = 4  # times every view is verified while writers go on, if frames come fast enough
SECONDS_BETWEEN_FRAMES = 0.5


def demo(options: argparse.Namespace, output: Output) -> int:
    folder = Path(options.dir) if options.dir else Path(tempfile.mkdtemp(prefix="stillframe-demo-"))
    folder = fresh_folder(folder).resolve()
    make_project(folder, options.engine)
    output.say(f"two databases and three views in {folder}; starting {ENGINES[options.engine]}")
    with open_project(folder) as warehouse, Writers(folder) as writers:
        screen = Screen(
            folder=str(folder),
            engine=ENGINES[options.engine],
            seconds=options.seconds,
            committed=lambda: writers.total("committed"),
            rolled_back=lambda: writers.total("rolled_back"),
        )
        show = _Show(warehouse, writers, screen, output)
        terminal = output.out.is_terminal and not output.as_json
        picture = Live(screen, console=output.out, refresh_per_second=8) if terminal else nullcontext()
        with picture:
            show.play()
    exact = all(v["ok"] for v in show.verifications) and not show.stopped
    _closing_words(show, folder, exact, output)
    output.document(
        {
            "frames": screen.frames,
            "changes": screen.changes,
            "verified": exact,
            "transactions": {"committed": screen.committed(), "rolled_back": screen.rolled_back()},
            "verifications": show.verifications,
            "history": show.history,
            "stopped": show.stopped,
            "project": str(folder),
        },
        data=True,
    )
    return 0 if exact else 1 if show.stopped else DRIFT


class _Show:
    """The loop of the demo: refresh, show, and now and then verify the frame in hand."""

    def __init__(self, warehouse: Warehouse, writers: Writers, screen: Screen, output: Output) -> None:
        self.warehouse = warehouse
        self.writers = writers
        self.screen = screen
        self.output = output
        self.piped = not output.out.is_terminal or output.as_json
        self.history: list[dict[str, Any]] = []
        self.verifications: list[dict[str, Any]] = []
        self.stopped: dict[str, str] = {}
        self._sequences: dict[str, int] = {}
        warehouse.observe = self._observe

    def _observe(self, step: Step, subject: str) -> None:
        self.screen.step = describe(step, subject)

    def play(self) -> None:
        self.screen.step = f"starting {self.screen.engine}"
        self._frame(verify=True)
        self.screen.began = began = time.monotonic()
        pause = self.screen.seconds / (CHECKS + 1)
        next_check = began + pause
        while (now := time.monotonic()) < began + self.screen.seconds:
            self.writers.check()
            due = now >= next_check
            if self.warehouse.moved():
                self._frame(verify=due)
                next_check += pause if due else 0
            self.screen.step = "waiting for changes"
            left = began + self.screen.seconds - time.monotonic()
            time.sleep(max(0.0, min(SECONDS_BETWEEN_FRAMES - (time.monotonic() - now), left)))
        self.screen.step = "writers end; one more frame"
        self.writers.end()
        self._frame(verify=True)
        self.screen.step = "done"

    def _frame(self, *, verify: bool) -> None:
        began = time.monotonic()
        result = self.warehouse.maintain()
        seconds = time.monotonic() - began
        for name, outcome in result.outcomes.items():
            view = self.screen.views[name]
            view.mode, view.rows_out = outcome.mode, outcome.rows_out
            view.rows = result.frame.views[name].rows
            if outcome.error is not None:
                self.stopped[name] = outcome.error.message
        line = Line(
            frame=result.frame.number,
            rows_in=self._changes(result.vector),
            rows_out=sum(o.rows_out for o in result.outcomes.values()),
            seconds=seconds,
            lag=self._lag(),
        )
        self.screen.frames += 1
        self.screen.changes += line.rows_in
        self.screen.lines.append(line)
        if verify:
            line = replace(line, verified=self._verify())
            self.screen.lines[-1] = line
        self.history.append(
            {
                "frame": line.frame,
                "rows_in": line.rows_in,
                "rows_out": line.rows_out,
                "seconds": round(line.seconds, 3),
                "lag": line.lag,
            }
        )
        if self.piped:
            self.output.say(str(line))

    def _changes(self, vector: Mapping[str, Position]) -> int:
        """Row changes committed at the sources since the frame before; 0 for the first."""
        moved = {
            name: position.sequence - self._sequences.get(name, position.sequence)
            for name, position in vector.items()
        }
        self._sequences = {name: position.sequence for name, position in vector.items()}
        return sum(moved.values())

    def _lag(self) -> int:
        """Changes that were committed since the frame's state of the sources was fixed."""
        sources = self.warehouse.status()["sources"].values()
        return sum(consumer["behind"] for source in sources for consumer in source.get("consumers", ()))

    def _verify(self) -> str:
        self.screen.step = "verifying every view at the frame's own state"
        found: dict[str, Verification] = self.warehouse.verify_all()
        for name, verification in found.items():
            view = self.screen.views[name]
            view.checks += 1
            view.exact = view.exact and verification.ok
            view.verified_frame = verification.frame
            self.verifications.append({"view": name, **verification.to_json()})
        wrong = [name for name, verification in found.items() if not verification.ok]
        return f"drift in {', '.join(wrong)}" if wrong else f"all {len(found)} views exact"


def _closing_words(show: _Show, folder: Path, exact: bool, output: Output) -> None:
    screen = show.screen
    checked = len({v["frame"] for v in show.verifications})
    verdict = (
        f"Every view was exact at all {checked} frames that were checked: row for row what its query gives\n"
        "over the state the frame names of both databases, while the writers went on."
        if exact
        else "Not every view was exact; the folder is kept as it is."
    )
    output.text(Text())
    output.text(
        Text(
            f"{screen.committed()} transactions (and {screen.rolled_back()} rolled back) brought "
            f"{screen.changes} row changes into {screen.frames} frames of three views."
        )
    )
    output.text(Text(verdict, style="bold green" if exact else "bold red"))
    for name, message in show.stopped.items():
        output.say(f"{name} is stopped: {message}", style="red")
    where = shlex.quote(str(folder))
    output.text(Text(f"\nLook further (remove the folder when you are done):\n  cd {where}"))
    for command, about in (
        ("stillframe status", "where every view and every log stands"),
        ("stillframe show loyalty --limit 5", "rows of a view"),
        ("stillframe show loyalty --frame 1 --limit 5", "the same view as it was in the first frame"),
        ("stillframe plan repeat_orders", "how a change of an order becomes a change of a view"),
        ("stillframe verify", "compare once more"),
    ):
        output.text(Text.assemble("  ", (f"{command:<46}", "cyan"), (about, "dim")))
