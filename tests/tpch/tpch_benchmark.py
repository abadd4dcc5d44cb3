"""The benchmark's tables, made by DuckDB's own generator: the benchmark's need not be installed."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.tpch import data
from tpch_tables import generated

SCALE = 0.002


@pytest.fixture(autouse=True)
def tables(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STILLFRAME_BENCH_CACHE", str(tmp_path))
    made = generated(SCALE)

    def write(_: float, folder: Path) -> None:
        for table in data.TABLES:
            made.execute(f"COPY {table} TO '{folder / table}.parquet' (FORMAT parquet)")

    monkeypatch.setattr(data, "_generate", write)
