"""The verb `spectrum`: levels by settings, every algorithm in the cell where exploration puts it.

Table, list, picture and files are made from the one document that `--json` prints. An algorithm stands in
parentheses where a paper puts it, if exploration puts it elsewhere.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from textwrap import wrap
from typing import Any

from rich import box
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from stillframe.algebra.side_by_side import cores
from stillframe.cli.arguments import UsageError
from stillframe.cli.output import Output
from stillframe.cli.spectrum_svg import refusals, spectrum_svg
from stillframe.protocol import ALGORITHMS, Setting
from stillframe.simulator import spectrum as derived

Document = Mapping[str, Any]

MARKS = {"equal": "=", "above": "↑", "below": "↓", None: "·"}
_STYLES = {"equal": "green", "above": "cyan", "below": "bold red", None: "dim"}
_LEGEND = "= as the paper says  ↑ above  ↓ below  · no paper says  (name) the paper's place"
_HEADING = 13
_SCALES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))


def spectrum(options: argparse.Namespace, output: Output) -> int:
    folder = _folder(options.witnesses)
    _refuse_no_file(options.svg)
    with _progress(output.err) as told:
        cells = derived.spectrum(options.seed, options.scenarios, workers=cores(), told=told)
    found = derived.document(cells, options.seed, options.scenarios)
    if folder is not None:
        found = write_witnesses(found, folder)
    if options.svg:
        _draw(found, Path(options.svg))
        found = {**found, "svg": options.svg}
        output.note(f"drawn into {options.svg}")
    output.text(Grid(found), Text(), Text(_LEGEND), *_notes(found), Text(), witness_table(found), Text())
    output.text(_how_to_replay(found))
    output.document(found, data=True)
    return 0


def _folder(given: str | None) -> Path | None:
    """Made before the work begins, so that no work is lost for want of a place."""
    if given is None:
        return None
    try:
        Path(given).mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"{given} cannot be made a folder", detail=str(error)) from error
    return Path(given)


def _refuse_no_file(given: str | None) -> None:
    if given is not None and (Path(given).is_dir() or not Path(given).absolute().parent.is_dir()):
        raise UsageError(f"{given} cannot be written", hint="--svg FILE names a file in a folder that exists")


@contextmanager
def _progress(console: Console) -> Iterator[Callable[[derived.Cell], None]]:
    if not console.is_terminal:
        yield lambda cell: None
        return
    whole, done = len(ALGORITHMS) * len(Setting), 0
    with console.status(f"exploring: 0 of {whole} cells") as status:

        def told(cell: derived.Cell) -> None:
            nonlocal done
            done += 1
            status.update(Text(f"exploring: {done} of {whole} cells; {cell.algorithm}, {cell.setting}"))

        yield told


# -- files


def write_witnesses(found: Document, folder: Path) -> dict[str, Any]:
    """For each witness the scenario, and the schedule where there is one; the document with their places."""
    cells = []
    for cell in found["cells"]:
        if cell["witness"] is not None:
            stem = f"{cell['witness']['number']:02}-{cell['algorithm']}"
            cell = {**cell, "witness": _written(cell["witness"], folder / stem, cell["algorithm"])}
        cells.append(cell)
    return {**found, "cells": cells, "witnesses": str(folder)}


def _written(witness: Document, stem: Path, algorithm: str) -> dict[str, Any]:
    scenario, schedule = Path(f"{stem}.yml"), Path(f"{stem}.json")
    scenario.write_text(witness["scenario"], encoding="utf-8")
    files = {"scenario": str(scenario)}
    command = ["stillframe", "simulate", str(scenario), "--algorithm", algorithm]
    if witness["schedule"] is None:
        schedule.unlink(missing_ok=True)
    else:
        steps = json.dumps(witness["schedule"], ensure_ascii=False, indent=2)
        schedule.write_text(steps + "\n", encoding="utf-8")
        files["schedule"] = str(schedule)
        command += ["--schedule", str(schedule)]
    return {**witness, "files": files, "replay": shlex.join(command)}


def _draw(found: Document, picture: Path) -> None:
    """A picture's links start from where it lies."""
    start = picture.absolute().parent

    def moved(cell: Document) -> Document:
        witness = cell["witness"]
        if witness is None or "files" not in witness:
            return cell
        files = {
            kind: Path(os.path.relpath(path, start)).as_posix() for kind, path in witness["files"].items()
        }
        return {**cell, "witness": {**witness, "files": files}}

    picture.write_text(spectrum_svg({**found, "cells": list(map(moved, found["cells"]))}), encoding="utf-8")


# -- text


class Grid:
    """Levels by settings; a list by level where the columns would not fit side by side."""

    def __init__(self, found: Document) -> None:
        self.found = found

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for wide in (True, False):
            made = self._table(wide)
            if console.measure(made, options=options.update(max_width=1000)).maximum <= options.max_width:
                yield made
                return
        yield from self._list()

    def _table(self, wide: bool) -> Table:
        made = Table(
            box=box.HORIZONTALS,
            show_edge=False,
            show_lines=True,
            pad_edge=False,
            padding=(0, 1 if wide else 0, 0, 0),
            header_style="bold",
        )
        made.add_column("", style="bold", no_wrap=True)
        for setting in self.found["settings"]:
            made.add_column(Text(_folded(setting)), no_wrap=True)
        for level in reversed(self.found["levels"]):
            rows = (Text("\n").join(self.entries(level, s, wide)) for s in self.found["settings"])
            made.add_row(level, *rows)
        return made

    def _list(self) -> Iterator[RenderableType]:
        for level in reversed(self.found["levels"]):
            yield Text(level, style="bold")
            for setting in self.found["settings"]:
                entries = [_stripped(entry) for entry in self.entries(level, setting, wide=False)]
                if entries:
                    yield Text(f"{_short(setting)}: ") + Text(", ").join(entries)

    def entries(self, level: str, setting: str, wide: bool) -> list[Text]:
        there = [cell for cell in self.found["cells"] if cell["setting"] == setting]
        indent = " " * (5 if wide else 2)
        return [_entry(cell, wide) for cell in there if cell["level"] == level] + [
            Text(f"{indent}({cell['algorithm']})", style="dim") for cell in there if elsewhere(cell, level)
        ]


def elsewhere(cell: Document, level: str) -> bool:
    """Whether a paper puts at this level what exploration puts at another."""
    return bool(cell["paper"] and cell["paper"]["level"] == level and cell["level"] not in (None, level))


def _entry(cell: Document, wide: bool) -> Text:
    space = " " if wide else ""
    files = cell["witness"].get("files")
    link = f"link {Path(files['scenario']).absolute().as_uri()}" if files else ""
    return Text.assemble(
        (f"{cell['witness']['number']:>2}{space}", "dim"),
        (f"{MARKS[cell['compared']]}{space}", _STYLES[cell["compared"]]),
        (cell["algorithm"], link),
    )


def _stripped(entry: Text) -> Text:
    return entry[len(entry.plain) - len(entry.plain.lstrip()) :]


def _folded(setting: str) -> str:
    """A heading is no wider than what stands below it."""
    return "\n".join(wrap(setting, _HEADING, break_on_hyphens=False))


def _short(setting: str) -> str:
    return setting.removeprefix("many sources, ").removeprefix("source-").removesuffix(" transactions")


def _notes(found: Document) -> Iterator[Text]:
    for line in refusals(found):
        yield Text(f"not placed: {line}", style="dim")
    placed = [cell for cell in found["cells"] if cell["applicable"]]
    every = sum(cell["schedules"] for cell in placed)
    sampled = sum(not cell["exhaustive"] for cell in placed)
    but = f"; in {_many(sampled, 'cell')} some scenarios by random schedules" if sampled else ""
    scenarios = _many(sum(cell["scenarios"] for cell in placed), "scenario")
    yield Text(
        f"explored: {_many(len(placed), 'cell')}, {scenarios}, {_many(every, 'schedule')}, "
        f"seed {found['seed']}{but}",
        style="dim",
    )


def witness_table(found: Document) -> Table:
    made = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for heading in ("no", "algorithm", "setting", "breaks", "witness"):
        made.add_column(heading, justify="right" if heading == "no" else "left", overflow="fold")
    for cell in found["cells"]:
        witness = cell["witness"]
        if witness is None:
            continue
        if witness["schedule"] is None:
            told = f"{_many(cell['scenarios'], 'scenario')}, {_many(cell['schedules'], 'schedule')}"
        else:
            told = f"{witness['name']}, {_many(len(witness['schedule']), 'step')}"
        made.add_row(
            str(witness["number"]),
            cell["algorithm"],
            _short(cell["setting"]),
            witness["breaks"] or Text("nothing", style="dim"),
            told,
        )
    return made


def _how_to_replay(found: Document) -> Text:
    witnesses = [cell["witness"] for cell in found["cells"] if cell["witness"] is not None]
    breaking = [witness for witness in witnesses if witness["schedule"] is not None]
    if "witnesses" in found and breaking:
        number, command = breaking[0]["number"], breaking[0]["replay"]
        return Text.assemble(f"replay, for example, {number}: ", (command, "cyan"))
    command = "stillframe spectrum --witnesses DIR"
    return Text.assemble("to replay them: ", (command, "cyan"), " writes their files and says how")


def _many(count: int, word: str) -> str:
    scale = next(((size, name) for size, name in _SCALES if count >= size), None)
    told = f"{count:,}" if scale is None else f"{count / scale[0]:.1f} {scale[1]}"
    return f"{told} {word}" if count == 1 else f"{told} {word}s"
