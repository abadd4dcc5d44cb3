"""Removing what no frame needs.

Two laws keep this safe beside running sessions and readers:
- First the dead, then the frames: a process known to be dead published all it ever will before we looked
  at the frames, so what they do not name then, nothing ever will.
- A revision is forgotten `retention` after it was superseded, and its files go only after that commit.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from datetime import datetime, timedelta
from pathlib import Path

from stillframe.lake import tables
from stillframe.lake.frames import FrameLog
from stillframe.lake.layout import ABANDONED_AFTER, Attempt, Layout, attempt_name, older
from stillframe.lake.storage import Vacuumed


def sweep(layout: Layout, log: FrameLog, now: datetime) -> tuple[str, ...]:
    """Remove attempts of dead processes that no frame and no table names, and their unborn frames."""
    abandoned = [attempt for attempt in layout.attempts() if attempt.abandoned(now)]
    files = {layout.relative(p): attempt for attempt in abandoned for p in parquet_files(attempt.folder)}
    needed = files.keys() - log.unreferenced(files) if files else frozenset[str]()
    if files.keys() - needed:
        needed |= files.keys() & shown_files(layout)
    kept = {files[path].folder for path in needed}
    removed = []
    for attempt in abandoned:
        if attempt.folder not in kept:
            shutil.rmtree(attempt.folder, ignore_errors=True)
            removed.append(layout.relative(attempt.folder))
    for path in log.leftovers(now):
        path.unlink(missing_ok=True)
        removed.append(layout.relative(path))
    return tuple(removed)


def vacuum(layout: Layout, log: FrameLog, retention: timedelta, now: datetime) -> Vacuumed:
    sweep(layout, log, now)
    attempts = [(attempt, attempt.abandoned(now)) for attempt in layout.attempts()]
    kept, forgotten = log.forget(now - retention)
    mentioned = frozenset().union(*(entry.tables for entry in kept))
    dropped = sum(
        _retire(layout, log, table, folder) for table, folder in layout.tables() if table not in mentioned
    )
    needed = shown_files(layout).union(*(entry.files for entry in kept))
    named = needed.union(*(entry.files for entry in forgotten))
    files = size = 0
    for attempt, abandoned in attempts:
        present = {layout.relative(path): path for path in parquet_files(attempt.folder)}
        # A write that no frame ever named may be on its way into one while its process lives, though
        # hardly for a day.
        finished = abandoned or not named.isdisjoint(present)
        age = retention if finished else max(retention, ABANDONED_AFTER)
        doomed = {path for name, path in present.items() if name not in needed and older(path, age, now)}
        files += len(doomed)
        size += sum(path.stat().st_size for path in doomed)
        _remove(attempt, doomed, everything=len(doomed) == len(present) > 0)
    for _, folder in layout.tables():
        _remove_empty(folder)
    return Vacuumed(len(forgotten), files, size, dropped)


def parquet_files(folder: Path) -> list[Path]:
    """The files a finished write left: not the hidden ones, nor those of tasks that never committed."""
    return sorted(
        path
        for path in folder.rglob("*.parquet")
        if path.is_file() and not any(p.startswith(("_", ".")) for p in path.relative_to(folder).parts)
    )


def shown_files(layout: Layout) -> frozenset[str]:
    """What the views' Delta tables show to other engines now."""
    return frozenset().union(*(tables.settled_files(layout, table) for table, _ in layout.tables()))


def _retire(layout: Layout, log: FrameLog, table: str, folder: Path) -> bool:
    """Take away the Delta log of a table no frame mentions, unless one came to mention it meanwhile."""
    delta_log = folder / "_delta_log"
    if not delta_log.is_dir():
        return False
    aside = folder / f".dropped-{attempt_name()}"
    delta_log.rename(aside)
    newest = log.newest()
    revived = newest is not None and any(view.table == table for view in newest.views.values())
    if revived and not delta_log.exists():
        aside.rename(delta_log)
        return False
    shutil.rmtree(aside, ignore_errors=True)
    return not revived


def _remove(attempt: Attempt, doomed: set[Path], everything: bool) -> None:
    if everything:
        shutil.rmtree(attempt.folder, ignore_errors=True)
        return
    for path in doomed:
        path.unlink(missing_ok=True)
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)


def _remove_empty(folder: Path) -> None:
    """Remove a table's folder if nothing is left in it; whatever is there keeps it."""
    for child in [*folder.glob("*"), folder]:
        with suppress(OSError):
            child.rmdir()
