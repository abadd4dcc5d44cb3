"""Rows of a view by the values of one column, read by the driver without a job of the engine.

Law: a row group whose column has no value between its least and its greatest that is looked for has none of
the rows; what the files' footers do not say may be anywhere. So the rows that are found are all there are,
and how much is read for them is known before anything is.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stillframe.algebra import Column, Schema, Type
from stillframe.algebra.arrow import COUNT, arrow_type, distinct, is_ordered, numbers, staged_schema
from stillframe.algebra.side_by_side import side_by_side
from stillframe.lake.frame import ViewState
from stillframe.lake.warm import WARM

MOST_READ = 500_000  # rows in the row groups that are read
MOST_FOUND = 50_000  # rows
MOST_LEAVING = 2_000_000  # rows of changes in which those that leave are looked for
MOST_WHOLE = 2_000  # rows of a view that is read whole
MOST_BYTES = 128 * 2**20
TEXT_BYTES = 24  # of a value that is a text, in the mean
ORDERED = (pa.types.is_integer, pa.types.is_date, pa.types.is_string)  # footers order them as Python does


@dataclass(frozen=True)
class Effort:
    """How many rows may be read to look for values, found by them, and read where all are; and how many bytes
    what is found or read may have, about. What is read may be `lasting`: worth more than one session."""

    read: int
    found: int
    whole: int
    lasting: bool = False
    bytes: int = MOST_BYTES

    def fits(self, rows: int, schema: Schema, positions: Collection[int]) -> bool:
        return rows * sum(_width(schema[i].type) for i in positions) <= self.bytes

    @classmethod
    def usual(cls) -> Effort:
        return cls(MOST_READ, MOST_FOUND, MOST_WHOLE)


@dataclass(frozen=True)
class Group:
    """One row group of a file: how many rows it has, and the bounds of each column, where it tells them."""

    rows: int
    bounds: dict[str, tuple[Any, Any]]


def look_up(
    root: Path,
    view: ViewState,
    positions: Sequence[int],
    column: int,
    values: pa.Array,
    effort: Effort | None = None,
) -> pa.Table | None:
    """The signed rows of a view's content whose `column` has one of the values, which are `in_order`: the
    columns at `positions` and their counts, under staged names. None where they are too many, or too much
    would have to be read."""
    effort = effort or Effort.usual()
    name = view.schema[column].name
    parts = [*((root / f.path, False) for f in view.base), *((root / f.path, True) for f in view.changes)]
    found = [(path, signed, _may_have(path, name, values)) for path, signed in parts]
    looked_at = [(path, signed, i, some) for path, signed, chosen in found for i, some in chosen.items()]
    if not _may_be_read([(path, i) for path, _, i, _ in looked_at], view.schema, positions, column, effort):
        return None
    rows = side_by_side(lambda one: _having(one[0], one[2], name, values[one[3]]), looked_at)
    found_rows = sum(map(len, rows))
    if found_rows > effort.found or not effort.fits(found_rows, view.schema, positions):
        return None
    wanted = staged_schema([view.schema[i].type for i in positions])
    names = [view.schema[i].name for i in positions]
    there = [
        (path, signed, i, at) for (path, signed, i, _), at in zip(looked_at, rows, strict=True) if len(at)
    ]
    tables = side_by_side(lambda one: _taken(one[0], one[2], _read(names, one[1]), one[3], wanted), there)
    return pa.concat_tables([wanted.empty_table(), *tables])


def _may_be_read(
    chosen: Sequence[tuple[Path, int]],
    schema: Schema,
    positions: Sequence[int],
    column: int,
    effort: Effort,
) -> bool:
    """Whether what of these row groups is not in memory is little enough. Where much is missing that there
    is room for, a process that goes on reads a part of it now, at least one row group, and finds all of it
    some sessions later."""
    names = [schema[i].name for i in positions]
    missing = [(path, i) for path, i in chosen if not WARM.has(path, i, names, schema[column].name)]
    rows = sum(groups(path)[i].rows for path, i in missing)
    if rows <= effort.read:
        return True
    width = sum(_width(schema[i].type) for i in {column, *positions})
    if effort.lasting and WARM.lasting and 2 * rows * width <= WARM.room:
        read, part = 0, list[tuple[Path, int]]()
        for path, i in missing:
            read += groups(path)[i].rows
            part += [(path, i)] if read <= effort.read or not part else []
        side_by_side(lambda one: _warmed(*one, names, schema[column]), part)
    return False


def _warmed(path: Path, group: int, names: Sequence[str], column: Column) -> None:
    with WARM.file(path) as file:
        file.columns(group, names)
        if is_ordered(arrow_type(column.type)):
            file.ordered(group, column.name)
        else:
            file.columns(group, [column.name])


def _width(type_: Type) -> int:
    """Bytes of a value in memory."""
    return 16 if type_.is_decimal else TEXT_BYTES if type_.name in ("STRING", "BINARY") else 8


def whole(
    root: Path, view: ViewState, positions: Sequence[int], effort: Effort | None = None
) -> pa.Table | None:
    """The same of all rows of a view, if it is small."""
    parts = [*((root / f.path, False) for f in view.base), *((root / f.path, True) for f in view.changes)]
    effort, rows = effort or Effort.usual(), sum(group.rows for path, _ in parts for group in groups(path))
    if rows > effort.whole or not effort.fits(rows, view.schema, positions):
        return None
    return _all(parts, view.schema, positions)


def change_rows(files: Sequence[Path], schema: Schema, positions: Sequence[int]) -> pa.Table:
    """The same of changes of a view, in files."""
    return _all([(path, True) for path in files], schema, positions)


def _all(parts: Sequence[tuple[Path, bool]], schema: Schema, positions: Sequence[int]) -> pa.Table:
    wanted = staged_schema([schema[i].type for i in positions])
    names = [schema[i].name for i in positions]
    tables = [wanted.empty_table()]
    for path, signed in parts:
        with WARM.file(path) as file:
            for i, group in enumerate(groups(path)):
                tables.append(_staged(file.columns(i, _read(names, signed)), group.rows, wanted))
    return pa.concat_tables(tables)


def losing(root: Path, view: ViewState) -> frozenset[str]:
    """The base files that may have a row which the view's changes take away; no other file has one."""
    every = frozenset(file.path for file in view.base)
    names = _telling(view)
    if not names or sum(file.rows for file in view.changes) > MOST_LEAVING:
        return every
    read = (pq.read_table(root / file.path, columns=[*names, COUNT]) for file in view.changes)
    leaving = [table.filter(pc.less(table.column(COUNT), 0)).select(names) for table in read]
    values = {
        name: pc.unique(pa.chunked_array([chunk for table in leaving for chunk in table.column(name).chunks]))
        for name in names
        if sum(table.num_rows for table in leaving)
    }
    return frozenset(path for path in every if values and _has_all(root / path, values))


def _telling(view: ViewState) -> list[str]:
    """Columns by which rows are told apart, of the types that are compared alike everywhere."""
    return [column.name for column in _least_key(view) or view.schema.columns if _is_alike(column)][:3]


def telling_key(view: ViewState) -> tuple[str, ...]:
    """The columns of a key, if all of them are of such types."""
    key = _least_key(view)
    return tuple(column.name for column in key) if all(map(_is_alike, key)) else ()


def _least_key(view: ViewState) -> list[Column]:
    return [view.schema[i] for i in sorted(view.schema.identity)]


def _is_alike(column: Column) -> bool:
    return any(is_a(arrow_type(column.type)) for is_a in ORDERED)


def _has_all(path: Path, values: Mapping[str, pa.Array]) -> bool:
    """Whether a file may have a row with one of the values in each of the columns."""
    chosen = set(range(len(groups(path))))
    for name, wanted in values.items():
        if not wanted.null_count:
            chosen &= _may_have(path, name, in_order(wanted)).keys()
    with pq.ParquetFile(path, memory_map=True) as file:
        for group in sorted(chosen):
            read = file.read_row_group(group, list(values))
            met = [pc.is_in(read.column(n), value_set=v.cast(read.column(n).type)) for n, v in values.items()]
            if pc.any(reduce(pc.and_, met)).as_py():
                return True
    return False


def _read(names: Sequence[str], signed: bool) -> list[str]:
    return [*names, *([COUNT] if signed else [])]


def _staged(read: Sequence[pa.Array], rows: int, wanted: pa.Schema) -> pa.Table:
    """Columns in order, with the counts last; where there are none, each row counts one."""
    if len(read) < len(wanted):
        read = [*read, pa.repeat(pa.scalar(1, pa.int64()), rows)]
    columns = [column.cast(wanted.field(i).type) for i, column in enumerate(read)]
    return pa.table(columns, schema=wanted)


@lru_cache(maxsize=4096)
def groups(path: Path) -> tuple[Group, ...]:
    """A file is written once, so what its footer says holds as long as it is there."""
    footer = pq.read_metadata(path)
    types = {field.name: field.type for field in footer.schema.to_arrow_schema()}
    found = []
    for i in range(footer.num_row_groups):
        group = footer.row_group(i)
        bounds = {}
        for j in range(group.num_columns):
            column = group.column(j)
            known = column.statistics
            type_ = types.get(column.path_in_schema)
            if known is not None and known.has_min_max and any(is_a(type_) for is_a in ORDERED if type_):
                bounds[column.path_in_schema] = (known.min, known.max)
        found.append(Group(group.num_rows, bounds))
    return tuple(found)


def in_order(values: pa.Array) -> pa.Array:
    """Each once, without NULL."""
    found = distinct(values)
    return found if is_ordered(found.type) else found.take(pc.array_sort_indices(found))


def _may_have(path: Path, name: str, looked_for: pa.Array) -> dict[int, slice]:
    """The row groups in which one of the values may be, and which of the values, which are in order."""

    def may_have(group: Group) -> slice:
        if name not in group.bounds:
            return slice(0, len(looked_for))
        least, greatest = group.bounds[name]
        begin = bisect_left(looked_for, least, key=_value)
        return slice(begin, bisect_right(looked_for, greatest, begin, key=_value))

    found = {i: may_have(group) for i, group in enumerate(groups(path))}
    return {i: some for i, some in found.items() if some.start < some.stop}


def _value(scalar: pa.Scalar) -> Any:
    return scalar.as_py()


def _having(path: Path, group: int, column: str, values: pa.Array) -> pa.Array:
    """The places of the rows of a row group that have one of the values."""
    with WARM.file(path) as file:
        if is_ordered(values.type):
            return pa.array(file.ordered(group, column).having(numbers(values)))
        [keys] = file.columns(group, [column])
    return pc.indices_nonzero(pc.is_in(keys, value_set=values.cast(keys.type)))


def _taken(path: Path, group: int, names: Sequence[str], places: pa.Array, wanted: pa.Schema) -> pa.Table:
    with WARM.file(path) as file:
        return _staged([found.take(places) for found in file.columns(group, names)], len(places), wanted)
