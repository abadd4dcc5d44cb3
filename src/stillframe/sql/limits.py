"""ORDER BY and LIMIT: the first rows of an order. An order alone changes no table."""

from __future__ import annotations

from collections.abc import Sequence

from sqlglot import exp

from stillframe.algebra.plan import Filter, Output, Plan, Project, Window
from stillframe.algebra.scalar import Literal, Ref, call
from stillframe.algebra.types import INT
from stillframe.algebra.windows import Ordering, Windowed
from stillframe.sql.complaints import Complaints


def limits(complaints: Complaints, node: exp.Expr, *, single: bool = False) -> tuple[int | None, int]:
    """How many rows are kept, None for all, and how many are left out before them. A `single` row needs no
    order."""
    limit, offset = (_number(complaints, node.args.get(clause)) for clause in ("limit", "offset"))
    if single and not offset and limit:
        return None, 0
    if (limit is not None or offset) and not node.args.get("order") and not single:
        place = node.args.get("limit") or node.args["offset"]
        message = "which rows LIMIT keeps is not determined without an order"
        complaints.stop(place, "LIMIT", message, "write ORDER BY before it")
    return limit, offset or 0


def _number(complaints: Complaints, clause: exp.Expr | None) -> int | None:
    if clause is None:
        return None
    complaints.only(clause, "expression")
    number = clause.expression
    if not (isinstance(number, exp.Literal) and number.is_int):
        if number.name.upper() == "ALL":
            return None
        complaints.stop(clause, "LIMIT", "LIMIT and OFFSET take a whole number", "write the number itself")
    return int(number.name)


def limited(rows: Plan, order: Sequence[Ordering], limit: int | None, offset: int, width: int) -> Plan:
    """The first `width` columns of the rows from `offset` on, at most `limit` of them."""
    keep = None if limit is None else offset + limit
    if keep is not None and keep >= 1 << 31:
        keep = None
    place = len(rows.schema)
    numbered: tuple[Windowed, ...] = (Windowed("place", "row_number"),) if offset else ()
    kept: Plan = Window(rows, (), tuple(order), numbered, keep)
    if offset:
        kept = Filter(kept, call(">", Ref(place, INT), Literal(min(offset, (1 << 31) - 1), INT)))
    columns = enumerate(rows.schema.columns[:width])
    return Project(kept, tuple(Output(c.name, Ref(i, c.type, c.name)) for i, c in columns))
