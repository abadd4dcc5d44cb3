"""The linear work metric (section 2.2): a term costs as many rows as its factors have.

The size of a block's change is paid by the term that reads it, never by the step that makes it. So a cross
product inside a block costs its full size above the block, and a whole that is one costs nothing more: every
expression has to make it.
"""

from __future__ import annotations

from dataclasses import dataclass

from stillframe.algebra import Moment
from stillframe.change.propagation.sizes import Block, JoinGraph


@dataclass(frozen=True)
class Linear:
    graph: JoinGraph
    constant: float = 1

    name = "linear"
    unit = "rows"

    def driver(self, block: Block) -> float:
        return self.constant * self.graph.change_rows(block)

    def partner(self, block: Block, place: int, moment: Moment) -> float:
        size = self.graph.sizes[place]
        match moment:
            case Moment.BEFORE:
                return self.constant * size.rows
            case Moment.AFTER:
                return self.constant * size.after
        return self.constant * size.change

    def keeping(self, block: Block) -> float:
        return 0

    def recomputation(self) -> float:
        return self.constant * sum(size.after for size in self.graph.sizes)
