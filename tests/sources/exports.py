"""Exports as a legacy program leaves them, and what tests ask of a source over them."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa

from stillframe.algebra.bag import Bag
from stillframe.sources import Position, Relation
from stillframe.sources.files.reader import FilesReader
from stillframe.sources.snapshots.source import SnapshotReader, SnapshotSource

ME = "warehouse"
Row = tuple[object, ...]


def csv_text(header: Sequence[str], rows: Iterable[Row]) -> str:
    """None as an empty field, everything else quoted where it must be."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    for row in rows:
        text.write(",".join("" if v is None else '""' if v == "" else _field(v) for v in row) + "\n")
    return text.getvalue()


def _field(value: object) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow([value])
    return text.getvalue()[:-1]


def put(path: Path, content: str | bytes) -> None:
    """As careful programs do: under another name first."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.draft")
    draft.write_bytes(content.encode() if isinstance(content, str) else content)
    draft.replace(path)


def bag(batches: Iterable[pa.RecordBatch]) -> Bag:
    pairs = []
    for batch in batches:
        *columns, counts = (c.to_pylist() for c in batch.columns)
        rows = zip(*columns, strict=True) if columns else [()] * len(counts)
        pairs += list(zip(rows, counts, strict=True))
    return Bag(pairs)


def files(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


class Exports:
    """A folder of exports, the relation `t` that they are, and a source over it."""

    def __init__(self, root: Path, key: tuple[str, ...] = (), **columns: str) -> None:
        self.root = root
        self.folder = root / "exports"
        self.folder.mkdir()
        self.reader = FilesReader("t", str(self.folder / "*.csv"), key, columns)
        self.source = SnapshotSource(self.reader, root / "kept")

    def write(self, header: Sequence[str], rows: Iterable[Row], name: str = "a.csv") -> None:
        put(self.folder / name, csv_text(header, rows))

    def rows(self, at: Position, *columns: str) -> Bag:
        return bag(self.source.state("t", columns, at))

    def change(self, after: Position, upto: Position, *columns: str) -> Bag:
        return bag(self.source.changes("t", columns, after, upto))


@dataclass(frozen=True)
class Wrapped:
    """A reader that behaves as a test wants where nothing else would show the case."""

    inner: SnapshotReader
    signs: bool = True
    on_read: Callable[[int], None] | None = None
    reads: Path | None = None

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def address(self) -> str:
        return self.inner.address

    def describe(self) -> dict[str, Relation]:
        return self.inner.describe()

    def fingerprint(self, relations: Sequence[str]) -> str | None:
        return self.inner.fingerprint(relations) if self.signs else None

    def read(self, relations: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self.reads is not None:
            with self.reads.open("a") as file:
                file.write("read\n")
        for i, found in enumerate(self.inner.read(relations)):
            yield found
            if self.on_read is not None:
                self.on_read(i)

    def rows(self, relation: str) -> int:
        return self.inner.rows(relation)

    def count(self) -> int:
        assert self.reads is not None
        return len(self.reads.read_text().splitlines()) if self.reads.exists() else 0
