"""What one session reads: each relation's change and state at the session's vector, staged once; each
upstream view's content before and after."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property, partial
from hashlib import blake2b
from itertools import count
from pathlib import Path

import pyarrow as pa

from stillframe.algebra import Schema
from stillframe.algebra.netting import netted
from stillframe.algebra.selection import Selection
from stillframe.engine import Engine, Read, Room, Staged, fits, followed_by, stage, staged_table
from stillframe.errors import StillframeError
from stillframe.lake.frame import ViewState
from stillframe.lake.lookup import Effort, change_rows, in_order, look_up, whole
from stillframe.runtime.ahead import Wanted
from stillframe.sources.base import Capture, Keys, Position, Source

KEY_LIMIT = 20_000  # values that a source is asked for
ALL_HELD = 4  # times what there is room for at a time: of all that a session reads
LOOKED_THROUGH = 10_000_000  # rows, for those that spare a job: it would read them, too


@dataclass(frozen=True)
class ViewFiles:
    """The change of a view in one frame, net, in files of the lake."""

    files: tuple[Path, ...]
    schema: Schema
    rows: int
    room: Room

    @cached_property
    def small(self) -> bool:
        """Whether the driver may look at it."""
        return fits(self.files, self.rows, self.room)

    @property
    def positions(self) -> Sequence[int]:
        return range(len(self.schema))

    def table(self, positions: Sequence[int]) -> pa.Table:
        """Some columns and the counts, for the driver to look at."""
        return change_rows(self.files, self.schema, positions)

    def is_net_in(self, positions: Sequence[int]) -> bool:
        return set(positions) == set(self.positions)


@dataclass(frozen=True)
class Upstream:
    """A view as its readers see it in this session. `change` is None where it did not change, and the
    difference of two states where the reader was held back while the view went on. What a view has published
    itself is its `own`, and all of its columns are looked at."""

    before: ViewState
    after: ViewState
    change: ViewFiles | None
    changed: bool
    own: bool = False


def _digest(values: pa.Array) -> bytes:
    """Of values that are in order."""
    found = blake2b(str(len(values)).encode())
    for buffer in values.buffers():
        found.update(b"" if buffer is None else memoryview(buffer))
    return found.digest()


class Reads:
    """Staged reads of one session; every read happens once, whoever asks for it. `selections` tell which
    changed rows may matter to anyone."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        sources: Mapping[str, Source],
        vector: Mapping[str, Position],
        columns: Mapping[str, frozenset[int]],
        selections: Mapping[str, Selection],
        schemas: Mapping[str, Schema],
        folder: Path,
        counted: Callable[[str, str, Staged, float], None],
        ahead: Mapping[Wanted, tuple[Staged, Position]] | None = None,
        room: Room | None = None,
    ) -> None:
        self.room = room or Room()
        self._engine = engine
        self._sources = sources
        self._vector = vector
        self._columns = columns
        self._selections = selections
        self._schemas = schemas
        self._folder = folder
        self._counted = counted
        self._ahead = ahead or {}
        self._folders = count()
        self._memo: dict[tuple[object, ...], Staged] = {}
        self._looked_up: dict[tuple[object, ...], Staged | None] = {}
        self._held = 0  # bytes

    def change(self, relation: str, after: Position) -> Staged:
        source, table = relation.split(".", 1)
        key = ("change", relation, after)
        ahead = None if key in self._memo else self._ahead.get(self.wanted(relation, after))
        if ahead is not None and ahead[1].sequence <= self._vector[source].sequence:
            with suppress(StillframeError):  # it is read as if nothing had been read ahead
                self._memo[key] = self._read_on(relation, *ahead)
        read = partial(
            self._sources[source].changes,
            table,
            self._names(relation),
            after,
            self._vector[source],
            where=self._selections.get(relation),
        )
        net = self._sources[source].capture is Capture.SNAPSHOT  # then it is two whole states
        return self._staged(key, relation, read, net=net, once=True)

    def wanted(self, relation: str, after: Position) -> Wanted:
        """The changes of a relation after a state, as one may read them ahead."""
        positions = self._positions(relation)
        types = tuple(self._schemas[relation][i].type for i in positions)
        where = self._selections.get(relation)
        return Wanted(relation, self._names(relation), positions, types, after, where)

    def _read_on(self, relation: str, rows: Staged, upto: Position) -> Staged:
        """Rows that were read ahead, and what came since."""
        source, table = relation.split(".", 1)
        started = time.perf_counter()
        if upto != self._vector[source]:
            read = partial(
                self._sources[source].changes,
                table,
                self._names(relation),
                upto,
                self._vector[source],
                where=self._selections.get(relation),
            )
            folder = self._folder / str(next(self._folders))
            since = stage(
                self._engine, read, rows.positions, rows.types, folder / "since", once=True, room=self.room
            )
            rows = followed_by(rows, since, folder / "all", self.room)
        self._counted("change", relation, rows, time.perf_counter() - started)
        return rows

    def state(self, relation: str, keys: Keys | None = None) -> Staged:
        source, table = relation.split(".", 1)
        whole = self._memo.get(("state", relation, None))
        if whole is not None:
            return whole
        if keys is not None and not len(keys.values):
            return self._nothing(relation)
        read = partial(self._sources[source].state, table, self._names(relation), self._vector[source], keys)
        marks = None if keys is None else (keys.column, frozenset(keys.values.to_pylist()))
        return self._staged(("state", relation, marks), relation, read)

    def forget(self) -> None:
        """Nothing is asked for any more. Rows in memory go now, and not when cycles of objects are collected,
        which in a process that runs for days may be sessions later."""
        for kept in (self._memo, self._looked_up):
            kept.clear()
        self._ahead = {}

    def known(self, relation: str) -> Staged | None:
        """The whole state, if it was read."""
        return self._memo.get(("state", relation, None))

    def _nothing(self, relation: str) -> Staged:
        positions = self._positions(relation)
        types = tuple(self._schemas[relation][i].type for i in positions)
        return Staged((), positions, types, 0, plain=True, small=True)

    def adopt(self, relation: str, rows: Staged, at: Position) -> None:
        """A relation that was read before, as it was at `at`: its changes since bring it to the vector."""
        since = self.change(relation, at)
        self._memo["state", relation, None] = Staged(
            (*rows.files, *since.files),
            rows.positions,
            rows.types,
            rows.rows + since.rows,
            rows.plain and not since.rows,
            small=False,
        )

    def looked_up(
        self, root: Path, view: ViewState, name: str | None, keys: Keys | None, *, thorough: bool
    ) -> Staged | None:
        """The rows of a view, with one of the keys or all, if they are quickly found; `thorough` where they
        save a job. Of a view that others read by a name, the columns they read."""
        files = (*(file.path for file in view.base), *(file.path for file in view.changes))
        positions = tuple(range(len(view.schema))) if name is None else self._positions(name)
        values = None if keys is None else in_order(keys.values)
        marks = None if keys is None else (keys.column, _digest(values))
        room = self.room
        most = Effort(LOOKED_THROUGH, room.rows, room.whole, lasting=True, bytes=room.bytes)
        key = (positions, marks, files, thorough)
        if key not in self._looked_up:
            if keys is None:
                found = whole(root, view, positions, most if thorough else None)
            else:
                column = view.schema.position(keys.column)
                found = look_up(root, view, positions, column, values, most if thorough else None)
            folder = self._folder / f"rows-{len(self._looked_up)}"
            types = tuple(view.schema[i].type for i in positions)
            held = None if found is None else staged_table(netted(found), positions, types, folder)
            self._looked_up[key] = None if held is None else self._kept(held)
        return self._looked_up[key]

    def pushable(self, relation: str, column: int) -> bool:
        source, table = relation.split(".", 1)
        return self._sources[source].pushable(table, self._schemas[relation][column].name)

    def _positions(self, relation: str) -> tuple[int, ...]:
        return tuple(sorted(self._columns[relation]))

    def _names(self, relation: str) -> tuple[str, ...]:
        return tuple(self._schemas[relation][i].name for i in self._positions(relation))

    def _staged(
        self, key: tuple[object, ...], relation: str, read: Read, *, net: bool = False, once: bool = False
    ) -> Staged:
        if key not in self._memo:
            positions = self._positions(relation)
            types = [self._schemas[relation][i].type for i in positions]
            folder = self._folder / str(next(self._folders))  # a read that failed leaves its own behind
            started = time.perf_counter()
            staged = stage(self._engine, read, positions, types, folder, net=net, once=once, room=self.room)
            took = time.perf_counter() - started
            self._memo[key] = self._kept(staged)
            self._counted(str(key[0]), relation, self._memo[key], took)
        return self._memo[key]

    def _kept(self, staged: Staged) -> Staged:
        """In memory, as long as all that is read together has room."""
        if staged.held is None:
            return staged
        self._held += staged.bytes
        return staged if self._held <= ALL_HELD * self.room.bytes else staged.in_files()
