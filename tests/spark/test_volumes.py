"""What rows will take in memory is told from their files, however little room they take there."""

from __future__ import annotations

import hashlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillframe.algebra.types import BIGINT, STRING
from stillframe.engine import Engine, Room, held_bytes, staged_query, text_bytes, write_query

pytestmark = pytest.mark.engine

BEGINNING = "x" * 2_000
# Of 20 000 rows with a number: texts whose beginning all have in common, few that repeat, and short ones.
TEXTS = {
    "neighbours": f"concat('{BEGINNING}', CAST(id AS STRING))",
    "repeated": f"concat('{BEGINNING}', CAST(id % 5 AS STRING))",
    "short": "CAST(id AS STRING)",
    "missing": "CAST(NULL AS STRING)",
}


def query(text: str) -> str:
    return f"SELECT id AS c0, {TEXTS[text]} AS c1, CAST(1 AS BIGINT) AS sf_count FROM range(20000)"


def held(files: list[Path]) -> int:
    return sum(int(pq.read_table(path).nbytes) for path in files)


@pytest.mark.parametrize("text", TEXTS)
def test_rows_are_told_to_take_what_they_take(engine: Engine, tmp_path: Path, text: str) -> None:
    write_query(engine, query(text), tmp_path / "rows")
    files = sorted((tmp_path / "rows").glob("*.parquet"))
    assert held_bytes(files) == pytest.approx(held(files), rel=0.1)


def written(path: Path, notes: list[str | None]) -> Path:
    """As engines write: neighbours may share their beginnings."""
    table = pa.table({"note": pa.array(notes, pa.string())})
    pq.write_table(table, path, use_dictionary=False, column_encoding="DELTA_BYTE_ARRAY")
    return path


def documents(count: int) -> list[str | None]:
    return [BEGINNING + str(number) for number in range(count)]


@pytest.mark.parametrize(("count", "large"), [(9, 8), (9, 4), (10, 2), (17, 16), (17, 0)])
def test_the_file_that_has_most_rows_is_looked_at(tmp_path: Path, count: int, large: int) -> None:
    sizes = [20_000 if i == large else 20 for i in range(count)]
    texts = (documents(size) if size > 20 else ["short"] * size for size in sizes)
    files = [written(tmp_path / f"{i:02}.parquet", each) for i, each in enumerate(texts)]
    assert held_bytes(files) == pytest.approx(held(files), rel=0.1)


@pytest.mark.parametrize("layout", [pa.string(), pa.large_string(), pa.string_view(), pa.binary()])
def test_texts_are_texts_in_any_layout(tmp_path: Path, layout: pa.DataType) -> None:
    table = pa.table({"note": pa.array(["four", None, "eight ei"], layout), "flag": [True, False, None]})
    pq.write_table(table, tmp_path / "one.parquet")
    assert text_bytes([tmp_path / "one.parquet"], ["note"]) == [4.0]
    assert held_bytes([tmp_path / "one.parquet"]) >= 3 * (4 + 4)


def test_texts_that_the_sample_misses_are_told_by_their_file(tmp_path: Path) -> None:
    lines = [hashlib.sha256(str(number).encode()).hexdigest() for number in range(20_000)]
    file = written(tmp_path / "late.parquet", [None] * 1_000 + lines)
    assert held_bytes([file]) == pytest.approx(held([file]), rel=0.1)


def test_no_rows_take_nothing(tmp_path: Path) -> None:
    pq.write_table(pa.table({"note": pa.array([], pa.string())}), tmp_path / "none.parquet")
    assert held_bytes([]) == held_bytes([tmp_path / "none.parquet"]) == 0.0


@pytest.mark.parametrize(("text", "small"), [("neighbours", False), ("repeated", False), ("short", True)])
def test_the_driver_holds_no_more_than_it_has_room_for(
    engine: Engine, tmp_path: Path, text: str, small: bool
) -> None:
    room = Room(bytes=8 * 2**20)
    staged = staged_query(engine, query(text), [BIGINT, STRING], tmp_path / "rows", room)
    assert sum(path.stat().st_size for path in staged.files) < room.bytes, "the files alone do not tell"
    assert (staged.rows, staged.small) == (20_000, small)
