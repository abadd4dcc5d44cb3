"""Which columns of a plan two computations need not agree on to the last digit: sums of DOUBLE and what is
computed from them, for floats added in another order give another sum."""

from __future__ import annotations

from stillframe.algebra.aggregates import inexact
from stillframe.algebra.plan import Aggregate, Join, Plan, Project, UnionAll, Window
from stillframe.algebra.scalar import Scalar, refs


def inexact_columns(plan: Plan) -> frozenset[int]:
    def depends(scalar: Scalar | None, on: frozenset[int]) -> bool:
        return scalar is not None and bool(refs(scalar) & on)

    match plan:
        case Project(source, outputs):
            below = inexact_columns(source)
            return frozenset(i for i, output in enumerate(outputs) if depends(output.scalar, below))
        case Join(sources):
            placed = zip(sources, plan.offsets, strict=True)
            return frozenset(offset + i for source, offset in placed for i in inexact_columns(source))
        case UnionAll(sources):
            return frozenset().union(*(inexact_columns(source) for source in sources))
        case Aggregate(source, keys, measures):
            below, first = inexact_columns(source), len(keys)
            found = {i for i, key in enumerate(keys) if depends(key.scalar, below)}
            for i, m in enumerate(measures, first):
                if inexact(m.function, None if m.arg is None else m.arg.type) or depends(m.arg, below):
                    found.add(i)
            return frozenset(found)
        case Window(source, _, _, functions):
            below, first = inexact_columns(source), len(source.schema)
            added = {
                first + i
                for i, f in enumerate(functions)
                if (f.args and inexact(f.function, f.args[0].type)) or any(depends(a, below) for a in f.args)
            }
            return below | added
    return inexact_columns(plan.inputs[0]) if plan.inputs else frozenset()
