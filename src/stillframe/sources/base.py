"""What every source can do. Stages after this one know a source only through this page.

A source is autonomous: its writers go on while we read. Each read therefore opens one snapshot that
holds the relation *and* the log, and answers for the state it was asked for, not for the newest one:

    state at p  =  current rows  −  changes logged after p        (as signed bags)

Signed bags make this exact for a row that was inserted and deleted again inside one interval: its two
log rows cancel. The published formula (with monus, on sets of inserted and deleted rows) loses it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

import pyarrow as pa

from stillframe.algebra.schema import Schema


@dataclass(frozen=True, slots=True)
class Position:
    """A committed state of one source: everything in its log up to and including `sequence`.

    `source` is the identity the source was given when capture was first installed. `anchor` is the random
    mark of the log row at `sequence`: a database restored from a copy and written to again reaches the
    same sequence with another mark.
    """

    source: str
    sequence: int
    anchor: int

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, "position": self.sequence, "anchor": self.anchor}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Position:
        return cls(document["source"], document["position"], document["anchor"])


@dataclass(frozen=True, slots=True)
class Relation:
    """One table of a source. Columns whose type has no faithful counterpart are in `refused`, by name,
    with the reason; they are not in the schema, and a view that uses one is refused."""

    name: str
    schema: Schema
    refused: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {"name": self.name, "schema": self.schema.to_json(), "refused": dict(self.refused)}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Relation:
        return cls(document["name"], Schema.from_json(document["schema"]), dict(document["refused"]))


@dataclass(frozen=True, slots=True)
class Keys:
    """A restriction of a read to rows whose `column` holds one of `values` (never NULL).

    A source may return more rows than asked for; it never returns fewer.
    """

    column: str
    values: pa.Array


@dataclass(frozen=True, slots=True)
class Consumer:
    name: str
    position: int
    heartbeat: str
    behind: int


@dataclass(frozen=True, slots=True)
class LogStatus:
    """The size of a source's log and who still needs it."""

    rows: int
    bytes: int
    position: int
    consumers: tuple[Consumer, ...]


class Source(Protocol):
    """Methods open and close their own connections; a source is a small picklable value, so that any
    read can run in an executor."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """Where the database is: two sources of one address are one database."""
        ...

    def describe(self) -> dict[str, Relation]:
        """The relations there are, by name."""
        ...

    def attach(self, consumer: str, relations: Sequence[str]) -> Position:
        """Install capture for the relations (in one transaction) and register the consumer as one that
        needs them, beside those it needed before; repeatable. Returns a position from which changes of all
        these relations are captured. What had to be installed is captured from a position that nobody held
        before: any older one is a gap for that relation. Columns added to a captured table are captured
        from there on, and the others go on."""
        ...

    def release(self, consumer: str, keep: Sequence[str]) -> None:
        """The consumer needs no relations but `keep` any more. Capture that no consumer needs is removed.
        One that keeps nothing is detached, so that it holds back nothing of the log."""
        ...

    def detach(self, consumer: str) -> None:
        """Forget the consumer, and remove capture that only it needed; the last one takes every trace of
        capture with it."""
        ...

    def position(self, consumer: str, relations: Sequence[str]) -> Position:
        """Fix the newest committed state. CAPTURE_GAP if capture of a relation is not as it was installed,
        or the consumer is not registered."""
        ...

    def check(self, after: Position, relations: Sequence[str]) -> None:
        """CAPTURE_GAP unless the log of each relation is whole from `after` to now."""
        ...

    def changes(
        self, relation: str, columns: Sequence[str], after: Position, upto: Position
    ) -> Iterator[pa.RecordBatch]:
        """Signed rows logged after `after` up to and including `upto`, in the schema
        `staged_schema(types of columns)`."""
        ...

    def state(
        self, relation: str, columns: Sequence[str], at: Position, keys: Keys | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The relation at `at`, as signed rows that may still cancel, in the schema
        `staged_schema(types of columns)`."""
        ...

    def pushable(self, relation: str, column: str) -> bool:
        """Whether `Keys` on this column means at the source at least what equality means in Spark."""
        ...

    def rows(self, relation: str) -> int:
        """About how many rows the relation has now, for estimates."""
        ...

    def behind(self, relations: Sequence[str], after: Position) -> int:
        """How many signed rows of these relations were committed after `after`: an insert or a delete
        makes one, an update two. A log written by triggers does not know where transactions end.
        CAPTURE_GAP where `check` says so."""
        ...

    def waiting_since(self, relations: Sequence[str], after: Position) -> datetime | None:
        """When the oldest change that `behind` counts was made, by the clock of its writer, in whole
        seconds; None if there is none. CAPTURE_GAP where `check` says so."""
        ...

    def beat(self, consumer: str) -> None:
        """Renew the heartbeat of a consumer that lives, but has nothing to acknowledge. CAPTURE_GAP if it is
        not registered."""
        ...

    def acknowledge(self, consumer: str, position: Position) -> None:
        """The frame at `position` is durable: record it with a heartbeat, and trim the log to the
        lowest position any consumer still needs."""
        ...

    def log_status(self) -> LogStatus: ...
