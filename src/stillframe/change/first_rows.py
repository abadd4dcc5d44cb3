"""The first k rows of an order, brought forward from those that were shown.

Law: let S be the first k rows of R, in an order that tells all rows apart but equal ones, and b its last. If
S has fewer than k rows, it is R. Otherwise every other row of R stands behind b or is equal to it, so of the
candidates C = S + dR, without rows that lack, those up to b are rows of R' and, but for copies of b, all
there are. Hence if at least k candidates stand up to b, the first k of C are the first k of R'; if not, rows
that nobody kept move up, and R' is read again (`unknown`). Partitions are on their own.
A place is counted from the front, so what is shown of places follows from C as well.
"""

from __future__ import annotations

from dataclasses import replace

from stillframe.algebra import (
    Aggregate,
    Filter,
    KeyDelete,
    Literal,
    Measure,
    Monus,
    Output,
    Plan,
    Project,
    Ref,
    Scan,
    UnionAll,
    Values,
    Window,
    Windowed,
    call,
    case,
)
from stillframe.algebra.types import BIGINT, BOOLEAN
from stillframe.algebra.windows import Span
from stillframe.change.invertible import changed_rows, touched_rows

_FROM_HERE = Span(True, 0, None)
_YES, _NO = Literal(1, BIGINT), Literal(0, BIGINT)


def keeps_first(plan: Plan) -> bool:
    """Whether a window shows only first rows, and nothing that depends on those behind them."""
    return (
        isinstance(plan, Window)
        and plan.keep is not None
        and all(f.function in ("row_number", "rank", "dense_rank") for f in plan.functions)
    )


def _columns(plan: Plan, width: int, offset: int = 0) -> tuple[Output, ...]:
    columns = (plan.schema[offset + i] for i in range(width))
    return tuple(Output(c.name, Ref(offset + i, c.type, c.name)) for i, c in enumerate(columns))


def shown_before(plan: Window, former: Scan) -> Plan:
    """The rows that were shown of touched partitions."""
    return touched_rows(former, plan.partition, changed_rows(plan))


def candidates(plan: Window, former: Scan) -> Plan:
    width, change = len(plan.input.schema), changed_rows(plan)
    before = Project(shown_before(plan, former), _columns(former, width))
    added = Project(change, _columns(change, width, len(plan.partition)))
    return Monus(UnionAll((before, added)), Values(before.schema, ()))


def unknown_partitions(plan: Window, former: Scan) -> Plan:
    """The keys of partitions whose first rows cannot be told from the candidates."""
    assert plan.keep is not None
    width = len(plan.input.schema)
    before = Project(shown_before(plan, former), _columns(former, width))

    def tagged(rows: Plan, shown: Literal) -> Plan:
        # Of equal rows the candidate comes first: what decides among them is the tag behind their columns.
        return Project(rows, (*_columns(rows, width), Output("shown", shown)))

    both = UnionAll((tagged(candidates(plan, former), _NO), tagged(before, _YES)))
    shown = Ref(width, BIGINT)
    later = Windowed("later", "sum", (shown,), _FROM_HERE)
    placed = Window(both, plan.partition, plan.order, (later,))
    up_to_last = call("and", call("=", shown, _NO), call(">", Ref(width + 1, later.type), _NO))
    groups = Aggregate(
        placed,
        tuple(Output(f"k{i}", key) for i, key in enumerate(plan.partition)),
        (
            Measure("before", "count", case(((up_to_last, Literal(True, BOOLEAN)),), Literal(None, BOOLEAN))),
            Measure("size", "sum", shown),
        ),
    )
    first = len(plan.partition)
    known, size, keep = Ref(first, BIGINT), Ref(first + 1, BIGINT), Literal(plan.keep, BIGINT)
    lost = Filter(groups, call("and", call("=", size, keep), call("<", known, keep)))
    return Project(lost, _columns(lost, first))


def first_of_candidates(plan: Window, former: Scan, unknown: Scan | None) -> Plan:
    """The first rows of partitions that are not unknown."""
    rows, width = candidates(plan, former), len(plan.input.schema)
    if unknown is not None:
        wide = Project(
            rows, (*_columns(rows, width), *(Output(f"p{i}", key) for i, key in enumerate(plan.partition)))
        )
        kept = KeyDelete(wide, unknown, tuple((width + i, i) for i in range(len(plan.partition))))
        rows = Project(kept, _columns(kept, width))
    return replace(plan, input=rows)
