"""Plans bound to what a session reads: every scan becomes a table of the engine.

A change is small and known, and what joins it is found through it: a state is asked only for rows that hold
a value, in a column that is joined, which the driver has seen in the rows it is joined with. More rows than
that are harmless (the join drops them), fewer never come. Law: the values seen of a column are at least
those that rows meeting the conditions of its own input have.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from stillframe.algebra import (
    Bag,
    Filter,
    Join,
    Moment,
    Negate,
    Plan,
    Project,
    Ref,
    Scalar,
    Scan,
    Schema,
    Times,
    UnionAll,
)
from stillframe.algebra.arrow import arrow_type, distinct, keys_as, staged_schema
from stillframe.algebra.evaluate import evaluate_scalar
from stillframe.algebra.plan import map_scans
from stillframe.algebra.scalar import map_refs, refs, shift
from stillframe.algebra.signatures import EvaluationError
from stillframe.change import join_order, links
from stillframe.engine import TASK_ROWS, Staged, Tables
from stillframe.lake.frame import ViewState
from stillframe.lake.reader import content, is_keyed
from stillframe.runtime.columnar import Columns, columns_in, met
from stillframe.runtime.evaluating import is_exact_scalar
from stillframe.runtime.holding import bag_of
from stillframe.runtime.reads import KEY_LIMIT, Reads, Upstream, ViewFiles
from stillframe.sources.base import Keys, Position


class Rows(Protocol):
    """A bag that the driver may look at, if it is small."""

    @property
    def small(self) -> bool: ...

    @property
    def positions(self) -> Sequence[int]: ...

    def table(self, positions: Sequence[int]) -> pa.Table: ...


@dataclass(frozen=True)
class Seen:
    """Values of a column: those of a bag's column, in rows that meet conditions over the bag's columns."""

    rows: Rows
    position: int
    conditions: tuple[Scalar, ...] = ()


Column = tuple[Seen, ...] | None  # of a bound plan: where all its values come from; None where nobody can say


@dataclass(frozen=True)
class Bound:
    plan: Plan
    columns: tuple[Column, ...]


@dataclass(frozen=True)
class Table:
    """What a scan reads: `rows` at most; in `bags`, with their signs, if the driver may look at them; as a
    table of the engine in `sql`. It is `small` if it fits one task."""

    rows: int
    bags: tuple[tuple[Rows, int], ...] | None
    sql: Callable[[], str]
    small: bool = False

    @property
    def is_empty(self) -> bool:
        return not self.rows and self.bags is not None

    def bag(self, width: int) -> Bag:
        found = Bag()
        for rows, sign in self.bags or ():
            batches = rows.table(rows.positions).to_batches()
            bag = bag_of(batches, width, rows.positions)
            found += bag if sign > 0 else -bag
        return found

    def columns(self, wanted: Collection[int], schema: Schema) -> Columns:
        """Some columns of what is read, for the driver; those that were not read are NULL."""
        places, tables = sorted(wanted), list[tuple[pa.Table, int]]()
        for rows, sign in self.bags or ():
            read = rows.table([i for i in places if i in rows.positions])
            for i, position in enumerate(places):
                if position not in rows.positions:
                    read = read.add_column(
                        i, f"n{i}", pa.nulls(read.num_rows, arrow_type(schema[position].type))
                    )
            tables.append((read, sign))
        if not tables:
            tables.append((staged_schema([schema[i].type for i in places]).empty_table(), 1))
        return columns_in(tables, places)


@dataclass(frozen=True)
class Left:
    """What is left of a relation's change at one place of a plan."""

    relation: str
    change: Staged


@dataclass
class Binder:
    """Turns the scans of one view's plans into tables of the engine."""

    reads: Reads
    tables: Callable[[], Tables]
    root: Path
    after: Mapping[str, Position]  # where each source stood for this view
    upstream: dict[str, Upstream]
    staged: dict[str, Staged] = field(default_factory=dict)  # rows that were computed on the way
    blocks: dict[str, Mapping[Moment, Plan]] = field(default_factory=dict)  # states, of those that have some
    left: dict[str, Left] = field(default_factory=dict)  # places of which less than all of a change is read
    bound: dict[str, Table] = field(default_factory=dict)  # what the scans of bound plans read
    anew: bool = False  # states of the lake that have a key are read whole, each row once
    _values: dict[tuple[object, ...], pa.Array | None] = field(default_factory=dict)
    _thorough: bool = False

    def bind(self, plan: Plan, *, thorough: bool = False) -> Plan:
        """The plan with every scan renamed to a table of its own. `thorough` where the driver could compute
        it, had it all rows."""
        self._thorough = thorough
        return self._bind(plan).plan

    def change_rows(self, relation: str) -> int:
        """How many rows of a relation changed."""
        return self._change(relation).rows

    def change_of(self, relation: str) -> Staged | ViewFiles | None:
        """The rows of a relation or view that changed; None where they are the difference of two states."""
        if relation in self.upstream:
            return self.upstream[relation].change
        return self._change(relation)

    def plain(self, scans: Sequence[Scan]) -> bool:
        """Whether all these states count every row once, so that their join does too."""
        return all(
            not (after := self.upstream[scan.relation].after).changes or self._is_whole(after)
            if scan.relation in self.upstream
            else self.reads.state(scan.relation).plain
            for scan in scans
        )

    # -- what is known of a plan's columns

    def _bind(self, plan: Plan) -> Bound:
        match plan:
            case Scan():
                return self._scan(plan, None)
            case Filter(source, predicate):
                below = self._bind(source)
                return Bound(Filter(below.plan, predicate), below.columns)
            case Project(source, outputs):
                below = self._bind(source)
                shown = tuple(
                    below.columns[o.scalar.position] if isinstance(o.scalar, Ref) else None for o in outputs
                )
                return Bound(Project(below.plan, outputs), shown)
            case Negate(source) | Times(source):
                below = self._bind(source)
                return Bound(replace(plan, input=below.plan), below.columns)
            case UnionAll(sources):
                return self._union([self._bind(source) for source in sources])
            case Join():
                return self._join(plan)
        bound = map_scans(plan, lambda scan, _: self._scan(scan, None).plan)
        return Bound(bound, (None,) * len(plan.schema))

    @staticmethod
    def _union(branches: Sequence[Bound]) -> Bound:
        def together(column: Sequence[Column]) -> Column:
            known = [seen for seen in column if seen is not None]
            return sum(known, ()) if len(known) == len(column) else None

        columns = map(together, zip(*(branch.columns for branch in branches), strict=True))
        return Bound(UnionAll(tuple(branch.plan for branch in branches)), tuple(columns))

    def _join(self, join: Join) -> Bound:
        """The driver first; then each input by what is known of those before it."""
        bound: dict[int, Bound] = {}
        for place in join_order(join):
            source = join.inputs[place]
            if isinstance(source, Scan):
                found = self._scan(source, self._restriction(join, place, bound) if bound else None)
                bound[place] = self._under(found, join, place)
            else:
                bound[place] = self._bind(source)
        inputs = [bound[place] for place in range(len(join.inputs))]
        columns = tuple(column for each in inputs for column in each.columns)
        return Bound(Join(tuple(each.plan for each in inputs), join.conditions), columns)

    @staticmethod
    def _under(bound: Bound, join: Join, place: int) -> Bound:
        """An input, of whose rows only those matter that meet the join's conditions over it alone. Where the
        engine could judge otherwise than the driver, all of them matter."""
        offset = join.offsets[place]
        own = range(offset, offset + len(join.inputs[place].schema))
        conditions = tuple(
            shift(condition, -offset)
            for condition in join.conditions
            if refs(condition)
            and all(position in own for position in refs(condition))
            and is_exact_scalar(condition)
        )
        if not conditions:
            return bound
        columns = tuple(
            column and tuple(replace(seen, conditions=conditions) for seen in column)
            for column in bound.columns
        )
        return Bound(bound.plan, columns)

    # -- keys

    def _restriction(self, join: Join, place: int, bound: Mapping[int, Bound]) -> Keys | None:
        """The fewest values by which all rows that matter can be asked for."""
        scan = join.inputs[place]
        assert isinstance(scan, Scan)
        if scan.at is Moment.CHANGE:
            return None
        found: list[Keys] = []
        for link in links(join, place, set(bound)):
            values = self._seen(bound[link.known].columns[link.known_column])
            column = scan.schema[link.column]
            if values is None:
                continue
            relation = self.left[scan.relation].relation if scan.relation in self.left else scan.relation
            if relation in self.upstream:
                found_here = column.type.name != "DOUBLE"  # zero has two spellings there
                found_here = found_here and len(values) <= (
                    self.reads.room.rows if self._thorough else KEY_LIMIT
                )
            else:
                found_here = len(values) <= KEY_LIMIT and self.reads.pushable(relation, link.column)
            if found_here:
                found.append(Keys(column.name, keys_as(values, column.type)))
        return min(found, key=lambda keys: len(keys.values), default=None)

    def _seen(self, column: Column) -> pa.Array | None:
        """The values of a column without NULL, each once; None where they are too many to look at."""
        if column is None:
            return None
        parts = [self._values_of(seen) for seen in column]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        filled = [part for part in known if len(part)]
        if len(filled) < 2:
            return filled[0] if filled else pa.array([])
        return distinct(pa.chunked_array(filled))

    def _values_of(self, seen: Seen) -> pa.Array | None:
        if not seen.rows.small:
            return None
        key = (id(seen.rows), seen.position, seen.conditions)
        if key not in self._values:
            read = sorted({seen.position, *(i for condition in seen.conditions for i in refs(condition))})
            table = seen.rows.table(read)
            if seen.conditions:
                table = meeting(table, read, seen.conditions, KEY_LIMIT)
            self._values[key] = distinct(table.column(read.index(seen.position)))
        return self._values[key]

    # -- tables

    def _scan(self, scan: Scan, keys: Keys | None) -> Bound:
        name = f"#{len(self.bound)}"
        table = self.bound[name] = self._read(scan, keys)
        columns: tuple[Column, ...] = (None,) * len(scan.schema)
        if table.bags is not None and all(bag.small for bag, _ in table.bags):
            columns = tuple(tuple(Seen(bag, i) for bag, _ in table.bags) for i in range(len(scan.schema)))
        return Bound(replace(scan, relation=name), columns)

    def _read(self, scan: Scan, keys: Keys | None) -> Table:
        if scan.relation in self.staged:
            return self._staged([(self.staged[scan.relation], 1)], scan)
        if scan.relation in self.left:
            return self._left(scan, self.left[scan.relation], keys)
        if scan.relation in self.upstream:
            return self._view_rows(scan, keys)
        if scan.at is Moment.CHANGE:
            return self._staged([(self._change(scan.relation), 1)], scan)
        state = self.reads.state(scan.relation, keys)
        undone = [(self._change(scan.relation), -1)] if scan.at is Moment.BEFORE else []
        return self._staged([(state, 1), *undone], scan)

    def _left(self, scan: Scan, left: Left, keys: Keys | None) -> Table:
        """A place as it would have been before if no more than what is left had changed."""
        if scan.at is Moment.CHANGE:
            return self._staged([(left.change, 1)], scan)
        after = self._read(replace(scan, relation=left.relation, at=Moment.AFTER), keys)
        if scan.at is Moment.AFTER or not left.change.rows:
            return after
        less = self._staged([(left.change, -1)], scan)
        bags = None if after.bags is None or less.bags is None else (*after.bags, *less.bags)
        small, tables = after.small and less.small, self.tables

        def sql() -> str:
            return tables().sum([after.sql(), less.sql()])

        return Table(after.rows + less.rows, bags, sql, small)

    def _change(self, relation: str) -> Staged:
        if relation in self.left:
            return self.left[relation].change
        if relation in self.staged:
            return self.staged[relation]
        return self.reads.change(relation, self.after[relation.split(".", 1)[0]])

    def _staged(self, parts: Sequence[tuple[Staged, int]], scan: Scan) -> Table:
        tables = self.tables

        def sql() -> str:
            return tables().sum([tables().staged(part, scan.schema, sign=sign) for part, sign in parts])

        rows = sum(part.rows for part, _ in parts)
        small = all(part.small and part.rows <= TASK_ROWS for part, _ in parts)
        return Table(rows, tuple(parts), sql, small=small)

    def _view_rows(self, scan: Scan, keys: Keys | None) -> Table:
        view, tables = self.upstream[scan.relation], self.tables
        if scan.at is Moment.CHANGE:
            change = view.change
            if change is None:
                rows = view.after.rows + view.before.rows
                return Table(rows, None, self._content((view.after, 1), (view.before, -1)))
            return Table(
                change.rows,
                ((change, 1),),
                lambda: tables().view_rows(change.files, change.schema, signed=True),
            )
        state = view.after if scan.at is Moment.AFTER else view.before
        if state.changes and self._is_whole(state):
            return Table(state.rows, None, self._whole(state))
        for looked_for in (keys, None) if keys is not None else (None,):
            name = None if view.own else scan.relation
            found = self.reads.looked_up(self.root, state, name, looked_for, thorough=self._thorough)
            if found is not None:
                return self._staged([(found, 1)], scan)
        if not state.base and not state.changes:
            return Table(0, (), self._content((state, 1)))
        return Table(state.rows, None, self._content((state, 1)))

    def _is_whole(self, view: ViewState) -> bool:
        return self.anew and is_keyed(view)

    def _whole(self, view: ViewState) -> Callable[[], str]:
        tables, root = self.tables, self.root
        return lambda: tables().plain_rows(lambda session: content(session, root, view), view.schema)

    def _content(self, *views: tuple[ViewState, int]) -> Callable[[], str]:
        tables, root = self.tables, self.root

        def sql() -> str:
            parts = list[str]()
            for view, sign in views:
                base = [root / f.path for f in view.base]
                changes = [root / f.path for f in view.changes]
                parts.append(tables().view_rows(base, view.schema, signed=False, sign=sign))
                parts.append(tables().view_rows(changes, view.schema, signed=True, sign=sign))
            return tables().sum(parts)

        return sql


def meeting(table: pa.Table, read: Sequence[int], conditions: Sequence[Scalar], most: int) -> pa.Table:
    """The rows that meet the conditions; one that a condition fails on is left for the engine to judge, and
    so are all where columns do not tell and there are more than `most`."""
    place = {position: i for i, position in enumerate(read)}
    local = [map_refs(c, lambda ref: replace(ref, position=place[ref.position])) for c in conditions]
    found = met(table, local)
    if found is not None:
        return table.filter(found)
    if table.num_rows > most:
        return table

    def meets(row: tuple[object, ...]) -> bool:
        try:
            return all(evaluate_scalar(condition, row) is True for condition in local)
        except EvaluationError:
            return True

    rows = zip(*(column.to_pylist() for column in table.columns[: len(read)]), strict=True)
    return table.filter(pa.array([meets(row) for row in rows], pa.bool_()))
