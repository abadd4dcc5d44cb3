"""Where the views of one session stand: what each was brought to so far, and the frame that is made of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow.compute as pc

from stillframe.algebra.arrow import COUNT
from stillframe.engine import column_batches
from stillframe.errors import Busy, StillframeError
from stillframe.lake.frame import CURRENT, HELD, STOPPED, ChangeFile, DataFile, Frame, ViewState
from stillframe.runtime.definitions import COPIES, View
from stillframe.runtime.fixing import Fixing, Means
from stillframe.runtime.outcome import Outcome, Step
from stillframe.runtime.reads import ViewFiles


class Standing:
    """The states, changes and outcomes of a session's views, upstream first, on top of the frame before."""

    def __init__(
        self, means: Means, previous: Frame | None, views: Mapping[str, View], fixing: Fixing
    ) -> None:
        self.means, self.previous, self.views, self.fixing = means, previous, views, fixing
        self.number = previous.number + 1 if previous else 1
        self.states: dict[str, ViewState] = {}
        self.changes: dict[str, ViewFiles] = {}
        self.outcomes: dict[str, Outcome] = {}

    def former(self, name: str) -> ViewState | None:
        return self.previous.views.get(name) if self.previous else None

    # -- one view

    def vector_of(self, view: View) -> dict[str, Mapping[str, Any]]:
        return {source: self.fixing.vector[source].to_json() for source in sorted(view.sources)}

    def brought(self, view: View, former: ViewState, rows_in: int, folder: Path) -> Outcome:
        """Forward by the change in `folder`, which may have no rows, or not be there."""
        files = self.means.lake.collect(folder) if folder.is_dir() else ()
        if not any(file.rows for file in files):
            self.means.lake.discard(folder)
            return self.unchanged(view, former, rows_in)
        self.means.observe(Step.WRITTEN, view.name)
        self.states[view.name] = self.advanced(view, former, files)
        return Outcome("incremental", "CHANGES", view.algorithm, rows_in, sum(file.rows for file in files))

    def unchanged(self, view: View, former: ViewState, rows_in: int) -> Outcome:
        """At the vector with the rows it had."""
        self.states[view.name] = self.advanced(view, former, ())
        return Outcome("unchanged", "NO_CHANGES", view.algorithm, rows_in)

    def advanced(self, view: View, former: ViewState, files: tuple[DataFile, ...]) -> ViewState:
        added = tuple(ChangeFile(f.path, f.rows, f.bytes, self.number) for f in files)
        if added:
            paths = tuple(self.means.lake.path / f.path for f in added)
            rows = sum(f.rows for f in added)
            self.changes[view.name] = ViewFiles(paths, view.schema, rows, self.means.room)
        grown = sum(
            pc.sum(batch.column(0)).as_py() or 0
            for f in added
            for batch in column_batches(self.means.lake.path / f.path, COUNT)
        )
        return replace(
            former,
            level=view.level,
            algorithm=view.algorithm,
            state=CURRENT,
            reason=None,
            changes=(*former.changes, *added),
            changed=self.number if added else former.changed,
            rows=former.rows + grown,
            vector=self.vector_of(view),
            session={
                "frame": self.number,
                "mode": "incremental" if added else "unchanged",
                "reason": "CHANGES" if added else "NO_CHANGES",
            },
        )

    def recomputed(self, view: View, reason: str, files: tuple[DataFile, ...], rows_in: int) -> Outcome:
        rows = sum(file.rows for file in files)
        self.states[view.name] = replace(
            without_files(view),
            state=CURRENT,
            base=files,
            settled=self.number,
            changed=self.number,
            rows=rows,
            vector=self.vector_of(view),
            session={"frame": self.number, "mode": "full", "reason": reason},
        )
        return Outcome("full", reason, view.algorithm, rows_in, rows)

    def stopped(self, view: View, former: ViewState | None, error: StillframeError) -> Outcome:
        reason = {"code": error.code, "message": error.message, "detail": error.detail, "hint": error.hint}
        stands = without_files(view) if former is None else former
        self.states[view.name] = replace(stands, state=STOPPED, reason=reason)
        return Outcome("stopped", error.code, view.algorithm, error=error)

    # -- the frame

    def frame(self) -> Frame:
        return Frame(
            self.number,
            0,
            datetime.now(UTC).isoformat(),
            self.all_states(),
            self.fixing.groups,
            self.fixing.waiting,
        )

    def published(self, frame: Frame) -> Frame:
        """On top of the frame this work began from. A settling that came between revised that frame, in
        other files of the same content: what was computed holds, on these files."""
        before = self.previous
        while True:
            try:
                return self.means.lake.publish(frame, before)
            except Busy:
                newest = self.means.lake.newest()
                if before is None or newest is None or newest.number != before.number:
                    raise
                frame, before = resting_on(frame, before, newest), newest

    def shown_alone(self, view: View, state: ViewState) -> None:
        """A frame in which one view goes forward, and the others stand as they did. The next one follows."""
        self.states = {view.name: state}
        self.previous = self.published(self.frame())
        self.number += 1
        self.states, self.changes = {}, {}

    def all_states(self) -> dict[str, ViewState]:
        """Views that were not asked for are held; a view whose definition is gone stays until dropped."""
        states = dict(self.states)
        for name, former in (self.previous.views if self.previous else {}).items():
            if name in states or self._is_left(name, former):
                continue
            if name in self.means.definitions.refused:
                first = self.means.definitions.refused[name][0]
                reason = {"code": first.code, "message": first.message, "hint": first.hint}
                states[name] = replace(former, state=STOPPED, reason=reason)
            else:
                states[name] = replace(former, state=HELD if former.state == CURRENT else former.state)
        return states

    def _is_left(self, name: str, former: ViewState) -> bool:
        """Whether it is a copy that no view reads any more. A view that is shown and refused by now may read
        it again."""
        known, shown = self.means.definitions, self.previous.views if self.previous else {}
        return former.owner == COPIES and name not in known.views and shown.keys().isdisjoint(known.refused)

    def shown_outcomes(self) -> dict[str, Outcome]:
        """Those of the views; what their parts read and took is theirs."""
        found = {name: o for name, o in self.outcomes.items() if not self.views[name].owner}
        for name, part in self.outcomes.items():
            owner = self.views[name].owner
            if owner in found:
                own = found[owner]
                reason = part.reason if own.reason == "UPSTREAM_FULL" and part.mode == "full" else own.reason
                found[owner] = replace(
                    own,
                    reason=reason,
                    detail=own.detail or part.detail,
                    rows_in=max(own.rows_in, part.rows_in),
                    seconds=own.seconds + part.seconds,
                    rows_read=own.rows_read + part.rows_read,
                )
        return found


def without_files(view: View) -> ViewState:
    """A view that has nothing in the lake."""
    return ViewState(
        table=view.name,
        schema=view.schema,
        definition=view.text.select,
        level=view.level,
        algorithm=view.algorithm,
        state=STOPPED,
        base=(),
        changes=(),
        settled=0,
        changed=0,
        rows=0,
        vector=None,
        owner=view.owner,
    )


def same(frame: Frame, other: Frame) -> bool:
    """Whether two frames show the same: content, vectors, states and what waits."""

    def shown(one: Frame) -> object:
        views = {name: replace(view, session={}) for name, view in one.views.items()}
        return views, one.groups, one.waiting

    return shown(frame) == shown(other)


def resting_on(frame: Frame, before: Frame, newest: Frame) -> Frame:
    """The frame that follows `before`, as it follows a revision of it."""
    views = dict(frame.views)
    for name, view in frame.views.items():
        then, now = before.views.get(name), newest.views.get(name)
        if then is None or now is None or (view.base, view.settled) != (then.base, then.settled):
            continue  # new, or recomputed
        changes = (*now.changes, *view.changes[len(then.changes) :])
        views[name] = replace(view, base=now.base, changes=changes, settled=now.settled)
    return replace(frame, views=views)
