"""Types and schemas as Arrow has them, and the column names of staged files.

A staged file has generated column names c0, c1, … (users' names may differ only in case, which Spark
cannot tell apart) and the signed multiplicity of each row in `COUNT`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from stillframe.algebra.schema import Schema
from stillframe.algebra.types import Type

COUNT = "__count"
TAG = "__transaction"
SAMPLE_ROWS = 2_000
DENSE, MOST_PLACES = 16, 2**26  # numbers from the least to the greatest, for each of some, and at the most

_ARROW = {
    "BOOLEAN": pa.bool_(),
    "TINYINT": pa.int8(),
    "SMALLINT": pa.int16(),
    "INT": pa.int32(),
    "BIGINT": pa.int64(),
    "DOUBLE": pa.float64(),
    "STRING": pa.string(),
    "BINARY": pa.binary(),
    "DATE": pa.date32(),
    "TIMESTAMP": pa.timestamp("us", tz="UTC"),
}


def arrow_type(type_: Type) -> pa.DataType:
    if type_.is_decimal:
        return pa.decimal128(type_.precision, type_.scale)
    return _ARROW[type_.name]


def keys_as(values: pa.Array, type_: Type) -> pa.Array:
    """Values to look for in a column of this type: integers that it cannot hold are not there."""
    wanted = arrow_type(type_)
    if values.type == wanted or not (pa.types.is_integer(values.type) and pa.types.is_integer(wanted)):
        return values
    half = 2 ** (wanted.bit_width - 1)
    if wanted.bit_width < values.type.bit_width:
        values = values.filter(pc.and_(pc.greater_equal(values, -half), pc.less(values, half)))
    return values.cast(wanted)


def one_array(column: pa.ChunkedArray) -> pa.Array:
    """A column in one piece."""
    found = column.combine_chunks()
    return found if isinstance(found, pa.Array) else pa.concat_arrays(found.chunks)


def internal_name(position: int) -> str:
    return f"c{position}"


def staged_schema(types: Sequence[Type]) -> pa.Schema:
    """Columns c0, c1, … of the given types, then the signed count."""
    fields = [pa.field(internal_name(i), arrow_type(t)) for i, t in enumerate(types)]
    return pa.schema([*fields, pa.field(COUNT, pa.int64(), nullable=False)])


def tagged_schema(types: Sequence[Type]) -> pa.Schema:
    """The same, and the number of the transaction each row is of."""
    return staged_schema(types).append(pa.field(TAG, pa.int64(), nullable=False))


def named_schema(schema: Schema) -> pa.Schema:
    """The user's column names, as a view's table has them."""
    return pa.schema([pa.field(c.name, arrow_type(c.type)) for c in schema])


def repeats(column: pa.ChunkedArray, times: int) -> bool:
    """Whether each value occurs so many times in the mean, as far as the first rows tell."""
    some = column.slice(0, SAMPLE_ROWS)
    return bool(times * pc.count_distinct(some).as_py() <= len(some))


def is_ordered(type_: pa.DataType) -> bool:
    """Whether columns of a type have an order of numbers."""
    return bool(pa.types.is_signed_integer(type_) or pa.types.is_date32(type_))


def numbers(values: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    """Values without NULL as numbers in the same order."""
    if pa.types.is_date32(values.type):
        values = values.cast(pa.int32())
    return np.asarray(values.cast(pa.int64()).to_numpy())


def of_numbers(found: NDArray[np.int64], type_: pa.DataType) -> pa.Array:
    """The values that have these numbers."""
    values = pa.array(found)
    return (values.cast(pa.int32()) if pa.types.is_date32(type_) else values).cast(type_)


def distinct(values: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Each value once, without NULL; numbers in order."""
    values = values.drop_null()
    if not is_ordered(values.type):
        return pc.unique(values)
    return of_numbers(_each_once(numbers(values)), values.type)


def _each_once(found: NDArray[np.int64]) -> NDArray[np.int64]:
    """In order. Values that lie close together each have a place in an array; others are sorted, which takes
    a tenth of the time of a table of their hashes."""
    if not len(found):
        return found
    least, most = int(found.min()), int(found.max())
    if most - least < min(DENSE * len(found), MOST_PLACES):
        there = np.zeros(most - least + 1, dtype=bool)
        there[found - least] = True
        return np.flatnonzero(there) + least
    found = np.sort(found)
    return np.asarray(found[np.append(True, found[1:] != found[:-1])])
