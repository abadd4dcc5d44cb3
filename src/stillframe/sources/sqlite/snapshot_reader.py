"""A SQLite database of which snapshots are taken: nothing is installed in it.

The sign of its state is what SQLite itself goes by. A commit in WAL mode rewrites the header of the wal-index
(the -shm file), which has the number of the last frame, the salts of the log and a checksum over all frames
so far. A database that nobody has open has no wal-index: then its files stand still, or show that they moved.

These files are never opened here but through SQLite: closing one would drop every lock that SQLite holds on
it in this process. So another process is sent to read the header.
"""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from stillframe.errors import SourceError
from stillframe.sources.base import Relation
from stillframe.sources.files.stamp import Stamp
from stillframe.sources.sqlite.catalog import Table, quoted, read_table, relation_of, table_names
from stillframe.sources.sqlite.read import Query, batches, reading

INDEX_HEADER_BYTES = 48
ATTEMPTS = 5


@dataclass(frozen=True)
class SqliteSnapshotReader:
    name: str
    path: Path

    @property
    def address(self) -> str:
        return f"sqlite:{self.path.resolve()}"

    def describe(self) -> dict[str, Relation]:
        with reading(self.name, self.path) as con:
            return {name: relation_of(_readable(read_table(con, name))) for name in table_names(con)}

    def fingerprint(self, relations: Sequence[str]) -> str | None:
        for _ in range(ATTEMPTS):
            try:
                stamps = [_stamp_if_there(path) for path in (self.path, self._beside("-wal"))]
                header = self._index_header()
            except OSError:
                return None
            if header is None:
                continue
            young = max((stamp.young() for stamp in stamps if stamp is not None), default=0.0)
            if header or not young:
                return hashlib.sha256(repr((stamps, header)).encode()).hexdigest()
            time.sleep(young)
        return None

    def _index_header(self) -> bytes | None:
        """Nothing where there is no wal-index, None while it is being rewritten: it is kept twice."""
        index = self._beside("-shm")
        if not index.exists():
            return b""
        read = ["head", "-c", str(2 * INDEX_HEADER_BYTES), str(index)]
        found = subprocess.run(read, capture_output=True, check=False)
        first, copy = found.stdout[:INDEX_HEADER_BYTES], found.stdout[INDEX_HEADER_BYTES:]
        return first if found.returncode == 0 and first and first == copy else None

    def _beside(self, suffix: str) -> Path:
        real = self.path.resolve()
        return real.with_name(real.name + suffix)

    def changed_at(self) -> datetime | None:
        stamps = [_stamp_if_there(path) for path in (self.path, self._beside("-wal"))]
        times = [stamp.modified for stamp in stamps if stamp is not None]
        return datetime.fromtimestamp(max(times) / 1e9, UTC) if times else None

    def read(self, relations: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        with reading(self.name, self.path) as con:
            there = table_names(con)
            for name, columns in relations.items():
                if name not in there:
                    raise SourceError(f"source {self.name!r} has no table {name!r}", code="NO_RELATION")
                query = self._query(_readable(read_table(con, name)), columns)
                for batch in batches(con, self.name, query):
                    yield name, batch

    def _query(self, table: Table, columns: Sequence[str]) -> Query:
        readings = table.readings()
        for column in columns:
            if column not in readings:
                raise SourceError(f"{self.name}.{table.name} has no column {column!r}", code="NO_COLUMN")
        picked = ", ".join(quoted(column) for column in columns) or "1"
        order = f" ORDER BY {table.rowid}" if table.rowid else ""
        return Query(
            f"SELECT {picked} FROM {quoted(table.name)}{order}",
            (),
            table,
            tuple(columns),
            tuple(readings[column] for column in columns),
            counted=not columns,
        )

    def rows(self, relation: str) -> int:
        with reading(self.name, self.path) as con:
            (count,) = con.execute(f"SELECT count(*) FROM {quoted(relation)}").fetchone()
            return int(count)


def _readable(table: Table) -> Table:
    """What triggers could not capture can be read all the same."""
    return replace(table, refusal=None)


def _stamp_if_there(path: Path) -> Stamp | None:
    try:
        return Stamp.of(path)
    except FileNotFoundError:
        return None
