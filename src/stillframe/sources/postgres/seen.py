"""Sets of transactions, as PostgreSQL's snapshots express them, and positions made of them.

A snapshot `xmin:xmax:x,y` holds every transaction below xmax but x and y. Any set that lacks finitely many
transactions below some number can be written so; sets can be united, intersected and compared exactly.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import reduce

from stillframe.sources.base import Position


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All transactions below `xmax` but those `running`, which are all below it."""

    xmax: int
    running: frozenset[int] = frozenset()

    @classmethod
    def parse(cls, text: str) -> Snapshot:
        _, xmax, running = text.split(":")
        return cls(int(xmax), frozenset(int(x) for x in running.split(",") if x))

    def __str__(self) -> str:
        return f"{self.xmin}:{self.xmax}:{','.join(map(str, sorted(self.running)))}"

    @property
    def xmin(self) -> int:
        """Every transaction below is in the set."""
        return min(self.running, default=self.xmax)

    @property
    def size(self) -> int:
        """Grows with every transaction that ends, so it orders the snapshots of one server by time."""
        return self.xmax - len(self.running)

    def has(self, number: int) -> bool:
        return number < self.xmax and number not in self.running

    def __le__(self, other: Snapshot) -> bool:
        beyond = range(other.xmax, max(self.xmax, other.xmax))
        if len(beyond) > len(self.running):
            return False
        return not any(self.has(x) for x in (*other.running, *beyond))

    def __and__(self, other: Snapshot) -> Snapshot:
        xmax = min(self.xmax, other.xmax)
        return Snapshot(xmax, frozenset(x for x in self.running | other.running if x < xmax))

    def __or__(self, other: Snapshot) -> Snapshot:
        low, high = sorted((self, other), key=lambda s: s.xmax)
        return Snapshot(high.xmax, frozenset(x for x in high.running if not low.has(x)))

    def without(self, numbers: Collection[int]) -> Snapshot:
        return Snapshot(self.xmax, self.running | {n for n in numbers if n < self.xmax})

    def condition(self, xid: str) -> str:
        """SQL that says whether the transaction is in the set."""
        if not self.running:
            return f"({xid} < {self.xmax})"
        out = ", ".join(map(str, sorted(self.running)))
        return f"({xid} < {self.xmin} OR {xid} < {self.xmax} AND {xid} <> ALL (ARRAY[{out}]::bigint[]))"

    def beyond(self, xid: str) -> str:
        """SQL that says whether the transaction is not in the set; its first part can use an index."""
        return f"({xid} >= {self.xmin} AND NOT {self.condition(xid)})"


NOTHING = Snapshot(0)


def lsn_text(place: int) -> str:
    """A place in the server's log, as PostgreSQL writes it."""
    return f"{place >> 32:X}/{place & 0xFFFFFFFF:X}"


def common(snapshots: Iterable[Snapshot]) -> Snapshot:
    """What all of them hold; there must be one."""
    return reduce(lambda a, b: a & b, snapshots)


@dataclass(frozen=True, slots=True)
class Mark:
    """What a position is known by: the snapshot, the newest log row in it (its place, its transaction, and
    the microsecond it was written in), and the timeline of the server's log."""

    snapshot: Snapshot
    lsn: str
    xid: int
    at: int
    timeline: str

    @classmethod
    def parse(cls, text: str) -> Mark:
        snapshot, lsn, xid, at, timeline = text.split("|")
        return cls(Snapshot.parse(snapshot), lsn, int(xid), int(at), timeline)

    def __str__(self) -> str:
        return f"{self.snapshot}|{self.lsn}|{self.xid}|{self.at}|{self.timeline}"

    def position(self, identity: str) -> Position:
        return Position(identity, self.snapshot.size, str(self))
