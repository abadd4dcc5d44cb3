"""One shape for every select-project-join block: projection over one n-ary join of leaves.

Nested joins, filters and projections are merged upwards: Join(Join(a, b), c) is Join(a, b, c); a filter
becomes a condition; a projection under a join or a projection is substituted into what reads it. The
meaning stays: each step is an identity of the bag algebra.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from stillframe.algebra.functions import FUNCTIONS
from stillframe.algebra.plan import (
    Aggregate,
    Filter,
    Join,
    KeyDelete,
    Negate,
    Output,
    Plan,
    Project,
    Semi,
    Times,
    UnionAll,
    Values,
    Window,
)
from stillframe.algebra.scalar import Call, Cast, Literal, Ref, Scalar, conjuncts, map_refs, shift
from stillframe.algebra.schema import Schema


def normalize(plan: Plan) -> Plan:
    """A Project over a Join (or Filter) over leaves; unions and leaves stay where they are."""
    match plan:
        case Project() | Filter() | Join():
            return _block(plan).to_plan(plan)
        case UnionAll(inputs):
            return UnionAll(tuple(part for child in inputs for part in _parts(normalize(child))))
        case Negate(source):
            return Negate(normalize(source))
        case Times(source, count):
            return Times(normalize(source), count)
        case Aggregate(source, keys, measures):
            return Aggregate(normalize(source), keys, measures)
        case Semi(left, right, conditions, anti):
            return Semi(normalize(left), normalize(right), conditions, anti)
        case Window(source) | KeyDelete(source):
            return replace(plan, input=normalize(source))
    return plan


def _parts(plan: Plan) -> tuple[Plan, ...]:
    return plan.inputs if isinstance(plan, UnionAll) else (plan,)


def _filtered(union: UnionAll, conditions: tuple[Scalar, ...]) -> Plan:
    """The conditions in every branch; a branch of which one is never true is gone, as is the one of an outer
    join's rows without partner where a condition asks for its columns."""
    branches: list[Plan] = []
    for branch in union.inputs:
        block = _block(branch)
        seen = tuple(block.through(condition) for condition in conditions)
        if not any(map(never_true, seen)):
            added = tuple(part for condition in seen for part in conjuncts(condition))
            whole = _Block(block.inputs, block.conditions + added, block.outputs)
            branches += _parts(whole.to_plan(branch))
    if not branches:
        return Values(Schema(union.schema.columns), ())
    return branches[0] if len(branches) == 1 else UnionAll(tuple(branches))


def never_true(condition: Scalar) -> bool:
    """Whether a condition is false or unknown, whatever the row."""
    if isinstance(condition, Call) and condition.function in ("and", "or"):
        return (any if condition.function == "and" else all)(map(never_true, condition.args))
    return is_null(condition) or (isinstance(condition, Literal) and condition.value is not True)


def is_null(scalar: Scalar) -> bool:
    """Whether a scalar is NULL, whatever the row, by the laws of functions that take no NULL."""
    match scalar:
        case Literal(value):
            return value is None
        case Cast(arg):
            return is_null(arg)
        case Call("and" | "or", args):
            return all(map(is_null, args))
        case Call(function, args):
            return FUNCTIONS[function].strict and any(map(is_null, args))
    return False


@dataclass(frozen=True)
class _Block:
    """σ_conditions(inputs side by side), seen through `outputs`."""

    inputs: tuple[Plan, ...]
    conditions: tuple[Scalar, ...]
    outputs: tuple[Scalar, ...]

    def through(self, scalar: Scalar) -> Scalar:
        return map_refs(scalar, lambda ref: self.outputs[ref.position])

    def to_plan(self, like: Plan) -> Plan:
        body: Plan
        if len(self.inputs) > 1:
            body = Join(self.inputs, self.conditions)
        elif isinstance(self.inputs[0], UnionAll) and self.conditions:
            body = _filtered(self.inputs[0], self.conditions)
            if not isinstance(body, UnionAll):
                block = _block(body)
                return replace(block, outputs=tuple(map(block.through, self.outputs))).to_plan(like)
        else:
            body = self.inputs[0]
            for condition in self.conditions:
                body = Filter(body, condition)
        names = like.schema.names
        return Project(body, tuple(Output(n, s) for n, s in zip(names, self.outputs, strict=True)))


def _block(plan: Plan) -> _Block:
    match plan:
        case Filter(source, predicate):
            block = _block(source)
            added = conjuncts(block.through(predicate))
            return _Block(block.inputs, block.conditions + added, block.outputs)
        case Project(source, outputs):
            block = _block(source)
            return _Block(block.inputs, block.conditions, tuple(block.through(o.scalar) for o in outputs))
        case Join(sources, conditions):
            inputs: tuple[Plan, ...] = ()
            inner: tuple[Scalar, ...] = ()
            seen: tuple[Scalar, ...] = ()
            width = 0
            for source in sources:
                block = _block(source)
                inputs += block.inputs
                inner += tuple(shift(condition, width) for condition in block.conditions)
                seen += tuple(shift(output, width) for output in block.outputs)
                width += sum(len(leaf.schema) for leaf in block.inputs)
            joined = _Block(inputs, inner, seen)
            own = tuple(part for condition in conditions for part in conjuncts(joined.through(condition)))
            return _Block(inputs, inner + own, seen)
    leaf = normalize(plan)
    columns = tuple(Ref(i, column.type, column.name) for i, column in enumerate(leaf.schema))
    return _Block((leaf,), (), columns)
