"""Propagation trees by definition 1 and formula (9), written from the paper alone: all of them, as nested
tuples of places; and random join graphs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import combinations
from random import Random
from typing import Any

from stillframe.change.propagation import Input, JoinGraph, Leaf, Node, Size, Tree

Nested = Any  # a place, or a tuple of two or more of these


def ordered_partitions(places: Sequence[int]) -> Iterator[tuple[tuple[int, ...], ...]]:
    if not places:
        yield ()
    for size in range(1, len(places) + 1):
        for first in combinations(places, size):
            rest = [place for place in places if place not in first]
            for others in ordered_partitions(rest):
                yield (first, *others)


def every_tree(places: Sequence[int]) -> Iterator[Nested]:
    if len(places) == 1:
        yield places[0]
        return
    for partition in ordered_partitions(places):
        if len(partition) > 1:
            yield from _products([list(every_tree(block)) for block in partition])


def _products(choices: list[list[Nested]]) -> Iterator[tuple[Nested, ...]]:
    if not choices:
        yield ()
        return
    for first in choices[0]:
        for others in _products(choices[1:]):
            yield (first, *others)


def members(nested: Nested) -> list[int]:
    return [nested] if isinstance(nested, int) else [place for part in nested for place in members(part)]


def cost_by_formula_9(
    nested: Nested, before: list[Any], after: list[Any], change: Any, moving: set[int]
) -> Any:
    """`before` and `after` hold |R| and |R'| by place, `change` gives |Δ(⋈P)| of a set P. A block in which
    nothing changes has no term."""
    if isinstance(nested, int):
        return 0
    total = 0
    for i, block in enumerate(nested):
        if moving.isdisjoint(members(block)):
            continue
        total += cost_by_formula_9(block, before, after, change, moving)
        total += change(frozenset(members(block)))
        total += sum(after[place] for earlier in nested[:i] for place in members(earlier))
        total += sum(before[place] for later in nested[i + 1 :] for place in members(later))
    return total


def as_tree(nested: Nested, inputs: Sequence[Input]) -> Tree:
    if isinstance(nested, int):
        return Leaf(inputs[nested])
    return Node(tuple(as_tree(part, inputs) for part in nested))


def random_graph(random: Random, count: int) -> JoinGraph:
    """Any shape: chains, stars, loops, parts that nothing connects; some inputs large, some that do not
    change; inserts, deletes, replacements."""
    inputs, sizes = [], []
    for place in range(count):
        changes = random.random() < 0.8
        rows = random.choice([1, 10, 100, 10_000, 1_000_000]) + random.randint(0, 9)
        some = random.choice([1, rows // 100, rows // 2]) if changes else 0
        inserted, deleted = random.choice([(some, 0), (0, some), (some, some), (some, some // 2)])
        inputs.append(Input(place, f"R{place + 1}", changes))
        sizes.append(Size(rows, inserted, deleted))
    density = random.choice([0.3, 0.6, 1])
    edges = {
        frozenset(pair): random.choice([1e-6, 1e-4, 0.01, 0.5])
        for size in (2, 2, 2, 3)
        for pair in combinations(range(count), size)
        if random.random() < (density if size == 2 else 0.05)
    }
    return JoinGraph(tuple(inputs), tuple(sizes), edges)
