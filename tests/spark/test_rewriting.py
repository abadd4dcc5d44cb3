"""Files of a keyed view written anew: what stays is what changes, applied one after another, leave, in the
order the rows were in; and only what tasks tell has a name that counts."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from stillframe.algebra.arrow import COUNT
from stillframe.engine import Engine, Part, Rewriting, files, rewrite, rewrite_here, rewriting, write_rows
from stillframe.engine.rewriting import Leaving

SCHEMA = pa.schema([("town", pa.string()), ("value", pa.int64()), ("day", pa.date32()), ("id", pa.int32())])
KEYS = (("id",), ("day", "id"), ("town", "day", "id"))  # two that are numbers, and one that is joined
Row = tuple[str, int, date, int]


def random_row(random: Random, id_: int) -> Row:
    """The rest of the key follows from the id, so that each key does."""
    return f"town {id_ % 3}", random.randrange(100), date(2024, 1, 1 + id_ % 5), id_


def written(path: Path, rows: Sequence[Row], counts: Sequence[int] | None = None) -> Path:
    table = pa.table(list(zip(*rows, strict=True)) or [[]] * 4, schema=SCHEMA)
    if counts is not None:
        table = table.append_column(COUNT, pa.array(counts, pa.int64()))
    pq.write_table(table, path)
    return path


def history(
    random: Random, folder: Path, sizes: tuple[int, ...] = (0, 1, 40)
) -> tuple[list[Part], list[Row]]:
    """A base in some files, changes after it, some in two files; and the rows that are there at the end, in
    the order of the files they came in."""
    there = {i: random_row(random, i) for i in range(random.choice(sizes))}
    came = {i: (0, i) for i in there}
    parts, rows, cut = [], list(there.values()), random.randrange(1, 30)
    for begin in range(0, len(rows), cut):
        path = written(folder / f"base-{begin}.parquet", rows[begin : begin + cut])
        parts.append(Part(path, len(rows[begin : begin + cut]), 0))
    for place in range(1, random.randrange(2, 7)):
        signed: list[tuple[Row, int]] = []
        for id_ in random.sample(range(50), random.randrange(1, 12)):
            if id_ in there:
                signed.append((there.pop(id_), -1))
            if random.random() < 0.6:
                there[id_] = random_row(random, id_)
                signed.append((there[id_], 1))
        random.shuffle(signed)
        half = random.randrange(len(signed) + 1)
        for number, some in enumerate((signed[:half], signed[half:])):
            if some:
                path = folder / f"change-{place}-{number}.parquet"
                parts.append(Part(written(path, *zip(*some, strict=True)), len(some), place))
        came |= {row[3]: (place, i) for i, (row, count) in enumerate(signed) if count > 0}
    return parts, sorted(there.values(), key=lambda row: came[row[3]])


def rows_of(folder: Path) -> list[Row]:
    tables = [pq.read_table(path) for path in sorted(folder.glob("part-*.parquet"))]
    found = pa.concat_tables([SCHEMA.empty_table(), *tables])
    return [tuple(row[name] for name in SCHEMA.names) for row in found.to_pylist()]


@pytest.mark.parametrize("key", KEYS, ids=str)
def test_oracle_rows_stay_that_no_later_change_takes_away(
    key: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(60):
        random = Random(seed)
        monkeypatch.setattr(rewriting, "DENSE", random.choice([0, 32, 1000]))
        monkeypatch.setattr(rewriting, "PART_ROWS", random.choice([1, 7, 1000]))
        monkeypatch.setattr(rewriting, "FILE_ROWS", random.choice([1, 20, 1000]))
        folder = tmp_path / str(seed)
        folder.mkdir()
        parts, expected = history(random, folder)
        if not any(part.place for part in parts):
            continue
        work = Rewriting(tuple(parts), SCHEMA, key)
        rewrite_here(work, folder / "attempt")
        assert rows_of(folder / "attempt") == expected, f"seed {seed}"
        assert len(list((folder / "attempt").iterdir())) == len(work.tasks())


def test_a_key_that_is_null_leaves_by_nothing(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64())])
    pq.write_table(pa.table({"id": [1, None, 2]}, schema=schema), tmp_path / "base")
    pq.write_table(pa.table({"id": [2, None], COUNT: [-1, -1]}), tmp_path / "change")
    work = Rewriting((Part(tmp_path / "base", 3, 0), Part(tmp_path / "change", 2, 1)), schema, ("id",))
    name = rewriting.write(work, Leaving(work), work.parts, tmp_path)
    assert pq.read_table(tmp_path / name).column("id").to_pylist() == [1, None]


@pytest.mark.parametrize("far", [5, 2**20, 2**61])
def test_keys_far_apart_are_told_from_each_other(far: int, tmp_path: Path) -> None:
    """Of two columns, so that keys between the least and the greatest may be more than there are numbers:
    counted up to 2^64, (0, 4) and (4, 0) would then be one."""
    schema = pa.schema([("a", pa.int64()), ("b", pa.int64())])
    rows = [(a, b) for a in (-far, 0, 4, far) for b in (-far, 0, 4, far)]
    gone = [(-far, -far), (far, far), (4, 0)]
    base = pa.table(list(zip(*rows, strict=True)), schema=schema)
    change = pa.table(list(zip(*gone, strict=True)), schema=schema).append_column(
        COUNT, pa.array([-1] * 3, pa.int64())
    )
    pq.write_table(base, tmp_path / "base")
    pq.write_table(change, tmp_path / "change")
    work = Rewriting((Part(tmp_path / "base", 16, 0), Part(tmp_path / "change", 3, 1)), schema, ("a", "b"))
    rewrite_here(work, tmp_path / "attempt")
    [path] = (tmp_path / "attempt").iterdir()
    found = [tuple(row.values()) for row in pq.read_table(path).to_pylist()]
    assert found == [row for row in rows if row not in gone]


@pytest.mark.parametrize("counts", [(1, -1), (1, 2), (-1, -2)], ids=str)
def test_of_many_rows_those_that_come_lie_apart_from_those_that_leave(
    counts: tuple[int, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "FILE_ROWS", 3)
    table = pa.table({"id": list(range(5)), COUNT: [counts[i % 2] for i in range(5)]})
    write_rows(table, tmp_path / "change")
    parts = [pq.read_table(path) for path in sorted((tmp_path / "change").iterdir())]
    assert len(parts) == 2
    assert pa.concat_tables(parts).sort_by("id").to_pylist() == table.to_pylist()
    assert all(len({count > 0 for count in part.column(COUNT).to_pylist()}) == 1 for part in parts)


@pytest.mark.engine
def test_tasks_leave_only_what_they_told(
    engine: Engine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rewriting, "FILE_ROWS", 20)
    parts, expected = history(Random(4), tmp_path, (40,))
    assert len(expected) > 20
    folder = tmp_path / "attempt"
    rewrite(engine, Rewriting(tuple(parts), SCHEMA, ("id",)), folder)
    assert rows_of(folder) == expected
    assert all(path.name.startswith("part-") for path in folder.iterdir())
    assert len(list(folder.iterdir())) > 1
