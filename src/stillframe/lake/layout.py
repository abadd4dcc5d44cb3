"""Where things lie in a warehouse folder, and who is writing what.

    stillframe.json                     the format version
    frames/                             Delta table of the published frames
    views/<table>/                      Delta table of a view
    views/<table>/data/<attempt>/       plain rows, written once
    views/<table>/_changes/<attempt>/   signed rows, written once
    staging/<attempt>/                  what was read from sources; thrown away after the session

A folder named <attempt> belongs to one write of one process, and its name says which: whether what lies
there may still become part of a frame is decided by whether that process lives.
"""

from __future__ import annotations

import json
import os
import re
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from stillframe.errors import LakeError
from stillframe.lake.owner import Owner

FORMAT = 1
DATA, CHANGES, STAGING = "data", "changes", "staging"
ABANDONED_AFTER = timedelta(hours=24)

_MARKER = "stillframe.json"
_FOLDERS = {DATA: "data", CHANGES: "_changes"}
_PLAIN = re.compile(r"[A-Za-z0-9_.-]")
_LONGEST_NAME = 255


def encode_name(name: str) -> str:
    """A folder name for any text, readable where it can be: other characters become `~` and two hex digits
    a byte. Neither hidden (leading `.` or `_`), nor a pattern, nor a partition, nor an escape to any engine.
    """
    folder = "".join(
        char if _PLAIN.match(char) and not (i == 0 and char in "._") else _escape(char)
        for i, char in enumerate(name)
    )
    if not name or len(folder) > _LONGEST_NAME:
        raise LakeError(
            "this name cannot be a table's" if name else "a table needs a name",
            detail=f"{len(folder)} bytes when written as a folder name, of {_LONGEST_NAME}" if name else "",
            hint="choose a shorter name" if name else "",
            code="BAD_TABLE_NAME",
        )
    return folder


def decode_name(folder: str) -> str:
    """The inverse of `encode_name`."""
    return re.sub(
        r"(?:~[0-9a-f]{2})+", lambda run: bytes.fromhex(run.group().replace("~", "")).decode(), folder
    )


def _escape(char: str) -> str:
    return "".join(f"~{byte:02x}" for byte in char.encode())


@dataclass(frozen=True, slots=True)
class Attempt:
    """One write's own folder."""

    folder: Path
    owner: Owner | None

    def abandoned(self, now: datetime) -> bool:
        """Nobody will ever publish what lies here. True only on evidence: the owner is known to be dead,
        or nobody here can know and nothing has moved for a day."""
        alive = self.owner.alive() if self.owner else None
        return alive is False or (alive is None and self.still_for(ABANDONED_AFTER, now))

    def still_for(self, age: timedelta, now: datetime) -> bool:
        return older(self.folder, age, now) and all(older(p, age, now) for p in self.folder.rglob("*"))


def older(path: Path, age: timedelta, now: datetime) -> bool:
    """Whether a path was last touched at least `age` ago; what is gone is as old as can be."""
    try:
        return datetime.fromtimestamp(path.stat().st_mtime, UTC) <= now - age
    except FileNotFoundError:
        return True


@dataclass(frozen=True, slots=True)
class Layout:
    root: Path

    @property
    def frames(self) -> Path:
        return self.root / "frames"

    @property
    def views(self) -> Path:
        return self.root / "views"

    @property
    def staging(self) -> Path:
        return self.root / "staging"

    @property
    def lock(self) -> Path:
        return self.root / ".lock"

    def table(self, name: str) -> Path:
        return self.views / encode_name(name)

    def relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def new_attempt(self, kind: str, table: str) -> Path:
        parent = self.staging if kind == STAGING else self.table(table) / _FOLDERS[kind]
        parent.mkdir(parents=True, exist_ok=True)
        return parent / attempt_name()

    def tables(self) -> Iterator[tuple[str, Path]]:
        if self.views.is_dir():
            for folder in sorted(self.views.iterdir()):
                if folder.is_dir() and not folder.name.startswith("."):
                    yield decode_name(folder.name), folder

    def attempts(self) -> Iterator[Attempt]:
        parents = [folder / sub for _, folder in self.tables() for sub in _FOLDERS.values()]
        for parent in [*parents, self.staging]:
            if parent.is_dir():
                yield from (Attempt(f, owner_of(f.name)) for f in sorted(parent.iterdir()) if f.is_dir())

    def is_warehouse(self) -> bool:
        return (self.root / _MARKER).is_file()

    def mark(self) -> None:
        marker = self.root / _MARKER
        draft = marker.with_name(f".{attempt_name()}")
        draft.write_text(json.dumps({"format": FORMAT}) + "\n")
        sync(draft)
        draft.replace(marker)
        sync(self.root)

    def check_format(self) -> None:
        marker = self.root / _MARKER
        try:
            found = json.loads(marker.read_text())["format"]
        except (ValueError, KeyError, TypeError) as error:
            raise LakeError(
                f"{marker} does not say which format the warehouse has", detail=str(error), code="BAD_FORMAT"
            ) from error
        if found != FORMAT:
            raise LakeError(
                "this warehouse was written by another version of Stillframe",
                detail=f"its format is {found}; this version reads format {FORMAT}",
                hint="use a version of Stillframe that knows this format",
                code="UNKNOWN_FORMAT",
            )


def attempt_name() -> str:
    """Unique, sorted by time, and naming the process that makes it."""
    moment = datetime.now(UTC).strftime("%Y%m%dT%H%M%S%f")
    return f"{moment}-{Owner.this_process()}-{secrets.token_hex(4)}"


def owner_of(attempt: str) -> Owner | None:
    """The process an attempt's name tells of; None for a name that is not an attempt's."""
    parts = attempt.split("-", 1)
    return Owner.parse(parts[1].rpartition("-")[0]) if len(parts) == 2 else None


def sync(path: Path) -> None:
    """Make a file's content, or a folder's entries, survive a power failure."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
