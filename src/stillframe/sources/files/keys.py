"""A key that the project declares for exports is a promise of whoever writes them: here it is checked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from stillframe.algebra.types import Type
from stillframe.errors import SourceError
from stillframe.sources.files.csv import line_of

BAD_KEY = "BAD_KEY"


class KeyCheck:
    """Sees the key columns of all files, batch by batch; `finish` compares them."""

    def __init__(self, source: str, key: Sequence[str], types: Mapping[str, Type]) -> None:
        self._source = source
        self._key = tuple(key)
        self._types = types
        self._batches: list[pa.RecordBatch] = []
        self._rows: list[tuple[Path, int]] = []

    def add(self, path: Path, columns: Sequence[pa.Array]) -> None:
        if not self._key:
            return
        above = sum(rows for other, rows in self._rows if other == path)
        for name, column in zip(self._key, columns, strict=True):
            if column.null_count:
                row = above + pc.index(pc.is_null(column), True).as_py()
                raise self._error(f"key column {name!r} is NULL in {_where(path, row)}")
        batch = pa.RecordBatch.from_arrays(
            [_canonical(column, self._types[name]) for name, column in zip(self._key, columns, strict=True)],
            names=[str(i) for i in range(len(self._key))],
        )
        self._batches.append(batch)
        self._rows.append((path, batch.num_rows))

    def finish(self) -> None:
        if not self._batches:
            return
        table = pa.Table.from_batches(self._batches)
        counted = table.group_by(table.column_names).aggregate([([], "count_all")])
        repeated = counted.filter(pc.greater(counted.column("count_all"), 1))
        if not repeated.num_rows:
            return
        value = [repeated.column(name)[0] for name in table.column_names]
        same = pc.equal(table.column(0), value[0])
        for name, one in zip(table.column_names[1:], value[1:], strict=True):
            same = pc.and_(same, pc.equal(table.column(name), one))
        rows = pc.indices_nonzero(same)[:2].to_pylist() or [0]
        shown = ", ".join(f"{name} = {one.as_py()!s}" for name, one in zip(self._key, value, strict=True))
        raise self._error(
            f"the key {shown} is there {repeated.column('count_all')[0].as_py()} times",
            f"in {' and in '.join(self._place(row) for row in rows)}",
        )

    def _place(self, row: int) -> str:
        begins: dict[Path, int] = {}
        at = 0
        for path, rows in self._rows:
            begin = begins.setdefault(path, at)
            if row < at + rows:
                return _where(path, row - begin)
            at += rows
        return f"row {row + 1}"

    def _error(self, message: str, detail: str = "") -> SourceError:
        return SourceError(
            f"source {self._source!r}: {message}",
            detail=detail,
            hint="correct the export, or declare a key that its rows have (or none)",
            code=BAD_KEY,
        )


def _where(path: Path, row: int) -> str:
    place = line_of(path, row, {}) if path.suffix.lower() == ".csv" else f"row {row + 1}"
    return f"{place} of {path}"


def _canonical(column: pa.Array, type_: Type) -> pa.Array:
    """One spelling for equal values."""
    if type_.name != "DOUBLE":
        return column
    positive = pc.add(column, 0.0)
    return pc.if_else(pc.is_nan(positive), pa.scalar(float("nan")), positive)
