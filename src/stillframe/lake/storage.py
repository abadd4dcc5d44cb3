"""What the rest of Stillframe asks of a lake; `conformance` checks any implementation of it."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Protocol

from stillframe.lake.frame import DataFile, Frame, ViewState


@dataclass(frozen=True, slots=True)
class Vacuumed:
    """What a vacuum removed. `frames` counts revisions."""

    frames: int = 0
    files: int = 0
    bytes: int = 0
    tables: int = 0


class Storage(Protocol):
    """Frames, and the files they name.

    Files are written once, into a folder of their own attempt, and belong to nothing until a frame that
    names them is published. Publication is one atomic step; every other step may be repeated or lost.
    """

    @property
    def path(self) -> Path: ...

    # Frames

    def newest(self) -> Frame | None: ...

    def frame(self, number: int) -> Frame:
        """The latest revision of a frame."""

    def history(self, limit: int | None = None) -> list[Frame]:
        """The latest revision of every frame, newest first."""

    def publish(self, frame: Frame, after: Frame | None) -> Frame:
        """Make `frame` the newest, if `after` still is; otherwise `Busy`, and nothing happened.

        Durable when it returns. Stamps `published_at` if it is empty."""

    # Files

    def attempt(self, kind: str, table: str = "") -> Path:
        """A fresh folder path for one write of kind `data`, `changes` (of a table) or `staging`."""

    def collect(self, folder: Path) -> tuple[DataFile, ...]:
        """The files that a finished write left in its folder, made durable."""

    def discard(self, folder: Path) -> None:
        """Remove an attempt's folder; one that is not there is fine."""

    def copy_table_files(self, old: str, new: str, view: ViewState) -> ViewState:
        """The same content under another table's name, in files of its own."""

    # What other engines see

    def settle(self, view: ViewState) -> bool:
        """Bring the view's Delta table to exactly `view.base`, in one step.

        False, and nothing done, where the newest frame no longer says so."""

    def settled_files(self, table: str) -> frozenset[str]:
        """The files another engine reads, as frames name them; empty where there is no table."""

    def settled_frame(self, table: str) -> int | None: ...

    def repair(self) -> None:
        """Finish what killed processes left: bring tables that are behind the newest frame to it, and remove
        files that no frame names. What this handle has seen done is not looked at each time."""

    # Housekeeping

    def sweep(self, now: datetime | None = None) -> tuple[str, ...]:
        """Remove what dead processes left behind unpublished; returns the paths removed."""

    def vacuum(self, retention: timedelta, now: datetime | None = None) -> Vacuumed:
        """Forget revisions superseded longer than `retention` ago, and remove what only they needed."""

    def compact(self) -> None:
        """Keep reading frames fast; loses none."""

    def exclusive(self, wait_seconds: float = 0.0) -> AbstractContextManager[None]:
        """Wait for other processes that ask politely too; `Busy` after `wait_seconds`."""
