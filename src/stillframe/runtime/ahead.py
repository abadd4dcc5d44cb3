"""Reading ahead: what sources log after a session's vector is staged while that session computes and
publishes, and until the next one begins, in a thread of its own.

A position is a set of transactions and logs only grow, so of one relation, as signed bags,

    (after, upto] and (upto, vector]  are  (after, vector]     for a vector that was fixed after `upto` was

What was read is used by a read of the same columns that starts exactly at `after`; that read adds what came
since `upto`, so no frame is older for it. Anything else is thrown away: an error, and a source that is not
where it was, are met again by the session itself, which tells them.

Only logs that triggers write are read ahead: of a server's own log any part costs what the whole does, and it
may serve one reader at a time; a snapshot is no change before it is compared. Sources of live protocols are
left alone: these read their logs themselves, one transaction at a time.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from stillframe.algebra.selection import Selection
from stillframe.algebra.types import Type
from stillframe.engine import Engine, Room, Staged, followed_by, stage
from stillframe.lake.storage import Storage
from stillframe.runtime.outcome import Observer, Step, unobserved
from stillframe.sources.base import Capture, Position, Source

LEAST_ROWS = 20_000  # fewer are read at once in hundredths of a second
PAUSE_SECONDS = 0.1  # before sources are asked; again and again, for twice as long each time
LONGEST_SECONDS = 2.0


@dataclass(frozen=True)
class Wanted:
    """The changes of some columns of a relation after a state: of the rows that meet `where` all."""

    relation: str
    names: tuple[str, ...]
    positions: tuple[int, ...]
    types: tuple[Type, ...]
    after: Position
    where: Selection | None = None

    @property
    def source(self) -> str:
        return self.relation.split(".", 1)[0]

    @property
    def table(self) -> str:
        return self.relation.split(".", 1)[1]


@dataclass
class Taken:
    """What was read ahead: for each read, its rows and the state they lead up to."""

    folder: Path | None = None
    pieces: dict[Wanted, tuple[Staged, Position]] = field(default_factory=dict)

    def without(self, sources: Iterable[str]) -> dict[Wanted, tuple[Staged, Position]]:
        left_out = set(sources)
        return {wanted: piece for wanted, piece in self.pieces.items() if wanted.source not in left_out}


class Ahead:
    """One session at a time takes what was read, and says what the next will want."""

    def __init__(
        self,
        lake: Storage,
        engine: Callable[[], Engine],
        sources: Mapping[str, Source],
        consumer: str,
        observe: Observer = unobserved,
        room: Callable[[], Room] = Room,
    ) -> None:
        self._lake = lake
        self._engine = engine
        self._sources = sources
        self._consumer = consumer
        self._observe = observe
        self._room = room
        self._reader: threading.Thread | None = None
        self._enough = threading.Event()
        self._taken = Taken()
        self._busy: set[str] = set()  # sources whose last session had much to read

    def saw(self, rows: Mapping[str, int]) -> None:
        """How many changed rows a session had of each source. There is no looking ahead for few."""
        self._busy = {source for source, count in rows.items() if count >= LEAST_ROWS}

    def follow(self, wanted: Iterable[Wanted]) -> None:
        """Begin to read what comes after these states."""
        self.drop()
        by_source: dict[str, list[Wanted]] = {}
        for each in wanted:
            if each.source in self._busy and self._sources[each.source].capture is Capture.TRIGGERS:
                by_source.setdefault(each.source, []).append(each)
        if by_source:
            self._enough.clear()
            self._taken = Taken(self._lake.attempt("staging"))
            self._reader = threading.Thread(target=self._read, args=[by_source], name="ahead", daemon=True)
            self._reader.start()

    def take(self) -> Taken:
        """What was read by now; nothing more is, until `follow`. A read in hand is finished. Whoever takes it
        throws the folder away."""
        self._enough.set()
        if self._reader is not None:
            self._reader.join()
        self._reader, taken, self._taken = None, self._taken, Taken()
        return taken

    def drop(self) -> None:
        """Forget what was read."""
        self.discard(self.take())

    def discard(self, taken: Taken) -> None:
        if taken.folder is not None:
            self._lake.discard(taken.folder)

    def _read(self, by_source: dict[str, list[Wanted]]) -> None:
        reached = {source: wanted[0].after for source, wanted in by_source.items()}
        pause = PAUSE_SECONDS
        while by_source and not self._enough.wait(pause):
            pause = min(2 * pause, LONGEST_SECONDS)
            for source, wanted in list(by_source.items()):
                try:
                    now = self._read_on(source, wanted, reached[source])
                except Exception:  # whatever it is, the session meets it if it is still so
                    del by_source[source]
                    continue
                if now != reached[source]:
                    reached[source], pause = now, PAUSE_SECONDS

    def _read_on(self, source: str, wanted: list[Wanted], after: Position) -> Position:
        """All of a source's relations up to one state, if that is worth it."""
        at = self._sources[source]
        if at.behind(sorted({each.table for each in wanted}), after) < LEAST_ROWS:
            return after
        upto = at.position(self._consumer, ())
        found: dict[Wanted, tuple[Staged, Position]] = {}
        assert self._taken.folder is not None
        for number, each in enumerate(wanted):
            place = self._taken.folder / f"{source}-{upto.sequence}-{number}"
            read = partial(at.changes, each.table, each.names, after, upto, where=each.where)
            new = place / "new"
            staged = stage(self._engine, read, each.positions, each.types, new, once=True, room=self._room())
            before = self._taken.pieces.get(each)
            if before is not None:
                staged = followed_by(before[0], staged, place / "all", self._room())
            found[each] = (staged, upto)
            self._observe(Step.AHEAD, each.relation)
        self._taken.pieces.update(found)
        return upto


@contextmanager
def taking(ahead: Ahead | None) -> Iterator[Taken]:
    """What was read ahead, for as long as a block lasts."""
    if ahead is None:
        yield Taken()
        return
    taken = ahead.take()
    try:
        yield taken
    finally:
        ahead.discard(taken)
