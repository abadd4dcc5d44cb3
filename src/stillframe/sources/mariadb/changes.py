"""Rows of the binary log as Arrow batches, restricted as a query on the table would restrict them.

Whether a value is among the keys asked for, or in a range, is the server's to say: its collations decide. So
it is asked, once for each value met.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import pyarrow as pa

from stillframe.algebra.arrow import staged_schema, tagged_schema
from stillframe.sources.base import Committed, Range
from stillframe.sources.mariadb.capture import GLOBAL
from stillframe.sources.mariadb.catalog import Table, TableColumn
from stillframe.sources.mariadb.connect import HERE, Connection
from stillframe.sources.mariadb.read import BATCH_BYTES, BATCH_ROWS, KeySet, between, mismatch
from stillframe.sources.mariadb.types import BadValue, decoded, reading_of
from stillframe.sources.mariadb.walk import Rows, Watched

_ASKED = 1000

Cell = bytes | None
Test = Callable[[Sequence[Cell]], list[bool]]


def batches(
    source: str,
    table: Table,
    columns: Sequence[TableColumn],
    rows: Iterable[Rows],
    *,
    undone: bool = False,
    tagged: bool = False,
    tests: Sequence[tuple[int, Test]] = (),
) -> Iterator[pa.RecordBatch]:
    """The cells of each row are those of `columns`, then those the tests look at, at the places they name."""
    types = [c.reading.type for c in columns]
    schema = tagged_schema(types) if tagged else staged_schema(types)
    for images, signs, tags in _gathered(rows):
        kept = [True] * len(images)
        for place, test in tests:
            passed = test([cells[place] for cells in images])
            kept = [a and b for a, b in zip(kept, passed, strict=True)]
        if not any(kept):
            continue
        if not all(kept):
            images = [cells for cells, keep in zip(images, kept, strict=True) if keep]
            signs = [sign for sign, keep in zip(signs, kept, strict=True) if keep]
            tags = [tag for tag, keep in zip(tags, kept, strict=True) if keep]
        arrays = []
        for place, column in enumerate(columns):
            try:
                arrays.append(decoded(column.reading, [cells[place] for cells in images]))
            except BadValue as bad:
                row = images[bad.index][: len(columns)]
                raise mismatch(source, table, columns, column, bad, row) from None
        counts = pa.array([-sign for sign in signs] if undone else signs, pa.int64())
        numbers = [pa.array(tags, pa.int64())] if tagged else []
        yield pa.RecordBatch.from_arrays([*arrays, counts, *numbers], schema=schema)


def _gathered(rows: Iterable[Rows]) -> Iterator[tuple[list[list[Cell]], list[int], list[int]]]:
    images: list[list[Cell]] = []
    signs: list[int] = []
    tags: list[int] = []
    size = 0
    for some in rows:
        for cells, sign in some.signed():
            images.append(cells)
            signs.append(sign)
            tags.append(some.transaction)
            if len(images) >= BATCH_ROWS or size >= BATCH_BYTES:
                yield images, signs, tags
                images, signs, tags, size = [], [], [], 0
        size += len(some.event.images)
    if images:
        yield images, signs, tags


def among_keys(con: Connection, keys: KeySet) -> Test:
    return _asking(con, keys.column, keys.condition)


def in_range(con: Connection, column: TableColumn, within: Range) -> Test:
    return _asking(con, column, lambda expression: between(within, expression))


def _asking(
    con: Connection, column: TableColumn, condition: Callable[[str], tuple[str, tuple[Any, ...]]]
) -> Test:
    known: dict[Cell, bool] = {None: False}
    expression = "asked.k"
    if column.charset is not None:
        expression = f"CONVERT(asked.k USING {column.charset}) COLLATE {column.collation}"
    elif column.reading.type.name == "DATE":
        expression = "CAST(asked.k AS DATE)"
    where, parameters = condition(expression)

    def test(cells: Sequence[Cell]) -> list[bool]:
        new = [cell for cell in dict.fromkeys(cells) if cell not in known and cell is not None]
        for start in range(0, len(new), _ASKED):
            some = new[start : start + _ASKED]
            values = [_value(column, cell) for cell in some]
            listed = ", ".join(f"({i}, {HERE})" for i in range(len(some)))
            found = con.all(
                f"WITH asked (i, k) AS (VALUES {listed}) SELECT asked.i FROM asked WHERE {where}",
                (*values, *parameters),
            )
            known.update(dict.fromkeys(some, False))
            known.update((some[i], True) for (i,) in found)
        return [known[cell] for cell in cells]

    return test


def _value(column: TableColumn, cell: bytes) -> Any:
    return int(cell) if column.charset is None and column.reading.type.name != "DATE" else cell.decode()


def _mark_column(name: str, declared: str, charset: str | None) -> TableColumn:
    reading = reading_of(declared.split("(")[0].split()[0], declared.split(" CHARACTER")[0])
    return TableColumn(name, declared, "", False, charset, None, reading)


MARKS = Watched(
    (
        _mark_column("seq", "bigint unsigned", None),
        _mark_column("id", "varchar(255) CHARACTER SET utf8mb4", "utf8mb4"),
        _mark_column("parts", "int", None),
    ),
    (1, 2),
)


def told(rows: Iterator[Rows]) -> tuple[Committed, ...]:
    """In the order of the log, which is that of the commits. A transaction's number is its place there."""
    counts: dict[int, dict[str, int]] = {}
    groups: dict[int, tuple[str, int]] = {}
    for some in rows:
        if some.relation == GLOBAL:
            for (group, parts), sign in some.signed():
                if sign > 0:
                    groups[some.transaction] = (group or b"").decode(), int(parts or 0)
                    counts.setdefault(some.transaction, {})
        else:
            of = counts.setdefault(some.transaction, {})
            of[some.relation] = of.get(some.relation, 0) + some.count()
    return tuple(Committed(n, counts[n], *groups.get(n, ("", 0))) for n in sorted(counts))
