"""The lake on a file system, with Delta tables committed through delta-rs; no Spark here."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq

from stillframe.errors import LakeError
from stillframe.lake import housekeeping, lock, tables
from stillframe.lake.frame import RECORDS, ChangeFile, DataFile, Frame, ViewState
from stillframe.lake.frames import FrameLog
from stillframe.lake.layout import CHANGES, DATA, STAGING, Layout, sync
from stillframe.lake.storage import Storage, Vacuumed

SWEEP_EVERY = timedelta(minutes=10)

_ODD_IN_DELTA = re.compile(r"[%\\]")
_SAFE_FILE = re.compile(r"[A-Za-z0-9._/~-]+")

F = TypeVar("F", DataFile, ChangeFile)


class Lake(Storage):
    """Safe to use from several threads and processes at once."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._log = FrameLog(layout.frames)
        self._shown: dict[str, tuple[int, tuple[DataFile, ...]]] = {}  # by table, as last seen there
        self._swept: datetime | None = None

    @classmethod
    def open(cls, path: str | os.PathLike[str], create: bool = False) -> Lake:
        layout = Layout(Path(path).absolute())
        if not layout.is_warehouse():
            if not create:
                raise LakeError(
                    f"there is no warehouse at {layout.root}",
                    hint="the first refresh makes it",
                    code="NO_WAREHOUSE",
                )
            _create(layout)
        layout.check_format()
        return cls(layout)

    @property
    def path(self) -> Path:
        return self._layout.root

    # Frames

    def newest(self) -> Frame | None:
        return self._log.newest()

    def frame(self, number: int) -> Frame:
        return self._log.frame(number)

    def history(self, limit: int | None = None) -> list[Frame]:
        return self._log.history(limit)

    def publish(self, frame: Frame, after: Frame | None) -> Frame:
        for path in sorted(frame.files - (after.files if after else frozenset())):
            if not (self.path / path).is_file():
                raise LakeError(
                    f"frame {frame.number} names a file that is not there", detail=path, code="MISSING_FILE"
                )
        return self._log.publish(frame, after)

    # Files

    def attempt(self, kind: str, table: str = "") -> Path:
        if kind not in (DATA, CHANGES, STAGING):
            raise ValueError(f"no such kind of write: {kind!r}; there are {DATA}, {CHANGES}, {STAGING}")
        return self._layout.new_attempt(kind, table)

    def collect(self, folder: Path) -> tuple[DataFile, ...]:
        """No folder, no files: an engine that has no row to write may write nothing at all."""
        found = []
        for path in housekeeping.parquet_files(folder):
            rows = pq.read_metadata(path).num_rows
            if rows:
                sync(path)
                found.append(DataFile(self._checked(path), rows, path.stat().st_size))
        for parent in {self.path / f.path for f in found}:
            sync(parent.parent)
        if found:
            sync(folder.parent)
        return tuple(found)

    def discard(self, folder: Path) -> None:
        if not folder.absolute().is_relative_to(self.path):
            raise ValueError(f"{folder} is not of this warehouse")
        shutil.rmtree(folder, ignore_errors=True)

    def copy_table_files(self, old: str, new: str, view: ViewState) -> ViewState:
        if view.table != old:
            raise ValueError(f"the view's table is {view.table}, not {old}")
        return replace(
            view,
            table=new,
            base=self._copies(view.base, self.attempt(DATA, new)),
            changes=self._copies(view.changes, self.attempt(CHANGES, new)),
        )

    def _copies(self, files: Sequence[F], folder: Path) -> tuple[F, ...]:
        """Hard links where the file system has them: files are written once, so two names may share one."""
        if not files:
            return ()
        folder.mkdir(parents=True)
        copies = []
        for i, file in enumerate(files):
            source, target = self.path / file.path, folder / f"{i:05d}-{Path(file.path).name}"
            try:
                target.hardlink_to(source)
            except FileNotFoundError:
                raise
            except OSError:
                shutil.copyfile(source, target)
                sync(target)
            copies.append(replace(file, path=self._layout.relative(target)))
        for path in (folder, folder.parent):
            sync(path)
        return tuple(copies)

    def _checked(self, path: Path) -> str:
        relative = self._layout.relative(path)
        if not _SAFE_FILE.fullmatch(relative):
            raise LakeError("a data file has a name that Delta logs spell differently", detail=relative)
        return relative

    # What other engines see

    def settle(self, view: ViewState) -> bool:
        def still_wanted() -> bool:
            newest = self.newest()
            return newest is not None and any(
                (v.table, v.base, v.schema) == (view.table, view.base, view.schema)
                for v in newest.views.values()
            )

        done = tables.settle(self._layout, view, still_wanted)
        if done:
            self._shown[view.table] = (view.settled, view.base)
        return done

    def repair(self) -> None:
        """A table leaves what it shows only for what a later frame says: so what was once seen in a table
        is there as long as the newest frame has it. What a process left that died beside this one takes up
        room and does no harm: it is looked for when the handle is new, when another process had the lock
        since, and from time to time."""
        newest = self.newest()
        for view in newest.views.values() if newest else ():
            if (
                view.vector is None
                or view.algorithm == RECORDS
                or self._shown.get(view.table) == (view.settled, view.base)
            ):
                continue
            if self.settled_frame(view.table) == view.settled:
                self._shown[view.table] = (view.settled, view.base)
            else:
                self.settle(view)
        now = datetime.now(UTC)
        if self._swept is None or now - self._swept >= SWEEP_EVERY:
            self.sweep(now)
            self._swept = now

    def settled_files(self, table: str) -> frozenset[str]:
        return tables.settled_files(self._layout, table)

    def settled_frame(self, table: str) -> int | None:
        return tables.settled_frame(self._layout, table)

    def table_path(self, table: str) -> Path:
        """Where other engines find a view's Delta table."""
        return self._layout.table(table)

    # Housekeeping

    def sweep(self, now: datetime | None = None) -> tuple[str, ...]:
        return housekeeping.sweep(self._layout, self._log, now or datetime.now(UTC))

    def vacuum(self, retention: timedelta, now: datetime | None = None) -> Vacuumed:
        return housekeeping.vacuum(self._layout, self._log, retention, now or datetime.now(UTC))

    def compact(self) -> None:
        self._log.compact()

    @contextmanager
    def exclusive(self, wait_seconds: float = 0.0) -> Iterator[None]:
        with lock.exclusive(self._layout.lock, wait_seconds) as again:
            if not again:  # another process had it, and may have died over its work
                self._swept = None
            yield


def _create(layout: Layout) -> None:
    """The marker comes last: a folder has it only if all the rest is there."""
    if odd := _ODD_IN_DELTA.search(str(layout.root)):
        raise LakeError(
            f"a warehouse cannot lie at {layout.root}",
            detail=f"Delta tables do not work beneath a folder with {odd.group()!r} in its name",
            hint="choose another folder",
            code="BAD_PATH",
        )
    for folder in (layout.root, layout.frames, layout.views, layout.staging):
        folder.mkdir(parents=True, exist_ok=True)
    FrameLog(layout.frames).create()
    layout.mark()
