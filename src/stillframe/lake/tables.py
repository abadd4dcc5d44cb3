"""A view's Delta table: what engines other than Stillframe read.

It shows exactly the rows of one settled frame. Every step from one settled frame to the next, the first
one and one to another schema included, is a single commit on the very version it was decided on.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.transaction import AddAction, RemoveAction, create_table_with_add_actions

from stillframe.algebra.arrow import named_schema
from stillframe.errors import LakeError
from stillframe.lake.frame import DataFile, ViewState
from stillframe.lake.frames import APP, CHECKPOINT_EVERY
from stillframe.lake.layout import Layout


def settled_files(layout: Layout, table: str) -> frozenset[str]:
    handle = _open(layout.table(table))
    return frozenset(_shown(layout, table, handle)) if handle else frozenset()


def settled_frame(layout: Layout, table: str) -> int | None:
    handle = _open(layout.table(table))
    return handle.transaction_version(APP) if handle else None


def settle(layout: Layout, view: ViewState, still_wanted: Callable[[], bool]) -> bool:
    """Bring the table to exactly `view.base`; False if that is no longer wanted.

    `still_wanted` is asked after the table was opened, and the commit succeeds only on the version opened:
    so a table never goes back to what a slow process believed.
    """
    _refuse_ambiguous_columns(view)
    folder = layout.table(view.table)
    failed_at: int | None = None
    while True:
        handle = _open(folder)
        if not still_wanted():
            return False
        version = handle.version() if handle else -1
        shown = _shown(layout, view.table, handle) if handle else frozenset()
        schema = Schema.from_arrow(named_schema(view.schema))
        same_schema = handle is not None and handle.schema() == schema
        if same_schema and shown == {file.path for file in view.base}:
            return True
        try:
            if handle is None:
                _create(layout, view, schema)
            elif same_schema:
                _step(layout, view, handle, shown)
            else:
                _replace(layout, view, handle, schema, shown)
        except LakeError:
            raise
        except Exception as error:
            # Another process may have settled first; if none did, the failure is ours.
            if failed_at == version:
                raise LakeError(f"table {view.table} cannot be settled", detail=str(error)) from error
            failed_at = version


def _create(layout: Layout, view: ViewState, schema: Schema) -> None:
    create_table_with_add_actions(
        str(layout.table(view.table)),
        schema,
        _adds(layout, view, view.base),
        mode="error",
        configuration={"delta.checkpointInterval": str(CHECKPOINT_EVERY)},
        commit_properties=_properties(view),
    )


def _step(layout: Layout, view: ViewState, handle: DeltaTable, shown: frozenset[str]) -> None:
    wanted = {file.path for file in view.base}
    gone = sorted(shown - wanted)
    _touch(layout, gone)
    moment = int(datetime.now(UTC).timestamp() * 1000)
    removes = [RemoveAction(_inside(layout, view.table, path), True, moment) for path in gone]
    adds = _adds(layout, view, [file for file in view.base if file.path not in shown])
    handle.create_write_transaction(
        [*adds, *removes], "append", handle.schema(), commit_properties=_properties(view)
    )


def _replace(
    layout: Layout, view: ViewState, handle: DeltaTable, schema: Schema, shown: frozenset[str]
) -> None:
    """Another schema: all files of the former incarnation go, in the commit that brings the new ones."""
    if common := shown & {file.path for file in view.base}:
        raise LakeError(
            f"files of table {view.table} were written under another schema", detail=", ".join(sorted(common))
        )
    _touch(layout, shown)
    adds = _adds(layout, view, view.base)
    handle.create_write_transaction(adds, "overwrite", schema, commit_properties=_properties(view))


def _open(folder: Path) -> DeltaTable | None:
    return DeltaTable(str(folder)) if DeltaTable.is_deltatable(str(folder)) else None


def _shown(layout: Layout, table: str, handle: DeltaTable) -> frozenset[str]:
    """What the table shows, by paths as frames have them."""
    folder = layout.relative(layout.table(table))
    return frozenset(f"{folder}/{path}" for path in handle.get_add_actions()["path"].to_pylist())


def _adds(layout: Layout, view: ViewState, files: Sequence[DataFile]) -> list[AddAction]:
    # The log would take a file that is not there without a word.
    return [_add(layout, view.table, file) for file in files]


def _add(layout: Layout, table: str, file: DataFile) -> AddAction:
    path = layout.root / file.path
    try:
        status = path.stat()
    except FileNotFoundError as error:
        raise LakeError(f"a file of table {table} is missing", detail=file.path) from error
    if status.st_size != file.bytes:
        raise LakeError(
            f"a file of table {table} is not what was published",
            detail=f"{file.path}: {status.st_size} bytes instead of {file.bytes}",
        )
    statistics = json.dumps({"numRecords": file.rows})
    inside = _inside(layout, table, file.path)
    return AddAction(inside, status.st_size, {}, int(status.st_mtime * 1000), True, statistics)


def _inside(layout: Layout, table: str, path: str) -> str:
    folder = layout.relative(layout.table(table)) + "/"
    if not path.startswith(folder):
        raise LakeError(f"a file of table {table} lies outside its folder", detail=path)
    return path.removeprefix(folder)


def _touch(layout: Layout, paths: Sequence[str] | frozenset[str]) -> None:
    """A file's age counts from when a table last showed it: readers of other engines may still be at it."""
    for path in paths:
        if (layout.root / path).exists():
            os.utime(layout.root / path)


def _properties(view: ViewState) -> Any:
    return CommitProperties(
        custom_metadata={"stillframe.frame": str(view.settled)},
        max_commit_retries=0,
        app_transactions=[Transaction(APP, view.settled)],
    )


def _refuse_ambiguous_columns(view: ViewState) -> None:
    counts = Counter(name.lower() for name in view.schema.names)
    if ambiguous := [name for name in view.schema.names if counts[name.lower()] > 1]:
        raise LakeError(
            f"table {view.table} has columns that differ only in case",
            detail=", ".join(ambiguous),
            hint="rename one of them with AS; Delta tables tell columns apart without regard to case",
            code="AMBIGUOUS_COLUMNS",
        )
