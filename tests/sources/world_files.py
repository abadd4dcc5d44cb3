"""Exports as worlds for the conformance checks: a database that the source cannot reach, and a program beside
it that writes its first table to a file whenever the source is about to look."""

from __future__ import annotations

import fcntl
import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from exports import put
from world_snapshots import Kept, snapshotted
from world_sqlite import SqliteWorld

from stillframe.algebra import types as t
from stillframe.algebra.arrow import arrow_type
from stillframe.sources import Relation
from stillframe.sources.conformance import Feature, TypeCase
from stillframe.sources.files import FilesReader
from stillframe.sources.files_types import declared_type
from stillframe.sources.snapshots import SnapshotReader

LOST = {"TIME": pa.time64("us"), "LIST": pa.list_(pa.int64()), "WIDE": pa.decimal256(39, 0)}


def _exported_type(declared: str) -> str:
    """What the exporter calls a column. TEXT before it keeps SQLite from taking the value for a float."""
    return {"INTEGER": "bigint"}.get(declared, declared.removeprefix("TEXT ").lower())


@dataclass(frozen=True)
class Exporting:
    """Reads what it has exported just before. `suffix` says in which form."""

    database: Path
    folder: Path
    suffix: str
    known: Mapping[str, Relation] = field(default_factory=dict)

    @property
    def name(self) -> str:
        with self._connected() as con:
            return self._table(con)

    @property
    def address(self) -> str:
        return f"export:{self.database}"

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        con = sqlite3.connect(self.database, isolation_level=None, timeout=30)
        try:
            con.execute("BEGIN")
            yield con
        finally:
            con.close()

    @staticmethod
    def _table(con: sqlite3.Connection) -> str:
        found = con.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name LIMIT 1")
        return str((found.fetchone() or ["nothing"])[0])

    def _exported(self) -> FilesReader:
        """The export of now. One program exports at a time, so that none puts an older state over a newer."""
        path = self.folder / f"export{self.suffix}"
        with (self.folder / "exporting").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            with self._connected() as con:
                table = self._table(con)
                columns = con.execute("SELECT name, type, pk FROM pragma_table_info(?)", (table,)).fetchall()
                types = {name: _exported_type(kind) for name, kind, _ in columns}
                quoted = '"' + table.replace('"', '""') + '"'
                rows = con.execute(f"SELECT * FROM {quoted}").fetchall() if columns else []
            if columns:
                content = (_csv if self.suffix == ".csv" else _parquet)(types, rows)
                if not path.exists() or path.read_bytes() != content:
                    put(path, content)
            else:
                path.unlink(missing_ok=True)
        key = tuple(name for name, _, place in sorted(columns, key=lambda column: column[2]) if place)
        reader = FilesReader(table, str(path), key, types if self.suffix == ".csv" else {})
        return reader.knowing(self.known)

    def knowing(self, relations: Mapping[str, Relation]) -> Exporting:
        return replace(self, known=relations)

    def describe(self) -> dict[str, Relation]:
        return self._exported().describe()

    def fingerprint(self, relations: Sequence[str]) -> str | None:
        return self._exported().fingerprint(relations)

    def read(self, relations: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        return self._exported().read(relations)

    def rows(self, relation: str) -> int:
        return self._exported().rows(relation)


def _csv(types: Mapping[str, str], rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Every value in quotes, so that an empty text is not taken for nothing."""
    booleans = [declared_type(kind) == t.BOOLEAN for kind in types.values()]
    lines = [",".join(_quoted(name) for name in types)]
    for row in rows:
        shown = (str(bool(v)) if b and v is not None else v for v, b in zip(row, booleans, strict=True))
        lines.append(",".join("" if value is None else _quoted(value) for value in shown))
    return ("\r\n".join(lines) + "\r\n").encode()


def _quoted(value: object) -> str:
    return '"' + str(value).replace('"', '""') + '"'


def _parquet(types: Mapping[str, str], rows: Sequence[tuple[Any, ...]]) -> bytes:
    arrays = {}
    for i, (name, kind) in enumerate(types.items()):
        type_ = LOST.get(kind.upper()) or (pa.binary() if kind == "blob" else arrow_type(declared_type(kind)))
        arrays[name] = pa.array([_value(row[i], type_) for row in rows], type_)
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(arrays), sink)
    return bytes(sink.getvalue().to_pybytes())


def _value(value: Any, type_: pa.DataType) -> Any:
    if value is None:
        return None
    if pa.types.is_boolean(type_):
        return bool(value)
    if pa.types.is_decimal(type_):
        exact = Decimal(value if isinstance(value, str) else repr(value))
        return exact.quantize(Decimal(1).scaleb(-type_.scale)) if type_.scale else exact
    if pa.types.is_date(type_):
        return date.fromisoformat(value)
    if pa.types.is_timestamp(type_):
        found = datetime.fromisoformat(value)
        return found if found.tzinfo else found.replace(tzinfo=UTC)
    return value


NINES = "9" * 38


class FilesWorld(Kept, SqliteWorld):
    """One relation, and nothing in the database but its owner's tables."""

    suffix = ""
    offers = snapshotted(SqliteWorld.offers) - {
        Feature.SEVERAL_RELATIONS,
        Feature.FOREIGN_KEYS,
        Feature.CASCADES_CAPTURED,
    }
    types = (
        TypeCase(
            "BIGINT", t.BIGINT, (("9223372036854775807", 2**63 - 1), (f"({-(2**63) + 1} - 1)", -(2**63)))
        ),
        TypeCase("SMALLINT", t.SMALLINT, (("32767", 32767), ("-32768", -32768))),
        TypeCase("BOOLEAN", t.BOOLEAN, (("1", True), ("0", False))),
        TypeCase("TEXT", t.STRING, (("''", ""), ("'NULL'", "NULL"), ("'a,\"b\"'", 'a,"b"'))),
        TypeCase(
            "DOUBLE",
            t.DOUBLE,
            (
                ("1.7976931348623157e308", 1.7976931348623157e308),
                ("5e-324", 5e-324),
                ("9e999", float("inf")),
                ("-9e999", float("-inf")),
            ),
        ),
        TypeCase(
            "TEXT DECIMAL(38,0)", t.decimal(38, 0), ((f"'{NINES}'", Decimal(NINES)), ("'-1'", Decimal(-1)))
        ),
        TypeCase("TEXT DECIMAL(38,38)", t.decimal(38, 38), ((f"'0.{NINES}'", Decimal(f"0.{NINES}")),)),
        TypeCase("DATE", t.DATE, (("'0001-01-01'", date(1, 1, 1)), ("'9999-12-31'", date(9999, 12, 31)))),
        TypeCase(
            "TIMESTAMP",
            t.TIMESTAMP,
            (
                ("'0001-01-01 00:00:00'", datetime(1, 1, 1, tzinfo=UTC)),
                ("'9999-12-31T23:59:59.999999'", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
                ("'2024-02-29T12:00:00.500000+05:30'", datetime(2024, 2, 29, 6, 30, 0, 500000, UTC)),
            ),
        ),
    )

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.kept = path.parent / "kept"

    def reader(self) -> SnapshotReader:
        return Exporting(self.path, self.path.parent, self.suffix)


class CsvWorld(FilesWorld):
    suffix = ".csv"
    offers = FilesWorld.offers - {Feature.BYTES, Feature.REFUSED_TYPES}


class ParquetWorld(FilesWorld):
    suffix = ".parquet"
    types = (*FilesWorld.types, TypeCase("BLOB", t.BINARY, (("X'00FF'", b"\x00\xff"), ("X''", b""))))
    refused_types = tuple(LOST)


@contextmanager
def files_world(kind: type[FilesWorld], folder: Path) -> Iterator[FilesWorld]:
    folder.mkdir(parents=True, exist_ok=True)
    world = kind(folder / "s.db")
    try:
        yield world
    finally:
        world.close()
