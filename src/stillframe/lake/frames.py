"""The published frames: one Delta table whose commits are the publications.

Law of publication: a commit is made on a handle opened at version v, after checking on that handle that
the newest frame is the one expected, and may become version v+1 only. Two processes that checked the same
state ask for the same version, so one of them wins and the other sees nothing of its own.

A file's name carries the last (frame, revision) in it, so the log alone tells which file is the newest.
Files cover disjoint ranges of (frame, revision); the newest revision always has a file to itself.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from deltalake import CommitProperties, DeltaTable, Schema, Transaction
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, RemoveAction

from stillframe.errors import Busy, LakeError
from stillframe.lake.frame import Frame
from stillframe.lake.layout import Attempt, attempt_name, owner_of, sync

APP = "stillframe"
CHECKPOINT_EVERY = 50
FULL_FILE = 1000

_SCHEMA = pa.schema(
    [
        pa.field("frame", pa.int64()),
        pa.field("revision", pa.int64()),
        pa.field("published_at", pa.timestamp("us", tz="UTC")),
        pa.field("document", pa.string()),
    ]
)
_ROW_GROUP = 64

T = TypeVar("T")
Place = tuple[int, int]


@dataclass(frozen=True, slots=True, order=True)
class _File:
    """A file of the table; `last` is the place of its newest revision."""

    last: Place
    name: str
    rows: int = 1


@dataclass(frozen=True, slots=True)
class Entry:
    """One published revision, its document still as text."""

    place: Place
    published_at: datetime
    document: str

    def frame(self) -> Frame:
        return Frame.from_json(json.loads(self.document))

    @property
    def files(self) -> frozenset[str]:
        return self.frame().files

    @property
    def tables(self) -> frozenset[str]:
        return frozenset(view.table for view in self.frame().views.values())


class FrameLog:
    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def create(self) -> None:
        """Make the table, unless another process just did."""
        configuration = {
            "delta.checkpointInterval": str(CHECKPOINT_EVERY),
            "delta.logRetentionDuration": "interval 1 days",
        }
        if not DeltaTable.is_deltatable(str(self.folder)):
            try:
                DeltaTable.create(
                    str(self.folder), Schema.from_arrow(_SCHEMA), mode="error", configuration=configuration
                )
            except DeltaError:
                if not DeltaTable.is_deltatable(str(self.folder)):
                    raise

    # Reading

    def newest(self) -> Frame | None:
        def read(files: Sequence[_File]) -> Frame | None:
            return self._entries(files[-1])[-1].frame() if files else None

        return self._read(read)

    def frame(self, number: int) -> Frame:
        def read(files: Sequence[_File]) -> Frame | None:
            # Revisions of one frame may lie in neighbouring files: up to the first that ends beyond it.
            found = None
            for file in files:
                if file.last >= (number, 0):
                    for entry in self._entries(file, number):
                        found = entry
                    if file.last[0] > number:
                        break
            return found.frame() if found else None

        frame = self._read(read)
        if frame is None:
            numbers = sorted({f.number for f in self.history()})
            raise LakeError(
                f"there is no frame {number}",
                detail=f"frames there are: {_ranges(numbers)}" if numbers else "nothing was published yet",
                hint="older frames are forgotten by vacuum" if numbers else "refresh makes the first frame",
                code="NO_SUCH_FRAME",
            )
        return frame

    def history(self, limit: int | None = None) -> list[Frame]:
        def read(files: Sequence[_File]) -> list[Frame]:
            frames: list[Frame] = []
            for entry in self._backwards(files):
                if limit is not None and len(frames) >= limit:
                    break
                if not frames or frames[-1].number != entry.place[0]:
                    frames.append(entry.frame())
            return frames

        return self._read(read)

    def unreferenced(self, paths: Iterable[str]) -> frozenset[str]:
        """Those of the paths that no published revision names."""
        wanted = frozenset(paths)

        def read(files: Sequence[_File]) -> frozenset[str]:
            left = wanted
            for entry in self._backwards(files):
                if not left:
                    break
                left -= entry.files
            return left

        return self._read(read)

    # Writing

    def publish(self, frame: Frame, after: Frame | None) -> Frame:
        expected = (after.number, after.revision) if after else None
        place = (frame.number, frame.revision)
        if expected is not None and place <= expected:
            raise LakeError(f"frame {_name(place)} does not follow {_name(expected)}", code="BAD_SUCCESSOR")
        moment = _moment(frame.published_at) if frame.published_at else datetime.now(UTC)
        stamped = replace(frame, published_at=moment.isoformat())
        document = json.dumps(stamped.to_json(), ensure_ascii=False, separators=(",", ":"))
        file = self._write([Entry(place, moment, document)])

        def decide(handle: DeltaTable, files: Sequence[_File]) -> list[Any]:
            newest = files[-1].last if files else None
            if newest != expected:
                self._path(file).unlink()
                raise Busy(
                    "another process published a frame meanwhile; nothing was applied",
                    detail=f"expected {_name(expected)} to be the newest, found {_name(newest)}",
                    hint="refresh again",
                )
            return [self._add(file)]

        self._commit(file, decide, published=True)
        return stamped

    def forget(self, cutoff: datetime) -> tuple[list[Entry], list[Entry]]:
        """Remove, in one commit, the revisions superseded before `cutoff`; returns (kept, forgotten).

        A revision's age counts from the moment the next one took its place: until then new readers took it.
        """
        while True:
            handle, files = self._open()
            try:
                held = [(file, self._entries(file)) for file in files]
            except FileNotFoundError:
                continue
            entries = [entry for _, of_file in held for entry in of_file]
            forgotten = {old.place for old, new in pairwise(entries) if new.published_at <= cutoff}
            touched = [(f, es) for f, es in held if any(e.place in forgotten for e in es)]
            rest = [[e for e in es if e.place not in forgotten] for _, es in touched]
            if not touched or self._replace(handle, [f for f, _ in touched], [es for es in rest if es]):
                return (
                    [e for e in entries if e.place not in forgotten],
                    [e for e in entries if e.place in forgotten],
                )

    def compact(self) -> None:
        """Gather revisions into files of about `FULL_FILE`, all but the newest; then checkpoint the log."""
        while True:
            handle, files = self._open()
            groups = [group for group in _gather(files[:-1]) if len(group) > 1]
            try:
                merged = [[entry for file in group for entry in self._entries(file)] for group in groups]
            except FileNotFoundError:
                continue
            if not groups or self._replace(handle, [f for group in groups for f in group], merged):
                break
        handle = DeltaTable(str(self.folder))
        handle.create_checkpoint()
        handle.cleanup_metadata()

    def leftovers(self, now: datetime) -> tuple[Path, ...]:
        """Files of commits that never came to be, of processes that will not make them any more."""
        # First the dead, then the log: what a process published, it published before it died.
        abandoned = [
            path
            for path in sorted(self.folder.glob("*.parquet"))
            if Attempt(path, owner_of(path.stem.split("-", 2)[-1])).abandoned(now)
        ]
        live = {file.name for file in self._open()[1]} if abandoned else set()
        return tuple(path for path in abandoned if path.name not in live)

    # The table beneath

    def _open(self) -> tuple[DeltaTable, list[_File]]:
        """A fresh handle, and its files in order."""
        try:
            handle = DeltaTable(str(self.folder))
        except DeltaError as error:
            raise LakeError("the table of frames cannot be read", detail=str(error)) from error
        return handle, _files_of(handle)

    def _read(self, read: Callable[[Sequence[_File]], T]) -> T:
        """Read on a fresh handle; again on a fresher one if housekeeping took a file away in between."""
        before: Sequence[_File] | None = None
        while True:
            _, files = self._open()
            try:
                return read(files)
            except FileNotFoundError as error:
                if files == before:
                    raise LakeError(
                        "a file of the table of frames is missing", detail=str(error.filename or error)
                    ) from error
                before = files

    def _entries(self, file: _File, number: int | None = None) -> list[Entry]:
        table = pq.ParquetFile(self._path(file)).read()
        if number is not None:
            table = table.filter(pc.equal(table["frame"], number))
        return [
            Entry((row["frame"], row["revision"]), row["published_at"], row["document"])
            for row in table.to_pylist()
        ]

    def _backwards(self, files: Sequence[_File]) -> Iterator[Entry]:
        for file in reversed(files):
            yield from reversed(self._entries(file))

    def _write(self, entries: Sequence[Entry]) -> _File:
        """A durable file that belongs to nothing yet."""
        last = entries[-1].place
        name = f"{last[0]:019d}-{last[1]:010d}-{attempt_name()}.parquet"
        rows = [(*e.place, e.published_at, e.document) for e in entries]
        table = pa.Table.from_pylist([dict(zip(_SCHEMA.names, r, strict=True)) for r in rows], schema=_SCHEMA)
        pq.write_table(table, self.folder / name, compression="zstd", row_group_size=_ROW_GROUP)
        sync(self.folder / name)
        sync(self.folder)
        return _File(last, name, len(entries))

    def _commit(
        self,
        file: _File,
        decide: Callable[[DeltaTable, Sequence[_File]], list[Any]],
        published: bool = False,
    ) -> None:
        """Commit what `decide` says of the state found, as the very next version after it.

        A commit whose answer was an error may still have happened: the log, not the answer, is believed.
        """
        failure: tuple[int, Exception] | None = None
        while True:
            handle, files = self._open()
            if file in files:
                return
            if failure is not None and failure[0] == handle.version():
                self._path(file).unlink()
                raise _commit_failed(failure[1]) from failure[1]
            actions = decide(handle, files)
            try:
                self._commit_once(handle, actions, published)
                return
            except Exception as error:
                failure = (handle.version(), error)

    def _commit_once(self, handle: DeltaTable, actions: list[Any], published: bool) -> None:
        transactions = None
        if published:
            before = handle.transaction_version(APP)
            transactions = [Transaction(APP, 0 if before is None else before + 1)]
        version = handle.version() + 1
        handle.create_write_transaction(
            actions,
            "append",
            handle.schema(),
            commit_properties=CommitProperties(max_commit_retries=0, app_transactions=transactions),
        )
        log = self.folder / "_delta_log"
        sync(log / f"{version:020d}.json")
        sync(log)

    def _replace(self, handle: DeltaTable, old: Sequence[_File], new: Sequence[Sequence[Entry]]) -> bool:
        """One commit that puts `new` in place of `old`; False if another commit came first."""
        written = [self._write(entries) for entries in new]
        moment = int(datetime.now(UTC).timestamp() * 1000)
        actions = [self._add(f) for f in written]
        actions += [RemoveAction(f.name, True, moment) for f in old]
        try:
            self._commit_once(handle, actions, published=False)
            done = True
        except Exception as error:
            now, files = self._open()
            done = set(written) <= set(files) and set(old).isdisjoint(files)
            if not done and now.version() == handle.version():
                raise _commit_failed(error) from error
        for file in old if done else written:
            self._path(file).unlink(missing_ok=True)
        return done

    def _add(self, file: _File) -> AddAction:
        status = self._path(file).stat()
        statistics = json.dumps({"numRecords": file.rows})
        return AddAction(file.name, status.st_size, {}, int(status.st_mtime * 1000), True, statistics)

    def _path(self, file: _File) -> Path:
        return self.folder / file.name


def _files_of(handle: DeltaTable) -> list[_File]:
    actions = handle.get_add_actions()
    rows = zip(actions["path"].to_pylist(), actions["num_records"].to_pylist(), strict=True)
    files = []
    for name, count in rows:
        frame, revision, _ = name.split("-", 2)
        files.append(_File((int(frame), int(revision)), name, count))
    return sorted(files)


def _gather(files: Sequence[_File]) -> list[list[_File]]:
    """Neighbouring files in groups of at most `FULL_FILE` rows, where that takes more than one."""
    groups: list[list[_File]] = []
    rows = FULL_FILE
    for file in files:
        if rows + file.rows > FULL_FILE:
            groups.append([])
            rows = 0
        groups[-1].append(file)
        rows += file.rows
    return groups


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _commit_failed(error: Exception) -> LakeError:
    return LakeError("the table of frames could not be written", detail=str(error), code="COMMIT_FAILED")


def _name(place: Place | None) -> str:
    return "none" if place is None else f"{place[0]} (revision {place[1]})"


def _ranges(numbers: Sequence[int]) -> str:
    """1, 2, 3, 7 as "1 to 3, 7"."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and runs[-1][-1] == number - 1:
            runs[-1] = [runs[-1][0], number]
        else:
            runs.append([number])
    return ", ".join(str(run[0]) if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)
