"""Parquet exports: their own types, as Spark has them, or refused by name."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stillframe.algebra import types as t
from stillframe.algebra.arrow import arrow_type
from stillframe.algebra.types import MAX_PRECISION, Type
from stillframe.errors import SourceError
from stillframe.sources.files.types import require_years

BATCH_ROWS = 65_536

_SAME: dict[pa.DataType, Type] = {
    pa.bool_(): t.BOOLEAN,
    pa.int8(): t.TINYINT,
    pa.int16(): t.SMALLINT,
    pa.int32(): t.INT,
    pa.int64(): t.BIGINT,
    pa.uint8(): t.SMALLINT,
    pa.uint16(): t.INT,
    pa.uint32(): t.BIGINT,
    pa.uint64(): t.decimal(20, 0),
    pa.float16(): t.DOUBLE,
    pa.float32(): t.DOUBLE,
    pa.float64(): t.DOUBLE,
    pa.string(): t.STRING,
    pa.large_string(): t.STRING,
    pa.string_view(): t.STRING,
    pa.binary(): t.BINARY,
    pa.large_binary(): t.BINARY,
    pa.binary_view(): t.BINARY,
    pa.date32(): t.DATE,
    pa.date64(): t.DATE,
}


class BadValueAt(Exception):
    """The value at `index` of a column has no counterpart in its type."""

    def __init__(self, index: int, value: str) -> None:
        super().__init__(index, value)
        self.index = index
        self.value = value


@dataclass(frozen=True, slots=True)
class Field:
    """A column as the file declares it; `refused` says why it cannot be read."""

    name: str
    type: Type
    nullable: bool
    refused: str = ""


def fields(path: Path) -> tuple[Field, ...]:
    with _opened(path) as file:
        intervals = {
            column.path
            for column in (file.schema.column(i) for i in range(len(file.schema)))
            if column.converted_type == "INTERVAL"
        }
        return tuple(_field(field, field.name in intervals) for field in file.schema_arrow)


def _field(field: pa.Field, interval: bool) -> Field:
    found = "an interval has no counterpart" if interval else mapped(field.type)
    if isinstance(found, Type):
        return Field(field.name, found, field.nullable)
    shown = "INTERVAL" if interval else field.type
    return Field(field.name, t.VOID, field.nullable, f"the type {shown} cannot be read: {found}")


def mapped(type_: pa.DataType) -> Type | str:
    """The type that has all values of this one, or why there is none."""
    if type_ in _SAME:
        return _SAME[type_]
    if pa.types.is_dictionary(type_):
        return mapped(type_.value_type)
    if isinstance(type_, pa.JsonType | pa.UuidType):
        return t.STRING
    if pa.types.is_fixed_size_binary(type_):
        return t.BINARY
    if pa.types.is_timestamp(type_):
        return t.TIMESTAMP
    if pa.types.is_decimal(type_):
        if type_.precision > MAX_PRECISION or not 0 <= type_.scale <= type_.precision:
            return f"precision is at most {MAX_PRECISION}, and scale at most precision"
        return t.decimal(type_.precision, type_.scale)
    if pa.types.is_nested(type_):
        return "nested columns are not relational; export its parts as columns of their own"
    if pa.types.is_null(type_):
        return "it has no values, and so says no type"
    return "it has no counterpart"


def batches(path: Path, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """These columns, decoded as they are stored."""
    with _opened(path) as file:
        try:
            yield from file.iter_batches(BATCH_ROWS, columns=list(columns), use_threads=False)
        except (pa.ArrowException, OSError) as error:
            raise _damaged(path, error) from error


def rows(path: Path) -> int:
    with _opened(path) as file:
        return int(file.metadata.num_rows)


def _opened(path: Path) -> pq.ParquetFile:
    try:
        # Far years overflow in nanoseconds, which is what old timestamps would else be read as.
        return pq.ParquetFile(path, coerce_int96_timestamp_unit="us", memory_map=False)
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError):
            raise
        raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> SourceError:
    return SourceError(
        f"{path} cannot be read as Parquet",
        detail=str(error).splitlines()[0][:300],
        hint="it is damaged or was not written to its end: export it again, under another name first",
        code="MALFORMED_FILE",
    )


def converted(values: pa.Array, type_: Type) -> pa.Array:
    """The values as the type they are mapped to, or BadValueAt."""
    try:
        return _converted(values, type_)
    except (pa.ArrowException, OverflowError):
        for index in range(len(values)):
            try:
                _converted(values.slice(index, 1), type_)
            except (pa.ArrowException, OverflowError):
                raise BadValueAt(index, _shown(values.slice(index, 1))) from None
        raise


def _converted(values: pa.Array, type_: Type) -> pa.Array:
    if pa.types.is_dictionary(values.type):
        values = values.dictionary_decode()
    if isinstance(values.type, pa.UuidType):
        texts = [None if v is None else str(uuid.UUID(bytes=v)) for v in values.storage.to_pylist()]
        return pa.array(texts, pa.string())
    if isinstance(values.type, pa.BaseExtensionType):
        values = values.storage
    target = arrow_type(type_)
    if type_ == t.STRING:
        values.validate(full=True)
    if type_ == t.TIMESTAMP:
        instants = values.cast(pa.timestamp("us", values.type.tz)).cast(pa.int64()).cast(pa.timestamp("us"))
        require_years(instants)
        return instants.cast(target)
    if values.type == pa.float16():
        values = values.cast(pa.float32())
    return values if values.type == target else values.cast(target)


def _shown(one: pa.Array) -> str:
    try:
        return str(one[0])
    except (ValueError, OverflowError):
        if pa.types.is_timestamp(one.type):
            return f"{one.cast(pa.int64())[0]} as {one.type}"
        return str(one.cast(pa.binary())[0].as_py()[:40])
