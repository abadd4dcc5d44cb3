"""Files of a keyed view written anew, without the rows that later changes take away: some files a task.

Law (`lake/reader.py`): where a key is one in every frame, a row that came is there until a later change takes
a row of its key away. So a file is rewritten by itself, given the keys that leave and when each left last; no
row meets another, nothing is shuffled, and rows stay in the order they were in. A task holds these keys and
`PART_ROWS` rows.

A task writes under a name of its own, which begins with a dot. Only what tasks that succeeded tell is given a
name that counts, so one that was lost, or ran twice, leaves nothing that is seen.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stillframe.algebra.arrow import COUNT, internal_name, is_ordered, numbers
from stillframe.algebra.side_by_side import side_by_side
from stillframe.engine.files import engine_errors, table_writer
from stillframe.engine.session import Engine
from stillframe.engine.shipping import ship

FILE_ROWS = 1_000_000  # of which a task writes one file, or the rows of one that has more
PART_ROWS = 500_000
GROUP_ROWS = 250_000
_PLACE, _ROW = "__place", "__row"


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
        numbers = engine.maintenance.range(0, len(tasks), 1, len(tasks))
        written = numbers.mapInArrow(task, "number BIGINT, name STRING").collect()
    for number, name in written:
        (folder / name).rename(folder / f"part-{number:05}.parquet")


def rewrite_here(rewriting: Rewriting, folder: Path) -> None:
    """The same in this process, which looks for the keys that leave once."""
    folder.mkdir(parents=True)
    leaving, tasks = Leaving(rewriting), rewriting.tasks()
    names = side_by_side(lambda parts: write(rewriting, leaving, parts, folder), tasks)
    for number, name in enumerate(names):
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


def _read(rewriting: Rewriting, parts: Iterable[Part]) -> Iterator[tuple[pa.Table, NDArray[np.int32]]]:
    """Rows that came, and the place of the change each came with; as many at a time as are looked up at
    once, so that few small changes are not looked up one by one."""
    tables, places, rows = list[pa.Table](), list[NDArray[np.int32]](), 0
    for part in parts:
        with pq.ParquetFile(part.path) as file:
            for batch in file.iter_batches(min(PART_ROWS, max(part.rows, 1))):
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


class Leaving:
    """The keys that changes take away, and the place of the last change that did. Integers and dates are
    looked for as one number, the key's place among all that lie between the least and the greatest of each
    column; other keys are joined."""

    def __init__(self, rewriting: Rewriting) -> None:
        self._key = list(rewriting.key)
        self._types = pa.schema([rewriting.schema.field(name) for name in rewriting.key])
        keys, places = [self._types.empty_table()], [np.empty(0, np.int32)]
        for part in sorted(rewriting.changes, key=lambda part: part.place):
            table = pq.read_table(part.path, columns=[*self._key, COUNT])
            leaving = table.filter(pc.less(table.column(COUNT), 0)).select(self._key)
            keys.append(leaving.cast(self._types))
            places.append(np.full(leaving.num_rows, part.place, np.int32))
        every, all_places = pa.concat_tables(keys), np.concatenate(places)
        self._ranges = _ranges(every)
        self._last: pa.Table | None = None
        if self._ranges is None:
            self._last = self._grouped(every, all_places)
            return
        marks, known = self._marks(every)
        marks, all_places = marks[known], all_places[known]
        order = np.argsort(marks, kind="stable")  # of equal keys, the last to leave is last
        marks, all_places = marks[order], all_places[order]
        last = np.append(marks[1:] != marks[:-1], True) if len(marks) else np.empty(0, bool)
        self._numbers, self._places = marks[last], all_places[last]

    def without(self, rows: pa.Table, places: NDArray[np.int32]) -> pa.Table:
        """The rows that no later change took away; they came with the changes at `places`. NULL is no key
        that anything leaves by."""
        stays = np.ones(rows.num_rows, dtype=bool)
        keys = rows.select(self._key)
        if self._last is not None:
            names = self._last.column_names[:-1]
            numbered = keys.rename_columns(names).append_column(_ROW, pa.array(np.arange(rows.num_rows)))
            met = numbered.join(self._last, keys=names, join_type="inner")
            gone, left = met.column(_ROW).to_numpy(), met.column(_PLACE).to_numpy()
        elif len(self._numbers):
            marks, known = self._marks(keys)
            at = np.minimum(np.searchsorted(self._numbers, marks), len(self._numbers) - 1)
            gone = np.flatnonzero(known & (self._numbers[at] == marks))
            left = self._places[at[gone]]
        else:
            return rows
        stays[gone[left > places[gone]]] = False
        return rows.filter(pa.array(stays))

    def _marks(self, keys: pa.Table) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Of each key its number, and whether it has one."""
        assert self._ranges is not None
        marks = np.zeros(keys.num_rows, dtype=np.int64)
        known = np.ones(keys.num_rows, dtype=bool)
        for column, (least, most) in zip(keys.columns, self._ranges, strict=True):
            if column.null_count:
                known &= column.is_valid().to_numpy()
            values = numbers(column.fill_null(pa.scalar(0, pa.int32()).cast(column.type)))
            known &= (values >= least) & (values <= most)
            marks *= most - least + 1
            marks += np.where(known, values, least) - least
        return marks, known

    def _grouped(self, keys: pa.Table, places: NDArray[np.int32]) -> pa.Table:
        names = [internal_name(i) for i in range(len(self._key))]
        numbered = keys.rename_columns(names).append_column(_PLACE, pa.array(places))
        last = numbered.group_by(names).aggregate([(_PLACE, "max")])
        return last.select([*names, f"{_PLACE}_max"]).rename_columns([*names, _PLACE])


def _ranges(keys: pa.Table) -> list[tuple[int, int]] | None:
    """The least and the greatest value of each column of integers or dates; None where others are among
    them, or a number for each key between would not fit."""
    if not all(is_ordered(column.type) for column in keys.columns):
        return None
    found, every = list[tuple[int, int]](), 1
    for column in keys.columns:
        values = numbers(column.drop_null())
        least, most = (int(values.min()), int(values.max())) if len(values) else (0, 0)
        found.append((least, most))
        every *= most - least + 1
    return found if every < 2**63 else None
