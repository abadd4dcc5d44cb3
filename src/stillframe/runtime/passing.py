"""Changes that pass through a view as they are: few changed rows of one relation, of which the view shows
columns. Adding them up needs no job of the engine."""

from __future__ import annotations

from pathlib import Path

from stillframe.algebra import Plan, Project, Ref, Scan, Schema
from stillframe.algebra.arrow import COUNT, staged_schema
from stillframe.algebra.netting import netted
from stillframe.engine import Staged, write_rows


def shown_columns(plan: Plan) -> tuple[int, ...] | None:
    """The columns of a relation that a view shows, if it does nothing else with them. Floats are left to the
    engine, which gives equal ones one spelling."""
    match plan:
        case Project(Scan(), outputs) if all(isinstance(output.scalar, Ref) for output in outputs):
            found = [output.scalar for output in outputs if isinstance(output.scalar, Ref)]
            if not any(ref.type.name == "DOUBLE" for ref in found):
                return tuple(ref.position for ref in found)
    return None


def pass_on(change: Staged, columns: tuple[int, ...], schema: Schema, folder: Path) -> None:
    """Leave the net change of these columns in `folder`, under the view's own names; no file where there is
    none."""
    types = staged_schema(schema.types)
    rows = change.table(columns).cast(types)
    if not change.is_net_in(columns):
        rows = netted(rows)
    write_rows(rows.rename_columns([*schema.names, COUNT]), folder)
