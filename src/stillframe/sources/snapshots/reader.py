"""What a source must offer to be snapshotted: little, so that almost anything can."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Protocol, TypeVar, runtime_checkable

import pyarrow as pa

from stillframe.errors import SourceError
from stillframe.sources.base import Relation

ATTEMPTS = 6
FIRST_PAUSE_SECONDS = 0.1

T = TypeVar("T")


class Unstable(SourceError):
    """The source changed while it was read, and what was read is of no one state."""

    code = "SOURCE_UNSTABLE"


class SnapshotReader(Protocol):
    """What can be read of a source now. A small picklable value; methods open and close what they need."""

    @property
    def name(self) -> str: ...

    @property
    def address(self) -> str:
        """Where the data is: two sources of one address are one database."""
        ...

    def describe(self) -> dict[str, Relation]:
        """The relations there are, by name."""
        ...

    def fingerprint(self, relations: Sequence[str]) -> str | None:
        """A cheap sign of the present state: as long as it is the same, so is every row of these relations.
        It may change although they did not. None where there is no such sign: then only a read can tell."""
        ...

    def read(self, relations: Mapping[str, Sequence[str]]) -> Iterator[tuple[str, pa.RecordBatch]]:
        """The given columns of all these relations at one committed state, each batch in the schema
        `staged_schema(types of columns)`, every count one; in the same order as long as nothing changes,
        where the source can do that. `Unstable` (also at the very end) if it was not one state after all.
        A ValueMismatch that names relation and column loses only that column."""
        ...

    def rows(self, relation: str) -> int:
        """About how many rows the relation has now, for estimates."""
        ...


@runtime_checkable
class Learning(Protocol):
    """A reader of data without declared types. It learns them once; later data has to fit."""

    def knowing(self, relations: Mapping[str, Relation]) -> SnapshotReader:
        """The reader to which the columns of these relations are of the types they have here."""
        ...


@runtime_checkable
class Dated(Protocol):
    """A reader that can tell when the present state began."""

    def changed_at(self) -> datetime | None: ...


def persistent(act: Callable[[], T]) -> T:
    """What an act gives once the source keeps still for as long as it takes."""
    for attempt in range(ATTEMPTS - 1):
        try:
            return act()
        except Unstable:
            time.sleep(FIRST_PAUSE_SECONDS * 2**attempt)
    return act()
