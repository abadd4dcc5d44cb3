"""Signed bags: rows with whole-number multiplicities, negative for rows that leave.

Bags under `+` form a commutative group; a change added to a state gives the next state.
Identity of values is Spark's grouping identity: NaN equals NaN, -0.0 equals 0.0, NULL equals NULL.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping
from typing import Any

Row = tuple[Any, ...]

# One NaN object stands for all: tuples compare their members by identity first.
NAN = float("nan")


def canonical(row: Iterable[Any]) -> Row:
    return tuple(_canonical_value(value) for value in row)


def _canonical_value(value: Any) -> Any:
    if isinstance(value, float):
        if value != value:
            return NAN
        return value + 0.0  # -0.0 + 0.0 is 0.0
    return value


class Bag(Mapping[Row, int]):
    """An immutable signed bag. A row of multiplicity zero is not in it."""

    __slots__ = ("_counts",)

    def __init__(self, counts: Mapping[Row, int] | Iterable[tuple[Row, int]] = ()) -> None:
        net: dict[Row, int] = {}
        for row, count in counts.items() if isinstance(counts, Mapping) else counts:
            row = canonical(row)
            net[row] = net.get(row, 0) + count
        self._counts = {row: count for row, count in net.items() if count}

    @classmethod
    def _of_canonical(cls, counts: dict[Row, int]) -> Bag:
        made = cls.__new__(cls)
        made._counts = counts
        return made

    @classmethod
    def of(cls, rows: Iterable[Iterable[Any]]) -> Bag:
        """Each row once per appearance."""
        return cls((tuple(row), 1) for row in rows)

    def __getitem__(self, row: Row) -> int:
        return self._counts.get(canonical(row), 0)

    def __iter__(self) -> Iterator[Row]:
        return iter(self._counts)

    def __len__(self) -> int:
        return len(self._counts)

    def __contains__(self, row: object) -> bool:
        return isinstance(row, tuple) and canonical(row) in self._counts

    def items(self) -> ItemsView[Row, int]:
        return self._counts.items()

    def __add__(self, other: Bag) -> Bag:
        net = dict(self._counts)
        for row, count in other._counts.items():
            total = net.get(row, 0) + count
            if total:
                net[row] = total
            else:
                del net[row]
        return Bag._of_canonical(net)

    def __neg__(self) -> Bag:
        return Bag._of_canonical({row: -count for row, count in self._counts.items()})

    def __sub__(self, other: Bag) -> Bag:
        return self + -other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Bag) and self._counts == other._counts

    def __hash__(self) -> int:
        return hash(frozenset(self._counts.items()))

    def __reduce__(self) -> tuple[object, ...]:
        return (Bag, (self._counts,))  # a NaN read back is another object until it is made canonical

    def __repr__(self) -> str:
        return f"Bag({self._counts!r})"

    @property
    def size(self) -> int:
        """Rows counted with their multiplicities, leaving rows too."""
        return sum(abs(count) for count in self._counts.values())

    @property
    def is_state(self) -> bool:
        """Whether a relation could hold this: no row is missing."""
        return all(count > 0 for count in self._counts.values())

    def rows(self) -> Iterator[Row]:
        """Every row as often as it is there; only a state has rows."""
        for row, count in self._counts.items():
            if count < 0:
                raise ValueError(f"a state cannot lack a row: {row!r} has multiplicity {count}")
            for _ in range(count):
                yield row
