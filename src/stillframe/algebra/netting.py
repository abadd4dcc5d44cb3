"""Signed rows in columns, each row once with the sum of its counts.

Law: rows that differ in one column are two rows. So only those that agree with another in a number made of
some columns are compared in all; of a change these are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stillframe.algebra.arrow import COUNT
from stillframe.algebra.side_by_side import side_by_side

_MIXED = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits as many ones as zeros and in no pattern
_HALF = np.uint64(32)


def netted(table: pa.Table) -> pa.Table:
    """Rows that cancel are gone, so that no expression is evaluated on a row that neither state has."""
    columns = [name for name in table.column_names if name != COUNT]
    if not columns or all_one(table):
        return table
    alike = _may_be_alike([table.column(name) for name in columns], table.num_rows)
    if alike is None:
        return _there(_added_up(table, columns))
    if not alike.any():
        return _there(table)
    alone, others = _taken(table, np.flatnonzero(~alike)), _taken(table, np.flatnonzero(alike))
    return pa.concat_tables([_there(alone), _there(_added_up(others, columns))])


def _taken(table: pa.Table, rows: NDArray[np.int64]) -> pa.Table:
    places = pa.array(rows)
    columns = side_by_side(lambda column: column.take(places), table.columns)
    return pa.table(columns, schema=table.schema)


def _added_up(table: pa.Table, columns: Sequence[str]) -> pa.Table:
    grouped = table.group_by(columns).aggregate([(COUNT, "sum")])
    counts = grouped.column(f"{COUNT}_sum")
    return grouped.select(columns).append_column(table.schema.field(COUNT), counts).cast(table.schema)


def _there(table: pa.Table) -> pa.Table:
    counts = pc.not_equal(table.column(COUNT), 0)
    return table if pc.all(counts).as_py() else table.filter(counts)


def all_one(table: pa.Table) -> bool:
    """Whether each row counts one."""
    return bool(table.num_rows == 0 or pc.all(pc.equal(table.column(COUNT), 1)).as_py())


def _may_be_alike(columns: Sequence[pa.ChunkedArray], rows: int) -> NDArray[np.bool_] | None:
    """Of each row, whether there may be another like it; None where no column tells. Equal values give equal
    words; so do some that differ, NULL and 0 for one."""
    words = [word for column in columns for word in _words(column)]
    if not words:
        return None
    marks = np.zeros(rows, dtype=np.uint64)
    for word in words:
        marks = (marks ^ word) * _MIXED
        marks ^= marks >> _HALF
    order = np.argsort(marks)
    in_order = marks[order]
    same = in_order[1:] == in_order[:-1]
    alike = np.zeros(rows, dtype=bool)
    alike[order[1:][same]] = True
    alike[order[:-1][same]] = True
    return alike


def _words(column: pa.ChunkedArray) -> list[NDArray[np.uint64]]:
    """A column as numbers of 64 bits; none where equal values may have different bits, or no fixed width."""
    type_ = column.type
    if pa.types.is_decimal128(type_):
        column = column.fill_null(pa.scalar(Decimal(0), type_)) if column.null_count else column
        parts = [
            np.frombuffer(chunk.buffers()[1], np.uint64)[2 * chunk.offset : 2 * (chunk.offset + len(chunk))]
            for chunk in column.chunks
            if len(chunk)
        ]
        both = np.concatenate(parts) if parts else np.empty(0, np.uint64)
        return [both[0::2], both[1::2]] if type_.precision > 18 else [both[0::2]]
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        column = column.cast(pa.int64() if pa.types.is_timestamp(type_) else pa.int32())
    if not pa.types.is_integer(column.type):
        return []
    column = column.cast(pa.int64())
    column = column.fill_null(0) if column.null_count else column
    return [column.to_numpy().view(np.uint64)]
