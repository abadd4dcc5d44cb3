"""Settling: folding a view's change files into its plain table, in the background of refreshing.

The content of a frame does not change by it: the frame gets a new revision that names other files. Other
engines, which read the plain table, then see that frame.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

from stillframe.engine import Engine, engine_errors
from stillframe.errors import Busy
from stillframe.lake.frame import Frame, ViewState
from stillframe.lake.reader import content
from stillframe.lake.storage import Storage
from stillframe.runtime.config import SettleBound
from stillframe.runtime.outcome import Observer, Step, unobserved

ATTEMPTS = 5
FEW_ROWS = 10_000  # so few change rows cost a reader nothing, however small the view


def unsettled_rows(view: ViewState) -> int:
    return sum(f.rows for f in view.changes)


def due(view: ViewState, bound: SettleBound, frame_times: Callable[[int], datetime | None]) -> bool:
    """Whether a view has reached the bound within which its table must follow."""
    if not view.changes:
        return False
    if len({f.frame for f in view.changes}) >= bound.files:
        return True
    if unsettled_rows(view) > max(bound.rows * view.rows, FEW_ROWS):
        return True
    oldest = frame_times(min(f.frame for f in view.changes))
    return oldest is None or (datetime.now(UTC) - oldest).total_seconds() >= bound.seconds


def _grown_from(view: ViewState, now: ViewState) -> bool:
    """Whether `now` is `view` and further changes, not recomputed, settled or renamed since."""
    same = (view.table, view.settled, view.base) == (now.table, now.settled, now.base)
    return same and now.changes[: len(view.changes)] == view.changes


def settle(
    lake: Storage, engine: Engine, frame: Frame, name: str, observe: Observer = unobserved
) -> Frame | None:
    """Write the content of a view at `frame` as plain files and publish them in place of what they replace.
    Returns the new revision, or None where the view is gone or was recomputed meanwhile."""
    view = frame.views[name]
    folder = lake.attempt("data", view.table)
    with engine_errors():
        content(engine.maintenance, lake.path, view).write.mode("error").parquet(str(folder))
    files = lake.collect(folder)
    observe(Step.REWRITTEN, name)
    for _ in range(ATTEMPTS):
        newest = lake.newest()
        assert newest is not None
        now = newest.views.get(name)
        if now is None or not _grown_from(view, now):
            return None
        later = now.changes[len(view.changes) :]
        settled = replace(now, base=files, changes=later, settled=frame.number)
        revised = replace(newest, revision=newest.revision + 1, views={**newest.views, name: settled})
        try:
            published = lake.publish(revised, newest)
        except Busy:
            continue
        lake.settle(published.views[name])
        observe(Step.SETTLED, name)
        return published
    raise Busy(f"view {name} could not be settled: other processes keep publishing", hint="try again")
