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
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stillframe.algebra.arrow import COUNT, internal_name
from stillframe.engine.files import engine_errors
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
        for batch in batches:
            for number in batch.column(0).to_pylist():
                name = write(rewriting, tasks[number], folder)
                yield pa.RecordBatch.from_pydict({"number": [number], "name": [name]})

    with engine_errors():
        ship(engine)
        numbers = engine.maintenance.range(0, len(tasks), 1, len(tasks))
        written = numbers.mapInArrow(task, "number BIGINT, name STRING").collect()
    for number, name in written:
        (folder / name).rename(folder / f"part-{number:05}.parquet")


def write(rewriting: Rewriting, parts: Sequence[Part], folder: Path) -> str:
    """The rows of some parts that stay, as one file. Returns its name."""
    name = f".{uuid.uuid4().hex}.parquet"
    last = _last_left(rewriting)
    with pq.ParquetWriter(folder / name, rewriting.schema, store_decimal_as_integer=True) as file:
        for rows, places in _read(rewriting, parts):
            file.write_table(_staying(rows, places, last, rewriting), GROUP_ROWS)
    return name


def _read(rewriting: Rewriting, parts: Iterable[Part]) -> Iterator[tuple[pa.Table, pa.Array]]:
    """Rows that came, and the place of the change each came with; as many at a time as are looked up at
    once, so that few small changes are not looked up one by one."""
    tables, places, rows = list[pa.Table](), list[pa.Array](), 0
    for part in parts:
        with pq.ParquetFile(part.path) as file:
            for batch in file.iter_batches(min(PART_ROWS, max(part.rows, 1))):
                table = pa.Table.from_batches([batch])
                if part.place:
                    table = table.filter(pc.greater(table.column(COUNT), 0))
                tables.append(table.select(rewriting.schema.names).cast(rewriting.schema))
                places.append(pa.repeat(pa.scalar(part.place, pa.int32()), table.num_rows))
                rows += table.num_rows
                if rows >= PART_ROWS:
                    yield pa.concat_tables(tables), pa.concat_arrays(places)
                    tables, places, rows = [], [], 0
    if rows:
        yield pa.concat_tables(tables), pa.concat_arrays(places)


def _last_left(rewriting: Rewriting) -> pa.Table:
    """The keys that changes take away, each once, and the place of the last change that did."""
    names = _keys(rewriting)
    found = []
    for part in rewriting.changes:
        table = pq.read_table(part.path, columns=[*rewriting.key, COUNT])
        leaving = table.filter(pc.less(table.column(COUNT), 0)).select(list(rewriting.key))
        leaving = leaving.cast(pa.schema([rewriting.schema.field(name) for name in rewriting.key]))
        place = pa.repeat(pa.scalar(part.place, pa.int32()), leaving.num_rows)
        found.append(leaving.rename_columns(names).append_column(_PLACE, place))
    last = pa.concat_tables(found).group_by(names).aggregate([(_PLACE, "max")])
    return last.select([*names, f"{_PLACE}_max"]).rename_columns([*names, _PLACE])


def _staying(rows: pa.Table, places: pa.Array, last: pa.Table, rewriting: Rewriting) -> pa.Table:
    """NULL is no key that anything leaves by."""
    names = _keys(rewriting)
    keys = rows.select(list(rewriting.key)).rename_columns(names)
    keys = keys.append_column(_ROW, pa.array(np.arange(rows.num_rows)))
    met = keys.join(last, keys=names, join_type="inner")
    gone = met.column(_ROW).to_numpy()
    later = met.column(_PLACE).to_numpy() > places.to_numpy()[gone]
    stays = np.ones(rows.num_rows, dtype=bool)
    stays[gone[later]] = False
    return rows.filter(pa.array(stays))


def _keys(rewriting: Rewriting) -> list[str]:
    return [internal_name(i) for i in range(len(rewriting.key))]
