"""Which views Sail would take for something else, if it were given their own text: without an error, it has
other digits, or another value, where Spark has the value that the compiled plan has."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from stillframe.algebra import Call, Measure, Plan, Windowed
from stillframe.algebra.types import MAX_PRECISION

# Days before 1970 have no weekday there, a negative count of characters counts from the other end, and what
# is truncated must be near the present. Of nothing, grouping sets have a total there.
_CALLS = re.compile(
    r"\b(weekday|left|right|trunc|date_trunc|rollup|cube|grouping\s+sets)\s*\(|\bWITH\s+(ROLLUP|CUBE)\b",
    re.IGNORECASE,
)


def misread_by_sail(text: str, plan: Plan) -> bool:
    """`plan` is what the text means."""
    return bool(_CALLS.search(text)) or any(_misread(node) for node in _nodes(plan))


def _misread(node: Any) -> bool:
    match node:
        case Call("/"):
            return node.type.is_decimal
        case Call("+" | "-" | "*"):  # digits after the point may have given way, or the sum of two wraps
            return node.type.is_decimal and node.type.precision == MAX_PRECISION
        case Measure(_, "avg", arg) | Windowed(_, "avg", (arg,)):
            return arg is not None and arg.type.is_decimal
    return False


def _nodes(value: Any) -> Iterator[Any]:
    """Every node of a plan and of the scalars in it, whatever kinds there are."""
    if isinstance(value, tuple):
        for part in value:
            yield from _nodes(part)
    elif is_dataclass(value):
        yield value
        for field in fields(value):
            yield from _nodes(getattr(value, field.name))
