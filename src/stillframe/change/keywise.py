"""All that is not linear and no join is key-wise: a group is computed from its own rows alone.

Law: let f make of each group of rows with one key some rows that carry that key, and let T be the keys of the
rows in dR. Then
    f(R') − f(R)  =  f(R' ⋉ T) − f(R) ⋉ T
A group whose key is not in T has the same rows before and after, so what f makes of it cancels. f(R) is what
was published before: of the relations only the rows of touched groups are read, and only as they are now.
A row that comes and goes in one change has no net count and touches nothing.
"""

from __future__ import annotations

from collections.abc import Collection

from stillframe.algebra import (
    Aggregate,
    Call,
    Column,
    Join,
    Moment,
    Output,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    UnionAll,
    normalize,
)
from stillframe.algebra.scalar import shift
from stillframe.change.derive import change_of

TOUCHED = "#touched"


def touching(plan: Aggregate, changed: frozenset[str]) -> Plan | None:
    """The change of what an aggregate looks at: its keys first."""
    read = tuple(Output(f"r{i}", scalar) for i, scalar in enumerate(plan.read))
    return change_of(normalize(Project(plan.input, read)), changed)


def touched_keys(plan: Aggregate) -> Scan:
    columns = tuple(Column(key.name, key.scalar.type) for key in plan.keys)
    return Scan(TOUCHED, Schema(columns), Moment.CHANGE)


def in_touched(
    rows: Plan, keys: tuple[Scalar, ...], touched: Scan, null: Collection[int]
) -> tuple[Plan, ...]:
    """The rows whose key was touched, a plan for each branch of a union. Keys that may be NULL (`null`) are
    compared so that NULL is a key like others, which no source is asked for."""
    width = len(touched.schema)

    def of(branch: Plan) -> Plan:
        equal = tuple(
            Call("<=>" if i in null else "=", (Ref(i, key.type), shift(key, width)))
            for i, key in enumerate(keys)
        )
        kept = tuple(Output(c.name, Ref(width + i, c.type, c.name)) for i, c in enumerate(branch.schema))
        return normalize(Project(Join((touched, branch), equal), kept))

    return tuple(of(branch) for branch in (rows.inputs if isinstance(rows, UnionAll) else (rows,)))
