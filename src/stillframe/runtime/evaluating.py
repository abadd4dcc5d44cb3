"""Small plans computed by the driver itself, without a job of the engine.

Law: both give the same rows. It holds for functions whose result is fixed to the last digit by their
arguments alone, on every engine: comparisons, logic, exact arithmetic, what is passed through. A view's rows
may have been computed by the engine before and be taken away by the driver now. Whatever could differ in a
digit, a locale or a table of characters is left to the engine; so is what fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from stillframe.algebra import (
    Aggregate,
    Call,
    Cast,
    Filter,
    Join,
    Plan,
    Project,
    Ref,
    Scalar,
    Semi,
    Times,
    Window,
    scans,
)
from stillframe.algebra.plan import walk
from stillframe.algebra.scalar import walk as scalars_in

MOST_ROWS = 2_000  # of all that a plan reads
MOST_PAIRS = 20_000  # that a join compares
EXACT = {
    *("+", "-", "*", "%", "=", "<>", "<", "<=", ">", ">=", "<=>", "and", "or", "not", "isnull", "isnotnull"),
    *("coalesce", "greatest", "least", "abs", "negative", "only", "length"),
    *("year", "month", "day", "quarter", "date_add", "date_sub", "datediff"),
}
EXACT_AGGREGATES = {"count", "count_distinct", "sum", "sum_distinct", "min", "max", "bool_and", "bool_or"}


def is_exact(plan: Plan) -> bool:
    """Whether the driver computes the same as any engine."""
    for node in walk(plan):
        if any(column.type.name == "DOUBLE" for column in node.schema):
            return False
        if isinstance(node, Aggregate) and any(m.function not in EXACT_AGGREGATES for m in node.measures):
            return False
        if isinstance(node, Window) and (node.functions or node.has_ties):
            return False
        if not all(is_exact_scalar(scalar) for scalar in _scalars(node)):
            return False
    return True


def is_exact_scalar(scalar: Scalar) -> bool:
    """Whether the driver computes the same value as any engine."""
    return all(part.type.name != "DOUBLE" and _is_exact(part) for part in scalars_in(scalar))


def _is_exact(scalar: Scalar) -> bool:
    match scalar:
        case Call(function):
            return function in EXACT
        case Cast(arg, target):
            return "STRING" not in (arg.type.name, target.name) and "TIMESTAMP" not in (
                arg.type.name,
                target.name,
            )
    return True


def _scalars(node: Plan) -> Iterator[Scalar]:
    match node:
        case Filter(_, predicate):
            yield predicate
        case Project(_, outputs):
            yield from (output.scalar for output in outputs)
        case Join(_, conditions) | Semi(_, _, conditions):
            yield from conditions
        case Aggregate():
            yield from node.read
        case Window():
            yield from node.read
        case Times(_, count):
            yield count


def is_quick(plan: Plan, rows: dict[str, int]) -> bool:
    """Whether little enough is read, and compared; `rows` says how much of each scan."""

    def read(part: Plan) -> int:
        return sum(rows[scan.relation] for scan in scans(part))

    if read(plan) > MOST_ROWS:
        return False
    for node in walk(plan):
        if isinstance(node, Semi) and read(node.left) * read(node.right) > MOST_PAIRS:
            return False
        if isinstance(node, Join) and (not node.conditions or _pairs(node, read) > MOST_PAIRS):
            return False
    return True


def _pairs(join: Join, read: Callable[[Plan], int]) -> int:
    """About how many rows a join makes on its way. Inputs are joined in the order written, and only columns
    that are said to be equal spare comparing all with all."""
    linked = {
        max(join.input_of(a), join.input_of(b))
        for condition in join.conditions
        for a, b in _equated(condition)
        if join.input_of(a) != join.input_of(b)
    }
    made, most = 1, 1
    for place, part in enumerate(join.inputs):
        here = read(part)
        made = max(made, here) if place in linked else made * here
        most = max(most, made)
    return most


def _equated(condition: Scalar) -> Iterator[tuple[int, int]]:
    match condition:
        case Call("=", (Ref(a), Ref(b))):
            yield a, b
