"""Which rows each transaction of a source touched: by their relation's key, or whole where it has none."""

from __future__ import annotations

from collections.abc import Hashable

from stillframe.runtime.whole import Touched
from stillframe.sources.base import Committed, Position, Relation, Source

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
        names = _identifying(described[table])
        for batch in source.changes(table, names, after, upto, tagged=True):
            tags = batch.column(batch.num_columns - 1).to_pylist()
            columns = [batch.column(i).to_pylist() for i in range(len(names))]
            for tag, *values in zip(tags, *columns, strict=True):
                found[tag].add((table, *values))
    return {number: frozenset(rows) for number, rows in found.items()}


def _identifying(relation: Relation) -> tuple[str, ...]:
    keys = sorted(relation.schema.keys, key=lambda key: (len(key), sorted(key)))
    positions = sorted(keys[0]) if keys else range(len(relation.schema))
    return tuple(relation.schema[i].name for i in positions)
