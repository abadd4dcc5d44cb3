"""Made-up relations, as files of the lake and of a change, for measuring what an engine takes.

A relation's rows are numbered, and the first column is that number and the key. Columns that refer to other
relations spread evenly over their keys; the others hold dates, amounts, words and numbers in turn. A change
rewrites rows spread evenly over the relation: each leaves as it was and comes as it is, with the same key and
the same references.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stillframe.algebra import Column, Schema
from stillframe.algebra.arrow import COUNT, named_schema
from stillframe.algebra.types import BIGINT, DATE, STRING, Type, decimal

FILLING: tuple[Type, ...] = (DATE, decimal(12, 2), STRING, BIGINT)
FILE_ROWS = 500_000
SPREAD = 7_919  # a prime: neighbours refer to rows far apart


@dataclass(frozen=True)
class Made:
    """A relation; `references` says how many rows the relations have that it refers to."""

    folder: Path
    name: str
    rows: int
    columns: int
    references: Mapping[str, int]

    @cached_property
    def schema(self) -> Schema:
        held = [("id", BIGINT), *((other, BIGINT) for other in self.references)]
        held += [(str(i), FILLING[i % len(FILLING)]) for i in range(self.columns - len(held))]
        columns = tuple(Column(f"{self.name}_{column}", type_, False) for column, type_ in held)
        return Schema(columns, frozenset({frozenset({0})}))

    def reference(self, other: str) -> int:
        """The position of the column that holds another relation's key."""
        return 1 + list(self.references).index(other)

    @cached_property
    def base(self) -> tuple[Path, ...]:
        """Files of plain rows."""
        found = []
        for start in range(0, self.rows, FILE_ROWS):
            path = self.folder / f"{self.name}-{start}.parquet"
            numbers = pa.array(range(start, min(start + FILE_ROWS, self.rows)), pa.int64())
            pq.write_table(self._content(numbers, 0), path)
            found.append(path)
        return tuple(found)

    def change(self, rows: int) -> tuple[Path, ...]:
        """Files of so many signed rows, half of which leave."""
        path = self.folder / f"{self.name}-change-{rows}.parquet"
        if not path.exists():
            touched = rows // 2
            numbers = pc.multiply(pa.array(range(touched), pa.int64()), self.rows // touched)
            count = pa.field(COUNT, pa.int64(), nullable=False)
            parts = [
                self._content(numbers, version).append_column(count, pa.array([sign] * touched, pa.int64()))
                for version, sign in ((0, -1), (1, 1))
            ]
            pq.write_table(pa.concat_tables(parts), path)
        return (path,)

    def _content(self, numbers: pa.Array, version: int) -> pa.Table:
        """The rows with these numbers, as the version has them."""
        arrays = [numbers]
        arrays += [_modulo(pc.multiply(numbers, SPREAD), rows) for rows in self.references.values()]
        for i in range(len(arrays), len(self.schema)):
            mixed = _modulo(pc.add(pc.multiply(numbers, SPREAD + i), version), 1_000_003)
            arrays.append(_filled(mixed, self.schema[i].type))
        return pa.table(arrays, schema=named_schema(self.schema))


def _modulo(numbers: pa.Array, by: int) -> pa.Array:
    return pc.subtract(numbers, pc.multiply(pc.divide(numbers, by), by))


def _filled(numbers: pa.Array, type_: Type) -> pa.Array:
    if type_ == DATE:
        return _modulo(numbers, 10_000).cast(pa.int32()).cast(pa.date32())
    if type_ == STRING:
        return pc.binary_join_element_wise("word", numbers.cast(pa.string()), " ")
    return numbers.cast(pa.decimal128(19, 0)).cast(pa.decimal128(12, 2)) if type_.is_decimal else numbers
