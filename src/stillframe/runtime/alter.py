"""Dropping and renaming a view: one frame in the lake, and one edit of the user's text.

The frame comes first: a text that is edited without its frame would make the next session compute the view
anew, while a frame without its edit is repaired by doing it again.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from stillframe.errors import ProjectError
from stillframe.lake.frame import Frame, ViewState
from stillframe.lake.storage import Storage
from stillframe.runtime.definitions import Definitions, unknown_view, view_files
from stillframe.sql import read_views
from stillframe.sql.rewrite import remove_view, rename_view


def drop(lake: Storage | None, definitions: Definitions, texts: Path, name: str) -> Frame | None:
    """Returns the frame without the view; None where no frame had it."""
    _refuse_if_read(definitions, name, "drop these first")
    frame = _frame_with(lake, definitions, name)
    published = None
    if lake is not None and frame is not None and name in frame.views:
        left = {other: view for other, view in frame.views.items() if name not in (other, view.owner)}
        published = _next(lake, frame, left)
    _edit_text(texts, name, None)
    return published


def rename(lake: Storage | None, definitions: Definitions, texts: Path, name: str, new: str) -> Frame | None:
    """Returns the frame in which the view has its new name; None where no frame had it."""
    _refuse_if_read(definitions, name, f"define {new} with the same query, let these read it, drop {name}")
    if not re.fullmatch(r"[A-Za-z_]\w*", new):
        raise ProjectError(f"{new!r} cannot name a view", hint="use letters, digits and _")
    frame = _frame_with(lake, definitions, name)
    taken = {*definitions.texts, *(frame.views if frame else ())} - {name}
    if new.lower() in {other.lower() for other in taken}:
        raise ProjectError(f"there is a view {new} already")
    published = None
    if lake is not None and frame is not None and name in frame.views:
        views: dict[str, ViewState] = {}
        moved: list[str] = []
        for other, view in frame.views.items():
            if name not in (other, view.owner):
                views[other] = view
                continue
            called = new + other.removeprefix(name)
            moved.append(called)
            copied = lake.copy_table_files(view.table, called, view)
            views[called] = replace(copied, table=called, owner=new if view.owner else "")
        published = _next(lake, frame, views)
        for called in moved:
            lake.settle(published.views[called])
    _edit_text(texts, name, new)
    return published


def _refuse_if_read(definitions: Definitions, name: str, hint: str) -> None:
    readers = definitions.dependants(name)
    if readers:
        raise ProjectError(f"view {name} is read by {', '.join(readers)}", hint=hint)


def _frame_with(lake: Storage | None, definitions: Definitions, name: str) -> Frame | None:
    """A view without a text is known by the frame alone; but its text may stand where nobody can read it."""
    frame = lake.newest() if lake else None
    known = {**definitions.texts, **(frame.shown if frame else {})}
    if name not in known:
        raise unknown_view(name, known, unreadable=definitions.unreadable)
    if name not in definitions.texts and definitions.unreadable:
        files = ", ".join(definitions.unreadable)
        raise ProjectError(
            f"the text of view {name} may be in {files}, which cannot be read",
            hint="mend it or remove it first",
        )
    return frame


def _next(lake: Storage, frame: Frame, views: Mapping[str, ViewState]) -> Frame:
    now = datetime.now(UTC).isoformat()
    return lake.publish(Frame(frame.number + 1, 0, now, views), frame)


def _edit_text(texts: Path, name: str, new: str | None) -> None:
    """Rename or remove one statement of a definitions file; the rest of the file stays as it is."""
    for path in view_files(texts):
        try:
            source = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            continue
        if any(text.name == name for text in read_views(source, path.name)[0]):
            edited = rename_view(source, name, new) if new else remove_view(source, name)
            if edited.strip():
                path.write_text(edited, encoding="utf-8")
            else:
                path.unlink()
            return
