"""How many rows a join of some inputs has, and how many its change has.

Assumption: a condition holds for a fixed part of all combinations of rows, independently of other conditions
and of whether rows came, left or stayed. A pair of inputs without a condition is a cross product.

Law: of n rows before and n' after, k stayed. The rows that the join of P gained or lost are those before and
those after, less those that consist of rows that stayed:
    |Δ(⋈P)|  =  s(P) · (Π n + Π n' − 2 Π k),   s(P) the product of the selectivities inside P.
It is symmetric in P's inputs and depends on nothing but P: no tree, and no order of blocks. Search by dynamic
programming is exact only with such a size. Where nothing is deleted, k = n, and it is the sum of the n terms.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod

from stillframe.change.propagation.tree import Input

Block = frozenset[int]


@dataclass(frozen=True)
class Size:
    """One input: rows before, and what the session adds to and takes from them. `row_bytes` is what a row
    takes when it is read. `ranges` is how many parts of about equal size a reader can tell apart by the join
    columns, and skip: 1 where a change has to read all."""

    rows: float
    inserted: float = 0
    deleted: float = 0
    row_bytes: float = 100
    ranges: int = 1

    def __post_init__(self) -> None:
        if min(self.rows, self.inserted, self.deleted, self.row_bytes) < 0 or self.ranges < 1:
            raise ValueError(f"not a size: {self}")
        if self.deleted > self.rows:
            raise ValueError(f"{self.deleted} rows leave where there are {self.rows}")

    @property
    def after(self) -> float:
        return self.rows - self.deleted + self.inserted

    @property
    def kept(self) -> float:
        return self.rows - self.deleted

    @property
    def change(self) -> float:
        return self.inserted + self.deleted


@dataclass(frozen=True)
class JoinGraph:
    """The inputs of a join by place, their sizes, and which part of the combinations of rows the conditions
    over each set of places keep."""

    inputs: tuple[Input, ...]
    sizes: tuple[Size, ...]
    selectivities: Mapping[Block, float] = field(default_factory=dict)
    _changes: dict[Block, float] = field(default_factory=dict, init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        if not self.inputs or len(self.inputs) != len(self.sizes):
            raise ValueError(f"{len(self.sizes)} sizes for {len(self.inputs)} inputs")
        if [each.place for each in self.inputs] != list(range(len(self.inputs))):
            raise ValueError("inputs are listed by place")
        for which, size in zip(self.inputs, self.sizes, strict=True):
            if size.change and not which.changes:
                raise ValueError(f"{which.name} does not change, and {size.change} rows of it do")
        for places, part in self.selectivities.items():
            if not places or not places <= self.everything or not 0 <= part <= 1:
                raise ValueError(f"no selectivity of {sorted(places)}: {part}")

    @property
    def everything(self) -> Block:
        return frozenset(range(len(self.inputs)))

    def selectivity(self, block: Block) -> float:
        return prod(part for places, part in self.selectivities.items() if places <= block)

    def rows(self, block: Block) -> float:
        """|⋈P| before."""
        return self.selectivity(block) * prod(size.rows for size in self._of(block))

    def rows_after(self, block: Block) -> float:
        return self.selectivity(block) * prod(size.after for size in self._of(block))

    def change_rows(self, block: Block) -> float:
        """|Δ(⋈P)|; of one input, all rows of its change as captured: no condition has seen them yet."""
        known = self._changes.get(block)
        if known is None:
            known = self._changes[block] = self._change_rows(block)
        return known

    def row_bytes(self, block: Block) -> float:
        return sum(size.row_bytes for size in self._of(block))

    def _change_rows(self, block: Block) -> float:
        sizes = self._of(block)
        if len(sizes) == 1:
            return sizes[0].change
        before, after = prod(size.rows for size in sizes), prod(size.after for size in sizes)
        kept = prod(size.kept for size in sizes)
        return self.selectivity(block) * (before + after - 2 * kept)

    def _of(self, block: Iterable[int]) -> list[Size]:
        return [self.sizes[place] for place in sorted(block)]
