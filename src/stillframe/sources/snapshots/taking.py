"""Looking at a source: is the newest snapshot still its present state, and if not, take another."""

from __future__ import annotations

import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

from stillframe.algebra.schema import Schema
from stillframe.errors import SourceError, ValueMismatch
from stillframe.sources.base import Relation
from stillframe.sources.snapshots.reader import Dated, Learning, SnapshotReader, Unstable, persistent
from stillframe.sources.snapshots.store import (
    Misshapen,
    Part,
    Snapshot,
    State,
    Store,
    mark,
    valued,
    write_parts,
)

SLOW_SECONDS = 0.5
SELDOM = 10


def reader_knowing(inner: SnapshotReader, known: Mapping[str, Relation]) -> SnapshotReader:
    return inner.knowing(known) if isinstance(inner, Learning) else inner


@dataclass(frozen=True)
class Taking:
    """Used under the lock of the store. It changes `state`; whoever asks writes it."""

    inner: SnapshotReader
    store: Store
    state: State

    def look(self, *, patient: bool = False) -> Snapshot:
        """The snapshot that shows the present state; a new one if the newest does not. Who is patient takes
        the last look for the present where only a read can tell, and reading takes long."""
        newest = self.standing()
        if newest is not None and set(self.state.wanted) <= set(newest.wanted):
            sign = self.inner.fingerprint(self.state.wanted)
            if sign is not None and sign == newest.fingerprint:
                return newest
            at, seconds = self.state.looked
            if patient and sign is None and seconds > SLOW_SECONDS and time.time() - at < SELDOM * seconds:
                return newest
        return self.take()

    def standing(self) -> Snapshot | None:
        """The newest snapshot, if it is there as it was taken."""
        newest = self.state.newest
        return newest if newest is not None and self.store.intact(newest) else None

    def take(self) -> Snapshot:
        """Read all that is needed. The same content as before is the same snapshot still."""
        return persistent(self._take)

    def _take(self) -> Snapshot:
        # The sign is older than what is read: when it is found unchanged later, so is all that was read.
        began, wanted = time.monotonic(), self.state.wanted
        sign = self.inner.fingerprint(wanted)
        described = reader_knowing(self.inner, self.state.known).describe()
        draft = self.store.draft()
        try:
            parts = self._read(described, wanted, draft)
            since = self.inner.changed_at() if isinstance(self.inner, Dated) else None
            self.state.described = dict(described)
            self._remember(described, parts, draft)
            self.state.looked = (time.time(), time.monotonic() - began)
            newest = self.standing()
            if newest is not None and _same(newest, parts, wanted):
                now = {n: replace(newest.parts[n], unreadable=p.unreadable) for n, p in parts.items()}
                seen = tuple(sorted({*newest.wanted, *wanted}))
                self.state.snapshots[-1] = replace(
                    newest, fingerprint=sign, wanted=seen, parts={**newest.parts, **now}
                )
            else:
                self._publish(draft, parts, newest, (since or datetime.now(UTC)), sign, wanted)
        finally:
            shutil.rmtree(draft, ignore_errors=True)
        return self.state.snapshots[-1]

    def _remember(self, described: Mapping[str, Relation], parts: Mapping[str, Part], draft: Path) -> None:
        """A type that no value has shown yet is not held against the first value to come."""
        for name, part in parts.items():
            schema = part.relation.schema
            seen = {schema[i].name for i in valued(draft / Path(part.file).name) if i < len(schema)}
            if before := self.state.known.get(name):
                seen |= set(before.schema.names)
            self.state.known[name] = _without(described[name], {*described[name].schema.names} - seen)

    def _publish(
        self,
        draft: Path,
        parts: Mapping[str, Part],
        newest: Snapshot | None,
        since: datetime,
        sign: str | None,
        wanted: tuple[str, ...],
    ) -> None:
        for name, part in parts.items():
            older = newest.parts.get(name) if newest is not None else None
            if older is not None and older.digest == part.digest:
                self.store.share(draft, part, older)
        number = self.state.last + 1
        self.store.publish(draft, number)
        self.state.last = number
        self.state.snapshots.append(
            Snapshot(number, mark(parts), since.isoformat(timespec="seconds"), sign, wanted, parts)
        )

    def _read(self, described: Mapping[str, Relation], wanted: Sequence[str], draft: Path) -> dict[str, Part]:
        """All relations in one read. A column with a bad value in it is left out, and the rest read again."""
        reader = reader_knowing(self.inner, described)
        bad: dict[str, dict[str, ValueMismatch]] = {name: {} for name in wanted if name in described}
        while True:
            relations = {name: _without(described[name], bad[name]) for name in bad}
            columns = {name: relation.schema.names for name, relation in relations.items()}
            try:
                parts = write_parts(draft, self.state.last + 1, relations, reader.read(columns))
            except ValueMismatch as error:
                if error.column not in columns.get(error.relation, ()):
                    raise
                bad[error.relation][error.column] = error
            except Unstable:
                raise
            except (Misshapen, SourceError) as error:
                again = reader_knowing(self.inner, self.state.known).describe()
                if isinstance(error, SourceError) and again == described:
                    raise
                raise Unstable(
                    f"the columns of source {self.inner.name!r} changed again and again while it was read",
                    hint="try again when its schema is at rest",
                ) from error
            else:
                return {name: replace(part, unreadable=_told(bad[name])) for name, part in parts.items()}


def _same(newest: Snapshot, parts: Mapping[str, Part], wanted: Sequence[str]) -> bool:
    before = {name: newest.parts[name] for name in wanted if name in newest.parts}
    return parts.keys() == before.keys() and all(
        part.digest == before[name].digest and part.relation == before[name].relation
        for name, part in parts.items()
    )


def _without(relation: Relation, columns: Collection[str]) -> Relation:
    """The relation as if it had no such columns."""
    if not columns:
        return relation
    schema = relation.schema
    kept = [i for i, column in enumerate(schema) if column.name not in columns]
    keys = frozenset(frozenset(kept.index(i) for i in key) for key in schema.keys if key <= set(kept))
    return replace(relation, schema=Schema(tuple(schema[i] for i in kept), keys))


def _told(errors: Mapping[str, ValueMismatch]) -> dict[str, dict[str, str]]:
    return {
        column: {"message": error.message, "detail": error.detail, "hint": error.hint}
        for column, error in errors.items()
    }
