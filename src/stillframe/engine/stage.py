"""Staging: what a source answers becomes files once, before any plan uses it.

No lineage of the engine reaches back to a database: a task that is retried reads the same files again,
not another state of the source. A small answer is written by the driver, without a job; a large one is
read and written by a task of the engine.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from threading import get_ident

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stillframe.algebra.arrow import COUNT, internal_name, staged_schema
from stillframe.algebra.netting import all_one, netted
from stillframe.algebra.types import Type
from stillframe.engine.files import engine_errors, read_files, staged_struct, write_frame, write_query
from stillframe.engine.plan_sql import canonical_sql, consolidated_sql
from stillframe.engine.room import Room
from stillframe.engine.session import Engine
from stillframe.engine.shipping import ship
from stillframe.engine.volumes import fits
from stillframe.errors import SourceError

TASK_ROWS = 50_000  # that one task takes without delay
LITTLE = Room()  # where nobody says how much there is

Read = Callable[[], Iterator[pa.RecordBatch]]


@dataclass(frozen=True, eq=False)
class Staged:
    """Signed rows, in files or `held` by the driver; what it holds becomes a file in `folder` when files are
    asked for. Column c<i> holds the relation's column `positions[i]`. `plain` means that every count is one:
    the rows are a state, copy by copy. They are `small` if the driver may look at them."""

    written: tuple[Path, ...]
    positions: tuple[int, ...]
    types: tuple[Type, ...]
    rows: int
    plain: bool
    small: bool
    held: pa.Table | None = None
    folder: Path | None = None

    @cached_property
    def files(self) -> tuple[Path, ...]:
        if self.held is None or self.folder is None or not self.rows:
            return self.written
        self.folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(self.held, self.folder / "part-0.parquet")
        return (self.folder / "part-0.parquet",)

    def in_files(self) -> Staged:
        """The same, not held any longer."""
        return replace(self, written=self.files, held=None, folder=None)

    def is_net_in(self, positions: Sequence[int]) -> bool:
        """Whether rows that agree in these columns are known to be added up: what the driver holds is net."""
        return self.held is not None and set(positions) == set(self.positions)

    @property
    def bytes(self) -> int:
        if self.held is not None:
            return int(self.held.nbytes)
        return sum(path.stat().st_size for path in self.written)

    def table(self, positions: Sequence[int]) -> pa.Table:
        """Some columns and the counts, for the driver to look at."""
        places = [self.positions.index(i) for i in positions]
        names, types = [internal_name(i) for i in places], [self.types[i] for i in places]
        if self.held is None:
            return columns_of(self.written, names, types)
        return self.held.select([*names, COUNT]).rename_columns(staged_schema(types).names)

    def with_null(self) -> frozenset[int]:
        """The positions of columns in which NULL occurs."""
        if self.held is not None:
            return frozenset(p for i, p in enumerate(self.positions) if self.held.column(i).null_count)
        return frozenset(
            position
            for i, position in enumerate(self.positions)
            if any(_has_null(path, internal_name(i)) for path in self.files)
        )

    def any_true(self, position: int) -> bool:
        """Whether a column of truth values has a true one."""
        name = internal_name(self.positions.index(position))
        if self.held is not None:
            return bool(pc.any(self.held.column(name)).as_py())
        return any(
            pc.any(batch.column(0)).as_py() for path in self.files for batch in column_batches(path, name)
        )


def column_batches(path: Path, name: str) -> Iterator[pa.RecordBatch]:
    """One column of a file of any size, a part at a time."""
    with pq.ParquetFile(path) as file:
        yield from file.iter_batches(columns=[name])


def _has_null(path: Path, name: str) -> bool:
    """As the footer counts them; where it does not, by looking."""
    footer = pq.read_metadata(path)
    place = footer.schema.names.index(name)
    known = [footer.row_group(i).column(place).statistics for i in range(footer.num_row_groups)]
    if all(each is not None and each.has_null_count for each in known):
        return any(each.null_count for each in known)
    return any(batch.column(0).null_count for batch in column_batches(path, name))


def columns_of(files: Sequence[Path], names: Sequence[str], types: Sequence[Type]) -> pa.Table:
    """Some columns of signed rows in files, and their counts, under staged names."""
    wanted, read = staged_schema(types), [*names, COUNT]
    parts = [pq.read_table(path, columns=read).select(read).rename_columns(wanted.names) for path in files]
    return pa.concat_tables([wanted.empty_table(), *(part.cast(wanted) for part in parts)])


def staged_query(
    engine: Engine, sql: str, types: Sequence[Type], folder: Path, room: Room | None = None
) -> Staged:
    """The signed rows of a query, computed by the engine."""
    write_query(engine, sql, folder)
    # An engine that has no row to write may write nothing at all.
    found = folder.iterdir() if folder.is_dir() else ()
    files = tuple(sorted(p for p in found if p.suffix == ".parquet" and p.name[0] not in "._"))
    rows = sum(pq.read_metadata(path).num_rows for path in files)
    small = fits(files, rows, room or LITTLE)
    return Staged(
        files if rows else (), tuple(range(len(types))), tuple(types), rows, plain=False, small=small
    )


def stage(
    engine: Callable[[], Engine],
    read: Read,
    positions: Sequence[int],
    types: Sequence[Type],
    folder: Path,
    *,
    net: bool = False,
    once: bool = False,
    room: Room | None = None,
) -> Staged:
    """Run a read to its end and leave its rows in `folder`; the engine starts only if it is needed. Rows are
    `net` if those that cancel are gone, however many they are; few rows always are. What is read `once` is
    not begun again by a task where it is too much to hold: the driver writes it as it comes."""
    room = few = room or LITTLE
    if net and any(type_.name == "DOUBLE" for type_ in types):
        # Only the engine knows equal floats of two spellings.
        few = replace(room, rows=min(room.rows, TASK_ROWS))
    found, schema = read(), staged_schema(types)
    try:
        batches, is_all = _few(found, schema, few)
        if is_all:
            return staged_table(netted(pa.Table.from_batches(batches, schema)), positions, types, folder)
        if once and not net:
            return _read_on(chain(batches, found), positions, types, folder)
    finally:
        if isinstance(found, Generator):  # it holds nothing that the next read may have to wait for
            found.close()
    del batches
    if net:
        return _net_by_task(engine(), read, positions, types, folder, room)
    return staged_by_task(engine(), read, positions, types, folder)


def _few(found: Iterator[pa.RecordBatch], schema: pa.Schema, room: Room) -> tuple[list[pa.RecordBatch], bool]:
    """What is read at first, and whether it is all; a read of more than the driver should hold goes on."""
    batches, rows, size = [], 0, 0
    for batch in found:
        if batch.schema.types != schema.types:
            raise _retyped(batch.schema, schema)
        batches.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows > room.rows or size > room.bytes:
            return batches, False
    return batches, True


def _read_on(
    batches: Iterator[pa.RecordBatch], positions: Sequence[int], types: Sequence[Type], folder: Path
) -> Staged:
    """Written as they come."""
    folder.mkdir(parents=True)
    schema = staged_schema(types)
    with pq.ParquetWriter(folder / "part-0.parquet", schema) as file:
        for batch in batches:
            if batch.schema.types != schema.types:
                raise _retyped(batch.schema, schema)
            file.write_batch(pa.RecordBatch.from_arrays(batch.columns, schema=schema), TASK_ROWS)
    return _written(folder, positions, types)


def staged_table(table: pa.Table, positions: Sequence[int], types: Sequence[Type], folder: Path) -> Staged:
    """Net rows that the driver has, under staged names."""
    rows = table.num_rows
    return Staged((), tuple(positions), tuple(types), rows, all_one(table), True, table, folder)


def followed_by(first: Staged, rest: Staged, folder: Path, room: Room | None = None) -> Staged:
    """The changes of two intervals of which one begins where the other ends, as those of one."""
    if not first.rows or not rest.rows:
        return first if first.rows else rest
    room = room or LITTLE
    if first.small and rest.small and first.rows + rest.rows <= room.rows:
        both = pa.concat_tables([part.table(part.positions) for part in (first, rest)])
        if both.nbytes <= room.bytes:
            return staged_table(netted(both), first.positions, first.types, folder)
    files, rows = (*first.files, *rest.files), first.rows + rest.rows
    return Staged(files, first.positions, first.types, rows, first.plain and rest.plain, small=False)


def _retyped(found: pa.Schema, expected: pa.Schema) -> SourceError:
    differing = [
        f"{new} instead of {old}" for new, old in zip(found.types, expected.types, strict=False) if new != old
    ]
    return SourceError(
        "a column that a view reads is of another type than when the view was resolved",
        detail=", ".join(differing),
        hint="refresh again; with --full if it says the same",
        code="SCHEMA_CHANGED",
    )


def staged_by_task(
    engine: Engine, read: Read, positions: Sequence[int], types: Sequence[Type], folder: Path
) -> Staged:
    """A read that a task does, however small: the driver sees none of its rows."""

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            yield from read()

    with engine_errors():
        ship(engine)
        one = engine.maintenance.range(0, 1, 1, 1)
        write_frame(one.mapInArrow(task, staged_struct(types)), folder)
    return _written(folder, positions, types)


def _written(folder: Path, positions: Sequence[int], types: Sequence[Type]) -> Staged:
    there = folder.iterdir() if folder.exists() else ()  # not every engine makes a folder for no rows
    files = tuple(sorted(p for p in there if p.suffix == ".parquet" and p.name[0] not in "._"))
    footers = [pq.read_metadata(path) for path in files]
    return Staged(
        files,
        tuple(positions),
        tuple(types),
        sum(footer.num_rows for footer in footers),
        all(_counts_one(footer) for footer in footers),
        small=False,
    )


def _net_by_task(
    engine: Engine, read: Read, positions: Sequence[int], types: Sequence[Type], folder: Path, room: Room
) -> Staged:
    """What is read is compared by the engine; what is left of it may be few rows, which the driver keeps."""
    raw, net = folder / "raw", folder / "net"
    signed = staged_by_task(engine, read, positions, types, raw)
    with engine_errors():
        name = f"sf_net_{get_ident():x}"
        read_files(engine.maintenance, signed.files, staged_struct(types)).createOrReplaceTempView(name)
    rows = canonical_sql(f"SELECT * FROM {name}", types)
    write_query(engine, consolidated_sql(rows, len(types)), net)
    left = _written(net, positions, types)
    shutil.rmtree(raw)
    if not fits(left.files, left.rows, room):
        return left
    schema = staged_schema(types)
    table = pa.concat_tables([schema.empty_table(), *(_read_as(path, schema) for path in left.files)])
    return staged_table(table, positions, types, folder)


def _read_as(path: Path, schema: pa.Schema) -> pa.Table:
    return pq.read_table(path).cast(schema)


def counts_one(files: Sequence[Path]) -> bool:
    """Whether every row of these files is known to count one."""
    return all(_counts_one(pq.read_metadata(path)) for path in files)


def _counts_one(footer: pq.FileMetaData) -> bool:
    """Whether a file's statistics show that every count is one; what they do not show is not so."""
    place = footer.schema.names.index(COUNT)
    for group in range(footer.num_row_groups):
        statistics = footer.row_group(group).column(place).statistics
        if statistics is None or not statistics.has_min_max or (statistics.min, statistics.max) != (1, 1):
            return False
    return True
