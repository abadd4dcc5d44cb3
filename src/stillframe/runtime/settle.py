"""Settling: folding a view's change files into its plain table, in the background of refreshing. And merging:
adding up change files that lie side by side, so that few are read however many frames there were.

The content of a frame does not change by either: the frame gets a new revision that names other files. Other
engines, which read the plain table, see a frame when it is settled.

What it costs follows the change, not the view. A view is rewritten when a share of it has changed, so at most
1 / share rows are written for a row that changed; and of its files only those that lose rows, and small ones.
Changes are merged when they are many, with older ones that are not much larger, so a row is merged a
logarithmic number of times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from enum import Enum
from pathlib import Path

import pyarrow as pa

from stillframe.algebra.arrow import COUNT, named_schema
from stillframe.algebra.netting import netted
from stillframe.engine import (
    Engine,
    Part,
    Rewriting,
    Room,
    columns_of,
    engine_errors,
    held_bytes,
    rewrite,
    rewrite_here,
    write_frame,
    write_rows,
)
from stillframe.errors import Busy, LakeError, StillframeError
from stillframe.lake.frame import ChangeFile, DataFile, Frame, ViewState
from stillframe.lake.lookup import losing, telling_key
from stillframe.lake.reader import content, generations, is_keyed, net_changes, require_files
from stillframe.lake.storage import Storage
from stillframe.runtime.config import SettleBound
from stillframe.runtime.outcome import Observer, Step, unobserved

ATTEMPTS = 5
FEW_ROWS = 10_000  # so few change rows cost a reader nothing, however small the view
FULL_ROWS = 1_000_000  # a file that is not made larger
CHEAP_SHARE = 0.1  # of a view: to merge more changes costs no less than to settle it, and is put off
MERGED_HERE = 50_000  # rows of changes that the driver adds up, beside a cluster
MOST_LEAVING = 8_000_000  # rows of changes whose keys every task that rewrites files holds


class Due(Enum):
    SETTLING = "settling"
    MERGING = "merging"


def unsettled_rows(view: ViewState) -> int:
    return sum(f.rows for f in view.changes)


def due(view: ViewState, bound: SettleBound, frame_times: Callable[[int], datetime | None]) -> Due | None:
    """What has to be done for a view to stay within the bound. Nobody waits for the table of a hidden one."""
    if not view.changes:
        return None
    changed = unsettled_rows(view)
    if changed > max(bound.rows * view.rows, FEW_ROWS):
        return Due.SETTLING
    if not view.owner:
        oldest = frame_times(min(f.since for f in view.changes))
        if oldest is None or (datetime.now(UTC) - oldest).total_seconds() >= bound.seconds:
            return Due.SETTLING
    side_by_side, most = len(generations(view)), max(bound.files, 2)
    if side_by_side < most:
        return None
    if changed > bound.rows * view.rows:
        return Due.SETTLING
    return Due.MERGING if changed <= CHEAP_SHARE * view.rows or side_by_side >= 2 * most else None


def settle(
    lake: Storage,
    engine: Callable[[], Engine],
    frame: Frame,
    name: str,
    observe: Observer = unobserved,
    room: Room | None = None,
) -> Frame | None:
    """Write the content of a view at `frame` as plain files and publish them in place of what they replace.
    Returns the new revision, or None where the view is gone or was recomputed meanwhile."""
    view = frame.views[name]
    old = rewritten(view, losing(lake.path, view))
    kept = tuple(file for file in view.base if file not in old)
    folder = lake.attempt("data", view.table)
    with _writing(lake, name, folder):
        _write_content(lake.path, engine, replace(view, base=old), folder, room or Room())
    base = (*kept, *lake.collect(folder))
    observe(Step.REWRITTEN, name)

    def settled(now: ViewState) -> ViewState:
        later = now.changes[len(view.changes) :]
        return replace(now, base=base, changes=later, settled=frame.number)

    published = _revised(lake, name, view, settled)
    if published is not None:
        lake.settle(published.views[name])
        observe(Step.SETTLED, name)
    return published


@contextmanager
def _writing(lake: Storage, name: str, folder: Path) -> Iterator[None]:
    """What fails leaves nothing behind, and is told as what it is."""
    try:
        yield
    except (OSError, pa.ArrowException) as error:
        lake.discard(folder)
        raise LakeError(
            f"the changes of view {name} could not be folded in; it is as it was",
            detail=str(error),
            hint="is there room on the disk?",
        ) from error
    except StillframeError:
        lake.discard(folder)
        raise


def _write_content(
    root: Path, engine: Callable[[], Engine], view: ViewState, folder: Path, room: Room
) -> None:
    """The rows of a view as plain files: file by file where keys tell which leave, which takes a third of the
    time of a query; here, where there is room for the keys, or by tasks of Spark. Sail runs one task of ours
    at a time, and is quicker by its own query."""
    here = room.rewrites and unsettled_rows(view) <= room.read
    key = telling_key(view) if here or engine().kind == "spark" else ()
    if key and is_keyed(view) and unsettled_rows(view) <= MOST_LEAVING:
        require_files(root, view)
        order = generations(view)
        plain = (Part(root / file.path, file.rows, 0) for file in view.base)
        came = (Part(root / file.path, file.rows, 1 + order.index(file.frame)) for file in view.changes)
        rewriting = Rewriting((*plain, *came), named_schema(view.schema), key)
        if here:
            rewrite_here(rewriting, folder)
        else:
            rewrite(engine(), rewriting, folder)
        return
    with engine_errors():
        write_frame(content(engine().maintenance, root, view), folder)


def rewritten(view: ViewState, losing: frozenset[str]) -> tuple[DataFile, ...]:
    """The base files that are written anew: those that lose rows; and while there are files no larger than
    what is written anyway, these. So files grow, and a row is moved a logarithmic number of times."""
    rows = unsettled_rows(view) + sum(file.rows for file in view.base if file.path in losing)
    chosen = set(losing)
    for file in sorted(view.base, key=lambda file: file.rows):
        if file.path not in chosen and file.rows < FULL_ROWS and file.rows <= max(rows, FEW_ROWS):
            chosen.add(file.path)
            rows += file.rows
    return tuple(file for file in view.base if file.path in chosen)


def merge(
    lake: Storage,
    engine: Callable[[], Engine],
    frame: Frame,
    name: str,
    observe: Observer = unobserved,
    room: Room | None = None,
) -> Frame | None:
    """Write the sum of a view's latest changes as one change, and publish it in their place."""
    view = frame.views[name]
    first = merged_from(view)
    part = replace(view, changes=view.changes[first:])
    folder = lake.attempt("changes", view.table)
    with _writing(lake, name, folder):
        _write_net(lake.path, engine, part, folder, room or Room())
    whole = tuple(
        ChangeFile(f.path, f.rows, f.bytes, part.changes[-1].frame, min(c.since for c in part.changes))
        for f in lake.collect(folder)
    )
    observe(Step.REWRITTEN, name)

    def merged(now: ViewState) -> ViewState:
        return replace(now, changes=(*view.changes[:first], *whole, *now.changes[len(view.changes) :]))

    published = _revised(lake, name, view, merged)
    if published is not None:
        observe(Step.MERGED, name)
    return published


def merged_from(view: ViewState) -> int:
    """The first of the change files that are merged: from the newest back, as long as a change has no more
    than twice the rows of all that came after it."""
    of_frame = {frame: sum(f.rows for f in view.changes if f.frame == frame) for frame in generations(view)}
    *older, newest = generations(view)
    since, rows = newest, of_frame[newest]
    for frame in reversed(older):
        if of_frame[frame] > 2 * rows and since != newest:
            break
        since, rows = frame, rows + of_frame[frame]
    return next(i for i, file in enumerate(view.changes) if file.frame >= since)


def _write_net(root: Path, engine: Callable[[], Engine], view: ViewState, folder: Path, room: Room) -> None:
    """Equal floats are given one spelling by the engine alone."""
    floats = any(column.type.name == "DOUBLE" for column in view.schema)
    files = [root / file.path for file in view.changes]
    most = room.rows if room.beside else MERGED_HERE
    if floats or unsettled_rows(view) > most or held_bytes(files) > room.bytes:
        with engine_errors():
            write_frame(net_changes(engine().maintenance, root, view), folder)
        return
    names = view.schema.names
    net = netted(columns_of(files, names, view.schema.types))
    write_rows(net.rename_columns([*names, COUNT]), folder)


def _revised(
    lake: Storage, name: str, view: ViewState, revise: Callable[[ViewState], ViewState]
) -> Frame | None:
    """Publish a view that has the same content in other files; None where it is gone, or not what it was
    and further changes: recomputed, settled, merged or renamed since."""
    for _ in range(ATTEMPTS):
        newest = lake.newest()
        assert newest is not None
        now = newest.views.get(name)
        if now is None or not _grown_from(view, now):
            return None
        revised = replace(newest, revision=newest.revision + 1, views={**newest.views, name: revise(now)})
        try:
            return lake.publish(revised, newest)
        except Busy:
            continue
    raise Busy(f"view {name} could not be settled: other processes keep publishing", hint="try again")


def _grown_from(view: ViewState, now: ViewState) -> bool:
    """Whether `now` is `view` and further changes."""
    same = (view.table, view.settled, view.base) == (now.table, now.settled, now.base)
    return same and now.changes[: len(view.changes)] == view.changes
