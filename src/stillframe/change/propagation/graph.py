"""From a join and what is known of its inputs to the graph that trees are chosen on.

Law of equality: of two columns with v and w distinct values, the fewer all found among the more, an equality
keeps one combination in max(v, w). Several equalities between two inputs are one over a composite value, of
which an input has no more than it has rows; beside a key, the other side has no more than the key.

Guesses, where nothing is known: a column that is a key has as many values as rows; of two columns of which
nothing is known, the input with fewer rows holds the key; any other condition keeps a third.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod

from stillframe.algebra import Call, Cast, Join, Ref, Scalar, relations
from stillframe.algebra.scalar import refs
from stillframe.change.propagation.sizes import Block, JoinGraph, Size
from stillframe.change.propagation.tree import Input

OTHER_CONDITION = 1 / 3


@dataclass(frozen=True)
class Statistics:
    """What is known of one input of a join: its size, and how many distinct values columns have."""

    size: Size
    distinct: Mapping[int, float] = field(default_factory=dict)


def join_graph(join: Join, statistics: Sequence[Statistics], changed: frozenset[str]) -> JoinGraph:
    """`changed` names the relations that change: all others do not, whatever is expected of them."""
    inputs = join_inputs(join, changed)
    sizes = tuple(
        known.size if which.changes else replace(known.size, inserted=0, deleted=0)
        for which, known in zip(inputs, statistics, strict=True)
    )
    return JoinGraph(inputs, sizes, _selectivities(join, statistics))


def join_inputs(join: Join, changed: frozenset[str]) -> tuple[Input, ...]:
    """Named by what they read; a name that comes again gets a number."""
    found: list[Input] = []
    seen: dict[str, int] = {}
    for place, plan in enumerate(join.inputs):
        read = relations(plan)
        name = ", ".join(read) or "VALUES"
        seen[name] = seen.get(name, 0) + 1
        label = name if seen[name] == 1 else f"{name}#{seen[name]}"
        found.append(Input(place, label, not changed.isdisjoint(read)))
    return tuple(found)


def equated_columns(join: Join) -> Iterator[tuple[int, int]]:
    """The inputs' columns, by place and position, that a condition sets equal to one of another input."""
    for condition in join.conditions:
        yield from _equality(join, condition) or ()


def _selectivities(join: Join, statistics: Sequence[Statistics]) -> dict[Block, float]:
    parts: dict[Block, float] = {}
    equal: dict[tuple[int, int], list[tuple[int, int]]] = {}
    for condition in join.conditions:
        pair = _equality(join, condition)
        if pair is not None:
            (left, column), (right, other) = sorted(pair)
            equal.setdefault((left, right), []).append((column, other))
        else:
            block = frozenset(map(join.input_of, refs(condition)))
            if block:
                parts[block] = parts.get(block, 1) * OTHER_CONDITION
    for (left, right), columns in equal.items():
        block = frozenset({left, right})
        here, there = {column for column, _ in columns}, {other for _, other in columns}
        values = _values(join, statistics, ((left, here), (right, there)))
        parts[block] = parts.get(block, 1) / max(1, values)
    return parts


def _values(join: Join, statistics: Sequence[Statistics], sides: Sequence[tuple[int, set[int]]]) -> float:
    """How many distinct values two sides have between them."""
    keyed = [
        statistics[place].size.rows
        for place, columns in sides
        if any(key <= columns for key in join.inputs[place].schema.keys)
    ]
    single = all(len(columns) == 1 for _, columns in sides)
    counted = [
        min(statistics[place].size.rows, prod(statistics[place].distinct[column] for column in columns))
        for place, columns in sides
        if (single or not keyed) and columns <= statistics[place].distinct.keys()
    ]
    if keyed or counted:
        return max(*keyed, *counted, 0)
    return min(statistics[place].size.rows for place, _ in sides)


def _equality(join: Join, condition: Scalar) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """The columns of two inputs, each by place and column, that a condition sets equal."""
    match condition:
        case Call("=", (left, right)):
            a, b = _column(left), _column(right)
            if a is not None and b is not None:
                here, there = join.input_of(a), join.input_of(b)
                if here != there:
                    return (here, a - join.offsets[here]), (there, b - join.offsets[there])
    return None


def _column(side: Scalar) -> int | None:
    """A cast leaves about as many values as there were."""
    match side:
        case Ref(position):
            return position
        case Cast(arg):
            return _column(arg)
    return None
