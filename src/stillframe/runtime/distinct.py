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

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stillframe.engine import apart, row_groups

SAMPLE_ROWS = 20_000
SAMPLE_FILES = 32
READ_ROWS = 4_000_000  # of which the sample is drawn


def distinct_values(sample: pa.ChunkedArray, rows: float) -> float:
    counts = pc.value_counts(pc.drop_null(sample)).field("counts")
    seen, read = len(counts), len(sample) - int(sample.null_count)
    once = int(pc.sum(pc.equal(counts, 1)).as_py() or 0)
    if not seen:
        return 1.0
    rows *= read / len(sample)  # NULL is no value
    return max(float(seen), min(rows, read * seen / (read - once + once * read / max(rows, read))))


def sampled(files: Sequence[Path], names: Sequence[str]) -> pa.Table | None:
    """Columns of some rows, drawn from row groups that lie apart; None where there is no row, and an empty
    table where no column is asked for."""
    if not names:
        return pa.table({})
    groups = row_groups(apart(files, SAMPLE_FILES))
    rows = sum(footer.num_rows for _, _, footer in groups)
    chosen = apart(groups, max(1, len(groups) * READ_ROWS // rows)) if rows else []
    share = min(1.0, SAMPLE_ROWS / max(1, sum(footer.num_rows for _, _, footer in chosen)))
    rng, tables = np.random.default_rng(len(groups)), []
    for path, group, footer in chosen:
        with pq.ParquetFile(path) as file:
            table = file.read_row_group(group, columns=list(names)).select(names)
        each = footer.num_rows
        tables.append(table.take(rng.permutation(each)[: max(1, round(share * each))]))
    return pa.concat_tables(tables) if tables else None
