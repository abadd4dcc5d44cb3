"""Columns of the lake's files, and orders of their values, held in memory while there is room.

Law: a file is written once, so what was read of it is what it says for as long as it is there. What gives
way to others is chosen blindly: then of more than there is room for, a part is still found, however often all
of it passes by.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from random import Random
from threading import Lock
from types import TracebackType

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from stillframe.algebra.arrow import numbers, one_array
from stillframe.memory import there_is

SHARE = 4  # of the memory there is, one part


@dataclass(frozen=True)
class Ordered:
    """The values of a column without NULL, in order, and the rows that have them; None where the rows have
    them in that order."""

    values: NDArray[np.int64]
    rows: NDArray[np.int32] | None

    @property
    def nbytes(self) -> int:
        return self.values.nbytes + (0 if self.rows is None else self.rows.nbytes)

    def having(self, values: NDArray[np.int64]) -> NDArray[np.int64]:
        """The rows that have one of these values, which are in order and differ."""
        begin = np.searchsorted(self.values, values, "left")
        times = np.searchsorted(self.values, values, "right") - begin
        some = np.flatnonzero(times)
        begin, times = begin[some], times[some]
        shift = begin - (np.cumsum(times) - times)
        places = np.arange(int(times.sum())) + np.repeat(shift, times)
        return places if self.rows is None else np.sort(self.rows[places]).astype(np.int64)


Place = tuple[Path, int, str, bool]  # file, row group, column, whether in order


class Warm:
    """Whole columns of row groups, up to so many bytes; `lasting` in a process that comes to one session
    after another."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.lasting = False
        self.held = 0
        self._things: dict[Place, pa.Array | Ordered] = {}
        self._places: list[Place] = []
        self._random = Random(0)
        self._lock = Lock()

    def file(self, path: Path) -> File:
        return File(self, path)

    def has(self, path: Path, group: int, names: Iterable[str], by: str) -> bool:
        """Whether columns of a row group can be found by the values of one."""
        ordered = (path, group, by, True) in self._things or (path, group, by, False) in self._things
        return ordered and all((path, group, name, False) in self._things for name in names)

    def get(self, place: Place) -> pa.Array | Ordered | None:
        return self._things.get(place)

    def hold(self, place: Place, thing: pa.Array | Ordered) -> None:
        with self._lock:
            if place in self._things or thing.nbytes > self.room:
                return
            self._things[place] = thing
            self._places.append(place)
            self.held += thing.nbytes
            self._make_room()

    def limit(self, room: int) -> None:
        """From now on, hold at most so much."""
        with self._lock:
            self.room = room
            self._make_room()

    def _make_room(self) -> None:
        while self.held > self.room:
            self._let_go(self._random.randrange(len(self._places)))

    def keep(self, root: Path, files: Collection[Path]) -> None:
        """Of the files under `root`, only these; others belong to what was."""
        with self._lock:
            others = {place[0] for place in self._places}.difference(files)
            out = {path for path in others if path.is_relative_to(root)}
            gone = [place for place in self._places if place[0] in out]
            self.held -= sum(self._things.pop(place).nbytes for place in gone)
            self._places = [place for place in self._places if place[0] not in out]

    def _let_go(self, number: int) -> None:
        last = self._places.pop()
        gone = last
        if number < len(self._places):
            gone, self._places[number] = self._places[number], last
        self.held -= self._things.pop(gone).nbytes


class File:
    """A file of the lake, which is opened when something of it has to be read."""

    def __init__(self, warm: Warm, path: Path) -> None:
        self._warm, self._path = warm, path
        self._opened = ExitStack()
        self._reader: pq.ParquetFile | None = None

    def __enter__(self) -> File:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.close()

    def columns(self, group: int, names: Sequence[str]) -> list[pa.Array]:
        """Columns of a row group."""
        known = {name: self._warm.get((self._path, group, name, False)) for name in names}
        missing = [name for name, column in known.items() if column is None]
        if missing:
            if self._reader is None:
                self._reader = self._opened.enter_context(pq.ParquetFile(self._path, memory_map=True))
            read = self._reader.read_row_group(group, missing)
            for name in missing:
                known[name] = one_array(read.column(name))
                self._warm.hold((self._path, group, name, False), known[name])
        return [known[name] for name in names]

    def ordered(self, group: int, name: str) -> Ordered:
        """A column of integers or dates, by its values."""
        place = (self._path, group, name, True)
        found = self._warm.get(place)
        if found is None:
            [column] = self.columns(group, [name])
            found = _ordered(column)
            self._warm.hold(place, found)
        assert isinstance(found, Ordered)
        return found


def _ordered(column: pa.Array) -> Ordered:
    rows = None
    if column.null_count:
        rows = np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False)).astype(np.int32)
        column = column.drop_null()
    values = numbers(column)
    if bool(np.all(values[1:] >= values[:-1])):
        return Ordered(values, rows)
    order = np.argsort(values, kind="stable").astype(np.int32)
    return Ordered(values[order], order if rows is None else rows[order])


def room() -> int:
    """A share of the memory that this process may have."""
    return there_is() // SHARE


WARM = Warm(room())
