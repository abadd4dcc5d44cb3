"""Window functions: their types, and what they mean on a partition whose rows stand in order.

Rows that the ORDER BY does not tell apart are peers. `rank` and frames by RANGE treat peers alike. All that
counts places (`row_number`, `lag`, frames by ROWS …) would depend on the order of peers, which SQL leaves
open; here the row's own columns, from the first to the last, settle it. So a partition has one answer, and
rows that are equal altogether can change places unseen.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stillframe.algebra.aggregates import AGGREGATIONS, SPREADS, aggregated, ordered
from stillframe.algebra.functions import TypeMismatch
from stillframe.algebra.scalar import Scalar
from stillframe.algebra.types import BIGINT, DOUBLE, INT, Type

WINDOW_AGGREGATES = ("count", "sum", "avg", "min", "max", "bool_and", "bool_or", *SPREADS)


@dataclass(frozen=True)
class Ordering:
    scalar: Scalar
    descending: bool = False
    nulls_last: bool = False


@dataclass(frozen=True)
class Span:
    """Which rows around one its frame holds: from `start` to `end`, counted in rows from it, None without
    bound. By RANGE a bound of 0 means the first or last of the row's peers, and there are no others."""

    by_rows: bool
    start: int | None
    end: int | None


WHOLE = Span(True, None, None)
SO_FAR = Span(False, None, 0)  # what an ORDER BY alone means


@dataclass(frozen=True)
class Windowed:
    """One function over a window. `number` is its constant: a distance, a place, how many parts."""

    name: str
    function: str
    args: tuple[Scalar, ...] = ()
    span: Span = WHOLE
    number: int = 1

    @property
    def type(self) -> Type:
        return result_type(self.function, tuple(arg.type for arg in self.args))

    @property
    def nullable(self) -> bool:
        return self.function not in _PLACES and self.function != "count"

    @property
    def counts_places(self) -> bool:
        """Whether the order of peers shows."""
        if self.function in ("row_number", "ntile", "lag", "lead"):
            return True
        if self.function in _VALUES:
            return self.span.by_rows
        return self.function in WINDOW_AGGREGATES and self.span.by_rows and self.span != WHOLE


_PLACES: dict[str, Type] = {
    "row_number": INT,
    "rank": INT,
    "dense_rank": INT,
    "ntile": INT,
    "percent_rank": DOUBLE,
    "cume_dist": DOUBLE,
}
_VALUES = ("lag", "lead", "first_value", "last_value", "nth_value")


def result_type(function: str, types: tuple[Type, ...]) -> Type:
    if function in _PLACES:
        return _PLACES[function]
    if function in _VALUES:
        if len(types) == 2 and types[0] != types[1]:
            raise TypeMismatch(f"{function} of {types[0]}, by default {types[1]}")
        return types[0]
    return AGGREGATIONS[function].result(types[0] if types else BIGINT)


def windowed(function: Windowed, values: Sequence[tuple[Any, ...]], peers: Sequence[int]) -> list[Any]:
    """The function's value for each row of a partition in order. `values` are its arguments in each row,
    `peers` the number of each row's group of peers, from 0."""
    size = len(peers)
    first = {peer: place for place, peer in reversed(list(enumerate(peers)))}
    last = {peer: place for place, peer in enumerate(peers)}
    match function.function:
        case "row_number":
            return list(range(1, size + 1))
        case "rank":
            return [first[peer] + 1 for peer in peers]
        case "dense_rank":
            return [peer + 1 for peer in peers]
        case "percent_rank":
            return [first[peer] / (size - 1) if size > 1 else 0.0 for peer in peers]
        case "cume_dist":
            return [(last[peer] + 1) / size for peer in peers]
        case "ntile":
            return [_tile(place, size, function.number) for place in range(size)]
        case "lag" | "lead":
            by = function.number if function.function == "lead" else -function.number
            return [_at(values, place, place + by) for place in range(size)]
    return [
        _framed(function, [values[at] for at in _frame(function.span, place, size, peers, first, last)])
        for place in range(size)
    ]


def _tile(place: int, size: int, parts: int) -> int:
    """Parts as equal as can be, the larger ones first."""
    each, larger = divmod(size, parts)
    before = larger * (each + 1)
    return place // (each + 1) + 1 if place < before else larger + (place - before) // max(each, 1) + 1


def _at(values: Sequence[tuple[Any, ...]], here: int, there: int) -> Any:
    if 0 <= there < len(values):
        return values[there][0]
    return values[here][1] if len(values[here]) > 1 else None


def _frame(
    span: Span, place: int, size: int, peers: Sequence[int], first: dict[int, int], last: dict[int, int]
) -> range:
    start, end = (None if bound is None else place + bound for bound in (span.start, span.end))
    if not span.by_rows:
        start = start if start is None else first[peers[place]]
        end = end if end is None else last[peers[place]]
    return range(0 if start is None else max(0, start), size if end is None else min(size, end + 1))


def _framed(function: Windowed, values: list[tuple[Any, ...]]) -> Any:
    match function.function:
        case "first_value":
            return values[0][0] if values else None
        case "last_value":
            return values[-1][0] if values else None
        case "nth_value":
            return values[function.number - 1][0] if len(values) >= function.number else None
    counted: dict[Any, int] = {}
    for row in values:
        value = row[0] if row else True
        if value is not None:
            counted[value] = counted.get(value, 0) + 1
    return aggregated(function.function, function.type, list(counted.items()))


def sort_key(value: Any, ordering: Ordering) -> Any:
    """Places values as an ORDER BY has them: NaN is the greatest number, text goes by its bytes."""
    if value is None:
        return (1 if ordering.nulls_last else -1, 0)
    rank = ordered(value)
    return (0, _Reversed(rank) if ordering.descending else rank)


@dataclass(frozen=True)
class _Reversed:
    rank: Any

    def __lt__(self, other: _Reversed) -> bool:
        return bool(other.rank < self.rank)
