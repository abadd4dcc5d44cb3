"""Union, intersection and difference of two relations, rows being the records' keys.

    data = how many rows of each relation are this record's

With these counts kept (`Counted`) no base is read, and the view is strong. `Looked` keeps no count of the
other side and asks the base for it: it is cheaper to load, and weak, since the base answers of later states.
Either way a row that the other side's manager works on meanwhile is not lost: every touch writes the record.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from stillframe.records.entry import Row, Touch
from stillframe.records.program import Folding
from stillframe.records.requests import State

Counts = tuple[int, int]

SHOWN: dict[str, Callable[[bool, bool], bool]] = {
    "union": lambda left, right: left or right,
    "intersect": lambda left, right: left and right,
    "except": lambda left, right: left and not right,
}


@dataclass(frozen=True)
class Counted(Folding):
    """Also, with one side only, a projection that drops the key (algorithms 20 to 22)."""

    operation: str = "union"

    @property
    def empty(self) -> Counts:
        return 0, 0

    def fold(self, data: Counts, touch: Touch) -> Counts:
        more = (touch.came is not None) - (touch.left is not None)
        left, right = data
        return (left, right + more) if touch.side else (left + more, right)

    def row(self, key: Row, state: State) -> Row | None:
        left, right = state.data
        return key if SHOWN[self.operation](left > 0, right > 0) else None


@dataclass(frozen=True)
class Looked(Counted):
    """Each row holds the keys of both relations, so that either has it once or not at all. The touched side
    is as its entry says, the other as the base does; the question is a row, the answer one of counts."""

    idempotent = True

    def asks(self, data: Counts, touches: tuple[Touch, ...]) -> Row:
        return touches[0].key

    def answered(self, data: Counts, touches: tuple[Touch, ...], answer: Counts) -> Counts:
        told = {touch.side: int(touch.came is not None) for touch in touches}
        return told.get(0, answer[0]), told.get(1, answer[1])
