"""How many distinct values a column has, from a sample of its rows.

Law (Haas and Stokes): of n rows, a sample of r has d values, f of them once. A column in which all values are
about as frequent has about
    r·d / (r − f + f·r/n)
of them: d, where none was seen once; n, where each was. The estimate is at least d and at most n. Where few
values have most of the rows, the rare ones are told short.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

SAMPLE_ROWS = 20_000
SAMPLE_FILES = 3


def distinct_values(sample: pa.ChunkedArray, rows: float) -> float:
    counts = pc.value_counts(pc.drop_null(sample)).field("counts")
    seen, read = len(counts), len(sample) - int(sample.null_count)
    once = int(pc.sum(pc.equal(counts, 1)).as_py() or 0)
    if not seen:
        return 1.0
    rows *= read / len(sample)  # NULL is no value
    return max(float(seen), min(rows, read * seen / (read - once + once * read / max(rows, read))))


def sampled(files: Sequence[Path], names: Sequence[str]) -> pa.Table | None:
    """Columns of some rows: the first of a few files that lie apart; None where there is no row."""
    step = max(1, len(files) // SAMPLE_FILES)
    chosen = list(files)[::step][:SAMPLE_FILES]
    heads = (
        next(pq.ParquetFile(path).iter_batches(SAMPLE_ROWS // len(chosen), columns=list(names)), None)
        for path in chosen
    )
    tables = [pa.Table.from_batches([head]).select(names) for head in heads if head is not None]
    return pa.concat_tables(tables) if tables else None
