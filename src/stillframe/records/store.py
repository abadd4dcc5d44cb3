"""What view managers ask of a store of records; `conformance` checks any implementation of it.

A record has two parts, written together or not at all: the row that readers see, and what the managers of the
view keep for themselves, which readers never meet. A record may be kept without being shown: a group that
vanished is remembered, so that a late or repeated change of it is recognised.

There are no transactions over records. One record is written by test-and-set: a write names the version that
was read, and fails where the record has another by now. Versions are chosen by the writer, never zero, and
never used twice for a record; zero is the version of a record that is not there.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, Protocol

from stillframe.errors import StillframeError

ABSENT = 0  # the version of a record that is not there


class StoreError(StillframeError):
    """A store that is down, refuses, or is not what it was. Nothing is lost: the changes come again."""

    code = "STORE_ERROR"


class Fenced(StoreError):
    """This manager belongs to a session that another one has followed: it must not write any more."""

    code = "FENCED"


class Key(NamedTuple):
    """Names a record of a view. `kind` is empty for records of the view; records of other kinds are kept by
    managers and never shown. Values are of the view's key columns, or whatever the kind says: text, whole
    numbers, decimals, dates, instants, bytes, booleans, NULL."""

    values: tuple[Any, ...]
    kind: str = ""


class Record(NamedTuple):
    """`shown` is the row readers see, in the order of the view's columns; None where they see none."""

    version: int
    shown: tuple[Any, ...] | None
    kept: bytes = b""


NOTHING = Record(ABSENT, None)


class Write(NamedTuple):
    """`expected` is the version that was read. `record` is what becomes of it; None removes all of it. `tag`
    is a text by which `tagged` finds the record while it is there."""

    key: Key
    expected: int
    record: Record | None
    tag: str | None = None


class RecordStore(Protocol):
    """The records of one view. A handle is used by one thread; any number of handles work at once."""

    def create(self) -> None:
        """Make what the view needs in the store; what is there already is fine. A place where another program
        keeps something else under these names is an error, and stays as it is."""

    def drop(self) -> None:
        """Remove everything of this view; nothing of it there is fine."""

    def fence(self, epoch: int) -> None:
        """From now on writes of handles of lower epochs are refused, each of them whole, with `Fenced`. An
        epoch that is lower than one before it is refused itself."""

    def fenced(self) -> int:
        """The epoch that was fenced last; 0 where none was."""

    def read(self, keys: Sequence[Key]) -> list[Record]:
        """The records of these keys, in this order; `NOTHING` for one that is not there."""

    def kept(self, keys: Sequence[Key]) -> list[tuple[int, bytes]]:
        """The versions of these records and what is kept of them, without the rows that readers see; `ABSENT`
        and nothing for one that is not there."""

    def test_and_set(self, writes: Sequence[Write]) -> list[bool]:
        """Do each write whose record has the version it expects; tell which were done. Each is atomic and
        durable as the store is when the call returns; of several, some may be done and others not, also where
        the call fails. No key comes twice in one call."""

    def tagged(self, tag: str) -> list[Key]:
        """The records that have this tag now."""

    def scan(self) -> Iterator[tuple[Any, ...]]:
        """The rows that readers see, in no order; not at one moment."""

    def close(self) -> None: ...
