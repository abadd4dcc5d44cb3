"""A folder of exports as a world for the conformance checks.

The writers' programs have a database of their own, which nobody else sees. After every commit a table of it
is exported, whole, and put in the place of the export before.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
from values_of_types import DATES, DECIMALS, DOUBLES, INTEGERS, TIMESTAMPS
from world_sqlite import SqliteWorld, SqliteWriter

from stillframe.algebra import types as t
from stillframe.sources import Source
from stillframe.sources.conformance import INTEGER, TEXT, Feature, Table, TypeCase, Writer
from stillframe.sources.files.reader import FilesReader
from stillframe.sources.snapshots.source import SnapshotSource

Literals = tuple[tuple[str, Any], ...]


def as_text(values: Literals) -> Literals:
    """The same values, kept by the writers' database as the text they are exported as."""
    return tuple((literal if literal.startswith("'") else f"'{value}'", value) for literal, value in values)


class ExportingWriter(SqliteWriter):
    def __init__(self, path: Path, export: Callable[[], None]) -> None:
        super().__init__(path)
        self.export = export

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        rows = super().execute(sql)
        if not self.con.in_transaction and not sql.startswith(("SELECT", "ROLLBACK", "PRAGMA")):
            self.export()
        return rows


class ExportsWorld(SqliteWorld):
    offers = frozenset(
        {
            Feature.PENDING,
            Feature.CAPTURE_LIMIT,
            Feature.TRIMS,
            Feature.UPSERT,
            Feature.REPLACE,
            Feature.SCHEMA_DUMP,
            Feature.TRIM_LOG,
            Feature.ADD_COLUMN,
            Feature.DROP_COLUMN,
            Feature.RENAME_COLUMN,
            Feature.RETYPE_COLUMN,
        }
    )
    declared: ClassVar[dict[str, str]] = {INTEGER: "bigint", TEXT: "string"}
    long_text = "string"
    binary = "binary"
    affinity: ClassVar[dict[str, str]] = {"bigint": "integer", "string": "text"}
    pause = 1.5  # an export is not replaced at every moment
    suffix = ""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.table: Table | None = None
        self.exporting = threading.Lock()
        for name in ("exports", "hidden"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        super().__init__(folder / "hidden" / "s.db")

    def create(self, *tables: Table) -> None:
        """Their types are those of the export; the writers' database keeps what it is given."""
        self.table = self.table or tables[0]
        for table in tables:
            kinds = ((name, self.declared.get(kind, kind)) for name, kind in table.columns)
            kept = ((name, f"{self.affinity.get(kind, 'blob')} {kind}") for name, kind in kinds)
            super().create(replace(table, columns=tuple(kept)))

    def source(self, capture_limit: int | None = None) -> Source:
        assert self.table is not None
        pattern = str(self.folder / "exports" / f"*{self.suffix}")
        reader = FilesReader(self.table.name, pattern, self.table.key, self.types_declared())
        return SnapshotSource(reader, self.folder / "kept", capture_limit)

    def types_declared(self) -> dict[str, str]:
        return {}

    def writer(self) -> Writer:
        return ExportingWriter(self.path, self.export)

    def export(self) -> None:
        if self.table is None:
            return
        with self.exporting:
            con = SqliteWriter(self.path)
            try:
                kinds = self.kinds(con)
                target = self.folder / "exports" / f"export{self.suffix}"
                if not kinds:
                    target.unlink(missing_ok=True)
                    return
                draft = self.folder / "hidden" / "draft"
                self.write(draft, kinds, con.execute(f"SELECT * FROM {self.quoted(self.table.name)}"))
                os.replace(draft, target)  # noqa: PTH105
            finally:
                con.close()

    def kinds(self, con: Writer) -> dict[str, str]:
        """The type of each column, as it is now."""
        assert self.table is not None
        found = con.execute(f"SELECT name, type FROM pragma_table_info({self.literal(self.table.name)})")
        return {name: kind.split()[-1] for name, kind in found}

    def write(self, path: Path, kinds: dict[str, str], rows: list[tuple[Any, ...]]) -> None:
        raise NotImplementedError

    def retype(self, table: str, column: str) -> tuple[str, ...]:
        return self._made_anew(table, {column: "text string"})

    def schema_dump(self) -> str:
        found = [p.relative_to(self.folder) for p in self.folder.rglob("*") if "hidden" not in p.parts]
        assert self.table is not None
        return "\n".join([self.table.name, *sorted(map(str, found))])

    def trim_log(self) -> None:
        for path in (self.folder / "kept").glob("*/*.parquet"):
            path.unlink()


class ParquetWorld(ExportsWorld):
    offers = ExportsWorld.offers | {Feature.BYTES, Feature.REFUSED_TYPES}
    suffix = ".parquet"
    arrow: ClassVar[dict[str, tuple[pa.DataType, Callable[[Any], Any]]]] = {
        "bigint": (pa.int64(), int),
        "int": (pa.int32(), int),
        "smallint": (pa.int16(), int),
        "string": (pa.string(), str),
        "binary": (pa.binary(), bytes),
        "boolean": (pa.bool_(), bool),
        "double": (pa.float64(), float),
        "date": (pa.date32(), date.fromisoformat),
        "timestamp": (pa.timestamp("us"), datetime.fromisoformat),
        "timestamptz": (pa.timestamp("us", "Europe/Berlin"), datetime.fromisoformat),
        "time": (pa.time64("us"), int),
        "list": (pa.list_(pa.int64()), list),
        "duration": (pa.duration("us"), int),
        **{f"decimal({p},{s})": (pa.decimal128(p, s), Decimal) for p, s in DECIMALS},
    }
    refused_types = ("time", "list", "duration")
    types = (
        TypeCase("bigint", t.BIGINT, INTEGERS[64]),
        TypeCase("int", t.INT, INTEGERS[32]),
        TypeCase("smallint", t.SMALLINT, INTEGERS[16]),
        TypeCase("boolean", t.BOOLEAN, (("1", True), ("0", False))),
        *(TypeCase(f"decimal({p},{s})", t.decimal(p, s), as_text(v)) for (p, s), v in DECIMALS.items()),
        TypeCase("double", t.DOUBLE, (*DOUBLES, ("9e999", float("inf")))),
        TypeCase("date", t.DATE, DATES),
        TypeCase("timestamp", t.TIMESTAMP, TIMESTAMPS),
        TypeCase(
            "timestamptz",
            t.TIMESTAMP,
            (
                ("'2024-02-29 12:00:00.5+05:30'", datetime(2024, 2, 29, 6, 30, 0, 500000, UTC)),
                ("'9999-12-31 23:59:59.999999+00:00'", datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)),
            ),
        ),
        TypeCase("string", t.STRING, (("''", ""), ("'x'", "x"))),
        TypeCase("binary", t.BINARY, (("X'00FF'", b"\x00\xff"), ("X''", b""))),
    )

    def write(self, path: Path, kinds: dict[str, str], rows: list[tuple[Any, ...]]) -> None:
        columns = list(zip(*rows, strict=True)) or [()] * len(kinds)
        arrays = []
        for kind, values in zip(kinds.values(), columns, strict=True):
            type_, convert = self.arrow[kind]
            arrays.append(pa.array([None if v is None else convert(v) for v in values], type_))
        pq.write_table(pa.Table.from_arrays(arrays, names=list(kinds)), path)


class CsvWorld(ExportsWorld):
    suffix = ".csv"
    types = (
        TypeCase("bigint", t.BIGINT, INTEGERS[64]),
        TypeCase("int", t.INT, INTEGERS[32]),
        TypeCase("boolean", t.BOOLEAN, (("'true'", True), ("'FALSE'", False))),
        *(TypeCase(f"decimal({p},{s})", t.decimal(p, s), as_text(v)) for (p, s), v in DECIMALS.items()),
        TypeCase("double", t.DOUBLE, as_text((*DOUBLES, ("NaN", float("nan")), ("-inf", float("-inf"))))),
        TypeCase("date", t.DATE, DATES),
        TypeCase(
            "timestamp",
            t.TIMESTAMP,
            (*TIMESTAMPS, ("'2024-02-29T12:00:00.5+05:30'", datetime(2024, 2, 29, 6, 30, 0, 500000, UTC))),
        ),
        TypeCase("string", t.STRING, (("''", ""), ("'00'", "00"), ("'1'", "1"))),
    )

    def types_declared(self) -> dict[str, str]:
        """As an administrator keeps them."""
        declared = dict(self.table.columns) if self.table else {}
        return {
            name: self.declared.get(declared[name], declared[name])
            for name in self.kinds(self.own)
            if name in declared
        }

    def write(self, path: Path, kinds: dict[str, str], rows: list[tuple[Any, ...]]) -> None:
        texts = [kind == "string" for kind in kinds.values()]
        with path.open("w", encoding="utf-8", newline="") as file:
            file.write(",".join(_quoted(name) for name in kinds) + "\r\n")
            for row in rows:
                fields = (
                    "" if v is None else _quoted(str(v)) if text else str(v)
                    for v, text in zip(row, texts, strict=True)
                )
                file.write(",".join(fields) + "\r\n")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


@contextmanager
def exports_world(kind: type[ExportsWorld], folder: Path) -> Iterator[ExportsWorld]:
    world = kind(folder)
    try:
        yield world
    finally:
        world.close()
