"""Views that show a base record under a key of its own: selections, projections that keep the key, and those
that keep it as a part of the view's key (algorithms 11 to 19). Strong.

    data = the values that the image brought, or None

One base record gives a view record its values, and its steps come in order: what came last is what is shown.
A projection that keeps the key only as a part of its own moves the row when the other part changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from stillframe.records.entry import Row, Touch
from stillframe.records.program import Reading
from stillframe.records.requests import State
from stillframe.records.store import Key


@dataclass(frozen=True)
class Keyed:
    empty: Row | None = None

    def record(self, touch: Touch) -> Key:
        return Key(touch.key)

    def program(self, key: Key, touches: tuple[Touch, ...]) -> Reading:
        return Reading(self, key, touches)

    def fold(self, data: Row | None, touch: Touch) -> Row | None:
        return None if touch.came is None else touch.came.values

    def asks(self, data: Row | None, touches: tuple[Touch, ...]) -> None:
        return None

    def answered(self, data: Row | None, touches: tuple[Touch, ...], answer: Any) -> Row | None:
        raise AssertionError("asks nothing")

    def row(self, key: Row, state: State) -> Row | None:
        return None if state.data is None else (*key, *state.data)
