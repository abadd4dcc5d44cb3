"""Rows that logical decoding tells, as Arrow batches: written as the lines that COPY would write, and read by
the same parser."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence

import pyarrow as pa

from stillframe.sources.postgres import read
from stillframe.sources.postgres.catalog import Connection, Table
from stillframe.sources.postgres.decoded import Layout, Values
from stillframe.sources.postgres.log import gap
from stillframe.sources.postgres.read import Parser, Query, literal
from stillframe.sources.postgres.types import Reading

CHOSEN_AT_ONCE = 10_000
_SPECIAL = re.compile(rb'[",\r\n]')

Told = tuple[int, int, Layout, Values]  # signed count, number of the transaction, columns, values
Condition = Callable[[str], str]


def _widened(text: bytes) -> bytes:
    """A float4 as the float8 that is the same number."""
    (value,) = struct.unpack("f", struct.pack("f", float(text)))
    return repr(float(value)).encode()


# What COPY would send, from what the type itself prints.
_SENT: dict[str, Callable[[bytes], bytes]] = {
    "float4": _widened,
    "bpchar": lambda text: text.rstrip(b" "),
    "timestamptz": lambda text: text.removesuffix(b"+00"),
}


def told_batches(source: str, url: str, query: Query, rows: Iterable[Told]) -> Iterator[pa.RecordBatch]:
    """Batches as `query` would have them: with a tag if it has one."""
    parser = Parser(query)
    sent = [_SENT.get(reading.logged) for reading in query.readings]
    places: dict[Layout, list[int]] = {}
    lines: list[bytes] = []
    size = 0
    for count, tag, layout, values in rows:
        picked = places.get(layout)
        if picked is None:
            picked = places[layout] = _places(source, query.table, layout, query.columns)
        cells = [b"%d" % count]
        if query.tag:
            cells.append(b"%d" % tag)
        for place, convert in zip(picked, sent, strict=True):
            text = values[place]
            cells.append(b"" if text is None else _cell(convert(text) if convert else text))
        line = b",".join(cells) + b"\n"
        lines.append(line)
        size += len(line)
        if len(lines) >= read.BATCH_ROWS or size >= read.BATCH_BYTES:
            yield parser.parse(b"".join(lines), source, url)
            lines, size = [], 0
    if lines:
        yield parser.parse(b"".join(lines), source, url)


def _cell(text: bytes) -> bytes:
    if text and _SPECIAL.search(text) is None:
        return text
    return b'"' + text.replace(b'"', b'""') + b'"'


def _places(source: str, table: Table, layout: Layout, columns: Sequence[str]) -> list[int]:
    there = {name: place for place, name in enumerate(layout.columns)}
    for column in columns:
        if column not in there:
            raise gap(source, f"column {column!r} was added to {table.name!r} after capture")
    return [there[column] for column in columns]


def chosen(
    con: Connection,
    source: str,
    table: Table,
    rows: Iterable[Told],
    conditions: Sequence[tuple[str, Reading, Condition]],
) -> Iterator[Told]:
    """The rows for which the server itself says that the conditions hold, each of one column."""
    for column, reading, condition in conditions:
        rows = _chosen(con, source, table, rows, column, reading, condition)
    yield from rows


def _chosen(
    con: Connection,
    source: str,
    table: Table,
    rows: Iterable[Told],
    column: str,
    reading: Reading,
    condition: Condition,
) -> Iterator[Told]:
    gathered: list[Told] = []

    def pick() -> Iterator[Told]:
        texts = []
        for _, _, layout, values in gathered:
            text = values[_places(source, table, layout, [column])[0]]
            texts.append(None if text is None else text.decode())
        found = con.execute(
            f"SELECT n FROM unnest({literal(con, texts)}::text[]) WITH ORDINALITY AS told (value, n)"
            f" WHERE {condition(f'value::{reading.logged}')} ORDER BY n"
        )
        yield from (gathered[n - 1] for (n,) in found.fetchall())

    for row in rows:
        gathered.append(row)
        if len(gathered) >= CHOSEN_AT_ONCE:
            yield from pick()
            gathered.clear()
    yield from pick()
