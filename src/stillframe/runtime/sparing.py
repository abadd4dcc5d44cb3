"""What of a session's changes a view need not look at: rows that make no difference to it, new rows that
nothing can meet, and rows that leave and whose keys the view itself shows.

The laws are those of `change/places.py`. A place whose change became smaller is read under a name of its own:
after the session it is the relation, its change is what is left, and before it was the one less the other.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from stillframe.algebra import (
    Moment,
    Negate,
    Plan,
    Scan,
    Schema,
)
from stillframe.algebra.arrow import COUNT, internal_name
from stillframe.algebra.netting import netted
from stillframe.algebra.plan import map_scans
from stillframe.change.places import Place, Refers, numbered, places
from stillframe.engine import Staged, staged_table
from stillframe.lake.frame import ViewState
from stillframe.runtime.binding import Binder, Left, meeting
from stillframe.runtime.evaluating import is_exact_scalar
from stillframe.sources.base import Keys

MOST_JUDGED = 5_000  # of a change that conditions are tried on, row by row
_GONE = "#gone"


@dataclass(frozen=True)
class Gone:
    """Keys, under the names of the view's columns that show them, and rows of the view that have one of them
    and none of those before."""

    keys: pa.Table
    rows: pa.Table


@dataclass(frozen=True)
class Spared:
    """A plan that has the same change as another, from smaller changes of what it reads; beside it go the
    rows of `gone`."""

    plan: Plan
    changed: frozenset[str]
    gone: tuple[Plan, ...] = ()


@dataclass
class Sparing:
    """Of one view in one session. `refers` tells of relations what they refer to; `former` is what the view
    showed, if its rows may be looked up."""

    binder: Binder
    folder: Path
    refers: Mapping[str, Sequence[Refers]] = field(default_factory=dict)
    former: ViewState | None = None

    def spared(self, plan: Plan, changed: frozenset[str]) -> Spared:
        """The law of rows that leave is about plans of one join, and about no others."""
        named, read = numbered(plan)
        names: dict[str, str] = {}
        still: set[str] = set()
        gone: list[Gone] = []
        for name, place in places(named, read, self.refers).items():
            names[name] = place.relation
            if place.relation not in changed:
                continue
            left = self._left(name, place, gone)
            if left is None:
                still.add(place.relation)
            else:
                names[name] = name
                self.binder.left[name] = Left(place.relation, left)
                still |= {name} if left.rows else set()
        spared = map_scans(named, lambda scan, _: replace(scan, relation=names[scan.relation]))
        return Spared(spared, frozenset(still), tuple(self._taken_away(gone)))

    def _left(self, name: str, place: Place, gone: list[Gone]) -> Staged | None:
        """What is left of a place's change; None where that is all of it."""
        change = self.binder.change_of(place.relation)
        if change is None or not change.small or not place.columns:
            return None
        table = change.table(place.columns)
        if not change.is_net_in(place.columns):
            table = netted(table)
        if place.key and table.num_rows:  # of all rows: one that fails a condition may have had the key
            table = _without_new(table, place)
        conditions = tuple(condition for condition in place.conditions if is_exact_scalar(condition))
        if conditions:
            table = meeting(table, place.columns, conditions, MOST_JUDGED)
        if place.shown and self.former is not None and table.num_rows:
            table = self._without_gone(table, place, gone)
        if table.num_rows == change.rows:
            return None
        types = [place.schema[i].type for i in place.columns]
        return staged_table(table, place.columns, types, self.folder / f"left-{len(self.binder.left)}")

    # -- rows that leave

    def _without_gone(self, table: pa.Table, place: Place, gone: list[Gone]) -> pa.Table:
        """Without the rows that leave, if what the view showed of them is quickly found."""
        key = [place.columns.index(i) for i, _ in place.shown]
        keys = _lone(table, key, -1)
        if keys is None or not keys.num_rows:
            return table
        shown = keys.rename_columns([internal_name(at) for _, at in place.shown])
        found = self._looked_up(shown, [at for _, at in place.shown])
        if found is None:
            return table
        taken = found.join(shown, keys=shown.column_names, join_type="left semi")
        for before in gone:
            taken = taken.join(before.keys, keys=before.keys.column_names, join_type="left anti")
        gone.append(Gone(shown, taken.select(found.column_names)))
        return _less(table, key, keys)

    def _looked_up(self, keys: pa.Table, positions: Sequence[int]) -> pa.Table | None:
        """The view's rows that have the values of one key column, the one with the fewest."""
        assert self.former is not None
        if len(set(positions)) < len(positions):
            return None
        values = [pc.unique(column) for column in keys.columns]
        fewest = min(range(len(values)), key=lambda i: len(values[i]))
        looked_for = Keys(self.former.schema[positions[fewest]].name, values[fewest])
        found = self.binder.reads.looked_up(self.binder.root, self.former, None, looked_for, thorough=False)
        return None if found is None else found.table(found.positions)

    def _taken_away(self, gone: Sequence[Gone]) -> Iterator[Plan]:
        for number, each in enumerate(gone):
            assert self.former is not None
            name, schema = f"{_GONE}{number}", Schema(self.former.schema.columns)
            rows = staged_table(each.rows, range(len(schema)), schema.types, self.folder / f"gone-{number}")
            self.binder.staged[name] = rows
            yield Negate(Scan(name, schema, Moment.CHANGE))


def _lone(table: pa.Table, key: Sequence[int], count: int) -> pa.Table | None:
    """The keys of which the change has one row, of this count; None where a key is NULL, or a key of two
    rows that come or leave shows that it is none."""
    names = [internal_name(i) for i in key]
    if any(table.column(name).null_count for name in names):
        return None
    numbered = table.select(names).append_column(COUNT, table.column(COUNT))
    grouped = numbered.group_by(names).aggregate([(COUNT, "count"), (COUNT, "min"), (COUNT, "max")])
    low, high = grouped.column(f"{COUNT}_min"), grouped.column(f"{COUNT}_max")
    rows = grouped.column(f"{COUNT}_count")
    if pc.any(pc.or_(pc.or_(pc.less(low, -1), pc.greater(high, 1)), pc.greater(rows, 2))).as_py():
        return None
    return grouped.filter(pc.and_(pc.equal(rows, 1), pc.equal(low, count))).select(names)


def _less(table: pa.Table, key: Sequence[int], keys: pa.Table) -> pa.Table:
    names = [internal_name(i) for i in key]
    return table.join(keys, keys=names, join_type="left anti").select(table.column_names)


def _without_new(table: pa.Table, place: Place) -> pa.Table:
    """Without rows whose key was not there before. Texts may be equal to the source and not to us: where a
    row leaves, another may have its key in other letters, so only numbers and dates are compared then."""
    types = [place.schema[i].type for i in place.key]
    leaves = pc.any(pc.less(table.column(COUNT), 0)).as_py()
    if leaves and not all(type_.is_integer or type_.name == "DATE" for type_ in types):
        return table
    key = [place.columns.index(i) for i in place.key]
    keys = _lone(table, key, 1)
    return table if keys is None or not keys.num_rows else _less(table, key, keys)
