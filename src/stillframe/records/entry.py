"""Entries of a change log, and which view records each of them touches.

An entry is one step in the life of one base record, as the view sees it: the row's image before and after.
An image is what the view makes of a row: the key of the view record it belongs to, and the values it brings
there; a row that fails the view's conditions has none. So a row that comes to meet a condition is an insert.

Flow control: a base record belongs to one of `STREAMS` streams for ever, by its key alone. A manager takes
whole streams and goes through each in the order of the log, finishing what an entry touches before it goes on
to an entry that touches the same record. So steps of one base record never race, however many managers there
are and however streams are dealt out to them; and if two managers go through one stream, because one of them
is thought dead, each does so from the beginning and in order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

STREAMS = 64

Row = tuple[Any, ...]


class Position(NamedTuple):
    """A session takes a fixed piece of the log, and `number` is the place in it: an entry that comes again,
    to whomever, has the position it had. The entries of a session are all done before the next one begins."""

    session: int
    number: int


class Image(NamedTuple):
    """`link` names the record of the other relation that a joined row refers to."""

    key: Row
    values: Row = ()
    link: Row | None = None


class Entry(NamedTuple):
    """`side` tells the relations of a view with two of them apart."""

    stream: int
    position: Position
    before: Image | None
    after: Image | None
    side: int = 0


class Touch(NamedTuple):
    """What an entry does to one view record: an image leaves it, comes to it, or both."""

    key: Row
    left: Image | None
    came: Image | None
    stream: int
    position: Position
    side: int = 0


def touches(entry: Entry) -> Iterator[Touch]:
    """A row that moves to another record leaves the one before it comes to the other."""
    before, after = entry.before, entry.after
    rest = (entry.stream, entry.position, entry.side)
    if before is not None and after is not None and before.key == after.key:
        yield Touch(after.key, before, after, *rest)
        return
    if before is not None:
        yield Touch(before.key, before, None, *rest)
    if after is not None:
        yield Touch(after.key, None, after, *rest)
