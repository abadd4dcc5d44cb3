"""Which rows each transaction of a source touched: by every key of their relation, or whole without one.

Law: of two transactions that share nothing here, either may be shown without the other, and each key is one
in every state. So a value that one row leaves and another takes over is touched by both.
"""

from __future__ import annotations

from collections.abc import Hashable

from stillframe.runtime.whole import Touched
from stillframe.sources.base import Committed, Position, Source

MANY = 200_000  # log rows the driver looks at


def touched_rows(
    source: Source, committed: tuple[Committed, ...], after: Position, upto: Position
) -> Touched | None:
    """None where only the order is known: the source does not tell its transactions apart, or they changed
    more rows than are looked at."""
    if not source.transactional or sum(sum(one.rows.values()) for one in committed) > MANY:
        return None
    described = source.describe()
    found: dict[int, set[Hashable]] = {one.number: set() for one in committed}
    for table in sorted({table for one in committed for table in one.rows}):
        schema = described[table].schema
        keys = [sorted(key) for key in schema.keys] or [list(range(len(schema)))]
        read = sorted({position for key in keys for position in key})
        places = [[read.index(position) for position in key] for key in keys]
        for batch in source.changes(table, [schema[i].name for i in read], after, upto, tagged=True):
            tags = batch.column(batch.num_columns - 1).to_pylist()
            columns = [batch.column(i).to_pylist() for i in range(len(read))]
            for tag, *values in zip(tags, *columns, strict=True):
                found[tag].update(
                    (table, number, *(values[i] for i in key)) for number, key in enumerate(places)
                )
    return {number: frozenset(rows) for number, rows in found.items()}
