"""Views that show a base record under a key of its own: selections, projections that keep the key, and those
that keep it as a part of the view's key (algorithms 11 to 19). Strong.

    data = the values that the image brought, or None

One base record gives a view record its values, and its steps come in order: what came last is what is shown.
A projection that keeps the key only as a part of its own moves the row when the other part changes.
"""

from __future__ import annotations

from dataclasses import dataclass

from stillframe.records.entry import Row, Touch
from stillframe.records.program import Folding


@dataclass(frozen=True)
class Keyed(Folding):
    idempotent = True

    def fold(self, data: Row | None, touch: Touch) -> Row | None:
        return None if touch.came is None else touch.came.values
