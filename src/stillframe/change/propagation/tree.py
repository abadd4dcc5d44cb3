"""Propagation trees: in which order the changes of a join's inputs are propagated, and with what.

A node stands for the change of the join of its inputs; its blocks are an *ordered* partition of them. The
order matters: inputs of earlier blocks are read as they are after, those of later blocks as they were
before. A tree names every input once.

Law (Lee, Son and Kim, section 3.2): where every input changes, an input is read once for every sibling of
each node on the way from its leaf to the root. A sibling that does not change asks for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Input:
    """One input of a join, told apart by its place: a self-join has two inputs of one name. An input that
    does not change is the same before and after."""

    place: int
    name: str
    changes: bool = True


@dataclass(frozen=True)
class Leaf:
    input: Input

    @property
    def inputs(self) -> tuple[Input, ...]:
        return (self.input,)

    @property
    def changes(self) -> bool:
        return self.input.changes

    def __str__(self) -> str:
        return self.input.name

    def to_json(self) -> dict[str, Any]:
        return {"input": self.input.name, "place": self.input.place, "changes": self.input.changes}


@dataclass(frozen=True)
class Node:
    blocks: tuple[Tree, ...]

    def __post_init__(self) -> None:
        if len(self.blocks) < 2:
            raise ValueError("a node of a propagation tree has two blocks or more")
        places = [each.place for each in self.inputs]
        if len(set(places)) < len(places):
            raise ValueError(f"an input is in two blocks of {self}")

    @property
    def inputs(self) -> tuple[Input, ...]:
        """From left to right."""
        return tuple(each for block in self.blocks for each in block.inputs)

    @property
    def changes(self) -> bool:
        return any(block.changes for block in self.blocks)

    def __str__(self) -> str:
        return f"({', '.join(map(str, self.blocks))})"

    def to_json(self) -> dict[str, Any]:
        return {"blocks": [block.to_json() for block in self.blocks]}


Tree = Leaf | Node


def n_term(inputs: Sequence[Input]) -> Tree:
    """The tree of one level, the inputs in the order given: expression (2)."""
    if len(inputs) == 1:
        return Leaf(inputs[0])
    return Node(tuple(map(Leaf, inputs)))


def changing(tree: Tree) -> Iterator[Tree]:
    """The nodes and leaves that change, each after what stands below it."""
    if isinstance(tree, Node):
        for block in tree.blocks:
            yield from changing(block)
    if tree.changes:
        yield tree


def accesses(tree: Tree) -> dict[Input, int]:
    """How often each input's state is read, by the law above."""
    if isinstance(tree, Leaf):
        return {tree.input: 0}
    counts: dict[Input, int] = {}
    asking = sum(block.changes for block in tree.blocks)
    for block in tree.blocks:
        siblings = asking - block.changes
        below = accesses(block) if block.changes else dict.fromkeys(block.inputs, 0)
        counts |= {each: count + siblings for each, count in below.items()}
    return counts
