"""A set of CSV or Parquet exports that is replaced from time to time: one relation, called like the source.

Files give no snapshot. What was read counts only if nobody touched a file meanwhile: same names, same sizes,
same inodes, same times before and after. A file whose times are so young that a later write could still bear
the same ones is waited for. What this cannot see is an export that is written in place and pauses: it is
taken for the state it shows. Exporters that write under another name and rename never show one.
"""

from __future__ import annotations

import glob
import hashlib
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from stillframe.algebra.arrow import staged_schema
from stillframe.algebra.schema import Column, Schema
from stillframe.algebra.types import Type
from stillframe.errors import ProjectError, SourceError, ValueMismatch
from stillframe.sources.base import Relation
from stillframe.sources.files import csv as files_csv
from stillframe.sources.files import parquet as files_parquet
from stillframe.sources.files.keys import KeyCheck
from stillframe.sources.files.parquet import BadValueAt
from stillframe.sources.files.stamp import Stamp
from stillframe.sources.files.types import DECLARABLE, BadText, declared_type, parsed
from stillframe.sources.snapshots.reader import Unstable

CSV, PARQUET = ".csv", ".parquet"
LONGEST_WAIT_TICKS = 20


@dataclass(frozen=True)
class FilesReader:
    """`key` columns are checked: no NULL in them, and no two rows agree on all of them. `columns` are types
    that the project declares, for CSV; of the others, `known` are those learned from earlier exports."""

    name: str
    pattern: str
    key: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    known: Mapping[str, Type] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for column, text in self.columns.items():
            try:
                declared_type(text)
            except ValueError:
                raise ProjectError(
                    f"source {self.name}: column {column!r} cannot be of the type {text!r}",
                    hint=f"the types there are: {DECLARABLE}",
                ) from None

    @property
    def address(self) -> str:
        return f"files:{Path(self.pattern).absolute()}"

    def knowing(self, relations: Mapping[str, Relation]) -> FilesReader:
        if self.name not in relations:
            return self
        return replace(self, known={c.name: c.type for c in relations[self.name].schema})

    def describe(self) -> dict[str, Relation]:
        with self._still() as stamps:
            return {self.name: self._relation([stamp.path for stamp in stamps])}

    def fingerprint(self, relations: Sequence[str]) -> str | None:
        stamps = self._settled()
        if any(stamp.changed / 1e9 > time.time() + 1 for stamp in stamps):
            return None  # by a clock that is not ours: its times may come again
        told: list[object] = [self.key, sorted(self.columns.items())]
        told += [[str(s.path), s.device, s.inode, s.size, s.modified, s.changed] for s in stamps]
        return hashlib.sha256(json.dumps(told).encode()).hexdigest()

    def changed_at(self) -> datetime | None:
        return datetime.fromtimestamp(max(stamp.modified for stamp in self._stamps()) / 1e9, UTC)

    def rows(self, relation: str) -> int:
        """Of CSV, as many as there are lines."""
        paths = [stamp.path for stamp in self._stamps()]
        if self._kind(paths) == PARQUET:
            return sum(files_parquet.rows(path) for path in paths)
        return sum(max(_lines(path) - 1, 0) for path in paths)

    # -- the files

    def _stamps(self) -> tuple[Stamp, ...]:
        paths = [Path(found) for found in sorted(glob.glob(self.pattern, recursive=True))]  # noqa: PTH207
        stamps = []
        for path in paths:
            try:
                if path.is_file():
                    stamps.append(Stamp.of(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._unreadable(error) from error
        if not stamps:
            raise SourceError(
                f"source {self.name!r} has no files",
                detail=f"nothing matches {self.pattern}",
                hint="put the export back; a missing one is never taken for an empty one",
                code="NO_FILES",
            )
        return tuple(stamps)

    def _settled(self) -> tuple[Stamp, ...]:
        """The files, at a moment after which any write shows."""
        for _ in range(LONGEST_WAIT_TICKS):
            stamps = self._stamps()
            young = max(stamp.young() for stamp in stamps)
            if not young:
                return stamps
            time.sleep(young)
        raise self._unstable()

    @contextmanager
    def _still(self) -> Iterator[tuple[Stamp, ...]]:
        """What is read in a block is of one state, or it ends in Unstable. Whatever else goes wrong while
        files move goes wrong for that reason."""
        before = self._settled()
        try:
            yield before
        except Unstable:
            raise
        except (SourceError, OSError) as error:
            if self._stamps() != before:
                raise self._unstable() from error
            if isinstance(error, OSError):
                raise self._unreadable(error) from error
            raise
        if self._stamps() != before:
            raise self._unstable()

    def _unstable(self) -> Unstable:
        return Unstable(
            f"the files of source {self.name!r} were replaced while they were read, again and again",
            detail=self.pattern,
            hint="write an export under another name, and rename it when it is whole",
            code="FILES_UNSTABLE",
        )

    def _unreadable(self, error: OSError) -> SourceError:
        return SourceError(
            f"a file of source {self.name!r} cannot be read",
            detail=f"{error.filename}: {error.strerror}",
            code="UNREADABLE_FILE",
        )

    def _kind(self, paths: Sequence[Path]) -> str:
        kinds = {path: path.suffix.lower() for path in paths}
        first = kinds[paths[0]]
        for path, kind in kinds.items():
            if kind not in (CSV, PARQUET):
                message = f"{path} is neither a {CSV} nor a {PARQUET} file"
            elif kind != first:
                message = f"{path} is not of the same kind as {paths[0]}"
            else:
                continue
            raise SourceError(
                message,
                detail=f"source {self.name!r} is all files that match {self.pattern}",
                hint="narrow the pattern, or move other files away",
                code="UNKNOWN_FILE",
            )
        return first

    # -- columns

    def _relation(self, paths: Sequence[Path]) -> Relation:
        if self._kind(paths) == PARQUET:
            self._refuse_declared()
            fields = [files_parquet.fields(path) for path in paths]
            self._require_alike(paths, [[(f.name, f.refused or str(f.type)) for f in one] for one in fields])
            refused = {f.name: f.refused for f in fields[0] if f.refused}
            required = {f.name for f in fields[0] if all(_not_null(one, f.name) for one in fields)}
            types = {f.name: f.type for f in fields[0]}
            names = tuple(f.name for f in fields[0])
        else:
            headers = [files_csv.header(path) for path in paths]
            self._require_alike(paths, [[(name, "") for name in header] for header in headers])
            names, required = headers[0], set()
            refused = {name: "the column has no name" for name in names if not name}
            types = self._csv_types(paths, headers, [n for n in names if n and not _twin(n, names)])
        twins = "another column's name is the same, or differs only in case"
        refused |= {name: twins for name in names if name and _twin(name, names)}
        columns = [
            Column(name, types[name], name not in required and name not in self.key)
            for name in names
            if name not in refused
        ]
        return Relation(self.name, Schema(tuple(columns), self._keys(paths[0], columns, refused)), refused)

    def _csv_types(
        self, paths: Sequence[Path], headers: Sequence[Sequence[str]], names: Sequence[str]
    ) -> dict[str, Type]:
        for column in self.columns:
            if column not in names:
                raise self._no_column(paths[0], column, names, "the project declares")
        types = {name: self.known[name] for name in names if name in self.known}
        types |= {name: declared_type(text) for name, text in self.columns.items()}
        return types | files_csv.learned(paths, headers, [name for name in names if name not in types])

    def _refuse_declared(self) -> None:
        if self.columns:
            raise SourceError(
                f"source {self.name!r} declares types of columns, but its files say their own",
                detail=f"declared: {', '.join(self.columns)}",
                hint="leave `columns` out: it is for CSV",
                code="TYPES_DECLARED_TWICE",
            )

    def _require_alike(self, paths: Sequence[Path], shapes: Sequence[list[tuple[str, str]]]) -> None:
        first = sorted(shapes[0])
        for path, shape in zip(paths, shapes, strict=True):
            if sorted(shape) != first:
                differing = [" ".join(column) for column in {*shape} ^ {*first}] or ["one of them twice"]
                raise SourceError(
                    f"{path} has other columns than {paths[0]}",
                    detail=f"they differ in: {', '.join(sorted(differing))}",
                    hint=f"all files that match {self.pattern} are one relation, {self.name}",
                    code="FILES_DIFFER",
                )

    def _keys(
        self, path: Path, columns: Sequence[Column], refused: Mapping[str, str]
    ) -> frozenset[frozenset[int]]:
        places = {column.name: i for i, column in enumerate(columns)}
        for column in self.key:
            if column not in places:
                raise self._no_column(path, column, [*places], "is the key's", refused.get(column, ""))
        return frozenset({frozenset(places[column] for column in self.key)} if self.key else ())

    def _no_column(
        self, path: Path, column: str, there: Sequence[str], what: str, why: str = ""
    ) -> SourceError:
        return SourceError(
            f"{path} has no column {column!r}, which {what}",
            detail=why or f"there are: {', '.join(there)}",
            hint="names are compared exactly",
            code="SCHEMA_CHANGED" if column in self.known else "NO_COLUMN",
        )

    # -- rows

    def read(self, relations: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        if self.name not in relations:
            return
        names = relations[self.name]
        with self._still() as stamps:
            paths = [stamp.path for stamp in stamps]
            schema = self._relation(paths).schema
            wanted = tuple(dict.fromkeys((*names, *self.key)))
            for name in wanted:
                if name not in schema.names:
                    raise self._no_column(paths[0], name, schema.names, "is asked for")
            types = {name: schema[schema.names.index(name)].type for name in wanted}
            staged = staged_schema([types[name] for name in names])
            check = KeyCheck(self.name, self.key, {name: types[name] for name in self.key})
            for path in paths:
                for rows, arrays in self._typed(path, types):
                    check.add(path, [arrays[name] for name in self.key])
                    ones = pa.repeat(pa.scalar(1, pa.int64()), rows)
                    columns = [arrays[name] for name in names]
                    yield self.name, pa.RecordBatch.from_arrays([*columns, ones], schema=staged)
            check.finish()

    def _typed(self, path: Path, types: Mapping[str, Type]) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        if path.suffix.lower() == PARQUET:
            return self._parquet(path, types)
        return self._csv(path, types)

    def _csv(self, path: Path, types: Mapping[str, Type]) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        header, above = files_csv.header(path), 0
        for batch in files_csv.text_batches(path, len(header)):
            arrays = {}
            for name, type_ in types.items():
                place = header.index(name)
                try:
                    arrays[name] = parsed(batch.column(place), type_, declared=name in self.columns)
                except BadText as bad:
                    where = files_csv.line_of(path, above + bad.index, {place: bad.text})
                    raise self._mismatch(path, where, name, f"{bad.text!r}", type_) from None
            yield batch.num_rows, arrays
            above += batch.num_rows

    def _parquet(self, path: Path, types: Mapping[str, Type]) -> Iterator[tuple[int, dict[str, pa.Array]]]:
        above = 0
        for batch in files_parquet.batches(path, [*types]):
            arrays = {}
            for name, type_ in types.items():
                values = batch.column(batch.schema.names.index(name))
                try:
                    arrays[name] = files_parquet.converted(values, type_)
                except BadValueAt as bad:
                    where = f"row {above + bad.index + 1}"
                    raise self._mismatch(path, where, name, bad.value, type_) from None
            yield batch.num_rows, arrays
            above += batch.num_rows

    def _mismatch(self, path: Path, where: str, column: str, value: str, type_: Type) -> ValueMismatch:
        shown = value if len(value) <= 80 else value[:79] + "…"
        learned = column in self.known and column not in self.columns and path.suffix.lower() == CSV
        error = ValueMismatch(
            f"column {column!r} of {path} holds {shown} in {where}, which is not a {type_}",
            detail="its type was learned from earlier exports" if learned else "",
            hint="correct the export"
            + (f', or declare the type its values have: columns: {{{column}: "…"}}' if learned else ""),
        )
        if column not in self.key:  # without its key a relation is not the one that views rest on
            error.relation, error.column = self.name, column
        return error


def _twin(name: str, names: Sequence[str]) -> bool:
    return [other.lower() for other in names].count(name.lower()) > 1


def _not_null(fields: Sequence[files_parquet.Field], name: str) -> bool:
    return all(not field.nullable for field in fields if field.name == name)


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(block.count(b"\n") for block in iter(lambda: file.read(1 << 20), b""))
