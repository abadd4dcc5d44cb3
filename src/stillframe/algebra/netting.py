"""Signed rows in columns, each row once with the sum of its counts.

Law: rows that differ in one column are two rows. So only those that agree with another in a number made of
some columns are compared in all, with the one beside them; of a change these are few.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stillframe.algebra.arrow import COUNT
from stillframe.algebra.side_by_side import cores, side_by_side

_MIXED = np.uint64(0x9E3779B97F4A7C15)  # odd, its bits as many ones as zeros and in no pattern
_HALF = np.uint64(32)
_MANY = 50_000  # rows that are compared in parts, side by side
_WORD = np.uint64(8)  # bytes


def netted(table: pa.Table) -> pa.Table:
    """Rows that cancel are gone, so that no expression is evaluated on a row that neither state has. If some
    did, rows that come are before those that leave, most of them."""
    columns = [name for name in table.column_names if name != COUNT]
    if not columns or all_one(table):
        return table
    values = [table.column(name) for name in columns]
    marks = _marks(values, table.num_rows)
    if marks is None:
        return _there(_added_up(table, columns))
    counts = table.column(COUNT).to_numpy().copy()
    parts = np.uint64(cores() if table.num_rows >= _MANY else 1)
    part = (marks >> _HALF) % parts  # equal marks are in one
    rows = [np.flatnonzero(part == i) for i in range(int(parts))]
    others = np.concatenate(side_by_side(lambda some: _runs_added_up(values, marks, counts, some), rows))
    if not len(others) and counts.all():
        return table
    kept = [counts > 0, counts < 0]
    masks = [pa.array(rows) for rows in kept]

    def apart(column: pa.ChunkedArray) -> pa.ChunkedArray:
        return pa.chunked_array([c for mask in masks for c in column.filter(mask).chunks], column.type)

    by_name = dict(zip(columns, side_by_side(apart, values), strict=True))
    by_name[COUNT] = pa.chunked_array([pa.array(counts[rows]) for rows in kept])
    one_each = pa.table([by_name[name] for name in table.column_names], schema=table.schema)
    if not len(others):
        return one_each
    return pa.concat_tables([one_each, _there(_added_up(_taken(table, others), columns))])


def _runs_added_up(
    columns: Sequence[pa.ChunkedArray],
    marks: NDArray[np.uint64],
    counts: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> NDArray[np.int64]:
    """Leave the sum of a run of one mark, all of whose rows are equal, at its first row, and no count at the
    others. Of runs in which a row differs from the one before it, no row is left a count, and all of them are
    returned: they have to be compared each with each.

    Marks lose as many bits as row numbers have, which are put there: numbers alone are sorted sooner."""
    bits = np.uint64(len(rows).bit_length())
    numbered = marks[rows] >> bits << bits | np.arange(len(rows), dtype=np.uint64)
    numbered.sort()
    in_order = numbered >> bits
    rows = rows[(numbered ^ (in_order << bits)).astype(np.int64)]
    follows = np.zeros(len(rows), dtype=bool)  # of each row, whether it has the mark of the one before it
    follows[1:] = in_order[1:] == in_order[:-1]
    if not follows.any():
        return np.empty(0, np.int64)
    in_runs = follows.copy()
    in_runs[:-1] |= follows[1:]
    rows, begins = rows[in_runs], ~follows[in_runs]
    firsts, later = np.flatnonzero(begins), np.flatnonzero(~begins)
    runs = np.cumsum(begins) - 1
    differs = np.zeros(len(firsts), dtype=bool)
    differs[runs[later[~_equal(columns, rows[later - 1], rows[later])]]] = True
    sums = np.add.reduceat(counts[rows], firsts)
    counts[rows] = 0
    counts[rows[firsts]] = np.where(differs, 0, sums)
    return np.asarray(rows[differs[runs]])


def _equal(
    columns: Sequence[pa.ChunkedArray], here: NDArray[np.int64], there: NDArray[np.int64]
) -> NDArray[np.bool_]:
    """Of rows, here and there, whether they agree in all columns; of floats, which have two spellings of zero
    and a value that equals nothing, nobody says so."""
    if not _are_compared(columns):
        return np.zeros(len(here), dtype=bool)
    left, right = pa.array(here), pa.array(there)

    def agree(column: pa.ChunkedArray) -> NDArray[np.bool_]:
        one, other = column.take(left), column.take(right)
        same = pc.fill_null(pc.equal(one, other), False)
        if column.null_count:
            same = pc.or_(same, pc.and_(pc.is_null(one), pc.is_null(other)))
        return np.asarray(same.to_numpy())

    return np.asarray(np.logical_and.reduce(side_by_side(agree, columns)))


def _are_compared(columns: Sequence[pa.ChunkedArray]) -> bool:
    return not any(pa.types.is_floating(c.type) or pa.types.is_nested(c.type) for c in columns)


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


def _marks(columns: Sequence[pa.ChunkedArray], rows: int) -> NDArray[np.uint64] | None:
    """Of each row a number, the same for rows that are alike; None where no column tells. Equal values give
    equal words; so do some that differ, NULL and 0 for one."""
    words = [word for found in side_by_side(_words, columns) for word in found]
    if not words:
        return None
    marks = np.zeros(rows, dtype=np.uint64)
    size = -(-rows // cores())

    def mix(begin: int) -> None:
        mine = marks[begin : begin + size]
        for word in words:
            mine ^= word[begin : begin + size]
            mine *= _MIXED
            mine ^= mine >> _HALF

    side_by_side(mix, range(0, rows, size))
    return marks


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
        halves = (0, 1) if type_.precision > 18 else (0,)
        return [np.concatenate([np.empty(0, np.uint64), *(part[i::2] for part in parts)]) for i in halves]
    if pa.types.is_string(type_):
        return [_ends(column)]
    if pa.types.is_timestamp(type_) or pa.types.is_date32(type_):
        column = column.cast(pa.int64() if pa.types.is_timestamp(type_) else pa.int32())
    if not pa.types.is_integer(column.type):
        return []
    column = column.cast(pa.int64())
    column = column.fill_null(0) if column.null_count else column
    return [column.to_numpy().view(np.uint64)]


def _ends(texts: pa.ChunkedArray) -> NDArray[np.uint64]:
    """Of texts the last eight bytes, and the length: what tells most of them apart."""
    return np.concatenate([np.empty(0, np.uint64), *map(_ends_of, texts.chunks)])


def _ends_of(texts: pa.Array) -> NDArray[np.uint64]:
    _, offsets, data = texts.buffers()
    if not data or not len(texts):  # no bytes; and of no texts there may be no bounds
        return np.zeros(len(texts), np.uint64)
    bounds = np.frombuffer(offsets, np.int32)[texts.offset : texts.offset + len(texts) + 1]
    read = np.frombuffer(data, np.uint8)[bounds[0] : bounds[-1]]
    padded = np.concatenate([np.zeros(_WORD, np.uint8), read])
    ending_at = np.ndarray(len(read) + 1, "<u8", padded, strides=(1,))
    lengths = np.diff(bounds).astype(np.uint64)
    before = 8 * (_WORD - np.minimum(lengths, _WORD))  # bits of the text before it
    ends = (ending_at[bounds[1:] - bounds[0]] >> before) ^ (lengths << _HALF)
    return np.where(texts.is_valid().to_numpy(zero_copy_only=False), ends, 0) if texts.null_count else ends
