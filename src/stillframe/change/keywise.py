"""All that is not linear and no join is key-wise: a group is computed from its own rows alone.

Law: let f make of the rows with one key, in each of its inputs, some rows that carry that key, and let T be
the keys of the rows in the inputs' changes. Then
    f(R', S') − f(R, S)  =  f(R' ⋉ T, S' ⋉ T) − f(R, S) ⋉ T
A group whose key is not in T has the same rows before and after, so what f makes of it cancels. f(R, S) is
what was published before: of the relations only rows of touched groups are read, and only as they are now.
A row that comes and goes in one change has no net count and touches nothing.

Where f is linear in R for a fixed S, as semi- and anti-joins are, let T be the keys of S's change alone. Then
    f(R', S') − f(R, S)  =  f(dR − dR ⋉ T, S')  +  f(R' ⋉ T, S' ⋉ T) − f(R, S) ⋉ T
Of a group that S does not touch, f(·, S) is f(·, S'), and what f makes of the change is the change. Rows of R
are then read for the keys that S touches only.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, replace

from stillframe.algebra import (
    Aggregate,
    Call,
    Column,
    Join,
    KeyDelete,
    Literal,
    Moment,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    Semi,
    UnionAll,
    Values,
    Window,
    normalize,
)
from stillframe.algebra.scalar import conjuncts, refs, shift
from stillframe.algebra.types import BOOLEAN
from stillframe.change.derive import change_of
from stillframe.change.product import Order, in_order_written

TOUCHED = "#touched"
ARRIVING = "#arriving"
Keywise = Aggregate | Semi | Window


@dataclass(frozen=True)
class Keyed:
    """An input of a key-wise operator: the key of its rows, and all else that is looked at in them."""

    plan: Plan
    keys: tuple[Scalar, ...]
    read: tuple[Scalar, ...]

    @property
    def looked_at(self) -> Plan:
        """What is looked at, the keys first."""
        seen = tuple(Output(f"r{i}", scalar) for i, scalar in enumerate((*self.keys, *self.read)))
        return normalize(Project(self.plan, seen))

    def change(self, changed: frozenset[str], order: Order = in_order_written) -> Plan | None:
        """The change of what is looked at."""
        return change_of(self.looked_at, changed, order)


def keyed_inputs(plan: Keywise) -> tuple[Keyed, ...]:
    match plan:
        case Aggregate(source, keys):
            own = tuple(key.scalar for key in keys)
            return (Keyed(source, own, plan.read[len(own) :] or (Literal(True, BOOLEAN),)),)
        case Window(source, partition):
            return (Keyed(source, partition, _everything(source)),)
        case Semi(left, right, conditions):
            here, there = _equated(plan)
            width = len(left.schema)
            asked = sorted({p - width for c in conditions for p in refs(c) if p >= width})
            looked_at = tuple(Ref(p, right.schema[p].type) for p in asked)
            return (Keyed(left, here, _everything(left)), Keyed(right, there, looked_at))


def shown_keys(plan: Keywise) -> tuple[Scalar, ...]:
    """The keys, as the operator's own rows carry them."""
    match plan:
        case Aggregate(_, keys):
            return tuple(Ref(i, key.scalar.type) for i, key in enumerate(keys))
        case Window(_, partition):
            return partition
        case Semi():
            return _equated(plan)[0]


def over(plan: Keywise, inputs: tuple[Plan, ...]) -> Plan:
    """The operator over other inputs."""
    if isinstance(plan, Semi):
        return replace(plan, left=inputs[0], right=inputs[1])
    return replace(plan, input=inputs[0])


def _everything(plan: Plan) -> tuple[Scalar, ...]:
    return tuple(Ref(i, column.type) for i, column in enumerate(plan.schema))


def _equated(plan: Semi) -> tuple[tuple[Scalar, ...], tuple[Scalar, ...]]:
    """What the conditions equate: of the left input, and of the right."""
    width, here, there = len(plan.left.schema), list[Scalar](), list[Scalar]()
    for condition in (part for each in plan.conditions for part in conjuncts(each)):
        match condition:
            case Call("=" | "<=>", (a, b)):
                for left, right in ((a, b), (b, a)):
                    mine, theirs = refs(left), refs(right)
                    if mine and theirs and max(mine) < width <= min(theirs):
                        here.append(left)
                        there.append(shift(right, -width))
                        break
    return tuple(here), tuple(there)


def arriving_keys(plan: Semi) -> Scan:
    """The keys of the rows that come to the left, or leave it."""
    return replace(touched_keys(plan), relation=ARRIVING)


def untouched_change(plan: Semi, change: Plan, touched: Scan | None) -> Plan:
    """Of the left input's change, the rows whose key the right input's change does not touch."""
    keys = _equated(plan)[0]
    if touched is None:
        return change
    if not keys:
        return Values(Schema(change.schema.columns), ())
    width = len(change.schema)
    columns = _everything(change)
    wide = Project(change, tuple(Output(f"w{i}", scalar) for i, scalar in enumerate((*columns, *keys))))
    kept = KeyDelete(wide, touched, tuple((width + i, i) for i in range(len(keys))))
    return Project(kept, tuple(Output(c.name, Ref(i, c.type, c.name)) for i, c in enumerate(change.schema)))


def touched_keys(plan: Keywise) -> Scan:
    columns = tuple(Column(f"k{i}", key.type) for i, key in enumerate(shown_keys(plan)))
    return Scan(TOUCHED, Schema(columns), Moment.CHANGE)


def in_touched(
    rows: Plan, keys: tuple[Scalar, ...], touched: Scan, null: Collection[int]
) -> tuple[Plan, ...]:
    """The rows whose key was touched, a plan for each branch of a union. Keys that may be NULL (`null`) are
    compared so that NULL is a key like others, which no source is asked for."""
    if not keys:
        return (rows,)
    width = len(touched.schema)

    def of(branch: Plan) -> Plan:
        equal = tuple(
            Call("<=>" if i in null else "=", (Ref(i, key.type), shift(key, width)))
            for i, key in enumerate(keys)
        )
        kept = tuple(Output(c.name, Ref(width + i, c.type, c.name)) for i, c in enumerate(branch.schema))
        return normalize(Project(Join((touched, branch), equal), kept))

    return tuple(of(branch) for branch in (rows.inputs if isinstance(rows, UnionAll) else (rows,)))
