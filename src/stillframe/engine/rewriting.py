"""Files of a keyed view written anew, without the rows that later changes take away: some files a task.

Law (`lake/reader.py`): where a key is one in every frame, a row that came is there until a later change takes
a row of its key away. So a file is rewritten by itself, given the keys that leave and when each left last; no
row meets another, nothing is shuffled, and rows stay in the order they were in. A task holds these keys, or
an array with places for them, and `PART_ROWS` rows.

A task writes under a name of its own, which begins with a dot. Only what tasks that succeeded tell is given a
name that counts, so one that was lost, or ran twice, leaves nothing that is seen.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from math import prod
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stillframe.algebra.arrow import COUNT, internal_name, is_ordered, numbers
from stillframe.engine.files import GROUP_ROWS, engine_errors, table_writer
from stillframe.engine.session import Engine
from stillframe.engine.shipping import ship

FILE_ROWS = 1_000_000  # of which a task writes one file, or the rows of one that has more
PART_ROWS = 500_000
THREADS = 2  # of the driver
DENSE, MOST_PLACES = 32, 2**26  # places in an array, for each key, and at the most
_PLACE, _ROW = "__place", "__row"

Numbers = NDArray[np.int64]
Places = NDArray[np.int32]


@dataclass(frozen=True)
class Part:
    """A file and when its rows came: 0 for plain rows, then 1 for those of the oldest change, and so on."""

    path: Path
    rows: int
    place: int


@dataclass(frozen=True)
class Rewriting:
    """The files of a view that are written anew, all its changes among them."""

    parts: tuple[Part, ...]
    schema: pa.Schema
    key: tuple[str, ...]

    @property
    def changes(self) -> tuple[Part, ...]:
        return tuple(part for part in self.parts if part.place)

    def tasks(self) -> list[list[Part]]:
        """Parts that are written to one file, in order."""
        found: list[list[Part]] = []
        rows = FILE_ROWS
        for part in self.parts:
            if rows + part.rows > FILE_ROWS:
                found.append([])
                rows = 0
            found[-1].append(part)
            rows += part.rows
        return found


def rewrite(engine: Engine, rewriting: Rewriting, folder: Path) -> None:
    """Leave the rows that stay in a folder, which is made for them."""
    folder.mkdir(parents=True)
    tasks = rewriting.tasks()

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        leaving = Leaving(rewriting)
        for batch in batches:
            for number in batch.column(0).to_pylist():
                name = write(rewriting, leaving, tasks[number], folder)
                yield pa.RecordBatch.from_pydict({"number": [number], "name": [name]})

    with engine_errors():
        ship(engine)
        one_each = engine.maintenance.range(0, len(tasks), 1, len(tasks))
        written = one_each.mapInArrow(task, "number BIGINT, name STRING").collect()
    for number, name in written:
        (folder / name).rename(folder / f"part-{number:05}.parquet")


def rewrite_here(rewriting: Rewriting, folder: Path) -> None:
    """The same in this process, which looks for the keys that leave once; in threads of its own, so that
    sessions do not wait for it."""
    folder.mkdir(parents=True)
    leaving = Leaving(rewriting)
    with ThreadPoolExecutor(THREADS, thread_name_prefix="stillframe-rewriting") as pool:
        names = pool.map(lambda parts: write(rewriting, leaving, parts, folder), rewriting.tasks())
        written = list(names)
    for number, name in enumerate(written):
        (folder / name).rename(folder / f"part-{number:05}.parquet")


def write(rewriting: Rewriting, leaving: Leaving, parts: Sequence[Part], folder: Path) -> str:
    """The rows of some parts that stay, as one file. Returns its name."""
    name = f".{uuid.uuid4().hex}.parquet"
    with ExitStack() as opened:
        file: pq.ParquetWriter | None = None
        for rows, places in _read(rewriting, parts):
            if file is None:
                file = opened.enter_context(table_writer(folder / name, rewriting.schema, rows))
            file.write_table(leaving.without(rows, places), GROUP_ROWS)
        if file is None:
            opened.enter_context(pq.ParquetWriter(folder / name, rewriting.schema))
    return name


def _read(rewriting: Rewriting, parts: Iterable[Part]) -> Iterator[tuple[pa.Table, Places]]:
    """Rows that came, and the place of the change each came with; as many at a time as are looked up at
    once, so that few small changes are not looked up one by one."""
    tables, places, rows = list[pa.Table](), list[Places](), 0
    for part in parts:
        with pq.ParquetFile(part.path) as file:
            some = _groups(file, coming=True) if part.place else range(file.num_row_groups)
            for batch in file.iter_batches(min(PART_ROWS, max(part.rows, 1)), row_groups=some):
                table = pa.Table.from_batches([batch])
                if part.place:
                    table = table.filter(pc.greater(table.column(COUNT), 0))
                tables.append(table.select(rewriting.schema.names).cast(rewriting.schema))
                places.append(np.full(table.num_rows, part.place, np.int32))
                rows += table.num_rows
                if rows >= PART_ROWS:
                    yield pa.concat_tables(tables), np.concatenate(places)
                    tables, places, rows = [], [], 0
    if rows:
        yield pa.concat_tables(tables), np.concatenate(places)


def _groups(file: pq.ParquetFile, *, coming: bool) -> list[int]:
    """The row groups of a change in which a row may be that comes; or one that leaves."""
    place, found = file.schema_arrow.names.index(COUNT), []
    for i in range(file.num_row_groups):
        known = file.metadata.row_group(i).column(place).statistics
        if known is None or not known.has_min_max or (known.max > 0 if coming else known.min < 0):
            found.append(i)
    return found


LeftAt = Callable[[pa.Table], Places]  # of keys, the place of the last change that took each away, or 0


class Leaving:
    """The keys that changes take away. NULL is no key that anything leaves by."""

    def __init__(self, rewriting: Rewriting) -> None:
        self._key = list(rewriting.key)
        types = pa.schema([rewriting.schema.field(name) for name in rewriting.key])
        keys, places = [types.empty_table()], [np.empty(0, np.int32)]
        for part in sorted(rewriting.changes, key=lambda part: part.place):
            with pq.ParquetFile(part.path) as file:
                table = file.read_row_groups(_groups(file, coming=False), [*self._key, COUNT])
            leaving = table.filter(pc.less(table.column(COUNT), 0)).select(self._key)
            keys.append(leaving.cast(types))
            places.append(np.full(leaving.num_rows, part.place, np.int32))
        self._left_at = _left_at(pa.concat_tables(keys), np.concatenate(places))

    def without(self, rows: pa.Table, places: Places) -> pa.Table:
        """The rows that no later change took away; they came with the changes at `places`."""
        return rows.filter(pa.array(self._left_at(rows.select(self._key)) <= places))


def _left_at(keys: pa.Table, places: Places) -> LeftAt:
    """Keys of integers and dates are one number each. Places ascend, and the last of equal keys counts."""
    numbered = _Numbered.of(keys)
    if numbered is None:
        return _by_join(keys, places)
    marks, known = numbered.marks(keys)
    marks, places = marks[known], places[known]
    by_number = _in_array if numbered.most <= min(DENSE * len(marks), MOST_PLACES) else _by_search
    found = by_number(marks, places, numbered.most)

    def left_at(rows: pa.Table) -> Places:
        marks, known = numbered.marks(rows)
        return np.where(known, found(marks), 0)

    return left_at


def _in_array(marks: Numbers, places: Places, most: int) -> Callable[[Numbers], Places]:
    left = np.frombuffer(pa.allocate_buffer(4 * most), np.int32)  # of memory that Arrow keeps
    left.fill(0)
    left[marks] = places
    return lambda wanted: left[wanted]


def _by_search(marks: Numbers, places: Places, _most: int) -> Callable[[Numbers], Places]:
    order = np.argsort(marks, kind="stable")
    marks, places = marks[order], places[order]
    last = np.append(marks[1:] != marks[:-1], True)[: len(marks)]
    marks, places = np.append(marks[last], -1), np.append(places[last], np.int32(0))

    def found(wanted: Numbers) -> Places:
        at = np.searchsorted(marks[:-1], wanted)
        return np.where(marks[at] == wanted, places[at], 0)

    return found


def _by_join(keys: pa.Table, places: Places) -> LeftAt:
    names = [internal_name(i) for i in range(keys.num_columns)]
    numbered = keys.rename_columns(names).append_column(_PLACE, pa.array(places))
    grouped = numbered.group_by(names).aggregate([(_PLACE, "max")])
    last = grouped.select([*names, f"{_PLACE}_max"]).rename_columns([*names, _PLACE])

    def left_at(rows: pa.Table) -> Places:
        wanted = rows.rename_columns(names).append_column(_ROW, pa.array(np.arange(rows.num_rows)))
        met = wanted.join(last, keys=names, join_type="inner")
        found = np.zeros(rows.num_rows, np.int32)
        found[met.column(_ROW).to_numpy()] = met.column(_PLACE).to_numpy()
        return found

    return left_at


@dataclass(frozen=True)
class _Numbered:
    """Keys as their places among all that lie between the least and the greatest of each column."""

    ranges: tuple[tuple[int, int], ...]

    @property
    def most(self) -> int:
        return prod(most - least + 1 for least, most in self.ranges)

    @classmethod
    def of(cls, keys: pa.Table) -> _Numbered | None:
        """None where others than integers and dates are among them, or a number of 64 bits is too small."""
        if not all(is_ordered(column.type) for column in keys.columns):
            return None
        known = [numbers(column.drop_null()) for column in keys.columns]
        found = cls(tuple((int(v.min()), int(v.max())) if len(v) else (0, 0) for v in known))
        return found if found.most < 2**63 else None

    def marks(self, keys: pa.Table) -> tuple[Numbers, NDArray[np.bool_]]:
        """Of each key its number, and whether it has one; where not, any."""
        marks = np.zeros(keys.num_rows, dtype=np.int64)
        known = np.ones(keys.num_rows, dtype=bool)
        for column, (least, most) in zip(keys.columns, self.ranges, strict=True):
            if column.null_count:
                known &= column.is_valid().to_numpy()
            values = numbers(column.fill_null(pa.scalar(0, pa.int32()).cast(column.type)))
            known &= (values >= least) & (values <= most)
            marks *= most - least + 1
            marks += np.where(known, values, least) - least
        return marks, known
