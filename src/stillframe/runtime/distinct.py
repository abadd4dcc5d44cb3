"""How many distinct values a column has, from a sample of its rows.

Law (Haas and Stokes): of n rows, a sample of r has d values, f of them once. A column in which all values are
about as frequent has about
    r·d / (r − f + f·r/n)
of them: d, where none was seen once; n, where each was. The estimate is at least d, and at most the rows that
are not NULL. Where few values have most of the rows, the rare ones are told short.
Rows are drawn from all over the files: those that lie side by side were often written together, and have one
value all of them, or each another.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SAMPLE_ROWS = 20_000
SAMPLE_FILES = 32
READ_ROWS = 4_000_000  # of which the sample is drawn

T = TypeVar("T")


def distinct_values(sample: pa.ChunkedArray, rows: float) -> float:
    counts = pc.value_counts(pc.drop_null(sample)).field("counts")
    seen, read = len(counts), len(sample) - int(sample.null_count)
    once = int(pc.sum(pc.equal(counts, 1)).as_py() or 0)
    if not seen:
        return 1.0
    rows *= read / len(sample)  # NULL is no value
    return max(float(seen), min(rows, read * seen / (read - once + once * read / max(rows, read))))


def sampled(files: Sequence[Path], names: Sequence[str]) -> pa.Table | None:
    """Columns of some rows, drawn from row groups that lie apart; None where there is no row."""
    groups = [
        (path, group, footer.row_group(group).num_rows)
        for path, footer in ((path, pq.read_metadata(path)) for path in _apart(files, SAMPLE_FILES))
        for group in range(footer.num_row_groups)
    ]
    rows = sum(each for _, _, each in groups)
    chosen = _apart(groups, max(1, len(groups) * READ_ROWS // rows)) if rows else []
    share = min(1.0, SAMPLE_ROWS / max(1, sum(each for _, _, each in chosen)))
    rng, tables = np.random.default_rng(len(groups)), []
    for path, group, each in chosen:
        with pq.ParquetFile(path) as file:
            table = file.read_row_group(group, columns=list(names)).select(names)
        tables.append(table.take(rng.permutation(each)[: max(1, round(share * each))]) if each else table)
    return pa.concat_tables(tables) if tables else None


def _apart(things: Sequence[T], most: int) -> Sequence[T]:
    """So many of them at most, evenly spread."""
    if len(things) <= most:
        return things
    return [things[i * len(things) // most] for i in range(most)]
