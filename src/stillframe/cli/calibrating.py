"""The verb calibrate: prices of an engine, measured and kept where refreshes look for them."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from stillframe.cli.output import Output, table
from stillframe.engine import open_engine
from stillframe.errors import ProjectError
from stillframe.runtime.calibrating import calibrate
from stillframe.runtime.config import ENGINES, FILE, Project, load_project
from stillframe.runtime.prices import BUILT_IN, FOLDER, Measured, store
from stillframe.runtime.trials import PRICES


def calibrate_verb(options: argparse.Namespace, output: Output) -> int:
    project = _project(options)
    settings: dict[str, Any] = dict(project.spark) if project else {}
    kind = options.engine or settings.get("engine", ENGINES[0])
    if kind != settings.get("engine", ENGINES[0]):
        settings = {}
    with _observed(output.err) as observe, _folder(project) as folder:
        observe(f"starting {kind}")
        engine = open_engine({**settings, "engine": kind})
        try:
            found = calibrate(engine, folder, options.rows, observe)
        finally:
            engine.close()
    path = store(found, project.warehouse) if project else None
    output.text(_prices_table(found))
    fit = found.fit
    output.say(
        f"{len(fit['jobs'])} jobs, each {fit['rounds']} times, in {fit['seconds']:.0f} s; "
        f"the middle one is missed by {fit['median_error']:.0%}, {fit['explained']:.0%} of all is explained"
    )
    output.say(
        f"stored in {path}; refreshes choose by it from now on"
        if path
        else "there is no project here, so nothing is stored"
    )
    output.document({**found.to_json(), "stored": str(path) if path else None})
    return 0


def _project(options: argparse.Namespace) -> Project | None:
    """That of the folder; none where nobody said there is one."""
    given = getattr(options, "project", None)
    if given is None and not Path(FILE).is_file():
        return None
    return load_project(Path(given or ".").resolve())


@contextmanager
def _folder(project: Project | None) -> Iterator[Path]:
    """For the made-up data, on the storage that refreshes write to, which an engine elsewhere sees too."""
    parent = None
    if project is not None:
        parent = project.warehouse / FOLDER
        try:
            parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ProjectError(
                f"nothing can be written to {parent}",
                detail=str(error),
                hint="`warehouse:` in stillframe.yml names a folder",
            ) from error
    with tempfile.TemporaryDirectory(prefix=".trial-", dir=parent) as folder:
        yield Path(folder)


@contextmanager
def _observed(console: Console) -> Iterator[Callable[[str], None]]:
    if not console.is_terminal:
        yield lambda _: None
        return
    with console.status("calibrating") as status:
        yield lambda text: status.update(Text(text))


def _prices_table(found: Measured) -> Any:
    made = table("price", "measured", "built in", right=("measured", "built in"))
    built_in = BUILT_IN[found.calibration.engine]
    for name in PRICES:
        measured, before = (_told(name, getattr(prices, name)) for prices in (found.calibration, built_in))
        made.add_row(name.removeprefix("per_").replace("_", " "), measured, before)
    return made


def _told(name: str, price: float) -> str:
    """By the thousand megabytes, the million rows, or each."""
    if "byte" in name:
        return f"{price * 1e9:.2f} s a GB"
    if "row" in name:
        return f"{price * 1e6:.3f} s a million"
    return f"{price * 1e3:.1f} ms"
