"""What the driver takes of a source's answer is bounded, in rows and in bytes, and columns of large files are
judged without reading them whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillframe.algebra.arrow import staged_schema
from stillframe.algebra.types import BIGINT, BOOLEAN, STRING
from stillframe.engine import Engine, Room, Staged, stage


class EngineNeeded(Exception):
    pass


def no_engine() -> Engine:
    raise EngineNeeded


@pytest.mark.parametrize(("rows", "width"), [(Room().rows // 4, 8), (4, Room().bytes // 16)])
def test_what_is_too_much_for_the_driver_is_let_go(tmp_path: Path, rows: int, width: int) -> None:
    taken = []

    def read() -> Iterator[pa.RecordBatch]:
        for n in range(50):
            taken.append(n)
            texts = pa.array(["x" * width] * rows)
            yield pa.RecordBatch.from_arrays([texts, pa.array([1] * rows)], schema=staged_schema([STRING]))

    with pytest.raises(EngineNeeded):
        stage(no_engine, read, [0], [STRING], tmp_path)
    assert len(taken) <= 5


@pytest.mark.parametrize("statistics", [True, False])
def test_columns_are_judged_by_footers_or_by_looking(tmp_path: Path, statistics: bool) -> None:
    schema = staged_schema([BIGINT, BIGINT, BOOLEAN, BOOLEAN])
    paths = []
    for n, second in enumerate([1, None]):
        table = pa.table([[1], [second], [False], [second is None], [1]], schema=schema)
        pq.write_table(table, tmp_path / f"{n}.parquet", write_statistics=statistics)
        paths.append(tmp_path / f"{n}.parquet")
    types = (BIGINT, BIGINT, BOOLEAN, BOOLEAN)
    staged = Staged(tuple(paths), (4, 5, 6, 7), types, 2, plain=True, small=True)
    assert staged.with_null() == {5}
    assert (staged.any_true(6), staged.any_true(7)) == (False, True)
