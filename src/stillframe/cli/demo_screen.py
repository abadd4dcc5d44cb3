"""What the demo looks like: a live picture on a terminal, one line a frame otherwise."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from stillframe.cli.demo_world import ABOUT
from stillframe.cli.output import table

FRAMES_SHOWN = 8


@dataclass(frozen=True)
class Line:
    """One frame as it is shown."""

    frame: int
    rows_in: int
    rows_out: int
    seconds: float
    lag: int
    verified: str = ""

    def __str__(self) -> str:
        return (
            f"frame {self.frame:<4} {self.rows_in:>5} changes in {self.rows_out:>6} rows out "
            f"{self.seconds:6.2f} s   lag {self.lag} changes"
            + (f"   {self.verified}" if self.verified else "")
        )


@dataclass
class ViewLine:
    rows: int = 0
    mode: str = ""
    rows_out: int = 0
    checks: int = 0
    exact: bool = True
    verified_frame: int | None = None


@dataclass
class Screen:
    """All that the picture shows; whoever has news writes it here."""

    folder: str
    engine: str
    seconds: float
    committed: Callable[[], int]
    rolled_back: Callable[[], int]
    step: str = ""
    began: float | None = None
    lines: deque[Line] = field(default_factory=lambda: deque(maxlen=FRAMES_SHOWN))
    views: dict[str, ViewLine] = field(default_factory=lambda: {name: ViewLine() for name in ABOUT})
    changes: int = 0
    frames: int = 0

    def __rich__(self) -> RenderableType:
        body = Group(self._heading(), Text(), self._views(), Text(), self._frames(), Text(), self._now())
        title = Text.assemble(("stillframe demo", "bold"), f" · {self.engine}")
        return Panel(body, title=title, title_align="left", border_style="blue", padding=(0, 1))

    def _heading(self) -> RenderableType:
        left = Text.assemble(
            "4 writers on 2 databases: ",
            (f"{self.committed()}", "bold green"),
            " transactions committed, ",
            (f"{self.rolled_back()}", "bold yellow"),
            " rolled back",
        )
        right = Text.assemble(
            (f"{self.changes}", "bold green"), " changes in ", (f"{self.frames}", "bold"), " frames"
        )
        grid = Table.grid(expand=True)
        grid.add_column(ratio=1)
        grid.add_column(justify="right")
        grid.add_row(left, right)
        return grid

    def _views(self) -> RenderableType:
        made = table("view", "", "rows", "last mode", "rows changed", "exact", right=("rows", "rows changed"))
        for name, view in self.views.items():
            made.add_row(
                Text(name, style="bold cyan"),
                Text(ABOUT[name], style="dim"),
                str(view.rows),
                view.mode or "-",
                str(view.rows_out),
                self._exact(view),
            )
        return made

    @staticmethod
    def _exact(view: ViewLine) -> Text:
        if not view.checks:
            return Text("not checked yet", style="dim")
        if not view.exact:
            return Text(f"✗ drift at frame {view.verified_frame}", style="bold red")
        return Text(f"✓ {view.checks} checks, last at frame {view.verified_frame}", style="green")

    def _frames(self) -> RenderableType:
        right = ("frame", "changes in", "rows out", "seconds", "lag")
        made = table("frame", "changes in", "rows out", "seconds", "lag", "", right=right)
        for line in self.lines:
            made.add_row(
                str(line.frame),
                str(line.rows_in),
                str(line.rows_out),
                f"{line.seconds:.2f}",
                str(line.lag),
                Text(line.verified, style="green" if "exact" in line.verified else "bold red"),
            )
        for _ in range(FRAMES_SHOWN - len(self.lines)):
            made.add_row()
        return made

    def _now(self) -> RenderableType:
        grid = Table.grid(expand=True, padding=(0, 1))
        grid.add_column(width=32, no_wrap=True)
        grid.add_column(ratio=1)
        grid.add_column(justify="right")
        passed = 0.0 if self.began is None else min(time.monotonic() - self.began, self.seconds)
        left = "" if self.began is None else f"{self.seconds - passed:.0f} s left"
        grid.add_row(Text(self.step, style="dim"), ProgressBar(self.seconds, passed), left)
        return grid
