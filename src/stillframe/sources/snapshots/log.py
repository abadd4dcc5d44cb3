"""Are the snapshots what a frame takes them for?

A position is a snapshot by number and content. It holds as long as the folder is the one it was taken in, the
state names it, and its files are as they were written. A column is judged by itself: one that a snapshot does
not have, or has with another type, is a gap for those who read it, and for nobody else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from stillframe.algebra.schema import Schema
from stillframe.errors import CaptureGap, SourceError, ValueMismatch
from stillframe.sources.base import Position, another
from stillframe.sources.snapshots.store import Damaged, Part, Snapshot, State, Store


def gap(source: str, message: str, detail: str = "") -> CaptureGap:
    return CaptureGap(
        f"the snapshots of source {source!r} do not reach back to what the frame reflects: {message}",
        detail=detail,
        hint="run `stillframe refresh --full` to start again from the source's present state",
    )


def not_installed(source: str, folder: Path) -> CaptureGap:
    return gap(source, "none are kept there (never attached, detached, or deleted)", f"folder {folder}")


@dataclass(frozen=True)
class Kept:
    """The snapshots of a source, as the state file has them."""

    source: str
    store: Store
    state: State

    @classmethod
    def read(cls, source: str, store: Store) -> Kept:
        try:
            state = store.read()
        except Damaged as error:
            raise gap(source, "what was kept of them is damaged", str(error)) from error
        if state is None:
            raise not_installed(source, store.folder)
        return cls(source, store, state)

    def consumer(self, name: str) -> dict[str, Any]:
        if name not in self.state.consumers:
            raise gap(self.source, f"consumer {name!r} is not registered there")
        if self.state.consumers[name]["position"] is None:
            raise gap(
                self.source, f"consumer {name!r} was dropped, being further behind than the capture limit"
            )
        return self.state.consumers[name]

    def at(self, position: Position) -> Snapshot:
        """The snapshot a position names, whole."""
        state = self.state
        if state.identity != position.source:
            raise another(self.source, state.identity, position.source)
        found = next((s for s in state.snapshots if s.number == position.sequence), None)
        if found is None:
            ahead = position.sequence > state.last
            raise gap(
                self.source,
                "the folder was restored from an older copy" if ahead else "they were trimmed too far",
                f"snapshot {position.sequence}, there are {[s.number for s in state.snapshots]}",
            )
        if found.mark != position.mark:
            raise gap(
                self.source,
                "the folder was restored from an older copy, and others were taken since",
                f"snapshot {position.sequence} is another one",
            )
        self.require_intact(found)
        return found

    def require_intact(self, snapshot: Snapshot) -> None:
        if not self.store.intact(snapshot):
            raise gap(
                self.source,
                f"snapshot {snapshot.number} was deleted or altered by hand",
                f"in the folder {self.store.folder}",
            )

    def chain(self, after: Position, upto: Position) -> tuple[Snapshot, ...]:
        """The snapshots from one position to the other, both included."""
        first, last = self.at(after), self.at(upto)
        between = [s for s in self.state.snapshots if first.number < s.number < last.number]
        for snapshot in between:
            self.require_intact(snapshot)
        return (first, *between, last) if last.number > first.number else (first,)

    def part(self, snapshot: Snapshot, relation: str) -> Part:
        if relation in snapshot.parts:
            return snapshot.parts[relation]
        if relation in snapshot.wanted:
            raise gap(self.source, f"relation {relation!r} is gone", f"snapshot {snapshot.number} found none")
        later = any(relation in s.parts for s in self.state.snapshots)
        raise gap(
            self.source,
            f"relation {relation!r} is " + ("captured only since later" if later else "not captured"),
            f"it is not in snapshot {snapshot.number}",
        )

    def steps(self, chain: Sequence[Snapshot], relation: str) -> list[tuple[Snapshot, Snapshot]]:
        """From each snapshot of a chain to the next, both ends of which have the relation. One in between, at
        which the relation was not there, told nothing of it that the next does not."""
        ends = (chain[0], chain[-1])
        for snapshot in ends:
            self.part(snapshot, relation)
        return list(pairwise(s for s in chain if relation in s.parts))

    def columns(self, snapshot: Snapshot, relation: str, names: Sequence[str]) -> Schema:
        """The columns as the snapshot has them."""
        part = self.part(snapshot, relation)
        schema = part.relation.schema
        for name in names:
            if name not in schema.names:
                raise self._lacking(snapshot, part, name)
        return Schema(tuple(schema[schema.names.index(name)] for name in names))

    def _lacking(self, snapshot: Snapshot, part: Part, column: str) -> SourceError:
        relation = part.relation.name
        if column in part.unreadable:
            return ValueMismatch(**part.unreadable[column])
        if reason := part.relation.refused.get(column):
            return SourceError(
                f"column {column!r} of {self.source}.{relation} cannot be read",
                detail=reason,
                code="UNREADABLE_COLUMN",
            )
        others = [s.parts[relation] for s in self.state.snapshots if relation in s.parts]
        if any(column in other.relation.schema.names or column in other.unreadable for other in others):
            return gap(self.source, f"column {column!r} of {relation!r} is not in snapshot {snapshot.number}")
        return SourceError(
            f"{self.source}.{relation} has no column {column!r}",
            detail=f"there are: {', '.join(part.relation.schema.names)}",
            code="NO_COLUMN",
        )

    def comparable(self, snapshots: Sequence[Snapshot], relation: str, names: Sequence[str]) -> Schema:
        """The columns, which are the same in all these snapshots."""
        found = [self.columns(snapshot, relation, names) for snapshot in snapshots]
        for snapshot, schema in zip(snapshots, found, strict=True):
            for here, last in zip(schema, found[-1], strict=True):
                if here.type != last.type:
                    raise gap(
                        self.source,
                        f"column {here.name!r} of {relation!r} changed its type",
                        f"{here.type} in snapshot {snapshot.number}, {last.type} in {snapshots[-1].number}",
                    )
        return found[-1]
