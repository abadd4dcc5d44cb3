"""Rows of a view by the values of one column, read by the driver without a job of the engine.

Law: a row group whose column has no value between its least and its greatest that is looked for has none of
the rows; what the files' footers do not say may be anywhere. So the rows that are found are all there are,
and how much is read for them is known before anything is.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stillframe.algebra.arrow import COUNT, arrow_type, staged_schema
from stillframe.lake.frame import ViewState

MOST_READ = 500_000  # rows in the row groups that are read
MOST_FOUND = 50_000  # rows
MOST_LEAVING = 2_000_000  # rows of changes in which those that leave are looked for
MOST_WHOLE = 2_000  # rows of a view that is read whole
AT_ONCE = 1_000_000  # rows whose column is held in memory while they are looked through
SMALL_FILE = 10_000  # rows of a file that is kept in memory
ORDERED = (pa.types.is_integer, pa.types.is_date, pa.types.is_string)  # footers order them as Python does


@dataclass(frozen=True)
class Effort:
    """How many rows may be looked through, found by their values, and read where all are."""

    read: int
    found: int
    whole: int

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
    """The signed rows of a view's content whose `column` has one of the values: the columns at `positions`
    and their counts, under staged names. None where they are too many, or too much would have to be read."""
    effort = effort or Effort.usual()
    name = view.schema[column].name
    parts = [*((root / f.path, False) for f in view.base), *((root / f.path, True) for f in view.changes)]
    looked_for = sorted(values.to_pylist())
    found = [(path, signed, _may_have(path, name, looked_for)) for path, signed in parts]
    if sum(groups(path)[i].rows for path, _, chosen in found for i in chosen) > effort.read:
        return None
    wanted = staged_schema([view.schema[i].type for i in positions])
    names = [view.schema[i].name for i in positions]
    tables, rows = list[pa.Table](), 0
    for path, signed, chosen in found:
        for table in _rows(path, chosen, names, name, values, wanted, signed=signed):
            tables.append(table)
            rows += table.num_rows
            if rows > effort.found:
                return None
    return pa.concat_tables([wanted.empty_table(), *tables])


def whole(
    root: Path, view: ViewState, positions: Sequence[int], effort: Effort | None = None
) -> pa.Table | None:
    """The same of all rows of a view, if it is small."""
    parts = [*((root / f.path, False) for f in view.base), *((root / f.path, True) for f in view.changes)]
    if sum(group.rows for path, _ in parts for group in groups(path)) > (effort or Effort.usual()).whole:
        return None
    wanted = staged_schema([view.schema[i].type for i in positions])
    names = [view.schema[i].name for i in positions]
    rows = (_staged(_whole_file(path, names, signed), names, wanted, signed) for path, signed in parts)
    return pa.concat_tables([wanted.empty_table(), *rows])


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
    key = min(view.schema.keys, key=lambda k: (len(k), sorted(k)), default=range(len(view.schema)))
    columns = [view.schema[i] for i in sorted(key)]
    found = [column.name for column in columns if any(is_a(arrow_type(column.type)) for is_a in ORDERED)]
    return found[:3]


def _has_all(path: Path, values: Mapping[str, pa.Array]) -> bool:
    """Whether a file may have a row with one of the values in each of the columns."""
    chosen = set(range(len(groups(path))))
    for name, wanted in values.items():
        if not wanted.null_count:
            chosen &= set(_may_have(path, name, sorted(wanted.to_pylist())))
    with pq.ParquetFile(path, memory_map=True) as file:
        for group in sorted(chosen):
            read = file.read_row_group(group, list(values))
            met = [pc.is_in(read.column(n), value_set=v.cast(read.column(n).type)) for n, v in values.items()]
            if pc.any(reduce(pc.and_, met)).as_py():
                return True
    return False


def _staged(read: pa.Table, names: Sequence[str], wanted: pa.Schema, signed: bool) -> pa.Table:
    columns = [read.column(name).cast(wanted.field(i).type) for i, name in enumerate(names)]
    counts = read.column(COUNT) if signed else pa.array([1] * read.num_rows, pa.int64())
    return pa.table([*columns, counts], schema=wanted)


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


def _is_small(path: Path) -> bool:
    return sum(group.rows for group in groups(path)) <= SMALL_FILE


def _whole_file(path: Path, names: Sequence[str], signed: bool) -> pa.Table:
    if _is_small(path):
        return _small_file(path)
    return pq.read_table(path, columns=[*names, *([COUNT] if signed else [])])


@lru_cache(maxsize=64)
def _small_file(path: Path) -> pa.Table:
    """Small files are read in every session: copies of small relations, and the latest changes of all."""
    return pq.ParquetFile(path).read()


def _may_have(path: Path, name: str, looked_for: Sequence[Any]) -> list[int]:
    """The row groups in which one of the values, in order, may be."""

    def may_have(group: Group) -> bool:
        if name not in group.bounds:
            return bool(looked_for)
        least, greatest = group.bounds[name]
        place = bisect_left(looked_for, least)
        return place < len(looked_for) and bool(looked_for[place] <= greatest)

    return [i for i, group in enumerate(groups(path)) if may_have(group)]


def _rows(
    path: Path,
    chosen: Sequence[int],
    names: Sequence[str],
    column: str,
    values: pa.Array,
    wanted: pa.Schema,
    *,
    signed: bool,
) -> Iterator[pa.Table]:
    """Of each row group the column first; the others where there is something to find."""
    if not chosen:
        return
    if _is_small(path):
        small = _small_file(path)
        keys = small.column(column)
        yield _staged(small.filter(pc.is_in(keys, value_set=values.cast(keys.type))), names, wanted, signed)
        return
    with pq.ParquetFile(path, memory_map=True) as file:
        for some in _at_once(path, chosen):
            keys = file.read_row_groups(some, [column]).column(0)
            met = pc.is_in(keys, value_set=values.cast(keys.type))
            begin = 0
            for group in some:
                here = met.slice(begin, groups(path)[group].rows)
                begin += len(here)
                if not pc.any(here).as_py():
                    continue
                read = file.read_row_group(group, [*names, *([COUNT] if signed else [])]).filter(here)
                yield _staged(read, names, wanted, signed)


def _at_once(path: Path, chosen: Sequence[int]) -> Iterator[list[int]]:
    """Row groups of which one column is read at once."""
    some, rows = list[int](), 0
    for group in chosen:
        rows += groups(path)[group].rows
        if some and rows > AT_ONCE:
            yield some
            some, rows = [], groups(path)[group].rows
        some.append(group)
    yield some
