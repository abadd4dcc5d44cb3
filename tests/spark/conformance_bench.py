"""Rows in staged files, and expressions over them compiled as views' expressions are and run by an engine."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import PySparkException
from spark_expressions import comparable

from stillframe.algebra import (
    Column,
    Filter,
    Literal,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    Type,
    call,
)
from stillframe.algebra.arrow import arrow_type, staged_schema
from stillframe.algebra.types import BIGINT
from stillframe.engine import Engine, Staged, Tables, select_sql


class Raises:
    def __repr__(self) -> str:
        return "raises"


RAISES = Raises()


def plainly(value: Any) -> Any:
    """Side by side: NaN equals itself, and the digits of a decimal are its type's affair."""
    return value if not isinstance(value, float | datetime | bytearray) else comparable(value)


def _array(values: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(type_):  # from Python values, Arrow takes the precision of the first
        return pa.array([None if v is None else format(v, "f") for v in values], pa.string()).cast(type_)
    return pa.array(values, type_)


class Bench:
    """A table holds rows, each with its number in the column behind the others."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self._folder = folder
        self._count = 0

    def table(self, types: Sequence[Type], rows: Sequence[tuple[int, tuple[Any, ...]]]) -> Table:
        self._count += 1
        full = (*types, BIGINT)
        schema = staged_schema(full)
        cells = [(*row, number, 1) for number, row in rows]
        columns = list(zip(*cells, strict=True)) if cells else [()] * len(schema)
        arrays = [_array(column, field.type) for column, field in zip(columns, schema, strict=True)]
        path = self._folder / f"rows{self._count}.parquet"
        pq.write_table(pa.Table.from_arrays(arrays, schema=schema), path)
        staged = Staged((path,), tuple(range(len(full))), full, len(rows), plain=True, small=True)
        return Table(self.engine, full, staged)


class Table:
    def __init__(self, engine: Engine, types: tuple[Type, ...], staged: Staged) -> None:
        self._engine = engine
        self._schema = Schema(tuple(Column(f"column{i}", type_) for i, type_ in enumerate(types)))
        self.scan = Scan("rows", self._schema)
        self._number = Ref(len(types) - 1, BIGINT)
        tables = Tables(engine)
        tables._prefix = f"{tables._prefix}_{staged.files[0].stem}"
        self.name = tables.staged(staged, self._schema)

    def values(self, scalars: Sequence[Scalar]) -> list[dict[int, Any]]:
        """For each scalar its value by row number; the types are the scalars' own."""
        outputs = (Output("n", self._number), *(Output("v", scalar) for scalar in scalars))
        sql = select_sql(Project(self.scan, outputs), lambda _: self.name, self._engine.writer)
        answer = self._engine.sql(sql).toArrow()
        for scalar, field in zip(scalars, list(answer.schema)[1:], strict=False):
            assert field.type == arrow_type(scalar.type), (scalar, field.type)
        numbers, *columns = (column.to_pylist() for column in answer.columns[:-1])
        return [dict(zip(numbers, map(plainly, column), strict=True)) for column in columns]

    def selected(self, plan: Plan) -> list[tuple[Any, ...]]:
        """The rows of a plan over this table."""
        answer = self._engine.sql(select_sql(plan, lambda _: self.name, self._engine.writer)).toArrow()
        return [tuple(row.values())[:-1] for row in answer.to_pylist()]

    def value(self, scalar: Scalar, number: int) -> Any:
        """What one row gives; a value, or RAISES."""
        one = Filter(self.scan, call("=", self._number, Literal(number, BIGINT)))
        project = Project(one, (Output("v", scalar),))
        return self._first(select_sql(project, lambda _: self.name, self._engine.writer))

    def asked(self, sql: str) -> Any:
        """What plain SQL about the columns gives for the first row."""
        return self._first(f"SELECT {sql} FROM {self.name}")

    def _first(self, sql: str) -> Any:
        try:
            answer = self._engine.sql(sql).toArrow().column(0)
        except PySparkException:
            return RAISES
        assert len(answer), sql
        try:
            return plainly(answer[0].as_py())
        except (ValueError, OverflowError):  # no value of Python's
            return str(answer[0])
