"""Snapshots in a folder.

    state.json             who the snapshots are of, who needs them, and which there are
    <number>/<n>.parquet   one relation of one snapshot, in the staged schema
    lock                   held by whoever changes anything here

The state file is the only truth, and is replaced in one step. A folder it does not name is what a crash left:
whoever takes the lock next sweeps it. Reading takes no lock, for what the state names is never rewritten.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from stillframe.algebra.arrow import staged_schema
from stillframe.errors import SourceError
from stillframe.sources.base import Capture, Relation, named

FORMAT = 1
WAIT_SECONDS = 60.0
GROUP_ROWS = 131_072
_POLL_SECONDS = 0.05
_STATE, _LOCK = "state.json", "lock"
_LEFT = re.compile(r"\d+|\.draft-\w+|\.state\.json")


class Absent(Exception):
    """Nothing is kept there."""


class Damaged(Exception):
    """The state file cannot be read."""


class Misshapen(Exception):
    """What was read has other columns than were asked for: they changed meanwhile."""


@dataclass(frozen=True, slots=True)
class Part:
    """One relation of a snapshot: the columns of `relation`'s schema, in their order. `unreadable` has the
    columns in which a value was not of its type, each with the error that says so."""

    file: str
    rows: int
    bytes: int
    digest: str
    relation: Relation
    unreadable: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def same(self, other: Part) -> bool:
        """Whether both hold the same rows, and all of them under the same names."""
        return self.digest == other.digest and self.relation.schema.names == other.relation.schema.names

    def to_json(self) -> dict[str, Any]:
        return {
            "file": self.file,
            "rows": self.rows,
            "bytes": self.bytes,
            "digest": self.digest,
            "relation": self.relation.to_json(),
            "unreadable": {column: dict(error) for column, error in self.unreadable.items()},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Part:
        return cls(**{**document, "relation": Relation.from_json(document["relation"])})


@dataclass(frozen=True, slots=True)
class Snapshot:
    """`wanted` are the relations it was asked for; one that is not among its parts was not there. `since` is
    when this state began: by the clock of its writers where that is known, else when it was seen."""

    number: int
    mark: str
    since: str
    fingerprint: str | None
    wanted: tuple[str, ...]
    parts: Mapping[str, Part]

    @property
    def rows(self) -> int:
        return sum(part.rows for part in self.parts.values())

    @property
    def bytes(self) -> int:
        return sum(part.bytes for part in self.parts.values())

    def to_json(self) -> dict[str, Any]:
        return {
            "number": self.number,
            "mark": self.mark,
            "since": self.since,
            "fingerprint": self.fingerprint,
            "wanted": list(self.wanted),
            "parts": {name: part.to_json() for name, part in self.parts.items()},
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Snapshot:
        parts = {name: Part.from_json(part) for name, part in document["parts"].items()}
        return cls(**{**document, "wanted": tuple(document["wanted"]), "parts": parts})


@dataclass
class State:
    """`consumers` have a position, a heartbeat and their needs; one without a position was dropped, and needs
    nothing. `described` are the relations as the newest look found them, `known` those columns of them of
    which a value was seen. `looked` is when the source was last read to its end, and how long that took."""

    identity: str
    last: int = 0
    consumers: dict[str, dict[str, Any]] = field(default_factory=dict)
    snapshots: list[Snapshot] = field(default_factory=list)
    described: dict[str, Relation] = field(default_factory=dict)
    known: dict[str, Relation] = field(default_factory=dict)
    looked: tuple[float, float] = (0.0, 0.0)

    @classmethod
    def new(cls) -> State:
        return cls(named(Capture.SNAPSHOT, str(uuid.uuid4())))

    @property
    def newest(self) -> Snapshot | None:
        return self.snapshots[-1] if self.snapshots else None

    @property
    def positions(self) -> dict[str, int]:
        """Of consumers that were not dropped."""
        held = {name: consumer["position"] for name, consumer in self.consumers.items()}
        return {name: position for name, position in held.items() if position is not None}

    @property
    def wanted(self) -> tuple[str, ...]:
        needs = (self.consumers[name]["needs"] for name in self.positions)
        return tuple(sorted({relation for relations in needs for relation in relations}))

    def to_json(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "identity": self.identity,
            "last": self.last,
            "consumers": self.consumers,
            "snapshots": [snapshot.to_json() for snapshot in self.snapshots],
            "described": {name: relation.to_json() for name, relation in self.described.items()},
            "known": {name: relation.to_json() for name, relation in self.known.items()},
            "looked": list(self.looked),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> State:
        return cls(
            document["identity"],
            document["last"],
            dict(document["consumers"]),
            [Snapshot.from_json(snapshot) for snapshot in document["snapshots"]],
            {name: Relation.from_json(relation) for name, relation in document["described"].items()},
            {name: Relation.from_json(relation) for name, relation in document["known"].items()},
            tuple(document["looked"]),
        )


@dataclass(frozen=True)
class Store:
    folder: Path

    def read(self) -> State | None:
        """None where nothing is kept."""
        try:
            document = json.loads((self.folder / _STATE).read_text(encoding="utf-8"))
            if document["format"] == FORMAT:
                return State.from_json(document)
        except FileNotFoundError:
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise Damaged(f"{self.folder / _STATE}: {type(error).__name__}: {error}") from error
        raise SourceError(
            "the snapshots kept there are of another version of stillframe",
            detail=f"{self.folder}: format {document['format']}, this version has {FORMAT}",
            hint="detach with the version that took them, then attach with this one",
            code="CAPTURE_FORMAT",
        )

    def write(self, state: State) -> None:
        draft = self.folder / f".{_STATE}"
        with draft.open("w", encoding="utf-8") as file:
            json.dump(state.to_json(), file, indent=1, sort_keys=True)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.folder / _STATE)
        _sync(self.folder)

    @contextmanager
    def exclusive(self, source: str, *, create: bool = False) -> Iterator[None]:
        """For as long as a block lasts, no other process and no other thread changes anything here.
        `Absent` where nothing is kept."""
        descriptor = self._locked(source, create)
        try:
            yield
        finally:
            os.close(descriptor)

    def _locked(self, source: str, create: bool) -> int:
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            if create:
                self.folder.mkdir(parents=True, exist_ok=True)
            try:
                descriptor = os.open(self.folder / _LOCK, os.O_RDWR | (os.O_CREAT if create else 0), 0o666)
            except FileNotFoundError as error:
                if not create:
                    raise Absent from error
                continue
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if self._is_the_lock(descriptor):
                    return descriptor
            except BlockingIOError:
                if time.monotonic() > deadline:
                    os.close(descriptor)
                    raise SourceError(
                        f"the snapshots of source {source!r} stayed locked for {WAIT_SECONDS:g} seconds",
                        detail=f"another process works on {self.folder}",
                        hint="wait for it to finish, or stop it",
                        code="LOCKED",
                    ) from None
                time.sleep(_POLL_SECONDS)
            except BaseException:
                os.close(descriptor)
                raise
            os.close(descriptor)

    def _is_the_lock(self, descriptor: int) -> bool:
        """Not one that was removed with everything else while we waited for it."""
        try:
            there = (self.folder / _LOCK).stat()
        except FileNotFoundError:
            return False
        return os.path.samestat(os.fstat(descriptor), there)

    def sweep(self, state: State | None) -> None:
        """Remove what was left here and the state does not name."""
        named = {str(snapshot.number) for snapshot in (state.snapshots if state else ())}
        for path in self.folder.iterdir():
            if path.name not in named and _LEFT.fullmatch(path.name):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    def remove(self) -> None:
        """Leave no trace. The lock goes last: until then nobody else begins here."""
        (self.folder / _STATE).unlink(missing_ok=True)
        self.sweep(None)
        (self.folder / _LOCK).unlink()
        with suppress(OSError):  # somebody begins anew, or keeps something of theirs here
            self.folder.rmdir()

    # -- parts

    def draft(self) -> Path:
        path = self.folder / f".draft-{uuid.uuid4().hex}"
        path.mkdir()
        return path

    def publish(self, draft: Path, number: int) -> None:
        """The folder stands under its name; the state has yet to name it."""
        _sync(draft)
        draft.rename(self.folder / str(number))

    def path(self, part: Part) -> Path:
        return self.folder / part.file

    def intact(self, snapshot: Snapshot) -> bool:
        """Whether its files are there, as large as they were written."""
        with suppress(OSError):
            return all(self.path(part).stat().st_size == part.bytes for part in snapshot.parts.values())
        return False

    def share(self, draft: Path, part: Part, older: Part) -> None:
        """One copy on disk of what two snapshots have in common, where the file system can."""
        shared, own = draft / ".shared", draft / Path(part.file).name
        with suppress(OSError):
            os.link(self.path(older), shared)
            shared.replace(own)


def write_parts(
    draft: Path,
    number: int,
    relations: Mapping[str, Relation],
    batches: Iterable[tuple[str, pa.RecordBatch]],
) -> dict[str, Part]:
    """Every relation as one file, empty ones too; equal rows in equal order make equal files."""
    schemas = {name: staged_schema(relation.schema.types) for name, relation in relations.items()}
    paths = {name: draft / f"{i}.parquet" for i, name in enumerate(relations)}
    rows = dict.fromkeys(relations, 0)
    waiting: dict[str, list[pa.RecordBatch]] = {name: [] for name in relations}
    writers: dict[str, pq.ParquetWriter] = {}
    try:
        for name, schema in schemas.items():
            writers[name] = pq.ParquetWriter(paths[name], schema, compression="zstd")
        for name, batch in batches:
            if not batch.schema.equals(schemas[name]):
                raise Misshapen(name)
            waiting[name].append(batch)
            rows[name] += batch.num_rows
            if sum(part.num_rows for part in waiting[name]) >= GROUP_ROWS:
                waiting[name] = _write_groups(writers[name], waiting[name])
        for name, last in waiting.items():
            if last:
                writers[name].write_table(pa.Table.from_batches(last).combine_chunks())
    finally:
        for writer in writers.values():
            writer.close()
    return {
        name: Part(
            f"{number}/{paths[name].name}",
            rows[name],
            paths[name].stat().st_size,
            _digest(paths[name]),
            relation,
        )
        for name, relation in relations.items()
    }


def _write_groups(writer: pq.ParquetWriter, batches: list[pa.RecordBatch]) -> list[pa.RecordBatch]:
    """Full row groups, however the rows came; what is left for the next one."""
    table = pa.Table.from_batches(batches).combine_chunks()
    full = table.num_rows // GROUP_ROWS * GROUP_ROWS
    writer.write_table(table.slice(0, full), row_group_size=GROUP_ROWS)
    return list(table.slice(full).to_batches())


def valued(path: Path) -> frozenset[int]:
    """The columns of a part that hold at least one value."""
    footer = pq.read_metadata(path)
    groups = [footer.row_group(i) for i in range(footer.num_row_groups)]
    return frozenset(
        column
        for column in range(footer.num_columns)
        if any(group.column(column).statistics.null_count < group.num_rows for group in groups)
    )


def mark(parts: Mapping[str, Part]) -> str:
    """A name for the content: equal ones are equal states."""
    told = [[name, part.digest, part.relation.schema.names] for name, part in sorted(parts.items())]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:32]


def _digest(path: Path) -> str:
    with path.open("r+b") as file:
        os.fsync(file.fileno())
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
