"""Closed forms of what recomputing (RV) and compensating (ECA) cost (ECA paper, 6.1 to 6.3 and appendix D).

The view joins three relations at one source and shows two columns of those rows that pass a comparison.
Every relation has C rows, every value of a join column stands in J of them, a share sigma of the joined rows
passes, S bytes are shown of each, K rows fill a block; no update changes any of this. An update costs its own
term V<U>; where it must be compensated, it also costs one term V<U, P> for each earlier update P of another
relation. So ECA's worst case is its best case and so many pairs of updates that touch different relations.

Two countings of these pairs are both in the text: for three updates, one of each relation, there are 3; for
k updates of random relations, k(k - 1)/3 are expected, which for k = 3 is 2. Updates that take the
relations in turn make `pairs_in_turn`, which is 3 for three.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, floor
from typing import Literal

Algorithm = Literal["rv", "eca"]
Case = Literal["best", "worst"]
Quantity = Literal["messages", "bytes", "io1", "io2"]

RELATIONS = 3
_FAR = 10**6


@dataclass(frozen=True)
class Parameters:
    """Table 1: rows of a relation, bytes shown of a row, the share of rows that pass, rows that join with
    one, rows of a block."""

    C: int = 100
    S: int = 4
    sigma: Fraction = Fraction(1, 2)
    J: int = 4
    K: int = 20

    @property
    def blocks(self) -> int:
        """I: reads of a whole relation."""
        return ceil(Fraction(self.C, self.K))

    @property
    def double_blocks(self) -> int:
        """I': how often two blocks are filled to read a whole relation."""
        return ceil(Fraction(self.C, 2 * self.K))


Number = int | float | Fraction
Formula = Callable[[Number, Parameters], Number]


def pairs(k: Number) -> Number:
    """Pairs of updates of different relations, expected where each update's relation is random."""
    return k * (k - 1) / 3 if isinstance(k, float) else Fraction(k * (k - 1), 3)


def pairs_in_turn(k: int) -> int:
    """The same where the updates take the relations in turn."""
    counts = updates_in_turn(k)
    return (k * k - sum(count * count for count in counts)) // 2


def updates_in_turn(k: int) -> tuple[int, ...]:
    """How many of k updates each relation gets."""
    return tuple(len(range(first, k, RELATIONS)) for first in range(RELATIONS))


def messages_of_rv(k: int, s: int) -> int:
    """A query and an answer after every s updates."""
    return 2 * ceil(Fraction(k, s))


# For k updates. `Number` is a real k where a crossover is looked for.

_FORMULAS: Mapping[tuple[Quantity, Algorithm, Case], Formula] = {
    ("messages", "rv", "best"): lambda k, p: 2,
    ("messages", "rv", "worst"): lambda k, p: 2 * k,
    ("messages", "eca", "best"): lambda k, p: 2 * k,
    ("messages", "eca", "worst"): lambda k, p: 2 * k,
    ("bytes", "rv", "best"): lambda k, p: _shown(p) * p.C * p.J**2,
    ("bytes", "rv", "worst"): lambda k, p: k * _shown(p) * p.C * p.J**2,
    ("bytes", "eca", "best"): lambda k, p: k * _shown(p) * p.J**2,
    ("bytes", "eca", "worst"): lambda k, p: k * _shown(p) * p.J**2 + pairs(k) * _shown(p) * p.J,
    ("io1", "rv", "best"): lambda k, p: RELATIONS * p.blocks,
    ("io1", "rv", "worst"): lambda k, p: k * RELATIONS * p.blocks,
    ("io1", "eca", "best"): lambda k, p: k * (min(p.J, p.blocks) + 1),
    ("io1", "eca", "worst"): lambda k, p: k * (min(p.J, p.blocks) + 1) + pairs(k),
    ("io2", "rv", "best"): lambda k, p: p.blocks**3,
    ("io2", "rv", "worst"): lambda k, p: k * p.blocks**3,
    ("io2", "eca", "best"): lambda k, p: k * p.blocks * p.double_blocks,
    ("io2", "eca", "worst"): lambda k, p: k * p.blocks * p.double_blocks + pairs(k) * p.blocks,
}

# For the three updates of example 6, one of each relation.

_FOR_THREE: Mapping[tuple[Quantity, Algorithm, Case], Callable[[Parameters], Number]] = {
    ("bytes", "rv", "best"): lambda p: _shown(p) * p.C * p.J**2,
    ("bytes", "rv", "worst"): lambda p: 3 * _shown(p) * p.C * p.J**2,
    ("bytes", "eca", "best"): lambda p: 3 * _shown(p) * p.J**2,
    ("bytes", "eca", "worst"): lambda p: 3 * _shown(p) * p.J * (p.J + 1),
    ("io1", "rv", "best"): lambda p: 3 * p.blocks,
    ("io1", "rv", "worst"): lambda p: 9 * p.blocks,
    ("io1", "eca", "best"): lambda p: 3 * min(p.blocks, p.J) + 3,
    ("io1", "eca", "worst"): lambda p: 3 * min(p.blocks, p.J) + 6,
    ("io2", "rv", "best"): lambda p: p.blocks**3,
    ("io2", "rv", "worst"): lambda p: 3 * p.blocks**3,
    ("io2", "eca", "best"): lambda p: 3 * p.blocks * p.double_blocks,
    ("io2", "eca", "worst"): lambda p: 3 * p.blocks * (p.double_blocks + 1),
}


def _shown(p: Parameters) -> Number:
    """Bytes that one joined row is worth on average."""
    return p.S * p.sigma


def cost(quantity: Quantity, algorithm: Algorithm, case: Case, k: Number, p: Parameters) -> Number:
    """For k updates, as printed."""
    return _FORMULAS[quantity, algorithm, case](k, p)


def cost_of_three(quantity: Quantity, algorithm: Algorithm, case: Case, p: Parameters) -> Number:
    """For the three updates of example 6, as printed."""
    return _FOR_THREE[quantity, algorithm, case](p)


def cost_in_turn(quantity: Quantity, algorithm: Algorithm, case: Case, k: int, p: Parameters) -> Number:
    """For k updates that take the relations in turn: the sums behind the printed forms, not averaged over
    random relations. For three updates these are the forms for three."""
    if algorithm == "rv" or quantity == "messages":
        return cost(quantity, algorithm, case, k, p)
    single, pair = _TERMS[quantity](p)
    own = sum(count * each for count, each in zip(updates_in_turn(k), single, strict=True))
    return own + (pairs_in_turn(k) * pair if case == "worst" else 0)


# What V<U> costs for an update of each relation, and what V<U, P> costs.

_TERMS: Mapping[Quantity, Callable[[Parameters], tuple[tuple[Number, Number, Number], Number]]] = {
    "bytes": lambda p: ((_shown(p) * p.J**2,) * 3, _shown(p) * p.J),
    "io1": lambda p: ((1 + min(p.J, p.blocks), 2, 2 * min(p.J, p.blocks)), 1),
    "io2": lambda p: ((p.blocks * p.double_blocks,) * 3, p.blocks),
}


@dataclass(frozen=True)
class Crossover:
    """Below `at` the one curve is lower; `first` is the first whole number at which it is so no more."""

    at: float
    first: int


def crossover(rising: Callable[[Number], Number], other: Callable[[Number], Number]) -> Crossover:
    """Where a curve that starts lower reaches another."""
    low, high = 0.0, 1.0
    while float(rising(high)) < float(other(high)):
        low, high = high, 2 * high
        if high > _FAR:
            raise ValueError(f"the curves do not meet below {_FAR}")
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if float(rising(middle)) < float(other(middle)) else (low, middle)
    near = floor(high)
    first = next(n for n in range(max(near - 1, 0), near + 3) if rising(n) >= other(n))
    return Crossover(round(high, 9), first)


def restorations_of(relations: int) -> int:
    """The most compensating queries C-Strobe sends for one insert into a join of so many relations, one at
    a source, with deletes of one relation put into one query: (n-1) + (n-1)(n-2) + …, without the last
    product, whose queries have no relation left to ask about."""
    total, product = 0, 1
    for left in range(relations - 1, 1, -1):
        product *= left
        total += product
    return total
