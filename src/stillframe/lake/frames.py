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
from dataclasses import replace
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
from stillframe.lake.revisions import Commit, Entry, LogFile, files_of, gathered, name_of, ranges

APP = "stillframe"
CHECKPOINT_EVERY = 50

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


class FrameLog:
    """The newest frame is kept with the commit that was the last then, and read again only when there is a
    later one: versions follow each other without a gap, and each is a file of the log."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._newest: tuple[Commit, LogFile | None, Frame | None] | None = None

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
        known = self._newest
        # Old commits are removed oldest first: where one is still there, a later one would be, too.
        if known is not None:
            commit, file, frame = known
            there, later = (self._commit_at(commit.version + i) for i in range(2))
            if there == commit and later is None and (file is None or self._path(file).exists()):
                return frame

        def read(files: Sequence[LogFile], version: int) -> Frame | None:
            commit, file = self._commit_at(version), files[-1] if files else None
            frame = self._entries(file)[-1].frame() if file else None
            self._newest = (commit, file, frame) if commit else None
            return frame

        return self._read(read)

    def _commit_path(self, version: int) -> Path:
        return self.folder / "_delta_log" / f"{version:020d}.json"

    def _commit_at(self, version: int) -> Commit | None:
        try:
            status = self._commit_path(version).stat()
        except FileNotFoundError:
            return None
        return Commit(version, status.st_ino, status.st_mtime_ns)

    def frame(self, number: int) -> Frame:
        def read(files: Sequence[LogFile], _version: int) -> Frame | None:
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
                detail=f"frames there are: {ranges(numbers)}" if numbers else "nothing was published yet",
                hint="older frames are forgotten by vacuum" if numbers else "refresh makes the first frame",
                code="NO_SUCH_FRAME",
            )
        return frame

    def history(self, limit: int | None = None) -> list[Frame]:
        def read(files: Sequence[LogFile], _version: int) -> list[Frame]:
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

        def read(files: Sequence[LogFile], _version: int) -> frozenset[str]:
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
            raise LakeError(
                f"frame {name_of(place)} does not follow {name_of(expected)}", code="BAD_SUCCESSOR"
            )
        moment = _moment(frame.published_at) if frame.published_at else datetime.now(UTC)
        stamped = replace(frame, published_at=moment.isoformat())
        document = json.dumps(stamped.to_json(), ensure_ascii=False, separators=(",", ":"))
        entry = Entry(place, moment, document)
        file = self._write([entry])

        def decide(handle: DeltaTable, files: Sequence[LogFile]) -> list[Any]:
            newest = files[-1].last if files else None
            if newest != expected:
                self._path(file).unlink()
                raise Busy(
                    "another process published a frame meanwhile; nothing was applied",
                    detail=f"expected {name_of(expected)} to be the newest, found {name_of(newest)}",
                    hint="refresh again",
                )
            return [self._add(file)]

        version = self._commit(file, decide, published=True)
        commit = self._commit_at(version) if version is not None else None
        self._newest = (commit, file, entry.frame()) if commit else None
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
            groups = [group for group in gathered(files[:-1]) if len(group) > 1]
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

    def _open(self) -> tuple[DeltaTable, list[LogFile]]:
        """A fresh handle, and its files in order."""
        try:
            handle = DeltaTable(str(self.folder))
        except DeltaError as error:
            raise LakeError("the table of frames cannot be read", detail=str(error)) from error
        return handle, files_of(handle)

    def _read(self, read: Callable[[Sequence[LogFile], int], T]) -> T:
        """Read on a fresh handle; again on a fresher one if housekeeping took a file away in between."""
        before: Sequence[LogFile] | None = None
        while True:
            handle, files = self._open()
            try:
                return read(files, handle.version())
            except FileNotFoundError as error:
                if files == before:
                    raise LakeError(
                        "a file of the table of frames is missing", detail=str(error.filename or error)
                    ) from error
                before = files

    def _entries(self, file: LogFile, number: int | None = None) -> list[Entry]:
        table = pq.ParquetFile(self._path(file)).read()
        if number is not None:
            table = table.filter(pc.equal(table["frame"], number))
        return [
            Entry((row["frame"], row["revision"]), row["published_at"], row["document"])
            for row in table.to_pylist()
        ]

    def _backwards(self, files: Sequence[LogFile]) -> Iterator[Entry]:
        for file in reversed(files):
            yield from reversed(self._entries(file))

    def _write(self, entries: Sequence[Entry]) -> LogFile:
        """A durable file that belongs to nothing yet."""
        last = entries[-1].place
        name = f"{last[0]:019d}-{last[1]:010d}-{attempt_name()}.parquet"
        rows = [(*e.place, e.published_at, e.document) for e in entries]
        table = pa.Table.from_pylist([dict(zip(_SCHEMA.names, r, strict=True)) for r in rows], schema=_SCHEMA)
        pq.write_table(table, self.folder / name, compression="zstd", row_group_size=_ROW_GROUP)
        sync(self.folder / name)
        sync(self.folder)
        return LogFile(last, name, len(entries))

    def _commit(
        self,
        file: LogFile,
        decide: Callable[[DeltaTable, Sequence[LogFile]], list[Any]],
        published: bool = False,
    ) -> int | None:
        """Commit what `decide` says of the state found, as the very next version after it. Returns that
        version, where it is known.

        A commit whose answer was an error may still have happened: the log, not the answer, is believed.
        """
        failure: tuple[int, Exception] | None = None
        while True:
            handle, files = self._open()
            if file in files:
                return None
            if failure is not None and failure[0] == handle.version():
                self._path(file).unlink()
                raise _commit_failed(failure[1]) from failure[1]
            actions = decide(handle, files)
            try:
                return self._commit_once(handle, actions, published)
            except Exception as error:
                failure = (handle.version(), error)

    def _commit_once(self, handle: DeltaTable, actions: list[Any], published: bool) -> int:
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
        commit = self._commit_path(version)
        sync(commit)
        sync(commit.parent)
        return version

    def _replace(self, handle: DeltaTable, old: Sequence[LogFile], new: Sequence[Sequence[Entry]]) -> bool:
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

    def _add(self, file: LogFile) -> AddAction:
        status = self._path(file).stat()
        statistics = json.dumps({"numRecords": file.rows})
        return AddAction(file.name, status.st_size, {}, int(status.st_mtime * 1000), True, statistics)

    def _path(self, file: LogFile) -> Path:
        return self.folder / file.name


def _moment(text: str) -> datetime:
    moment = datetime.fromisoformat(text)
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _commit_failed(error: Exception) -> LakeError:
    return LakeError("the table of frames could not be written", detail=str(error), code="COMMIT_FAILED")
