"""The naive evaluator: what a plan means, on Python values. It is the oracle, so it stays plain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from stillframe.algebra.aggregates import aggregated
from stillframe.algebra.bag import Bag, Row, canonical
from stillframe.algebra.casts import cast_value
from stillframe.algebra.functions import FUNCTIONS
from stillframe.algebra.plan import (
    Aggregate,
    Distinct,
    Filter,
    Join,
    KeyDelete,
    Monus,
    Negate,
    Plan,
    Project,
    Scan,
    Semi,
    Times,
    UnionAll,
    Values,
    Window,
)
from stillframe.algebra.scalar import Call, Case, Cast, Literal, Ref, Scalar, refs
from stillframe.algebra.windows import Ordering, sort_key, windowed

Contents = Callable[[Scan], Bag]


def evaluate(plan: Plan, contents: Contents) -> Bag:
    """The signed bag a plan denotes, given what each scan reads."""
    match plan:
        case Scan():
            return contents(plan)
        case Values(_, rows):
            return Bag.of(rows)
        case Filter(source, predicate):
            kept = evaluate(source, contents)
            return Bag((row, n) for row, n in kept.items() if evaluate_scalar(predicate, row) is True)
        case Project(source, outputs):
            scalars = [output.scalar for output in outputs]
            return Bag(
                (tuple(evaluate_scalar(scalar, row) for scalar in scalars), n)
                for row, n in evaluate(source, contents).items()
            )
        case Join():
            return _join(plan, contents)
        case UnionAll(parts):
            return Bag(item for part in parts for item in evaluate(part, contents).items())
        case Negate(source):
            return -evaluate(source, contents)
        case KeyDelete(source, rows, on):
            gone = {tuple(row[there] for _, there in on) for row in evaluate(rows, contents)}
            rows_here = evaluate(source, contents).items()
            return Bag((row, n) for row, n in rows_here if tuple(row[here] for here, _ in on) not in gone)
        case Distinct(source):
            return Bag((row, 1) for row, n in evaluate(source, contents).items() if n > 0)
        case Times(source, count):
            repeated = evaluate(source, contents).items()
            return Bag((row, n * max(0, evaluate_scalar(count, row) or 0)) for row, n in repeated)
        case Semi(left, right, conditions, anti):
            there = [row for row, n in evaluate(right, contents).items() if n > 0]
            return Bag(
                (row, n)
                for row, n in evaluate(left, contents).items()
                if any(_all_true(conditions, row + other) for other in there) is not anti
            )
        case Aggregate():
            return _aggregate(plan, evaluate(plan.input, contents))
        case Window():
            return _window(plan, evaluate(plan.input, contents))
        case Monus(left, right):
            more = evaluate(left, contents) - evaluate(right, contents)
            return Bag((row, n) for row, n in more.items() if n > 0)
    raise AssertionError(f"no such node: {type(plan).__name__}")


def _aggregate(plan: Aggregate, rows: Bag) -> Bag:
    groups: dict[Row, list[dict[Any, int]]] = {} if plan.keys else {(): [{} for _ in plan.measures]}
    for row, n in rows.items():
        if n > 0:
            key = canonical(evaluate_scalar(output.scalar, row) for output in plan.keys)
            values = groups.setdefault(key, [{} for _ in plan.measures])
            for measure, found in zip(plan.measures, values, strict=True):
                value = True if measure.arg is None else evaluate_scalar(measure.arg, row)
                if value is not None:
                    (value,) = canonical((value,))
                    found[value] = found.get(value, 0) + n
    return Bag.of(
        (
            *key,
            *(
                aggregated(m.function, m.type, list(v.items()))
                for m, v in zip(plan.measures, values, strict=True)
            ),
        )
        for key, values in groups.items()
    )


def _window(plan: Window, rows: Bag) -> Bag:
    partitions: dict[Row, list[Row]] = {}
    for row, n in rows.items():
        key = canonical(evaluate_scalar(scalar, row) for scalar in plan.partition)
        partitions.setdefault(key, []).extend([row] * max(n, 0))
    settled = [Ordering(Ref(i, column.type)) for i, column in enumerate(plan.input.schema)]
    shown: list[Row] = []
    for members in partitions.values():

        def place(row: Row, order: Iterable[Ordering]) -> tuple[Any, ...]:
            return tuple(sort_key(evaluate_scalar(key.scalar, row), key) for key in order)

        members.sort(key=lambda row: place(row, (*plan.order, *settled)))
        peers, marks = list[int](), [place(row, plan.order) for row in members]
        for at, mark in enumerate(marks):
            peers.append(0 if not at else peers[-1] + (mark != marks[at - 1]))
        columns = [
            windowed(f, [tuple(evaluate_scalar(arg, row) for arg in f.args) for row in members], peers)
            for f in plan.functions
        ]
        added: Iterable[Row] = zip(*columns, strict=True) if columns else [()] * len(members)
        shown += [row + tuple(more) for row, more in zip(members, added, strict=True)][: plan.keep]
    return Bag.of(shown)


def _join(join: Join, contents: Contents) -> Bag:
    """Inputs one after the other; each condition is tested as soon as its columns are there, and only on
    rows that agree wherever a condition equates a new column with an earlier one. Rows of bags are
    canonical, so values that are `=` are equal and have one hash."""
    rows: list[tuple[Row, int]] = [((), 1)]
    width, pending = 0, list(join.conditions)
    for plan in join.inputs:
        before, width = width, width + len(plan.schema)
        ready = [c for c in pending if all(p < width for p in refs(c))]
        pending = [c for c in pending if c not in ready]
        equated = [pair for c in ready if (pair := _equated(c))[0] < before <= pair[1]]
        agreeing: dict[Row, list[tuple[Row, int]]] = {}
        for row, count in evaluate(plan, contents).items():
            agreeing.setdefault(tuple(row[new - before] for _, new in equated), []).append((row, count))
        rows = [
            (left_row + right_row, left_count * right_count)
            for left_row, left_count in rows
            for right_row, right_count in agreeing.get(tuple(left_row[old] for old, _ in equated), ())
            if _all_true(ready, left_row + right_row)
        ]
    return Bag(rows)


def _equated(condition: Scalar) -> tuple[int, int]:
    """The columns a condition says are equal, the earlier first; of any other, one column twice."""
    match condition:
        case Call("=", (Ref(a), Ref(b))):
            return (a, b) if a < b else (b, a)
    return 0, 0


def _all_true(conditions: Iterable[Scalar], row: Row) -> bool:
    return all(evaluate_scalar(condition, row) is True for condition in conditions)


def evaluate_scalar(scalar: Scalar, row: Row) -> Any:
    match scalar:
        case Ref(position):
            return row[position]
        case Literal(value):
            return value
        case Cast(arg, target):
            return cast_value(evaluate_scalar(arg, row), arg.type, target)
        case Case(branches, otherwise):
            for condition, value in branches:
                if evaluate_scalar(condition, row) is True:
                    return evaluate_scalar(value, row)
            return evaluate_scalar(otherwise, row)
        case Call(name, args):
            function = FUNCTIONS[name]
            if name in ("and", "or", "coalesce"):
                return _lazily(name, args, row)
            values = [evaluate_scalar(arg, row) for arg in args]
            if function.strict and None in values:
                return None
            return (
                function.evaluate(scalar.type, *values) if function.arithmetic else function.evaluate(*values)
            )
    raise AssertionError(f"no such node: {type(scalar).__name__}")


def _lazily(name: str, args: tuple[Scalar, ...], row: Row) -> Any:
    """AND, OR and COALESCE look no further than they must, so that they can guard against errors."""
    if name == "coalesce":
        return next((v for v in (evaluate_scalar(arg, row) for arg in args) if v is not None), None)
    left = evaluate_scalar(args[0], row)
    if left is (name == "or"):
        return left
    return FUNCTIONS[name].evaluate(left, evaluate_scalar(args[1], row))
