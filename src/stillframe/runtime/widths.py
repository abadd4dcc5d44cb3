"""How many bytes a row takes as it is read.

Columns of fixed width are taken to be alike: prices are fitted to rows of all of them. A text takes as many
as it was seen to have; one that nobody has seen yet, as many as the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from stillframe.algebra import (
    Aggregate,
    Column,
    Join,
    Output,
    Plan,
    Project,
    Ref,
    Scan,
    UnionAll,
    Window,
    scans,
)
from stillframe.algebra.types import BINARY, STRING
from stillframe.change import columns_read, merged

COLUMN_BYTES = 12.0
TEXTS = (STRING, BINARY)

Texts = Callable[[str], Mapping[str, float]]  # by relation, the bytes of its texts by column


def row_bytes(plan: Plan, texts: Texts) -> float:
    return max(COLUMN_BYTES, sum(column_bytes(plan, texts)))


def column_bytes(plan: Plan, texts: Texts) -> tuple[float, ...]:
    """What is made of texts is as long as any column; what is passed on, as long as it was."""
    match plan:
        case Scan(relation):
            return schema_bytes(plan.schema, texts(relation))
        case Project(source, outputs):
            return _outputs(outputs, column_bytes(source, texts))
        case Aggregate(source, keys, measures):
            below = column_bytes(source, texts)
            return (*_outputs(keys, below), *(COLUMN_BYTES for _ in measures))
        case Window(source):
            below = column_bytes(source, texts)
            return (*below, *(COLUMN_BYTES for _ in plan.functions))
        case Join(sources):
            return tuple(each for source in sources for each in column_bytes(source, texts))
        case UnionAll(sources):
            return tuple(map(max, zip(*(column_bytes(source, texts) for source in sources), strict=True)))
    if plan.inputs and len(plan.inputs[0].schema) == len(plan.schema):
        return column_bytes(plan.inputs[0], texts)
    return (COLUMN_BYTES,) * len(plan.schema)


def bytes_read(plan: Plan, texts: Texts) -> dict[str, float]:
    """By relation, of the columns of a row that a plan reads."""
    schemas = {scan.relation: scan.schema for scan in scans(plan)}
    return {
        name: sum(schema_bytes([schemas[name][i] for i in columns], texts(name)))
        for name, columns in columns_read(plan).items()
    }


def schema_bytes(columns: Iterable[Column], known: Mapping[str, float]) -> tuple[float, ...]:
    return tuple(known.get(column.name, COLUMN_BYTES) for column in columns)


def _outputs(outputs: Sequence[Output], below: Sequence[float]) -> tuple[float, ...]:
    scalars = (output.scalar for output in outputs)
    return tuple(below[each.position] if isinstance(each, Ref) else COLUMN_BYTES for each in scalars)


def texts_read(plans: Iterable[Plan]) -> dict[str, dict[str, int]]:
    """Of each relation or view that plans read: the texts among the columns they read, with their
    positions."""
    plans = tuple(plans)
    schemas = {scan.relation: scan.schema for plan in plans for scan in scans(plan)}
    return {
        name: {schemas[name][i].name: i for i in sorted(read) if schemas[name][i].type in TEXTS}
        for name, read in merged(map(columns_read, plans)).items()
    }
