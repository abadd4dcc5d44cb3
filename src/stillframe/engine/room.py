"""What the driver takes upon itself before it leaves work to tasks of the engine.

Law: room decides who computes, never what is computed.
A process that shares its machine with its engine has the same cores and the same memory as the tasks: there
the driver takes as much as it may hold, since rows that it has need no job. Beside a cluster it takes little,
however much it could hold: more machines than one wait for the rest.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

SHARE = 8  # of the memory in which columns of files are held, one part more for rows in hand
MOST_TIMES = (
    8  # the least: a column of texts that a join makes has less than the 2 GiB that Arrow can address
)


@dataclass(frozen=True)
class Room:
    """`rows`, and no more than so many `bytes` of them, are read or found and held at a time; of a driver
    `beside` its engine, on one machine."""

    rows: int = 500_000
    bytes: int = 128 * 2**20
    beside: bool = False

    @property
    def whole(self) -> int:
        """Rows of a relation that is read whole."""
        return 2 * self.rows // 5

    @property
    def read(self) -> int:
        """Rows that all inputs of a plan have together."""
        return 4 * self.rows

    @property
    def made(self) -> int:
        """Rows that one join makes."""
        return 2 * self.rows

    @property
    def bytes_made(self) -> int:
        return 2 * self.bytes

    @property
    def rewrites(self) -> bool:
        """Whether the driver may hold parts of a view's files while it writes them anew: it takes more than
        the least that a driver has."""
        return self.beside and self.rows > Room.rows


def room_within(memory: int) -> Room:
    """Of a driver beside its engine that may hold so many bytes of the lake in memory; at least what needs
    next to none."""
    least = Room()
    times = min(max(1, memory // SHARE // least.bytes), MOST_TIMES)
    return Room(times * least.rows, times * least.bytes, beside=True)


def is_beside(settings: Mapping[str, Any]) -> bool:
    """Whether the engine that the `spark:` part of a project asks for runs on the driver's machine."""
    if settings.get("engine") == "sail":
        return True
    master = (settings.get("conf") or {}).get("spark.master", settings.get("master", "local"))
    return not settings.get("remote") and str(master).startswith("local")
