"""What programs ask for, and the answers. Each request is one atomic step of whoever serves it."""

from __future__ import annotations

from typing import Any, NamedTuple

from stillframe.records.signature import Signature
from stillframe.records.store import ABSENT, Key


class State(NamedTuple):
    """What a record is to its managers. `data` is the view class's own."""

    signature: Signature
    data: Any
    link: tuple[Any, ...] | None = None


class Held(NamedTuple):
    """A record as it was read; no state where it is not there."""

    version: int = ABSENT
    state: State | None = None


class Read(NamedTuple):
    """Answered by `Held`."""

    key: Key


class Ask(NamedTuple):
    """A question to the base relations as they are now, which may be later than the entry at hand. What it
    means and what the answer is, the view class says."""

    question: Any


class Put(NamedTuple):
    """Test-and-set; answered by whether it was done. Whoever serves it chooses a version never used before,
    unless the program does."""

    key: Key
    expected: int
    state: State | None
    version: int | None = None


class Tagged(NamedTuple):
    """The keys of the records that are linked so; answered by a tuple of `Key`."""

    link: tuple[Any, ...]


Request = Read | Ask | Put | Tagged
