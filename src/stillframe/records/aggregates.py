"""COUNT, SUM and AVG, any number of them in one view (algorithms 1 to 6). Strong.

    data = (rows of the group, for each aggregate: the sum of its values, how many there are)

Sums are of whole numbers and decimals, which add up to the same in every order. NULL is no value; a group
whose rows have none shows the sum NULL. A group without rows is kept, hidden, and shown again when one comes.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from stillframe.algebra.aggregates import aggregated, mean, plus
from stillframe.algebra.types import Type
from stillframe.records.entry import Image, Row, Touch
from stillframe.records.program import Folding
from stillframe.records.requests import State

Total = tuple[int | Decimal, int]
Group = tuple[int, tuple[Total, ...]]


class Measure(NamedTuple):
    """`place` is that of its argument among an image's values; None counts rows."""

    function: str
    type: Type
    place: int | None = None


@dataclass(frozen=True)
class Aggregates(Folding):
    measures: tuple[Measure, ...]
    always: bool = False  # the one group of a view without GROUP BY is there without rows too

    @property
    def empty(self) -> Group:
        return 0, ((0, 0),) * len(self.measures)

    def fold(self, data: Group, touch: Touch) -> Group:
        for image, sign in ((touch.left, -1), (touch.came, 1)):
            if image is not None:
                data = self._added(data, image, sign)
        return data

    def _added(self, data: Group, image: Image, sign: int) -> Group:
        rows, totals = data
        grown: list[Total] = []
        for total, measure in zip(totals, self.measures, strict=True):
            amount, known = total
            value = 1 if measure.place is None else image.values[measure.place]
            if measure.place is None or measure.function == "count":
                grown.append(total if value is None else (amount, known + sign))
            else:
                grown.append(
                    total
                    if value is None
                    else (plus(amount, value if sign > 0 else _negative(value)), known + sign)
                )
        return rows + sign, tuple(grown)

    def row(self, key: Row, state: State) -> Row | None:
        rows, totals = state.data
        if not rows and not self.always:
            return None
        shown = (_shown(measure, total) for measure, total in zip(self.measures, totals, strict=True))
        return (*key, *shown)


def _negative(value: int | Decimal) -> int | Decimal:
    """Exact: a minus sign before a decimal rounds it."""
    return value.copy_negate() if isinstance(value, Decimal) else -value


def _shown(measure: Measure, total: Total) -> Any:
    amount, known = total
    match measure.function:
        case "count":
            return known
        case "sum":
            return aggregated("sum", measure.type, [(amount, 1)] if known else [])
        case "avg":
            return mean(measure.type, amount, known) if known else None
    raise AssertionError(measure.function)
