"""What PostgreSQL's logical decoding sends (plugin pgoutput, protocol 1), as transactions in commit order.

A transaction is told whole, when it commits, and begins with the place of its commit in the server's log. A
table whose replica identity is FULL tells the whole old row of each update and delete. A value too large to
stand in its row is left out of a new row that did not change it: then it is that of the old row.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

_EPOCH = datetime(2000, 1, 1, tzinfo=UTC)
Values = list[bytes | None]


@dataclass(frozen=True, slots=True)
class Begin:
    """`lsn` is where the commit stands in the server's log; `xid` has its lower 32 bits only; `at` is the
    microsecond of the commit, since 2000."""

    lsn: int
    at: int
    xid: int

    @property
    def moment(self) -> datetime:
        return _EPOCH + timedelta(microseconds=self.at)

    def full_xid(self, next_: int) -> int:
        """The whole number, of a transaction that is not older than half a turn of the counter."""
        whole = (next_ & ~0xFFFFFFFF) | self.xid
        return whole - (1 << 32) if whole > next_ + (1 << 31) else whole


@dataclass(frozen=True, slots=True)
class Layout:
    """The columns that rows of a table are told in, as the table was when they were written."""

    part: int
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """A signed row of a table (of a partition, if it has them), its values as the server prints them."""

    layout: Layout
    sign: int
    values: Values


@dataclass(frozen=True, slots=True)
class Emptied:
    """TRUNCATE; the rows are not told."""

    parts: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Incomplete:
    """A row was updated or deleted whose old values were not told: the replica identity was not FULL."""

    part: int


Event = Begin | Row | Emptied | Incomplete


def events(messages: Iterable[bytes], wanted: Callable[[Begin], bool] | None = None) -> Iterator[Event]:
    """What the messages say. Of transactions that are not wanted only the beginning is told."""
    layouts: dict[int, Layout] = {}
    told = True
    for data in messages:
        match data[:1]:
            case b"I" | b"U" | b"D" | b"T" if not told:
                continue
            case b"I":
                part = int.from_bytes(data[1:5], "big")
                values, _ = _tuple(data, 6)
                yield Row(layouts[part], 1, _known(values))
            case b"U":
                part = int.from_bytes(data[1:5], "big")
                if data[5:6] != b"O":
                    yield Incomplete(part)
                    continue
                old, place = _tuple(data, 6)
                new, _ = _tuple(data, place + 1)
                before = _known(old)
                after = [b if isinstance(a, bool) else a for a, b in zip(new, before, strict=True)]
                yield Row(layouts[part], -1, before)
                yield Row(layouts[part], 1, after)
            case b"D":
                part = int.from_bytes(data[1:5], "big")
                if data[5:6] != b"O":
                    yield Incomplete(part)
                    continue
                old, _ = _tuple(data, 6)
                yield Row(layouts[part], -1, _known(old))
            case b"R":
                layout = _layout(data)
                layouts[layout.part] = layout
            case b"B":
                begun = begin(data)
                told = wanted is None or wanted(begun)
                yield begun
            case b"T":
                count = int.from_bytes(data[1:5], "big")
                yield Emptied(struct.unpack_from(f">{count}I", data, 6))


def begin(data: bytes) -> Begin:
    lsn, at, xid = struct.unpack_from(">QqI", data, 1)
    return Begin(lsn, at, xid)


def _layout(data: bytes) -> Layout:
    part = int.from_bytes(data[1:5], "big")
    place = data.index(b"\0", data.index(b"\0", 5) + 1) + 2
    count = int.from_bytes(data[place : place + 2], "big")
    place += 2
    names = []
    for _ in range(count):
        end = data.index(b"\0", place + 1)
        names.append(data[place + 1 : end].decode())
        place = end + 9
    return Layout(part, tuple(names))


def _tuple(data: bytes, place: int) -> tuple[list[bytes | bool | None], int]:
    """The values of a row, True for one that was left out because it did not change; and where they end."""
    count = int.from_bytes(data[place : place + 2], "big")
    place += 2
    values: list[bytes | bool | None] = []
    for _ in range(count):
        kind = data[place]
        place += 1
        if kind == 116:  # text
            end = place + 4 + int.from_bytes(data[place : place + 4], "big")
            values.append(data[place + 4 : end])
            place = end
        else:
            values.append(True if kind == 117 else None)
    return values, place


def _known(values: list[bytes | bool | None]) -> Values:
    return [None if isinstance(value, bool) else value for value in values]
