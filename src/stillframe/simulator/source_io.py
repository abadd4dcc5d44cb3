"""Reads of blocks at a source that evaluates one term (ECA paper, 6.3 and D.3), from the rows it really has.

Each term is evaluated by itself and nothing stays in memory from one to the next. Blocks hold K rows.

Scenario 1: indexes, which live in memory, and room for all rows that take part. Relations join what is held
one after the other, in the cheapest order. A relation is read whole, or every row held of a relation it
joins with probes an index: m matching rows that lie together are ceil(m / K) reads, others a read each. Two
rows that probe for the same value read twice.

Scenario 2: no index and three blocks of memory. The last relation passes by once for each filling of the
other blocks: two relations of I blocks take I * ceil(I / 2) reads, three take I * I * I. As in the text, the
reads that fill the blocks of the outer relations are not counted.

A term whose own rows do not join with each other is empty, and nothing is read for it. The selection is
tested after the join, as in the text, and saves no read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations
from math import ceil, prod
from typing import Any

from stillframe.algebra import Bag, Call, Plan, Ref, Row
from stillframe.protocol import JoinView
from stillframe.protocol.terms import Term, free_slots

Held = Mapping[int, Sequence[Row]]  # the rows of some slots that may take part in the join


@dataclass(frozen=True)
class Index:
    relation: str
    column: str
    clustered: bool = True


INDEXES = (Index("r1", "X"), Index("r2", "X"), Index("r3", "Y"), Index("r2", "Y", clustered=False))


@dataclass
class Stored:
    """A relation as a source holds it, and how often each value stands in a column, once somebody asks."""

    rows: Sequence[Row]
    _counts: dict[int, Counter[Any]] = field(default_factory=dict)

    @classmethod
    def of(cls, bag: Bag) -> Stored:
        return cls(tuple(bag.rows()))

    def counts(self, column: int) -> Counter[Any]:
        if column not in self._counts:
            self._counts[column] = Counter(row[column] for row in self.rows)
        return self._counts[column]


@dataclass(frozen=True)
class Disk:
    """A source's relations in blocks of `per_block` rows, and what it indexes."""

    view: JoinView
    stored: Callable[[str], Stored]
    per_block: int
    indexes: tuple[Index, ...] = INDEXES

    def carried(self, term: Term, content: Callable[[Plan], Bag]) -> Held | None:
        """The rows a term binds slots to, one part to a slot; nothing where they do not join."""
        held: dict[int, Sequence[Row]] = {}
        for part in term.parts:
            (slot,) = part.slots
            rows = [row for row, times in content(part.rows).items() for _ in range(abs(times))]
            held[slot] = self._joining(slot, held, rows)
        return held if all(held.values()) else None

    def with_indexes(self, term: Term, held: Held | None) -> int:
        """Scenario 1."""
        if held is None:
            return 0
        free = sorted(free_slots(self.view, term))
        return min(self._in_order(order, held) for order in permutations(free))

    def with_three_blocks(self, term: Term, held: Held | None) -> int:
        """Scenario 2."""
        free = sorted(free_slots(self.view, term))
        if held is None:
            return 0
        if len(free) == 2:
            return min(self.blocks(a) * ceil(self.blocks(b) / 2) for a, b in permutations(free))
        return prod(map(self.blocks, free))

    def blocks(self, slot: int) -> int:
        return self._blocks_of(len(self._stored(slot).rows))

    def _blocks_of(self, rows: int) -> int:
        return -(-rows // self.per_block)

    def _stored(self, slot: int) -> Stored:
        return self.stored(self.view.slots[slot].relation)

    def _in_order(self, order: tuple[int, ...], held: Held) -> int:
        reads = 0
        for slot in order:
            reads += min([self.blocks(slot), *self._probes(slot, held)])
            held = {**held, slot: self._joining(slot, held, self._stored(slot).rows)}
        return reads

    def _probes(self, slot: int, held: Held) -> Iterator[int]:
        """What it costs to find a slot's rows by each index that can be asked."""
        here = self.view.slots[slot]
        for index in self.indexes:
            column = here.schema.names.index(index.column) if index.relation == here.relation else None
            for mine, other, place in self._equated(slot, held):
                if mine == column:
                    counts = self._stored(slot).counts(mine)
                    found = (counts[row[place]] for row in held[other])
                    yield sum(map(self._blocks_of, found) if index.clustered else found)

    def _joining(self, slot: int, held: Held, rows: Sequence[Row]) -> Sequence[Row]:
        for mine, other, place in self._equated(slot, held):
            values = {row[place] for row in held[other]}
            rows = [row for row in rows if row[mine] in values]
        return rows

    def _equated(self, slot: int, held: Held) -> Iterator[tuple[int, int, int]]:
        """(column of the slot, slot held, its column) for each condition that equates two columns."""
        for a, b in self._equalities:
            other = self.view.slot_at(b)
            if self.view.slot_at(a) == slot and other in held:
                yield a - self.view.offsets[slot], other, b - self.view.offsets[other]

    @cached_property
    def _equalities(self) -> tuple[tuple[int, int], ...]:
        """Places that a condition says are equal, both ways."""
        found = list[tuple[int, int]]()
        for condition in self.view.conditions:
            match condition:
                case Call("=", (Ref(a), Ref(b))):
                    found += [(a, b), (b, a)]
        return tuple(found)
