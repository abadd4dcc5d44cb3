"""Rows out of the files of a snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from stillframe.algebra.arrow import COUNT, TAG, arrow_type, internal_name, staged_schema, tagged_schema
from stillframe.algebra.schema import Schema
from stillframe.algebra.types import Type
from stillframe.errors import CaptureGap
from stillframe.sources.base import Keys, Range
from stillframe.sources.snapshots.log import gap

BATCH_ROWS = 65_536
COUNTED_ROWS = 100_000

# Types whose equality and order Arrow and Spark agree on, value by value.
PUSHABLE = ("TINYINT", "SMALLINT", "INT", "BIGINT", "STRING", "DATE")


def part_batches(
    source: str,
    path: Path,
    schema: Schema,
    columns: Sequence[str],
    sign: int = 1,
    *,
    keys: Keys | None = None,
    within: Range | None = None,
    tag: int | None = None,
) -> Iterator[pa.RecordBatch]:
    """The rows of one file, whose columns are those of `schema`, each counted as `sign` says."""
    places = [schema.names.index(column) for column in columns]
    types = [schema[place].type for place in places]
    wanted = [internal_name(place) for place in places]
    staged = staged_schema(types) if tag is None else tagged_schema(types)
    for batch in _scanned(source, path, list(dict.fromkeys(wanted)), _condition(schema, keys, within)):
        arrays = [batch.column(name) for name in wanted]
        numbers = [sign] if tag is None else [sign, tag]
        for number in numbers:
            arrays.append(pa.repeat(pa.scalar(number, pa.int64()), batch.num_rows))
        yield pa.RecordBatch.from_arrays(arrays, schema=staged)


def _scanned(
    source: str, path: Path, names: list[str], condition: pc.Expression | None
) -> Iterator[pa.RecordBatch]:
    try:
        with path.open("rb") as file:  # what is open can be read to its end, whoever removes it
            fragment = ds.ParquetFileFormat().make_fragment(pa.PythonFile(file, "r"))
            scanner = fragment.scanner(
                columns=[*names, COUNT], filter=condition, batch_size=BATCH_ROWS, use_threads=False
            )
            for batch in scanner.to_batches():
                if batch.num_rows:
                    yield batch
    except (OSError, pa.ArrowException) as error:
        raise _unreadable(source, path, error) from error


def _unreadable(source: str, path: Path, error: Exception) -> CaptureGap:
    number = path.parent.name
    return gap(source, f"snapshot {number} was deleted or altered by hand", f"{path}: {error}")


def _condition(schema: Schema, keys: Keys | None, within: Range | None) -> pc.Expression | None:
    conditions = []
    if keys is not None:
        column = schema.position(keys.column)
        values = _as(keys.values, schema[column].type)
        if values is not None:
            conditions.append(ds.field(internal_name(column)).isin(values))
    if within is not None:
        column = schema.position(within.column)
        bounded = ds.field(internal_name(column))
        kind = arrow_type(schema[column].type)
        if within.above is not None:
            conditions.append(bounded > pa.scalar(within.above, kind))
        if within.upto is not None:
            conditions.append(bounded <= pa.scalar(within.upto, kind))
    if not conditions:
        return None
    both = conditions[0]
    for condition in conditions[1:]:
        both = both & condition
    return both


def _as(values: pa.Array, type_: Type) -> pa.Array | None:
    """The values as the column's type; None where some of them cannot be told so, and none are left out."""
    try:
        return pc.drop_null(values.cast(arrow_type(type_)))
    except pa.ArrowException:
        return None


def cuts(path: Path, column: int, rows: int) -> list[Any]:
    """Values of a key column that divide the file into stretches of about so many rows, in order."""
    values = pq.read_table(path, columns=[internal_name(column)]).column(0)
    ordered = values.take(pc.array_sort_indices(values.combine_chunks()))
    return [ordered[i].as_py() for i in range(rows - 1, len(ordered), rows)]


def key_ranges(path: Path, schema: Schema, rows: int) -> tuple[Range, ...]:
    """By the first key of one column whose order is everybody's; none where there is no such key."""
    single = sorted(min(key) for key in schema.keys if len(key) == 1)
    column = next((i for i in single if schema[i].type.name in PUSHABLE), None)
    if column is None:
        return ()
    bounds = [None, *cuts(path, column, max(rows, 1)), None]
    return tuple(Range(schema[column].name, *pair) for pair in pairwise(bounds))


def net_rows(before: Sequence[pa.RecordBatch], after: Sequence[pa.RecordBatch]) -> int:
    """How many signed rows are left when two states are compared."""
    table = pa.Table.from_batches([*before, *after])
    columns = [name for name in table.column_names if name not in (COUNT, TAG)]
    grouped = table.group_by(columns).aggregate([(COUNT, "sum")])
    return int(pc.sum(pc.abs(grouped.column(f"{COUNT}_sum"))).as_py() or 0)
