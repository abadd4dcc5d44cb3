"""The table of frames as values: its files, its commits, and the revisions that lie in it."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from deltalake import DeltaTable

from stillframe.lake.frame import Frame

FULL_FILE = 1000

Place = tuple[int, int]


@dataclass(frozen=True, slots=True, order=True)
class LogFile:
    """A file of the table; `last` is the place of its newest revision."""

    last: Place
    name: str
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of the log: its version, and the file itself, should another log take the place of it."""

    version: int
    file: int
    written: int


@dataclass(frozen=True, slots=True)
class Entry:
    """One published revision, its document still as text."""

    place: Place
    published_at: datetime
    document: str

    def frame(self) -> Frame:
        return Frame.from_json(json.loads(self.document))

    @property
    def files(self) -> frozenset[str]:
        return self.frame().files

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(view.table for view in self.frame().views.values())


def files_of(handle: DeltaTable) -> list[LogFile]:
    actions = handle.get_add_actions()
    rows = zip(actions["path"].to_pylist(), actions["num_records"].to_pylist(), strict=True)
    files = []
    for name, count in rows:
        frame, revision, _ = name.split("-", 2)
        files.append(LogFile((int(frame), int(revision)), name, count))
    return sorted(files)


def gathered(files: Sequence[LogFile]) -> list[list[LogFile]]:
    """Neighbouring files in groups of at most `FULL_FILE` rows, where that takes more than one."""
    groups: list[list[LogFile]] = []
    rows = FULL_FILE
    for file in files:
        if rows + file.rows > FULL_FILE:
            groups.append([])
            rows = 0
        groups[-1].append(file)
        rows += file.rows
    return groups


def name_of(place: Place | None) -> str:
    return "none" if place is None else f"{place[0]} (revision {place[1]})"


def ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 7 as "1 to 3, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
