"""MIN and MAX, and groups that are computed from the base at every touch (algorithms 7 to 9).

    data = (the extreme,), or None where there is no group; the extreme of no value is NULL

`Extreme` follows inserts by itself and asks the base for a group's extreme when it leaves; the base answers
of a state that may be later than what is shown next, so it is weak. With `scanning` it asks for every new
extreme, and is strong: what is shown is always an answer, and answers are in order, each being asked after
the record that it replaces was read. How often an extreme occurs is not counted, as the printed program
does: a base that answers of later states, and entries that come twice, make that count wrong. So each step
may be repeated.

`Recomputed` asks for all aggregates of a group at every touch. Strong, and the only way to show an extreme
beside another aggregate: two columns that are asked for at different moments belong to no state together.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from typing import Any

from stillframe.algebra.aggregates import ordered
from stillframe.records.entry import Row, Touch
from stillframe.records.program import Folding


@dataclass(frozen=True)
class Recomputed(Folding):
    """The question is a group's key, the answer the values of its aggregates, or None."""

    idempotent = True

    def asks(self, data: Row | None, touches: tuple[Touch, ...]) -> Row | None:
        return touches[0].key

    def answered(self, data: Row | None, touches: tuple[Touch, ...], answer: Row | None) -> Row | None:
        return answer


@dataclass(frozen=True)
class Extreme(Recomputed):
    function: str = "min"
    scanning: bool = False

    def fold(self, data: Row | None, touch: Touch) -> Row | None:
        return data if touch.came is None else self._better(data, touch.came.values)

    def asks(self, data: Row | None, touches: tuple[Touch, ...]) -> Row | None:
        for touch in touches:
            if touch.left is not None and data is not None and _same(data[0], touch.left.values[0]):
                return touch.key
            following = self.fold(data, touch)
            if self.scanning and following != data:
                return touch.key
            data = following
        return None

    def _better(self, data: Row | None, values: Row) -> Row:
        known = [one for one in (data, values) if one is not None and one[0] is not None]
        if not known:
            return values
        choose: Any = min if self.function == "min" else max
        return reduce(lambda a, b: choose(a, b, key=lambda one: ordered(one[0])), known)


def _same(a: Any, b: Any) -> bool:
    return bool(a == b) or (a is not None and b is not None and bool(ordered(a) == ordered(b)))
