"""How much memory the rows of files take.

A file tells it of numbers. Of texts it tells what is left when those that repeat and what neighbours share
are kept once, which may be a thousandth of what they are: so some of them are looked at.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stillframe.engine.room import Room

SAMPLE_ROW_GROUPS = 8
SAMPLE_ROWS = 250  # of each
AT_ONCE, ENOUGH = 10, 64 * 1024  # where so many rows have as many bytes of texts, no more rows are read
BUFFER = 64 * 1024  # a row group's first rows are read, not all of its columns
OFFSET = 4  # bytes that tell where a text begins

T = TypeVar("T")


def fits(files: Sequence[Path], rows: int, room: Room) -> bool:
    """Whether the driver may hold so many rows, which are all of the files."""
    return rows <= room.rows and held_bytes(files) <= room.bytes


def held_bytes(files: Sequence[Path]) -> float:
    """Of all rows of files of one schema, as columns of Arrow; of texts about as many as a sample says, and
    no less than the files hold: where the sample does not look, texts may be longer."""
    groups = [group for _, _, group in row_groups(files)]
    if not groups:
        return 0.0
    rows, encoded = sum(each.num_rows for each in groups), sum(each.total_byte_size for each in groups)
    schema = pq.read_schema(files[0])
    texts = [column.name for column in schema if _is_text(column.type)]
    numbers = sum(column.type.bit_width / 8 for column in schema if not _is_text(column.type))
    return max(encoded, rows * (numbers + sum(OFFSET + length for length in text_bytes(files, texts) or ())))


def text_bytes(files: Sequence[Path], names: Sequence[str]) -> list[float] | None:
    """What texts have on average, by the row groups of some rows that lie apart; NULL has none. None where
    there is no row."""
    if not names:
        return []
    groups = row_groups(files)
    ends = list(accumulate(group.num_rows for _, _, group in groups))
    if not ends:
        return None
    places = (ends[-1] * (2 * i + 1) // (2 * SAMPLE_ROW_GROUPS) for i in range(SAMPLE_ROW_GROUPS))
    volumes = dict.fromkeys(names, 0.0)
    for chosen, places_there in Counter(bisect_right(ends, place) for place in places).items():
        path, number, _ = groups[chosen]
        with pq.ParquetFile(path, buffer_size=BUFFER) as file:
            found = _lengths(file, number, names, AT_ONCE)
            short = [name for name, length in found.items() if length * SAMPLE_ROWS < ENOUGH]
            found |= _lengths(file, number, short, SAMPLE_ROWS)
        for name, length in found.items():
            volumes[name] += places_there * length
    return [volume / SAMPLE_ROW_GROUPS for volume in volumes.values()]


def _lengths(file: pq.ParquetFile, group: int, names: Sequence[str], rows: int) -> dict[str, float]:
    """Means of the first texts of a row group."""
    if not names:
        return {}
    batch = next(file.iter_batches(rows, row_groups=[group], columns=list(names)))
    return {
        name: pc.sum(pc.binary_length(batch.column(name).cast(pa.binary())), min_count=0).as_py()
        / batch.num_rows
        for name in names
    }


def row_groups(files: Iterable[Path]) -> list[tuple[Path, int, pq.RowGroupMetaData]]:
    """Those that have rows, with what their files' footers say of them."""
    return [
        (path, number, group)
        for path, footer in ((path, pq.read_metadata(path)) for path in files)
        for number in range(footer.num_row_groups)
        if (group := footer.row_group(number)).num_rows
    ]


def apart(things: Sequence[T], most: int) -> Sequence[T]:
    """So many of them at most, evenly spread: each the middle one of a part."""
    if len(things) <= most:
        return things
    return [things[(2 * i + 1) * len(things) // (2 * most)] for i in range(most)]


def _is_text(type_: pa.DataType) -> bool:
    """Whether values may be of any length, in whichever of Arrow's layouts."""
    return not (pa.types.is_primitive(type_) or pa.types.is_decimal(type_))
