"""What every source can do. Stages after this one know a source only through this page.

A source is autonomous: its writers go on while we read. Each read therefore opens one snapshot that
holds the relation *and* the log, and answers for the state it was asked for, not for the newest one:

    state at p  =  current rows  −  changes logged after p        (as signed bags)

Signed bags make this exact for a row that was inserted and deleted again inside one interval: its two
log rows cancel. The published formula (with monus, on sets of inserted and deleted rows) loses it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Any, Protocol

import pyarrow as pa

from stillframe.algebra.schema import Schema
from stillframe.algebra.selection import Selection
from stillframe.errors import CaptureGap


class Capture(StrEnum):
    """How a source's changes are found; `check` names what the better ones need."""

    TRIGGERS = "triggers"
    LOG = "log"
    SNAPSHOT = "snapshot"


def named(capture: Capture, identity: str) -> str:
    """The identity that positions of a capture carry."""
    return identity if capture is Capture.TRIGGERS else f"{capture}-{identity}"


def captured_by(identity: str) -> Capture:
    return next((c for c in Capture if identity.startswith(f"{c}-")), Capture.TRIGGERS)


def another(source: str, now: str, then: str) -> CaptureGap:
    """A position with the identity `then` was given to a source that has the identity `now`."""
    was, became = captured_by(then), captured_by(now)
    lead = f"the log of source {source!r} does not reach back to what the frame reflects"
    hint = "run `stillframe refresh --full` to start again from the source's present state"
    if was is not became:
        changed = f"{lead}: it was captured by {was} then, and is by {became} now"
        return CaptureGap(changed, hint=hint, code="CAPTURE_CHANGED")
    return CaptureGap(
        f"{lead}: it is another database than the one the frame was read from, or capture was removed and"
        " installed again",
        detail=f"identity {now}, expected {then}",
        hint=hint,
    )


@dataclass(frozen=True, slots=True)
class Method:
    """A way to capture changes with the account at hand: usable if nothing is `missing` (rights, settings);
    `gains` says in a few words what one has from it."""

    capture: Capture
    missing: tuple[str, ...]
    gains: str


@dataclass(frozen=True, slots=True)
class Position:
    """A committed state of one source: an exact set of its transactions.

    `source` is the identity the source was given when capture was first installed. `sequence` orders the
    positions of a source: of two that were fixed one after the other, the later has no smaller one. `mark`
    is what the source itself knows the state by; it also tells a database restored from a copy, and written
    to again, from the one it was.
    """

    source: str
    sequence: int
    mark: str

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, "position": self.sequence, "mark": self.mark}

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Position:
        mark = document["mark"] if "mark" in document else document["anchor"]
        return cls(document["source"], document["position"], str(mark))


@dataclass(frozen=True, slots=True)
class Committed:
    """A committed transaction. `number` is its name at the source for good, and the tag of its rows; `rows`
    counts the signed rows it logged, by relation. `group` and `parts` are what the application said: the id
    of the global transaction this is a part of, and how many parts that has in all."""

    number: int
    rows: Mapping[str, int]
    group: str = ""
    parts: int = 0


@dataclass(frozen=True, slots=True)
class Reference:
    """A foreign key: values of `columns`, unless one is NULL, are those of `referenced` in a row of
    `relation`, in every committed state; so the database declares, which may have been told not to look."""

    columns: tuple[str, ...]
    relation: str
    referenced: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "columns": list(self.columns),
            "relation": self.relation,
            "referenced": list(self.referenced),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Reference:
        return cls(tuple(document["columns"]), document["relation"], tuple(document["referenced"]))


@dataclass(frozen=True, slots=True)
class Relation:
    """One table of a source. Columns whose type has no faithful counterpart are in `refused`, by name,
    with the reason; they are not in the schema, and a view that uses one is refused."""

    name: str
    schema: Schema
    refused: Mapping[str, str] = field(default_factory=dict)
    references: tuple[Reference, ...] = ()

    def to_json(self) -> dict[str, Any]:
        found: dict[str, Any] = {"name": self.name, "schema": self.schema.to_json()}
        found["refused"] = dict(self.refused)
        if self.references:
            found["references"] = [reference.to_json() for reference in self.references]
        return found

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Relation:
        references = tuple(map(Reference.from_json, document.get("references", ())))
        schema = Schema.from_json(document["schema"])
        return cls(document["name"], schema, dict(document["refused"]), references)


@dataclass(frozen=True, slots=True)
class Keys:
    """A restriction of a read to rows whose `column` holds one of `values` (never NULL).

    A source may return more rows than asked for; it never returns fewer.
    """

    column: str
    values: pa.Array


@dataclass(frozen=True, slots=True)
class Range:
    """A restriction of a read to rows with `above` < `column` <= `upto`, in the source's own order of that
    column; None is no bound."""

    column: str
    above: Any = None
    upto: Any = None


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

    @property
    def capture(self) -> Capture: ...

    @property
    def transactional(self) -> bool:
        """Whether `transactions` tells one transaction from another; else what lies between two positions is
        taken for one."""
        ...

    @property
    def commit_order(self) -> bool:
        """Whether `transactions` are in the very order of their commits."""
        ...

    def methods(self) -> tuple[Method, ...]:
        """The ways to capture there are for this kind of source, best first."""
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

    def transactions(
        self, relations: Sequence[str], after: Position, upto: Position
    ) -> tuple[Committed, ...]:
        """What was committed after `after` up to and including `upto` and changed one of the relations, or
        was marked as a part of a global transaction: each after all that changed the same rows before."""
        ...

    def without(self, after: Position, upto: Position, numbers: Collection[int]) -> Position:
        """The state that lacks these transactions of (after, upto] and has all others: where only the order
        of transactions is known, it lacks all from the first of them on."""
        ...

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
        """Signed rows logged after `after` up to and including `upto`, in the schema
        `staged_schema(types of columns)`; tagged, the number of each row's transaction comes last, as
        `tagged_schema` has it. Rows that do not meet `where` may be left out."""
        ...

    def state(
        self,
        relation: str,
        columns: Sequence[str],
        at: Position,
        keys: Keys | None = None,
        within: Range | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """The relation at `at`, as signed rows that may still cancel, in the schema
        `staged_schema(types of columns)`."""
        ...

    def ranges(self, relation: str, rows: int) -> tuple[Range, ...]:
        """Ranges of a key that cover the relation, each of about so many rows as there are now, in order;
        none where it has no key to go by."""
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
