"""A source of which only the present can be read: changes are found by comparing snapshots.

A snapshot holds whole relations, read in one piece, and is kept until no consumer needs it. The change
between two positions is the later snapshot's rows, and the earlier one's with the opposite sign: as signed
bags that is exact whatever happened in between, and rows that did not change cancel. What comes and goes
between two looks at the source is never seen, and belongs to no state that a frame shows.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa

from stillframe.algebra.selection import Selection
from stillframe.errors import SourceError
from stillframe.sources.base import (
    Capture,
    Committed,
    Consumer,
    Keys,
    LogStatus,
    Method,
    Position,
    Range,
    Relation,
)
from stillframe.sources.snapshots.log import Kept, not_installed
from stillframe.sources.snapshots.log import gap as gap_of
from stillframe.sources.snapshots.read import COUNTED_ROWS, PUSHABLE, key_ranges, net_rows, part_batches
from stillframe.sources.snapshots.reader import Dated, Learning, SnapshotReader, Unstable, persistent
from stillframe.sources.snapshots.store import Absent, Damaged, Part, Snapshot, State, Store
from stillframe.sources.snapshots.taking import Taking, reader_knowing

__all__ = ["Dated", "Learning", "SnapshotReader", "SnapshotSource", "Unstable"]


@dataclass(frozen=True)
class SnapshotSource:
    """`capture_limit` bounds the rows of all snapshots that a consumer has yet to pass: one with more before
    it is dropped, and meets CAPTURE_GAP when it comes back."""

    inner: SnapshotReader
    folder: Path
    capture_limit: int | None = None

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def address(self) -> str:
        return self.inner.address

    @property
    def capture(self) -> Capture:
        return Capture.SNAPSHOT

    @property
    def transactional(self) -> bool:
        return False

    @property
    def commit_order(self) -> bool:
        return False

    def methods(self) -> tuple[Method, ...]:
        gains = "nothing is installed; every look reads whole relations, and counts as one transaction"
        return (Method(Capture.SNAPSHOT, (), gains),)

    def describe(self) -> dict[str, Relation]:
        state = self._state_if_any()
        newest = state.newest if state else None
        if state is not None and newest is not None and newest.fingerprint is not None:
            sign = persistent(lambda: self.inner.fingerprint(newest.wanted))
            if sign == newest.fingerprint:
                return dict(state.described)
        return persistent(lambda: reader_knowing(self.inner, state.known if state else {}).describe())

    @property
    def _store(self) -> Store:
        return Store(self.folder)

    def _state_if_any(self) -> State | None:
        try:
            return self._store.read()
        except Damaged:
            return None

    @contextmanager
    def _changing(self) -> Iterator[Kept]:
        try:
            with self._store.exclusive(self.name):
                kept = Kept.read(self.name, self._store)
                self._store.sweep(kept.state)
                yield kept
        except Absent as error:
            raise not_installed(self.name, self.folder) from error

    def _kept(self) -> Kept:
        return Kept.read(self.name, self._store)

    # -- consumers

    def attach(self, consumer: str, relations: Sequence[str]) -> Position:
        with self._store.exclusive(self.name, create=True):
            try:
                return self._attach(consumer, relations)
            except BaseException:  # it is as if nobody had tried
                kept = self._state_if_any()
                if kept is None:
                    self._store.remove()
                else:
                    self._store.sweep(kept)
                raise

    def _attach(self, consumer: str, relations: Sequence[str]) -> Position:
        state = self._state_if_any() or State.new()
        self._store.sweep(state)
        known = state.consumers.get(consumer, {"position": None, "needs": []})
        needs = sorted({*known["needs"], *relations})
        # It is one of those who need, before it has a position.
        entry = {"position": known["position"] or 0, "needs": needs, "heartbeat": _now()}
        state.consumers[consumer] = entry
        newest = Taking(self.inner, self._store, state).look()
        for relation in relations:
            if relation not in state.described:
                raise SourceError(
                    f"source {self.name!r} has no relation {relation!r}",
                    detail=f"there are: {', '.join(state.described) or 'none'}",
                    code="NO_RELATION",
                )
        entry["position"] = entry["position"] or newest.number
        self._store.write(state)
        return _position(state, newest)

    def release(self, consumer: str, keep: Sequence[str]) -> None:
        if not keep:
            self.detach(consumer)
            return
        with self._changing() as kept:
            entry = kept.consumer(consumer)
            entry["needs"] = sorted(set(keep) & set(entry["needs"]))
            self._store.write(kept.state)

    def detach(self, consumer: str) -> None:
        try:
            with self._store.exclusive(self.name):
                state = self._state_if_any()
                if state is not None:
                    state.consumers.pop(consumer, None)
                    if state.positions:
                        self._trim(state)
                        return
                self._store.remove()
        except Absent:
            return

    def beat(self, consumer: str) -> None:
        with self._changing() as kept:
            kept.consumer(consumer)["heartbeat"] = _now()
            self._store.write(kept.state)

    def acknowledge(self, consumer: str, position: Position) -> None:
        with self._changing() as kept:
            entry, state = kept.consumer(consumer), kept.state
            kept.at(position)
            entry.update(position=position.sequence, heartbeat=_now())
            if self.capture_limit is not None:
                for name, held in state.positions.items():
                    rows = sum(s.rows for s in state.snapshots if s.number > held)
                    if name != consumer and rows > self.capture_limit:
                        state.consumers[name]["position"] = None
            self._trim(state)

    def _trim(self, state: State) -> None:
        lowest = min(state.positions.values())
        state.snapshots = [s for s in state.snapshots if s.number >= lowest]
        self._store.write(state)
        self._store.sweep(state)

    # -- positions

    def position(self, consumer: str, relations: Sequence[str]) -> Position:
        with self._changing() as kept:
            kept.consumer(consumer)
            for relation in relations:
                if relation not in kept.state.wanted:
                    raise gap_of(self.name, f"relation {relation!r} is not captured")
            newest = self._look(kept)
            for relation in relations:
                kept.part(newest, relation)
            return _position(kept.state, newest)

    def _look(self, kept: Kept, *, patient: bool = False) -> Snapshot:
        before = kept.state.newest
        newest = Taking(self.inner, self._store, kept.state).look(patient=patient)
        if newest is not before:
            self._store.write(kept.state)
        return newest

    def check(self, after: Position, relations: Sequence[str]) -> None:
        self._require(self._kept(), after, relations)

    def _require(self, kept: Kept, after: Position, relations: Sequence[str]) -> Snapshot:
        """The snapshot of `after`, if it and the newest one have these relations."""
        found = kept.at(after)
        for snapshot in (found, kept.state.snapshots[-1]):
            kept.require_intact(snapshot)
            for relation in relations:
                kept.part(snapshot, relation)
        return found

    def transactions(
        self, relations: Sequence[str], after: Position, upto: Position
    ) -> tuple[Committed, ...]:
        kept = self._kept()
        chain = kept.chain(after, upto)
        found: dict[int, dict[str, int]] = {}
        for relation in relations:
            for before, then in kept.steps(chain, relation):
                old, new = before.parts[relation], then.parts[relation]
                if not new.same(old):
                    found.setdefault(then.number, {})[relation] = old.rows + new.rows
        return tuple(Committed(number, rows) for number, rows in sorted(found.items()))

    def without(self, after: Position, upto: Position, numbers: Collection[int]) -> Position:
        kept = self._kept()
        chain = kept.chain(after, upto)
        earlier = [s for s in chain if not numbers or s.number < min(numbers)]
        return _position(kept.state, max(earlier, key=lambda s: s.number, default=chain[0]))

    # -- rows

    def changes(
        self,
        relation: str,
        columns: Sequence[str],
        after: Position,
        upto: Position,
        *,
        tagged: bool = False,
        where: Selection | None = None,
    ) -> Iterator[pa.RecordBatch]:
        kept = self._kept()
        chain = kept.chain(after, upto)
        steps = kept.steps(chain if tagged else (chain[0], chain[-1]), relation)
        kept.comparable([chain[0], *(then for _, then in steps)], relation, columns)
        for before, then in steps:
            old, new = before.parts[relation], then.parts[relation]
            if not new.same(old):
                tag = then.number if tagged else None
                yield from self._batches(new, columns, 1, tag=tag)
                yield from self._batches(old, columns, -1, tag=tag)

    def state(
        self,
        relation: str,
        columns: Sequence[str],
        at: Position,
        keys: Keys | None = None,
        within: Range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        kept = self._kept()
        snapshot = kept.at(at)
        limits = [limit.column for limit in (keys, within) if limit is not None]
        kept.columns(snapshot, relation, (*columns, *limits))
        yield from self._batches(kept.part(snapshot, relation), columns, keys=keys, within=within)

    def _batches(
        self,
        part: Part,
        columns: Sequence[str],
        sign: int = 1,
        *,
        keys: Keys | None = None,
        within: Range | None = None,
        tag: int | None = None,
    ) -> Iterator[pa.RecordBatch]:
        path, schema = self._store.path(part), part.relation.schema
        return part_batches(self.name, path, schema, columns, sign, keys=keys, within=within, tag=tag)

    def ranges(self, relation: str, rows: int) -> tuple[Range, ...]:
        part = self._newest_part(relation)
        return key_ranges(self._store.path(part), part.relation.schema, rows) if part else ()

    def pushable(self, relation: str, column: str) -> bool:
        part = self._newest_part(relation)
        schema = (part.relation if part else self.describe()[relation]).schema
        return schema[schema.position(column)].type.name in PUSHABLE

    def rows(self, relation: str) -> int:
        part = self._newest_part(relation)
        return part.rows if part else self.inner.rows(relation)

    def _newest_part(self, relation: str) -> Part | None:
        state = self._state_if_any()
        return state.newest.parts.get(relation) if state and state.newest else None

    # -- lag

    def behind(self, relations: Sequence[str], after: Position) -> int:
        """Where snapshots are large, at least how many."""
        with self._changing() as kept:
            newest = self._look(kept, patient=True)
            found = self._require(kept, after, relations)
            return sum(self._difference(found.parts[name], newest.parts[name]) for name in relations)

    def _difference(self, before: Part, after: Part) -> int:
        if after.same(before):
            return 0
        columns = [name for name in after.relation.schema.names if name in before.relation.schema.names]
        kept = {column.name: column.type for column in before.relation.schema}
        retyped = any(kept.get(column.name) != column.type for column in after.relation.schema)
        if retyped or not columns or before.rows + after.rows > COUNTED_ROWS:
            return max(abs(after.rows - before.rows), 1)
        old = self._batches(before, columns, -1)
        return net_rows([*old], [*self._batches(after, columns)])

    def waiting_since(self, relations: Sequence[str], after: Position) -> datetime | None:
        with self._changing() as kept:
            newest = self._look(kept, patient=True)
            self._require(kept, after, relations)
            chain = kept.chain(after, _position(kept.state, newest))
            since = [
                then
                for relation in relations
                for before, then in kept.steps(chain, relation)
                if not then.parts[relation].same(before.parts[relation])
            ]
            first = min(since, key=lambda snapshot: snapshot.number, default=None)
            return datetime.fromisoformat(first.since) if first is not None else None

    def log_status(self) -> LogStatus:
        """Looks at the source too: what is wrong with it now is said here."""
        if self._state_if_any() is None:
            return LogStatus(0, 0, 0, ())
        with self._changing() as kept:
            newest = self._look(kept, patient=True).number
            state = kept.state
            consumers = tuple(
                Consumer(name, position, state.consumers[name]["heartbeat"], newest - position)
                for name, position in sorted(state.positions.items())
            )
            size = sum(snapshot.bytes for snapshot in state.snapshots)
            return LogStatus(sum(s.rows for s in state.snapshots), size, newest, consumers)


def _position(state: State, snapshot: Snapshot) -> Position:
    return Position(state.identity, snapshot.number, snapshot.mark)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
