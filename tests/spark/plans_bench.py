"""Bags in tables, unsettled, and plans over them run by an engine, many to a query.

A bag in a table has its counts split, and beside its rows others that come and go: a plan means the same on
every table that adds up to the same bag.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stillframe.algebra import Bag, Plan, Row, Scan, Type
from stillframe.algebra.arrow import COUNT, arrow_type, internal_name, staged_schema
from stillframe.algebra.types import INT
from stillframe.engine import Engine, read_files, select_sql
from stillframe.engine.files import staged_struct

Job = tuple[Plan, Mapping[Scan, Bag]]
Leaf = Callable[[Scan, Bag, bool], str]
Rows = list[tuple[Row, int]]
Respelled = Callable[[Row], Row]

_AT_ONCE = 15
_PASSING = 5
_SEED = 11


def other_zero(row: Row) -> Row:
    """The same row to a bag: zeros have the other sign."""
    return tuple(-v if isinstance(v, float) and v == 0.0 else v for v in row)


def other_sign(row: Row) -> Row:
    """The same row to a bag: zeros, and what is no number, have the other sign."""
    return tuple(-v if isinstance(v, float) and (v == 0.0 or v != v) else v for v in row)


def values(engine: Engine, jobs: Sequence[Job], folder: Path, respelled: Respelled = other_zero) -> list[Bag]:
    """What the engine makes of each plan. On Spark half of the queries are written for one task. Copies of
    a row differ in spelling."""
    leaves = _laid(engine, jobs, folder, respelled)
    alike: dict[tuple[Type, ...], list[int]] = {}
    for number, (plan, _) in enumerate(jobs):
        alike.setdefault(plan.schema.types, []).append(number)
    found: dict[int, Rows] = {number: [] for number in range(len(jobs))}
    for turn, numbers in enumerate(_batches(alike.values())):
        one_task = engine.kind == "spark" and turn % 2 == 0
        parts = [_tagged(engine, jobs[number], leaves, number, one_task) for number in numbers]
        answer = engine.sql(" UNION ALL ".join(parts)).toArrow()
        for row in zip(*(column.to_pylist() for column in answer.columns), strict=True):
            found[row[0]].append((row[1:-1], row[-1]))
        types = jobs[numbers[0]][0].schema.types
        assert answer.schema.types == [pa.int32(), *map(arrow_type, types), pa.int64()]
    return [Bag(rows) for rows in found.values()]


def _batches(groups: Iterable[list[int]]) -> Iterator[list[int]]:
    for numbers in groups:
        for start in range(0, len(numbers), _AT_ONCE):
            yield numbers[start : start + _AT_ONCE]


def _tagged(engine: Engine, job: Job, leaf: Leaf, number: int, one_task: bool) -> str:
    plan, read = job
    writer = replace(engine.writer, one_task=one_task)
    sql = select_sql(plan, lambda scan: leaf(scan, read[scan], one_task), writer)
    return f"(SELECT CAST({number} AS INT) AS job, q.* FROM ({sql}) AS q)"


def _laid(engine: Engine, jobs: Sequence[Job], folder: Path, respelled: Respelled) -> Leaf:
    """One table for all bags of the same types; a bag is the part that has its number, in the column behind
    the others."""
    numbers: dict[tuple[Type, ...], dict[Bag, int]] = {}
    for _, read in jobs:
        for scan, bag in read.items():
            same = numbers.setdefault(scan.schema.types, {})
            same.setdefault(bag, len(same))
    names: dict[tuple[Type, ...], str] = {}
    for place, (types, bags) in enumerate(numbers.items()):
        name = f"{folder.name.replace('-', '_')}_{place}"
        path = folder / f"{name}.parquet"
        pq.write_table(_table(types, bags, respelled), path)
        struct = staged_struct((*types, INT))
        read_files(engine.maintenance, [path], struct).createOrReplaceTempView(name)
        names[types] = name

    def leaf(scan: Scan, bag: Bag, one_task: bool) -> str:
        types = scan.schema.types
        columns = ", ".join([*(internal_name(i) for i in range(len(types))), COUNT])
        hint = "/*+ COALESCE(1) */ " if one_task else ""
        here = f"{internal_name(len(types))} = {numbers[types][bag]}"
        return f"(SELECT {hint}{columns} FROM {names[types]} WHERE {here})"

    return leaf


def _table(types: tuple[Type, ...], bags: Mapping[Bag, int], respelled: Respelled) -> pa.Table:
    random = Random(_SEED)
    every = list(dict.fromkeys(row for bag in bags for row in bag))
    cells = [
        (*row, number, count)
        for bag, number in bags.items()
        for row, count in _unsettled(bag, every, random, respelled)
    ]
    schema = staged_schema((*types, INT))
    columns = list(zip(*cells, strict=True)) if cells else [()] * len(schema)
    arrays = [_array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.Table.from_arrays(arrays, schema=schema)


def _array(column: Sequence[Any], type_: pa.DataType) -> pa.Array:
    if pa.types.is_decimal(type_):  # from Python values, Arrow takes the precision of the first
        return pa.array([None if v is None else format(v, "f") for v in column], pa.string()).cast(type_)
    return pa.array(column, type_)


def _unsettled(bag: Bag, others: Sequence[Row], random: Random, respelled: Respelled) -> Rows:
    """Rows that add up to the bag."""
    rows: Rows = []
    for row, count in bag.items():
        extra = random.choice((-2, -1, 0, 1, 2))
        rows += [(row, count - extra), (respelled(row), extra)]
    for row in random.sample(others, min(_PASSING, len(others))):
        rows += [(row, 1), (respelled(row), -1)]
    random.shuffle(rows)
    return rows
