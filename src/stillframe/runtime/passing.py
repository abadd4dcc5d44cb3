"""Changes that pass through a view as they are: few changed rows of one relation, of which the view shows
columns. Adding them up needs no job of the engine."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from stillframe.algebra import Plan, Project, Ref, Scan, Schema
from stillframe.algebra.arrow import COUNT, internal_name, staged_schema
from stillframe.engine import Staged, netted


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
    place = {position: internal_name(i) for i, position in enumerate(change.positions)}
    parts = [
        pa.table([part.column(place[column]) for column in columns] + [part.column(COUNT)], schema=types)
        for part in (pq.read_table(path) for path in change.files)
    ]
    net = netted(pa.concat_tables([types.empty_table(), *parts]))
    if net.num_rows:
        folder.mkdir(parents=True)
        pq.write_table(net.rename_columns([*schema.names, COUNT]), folder / "part-0.parquet")
