"""What one session reads: each relation's change and state at the session's vector, staged once; each
upstream view's content before and after. And how the terms of a change are bound to these reads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stillframe.algebra import Join, Moment, Plan, Scan, Schema
from stillframe.algebra.arrow import keys_as
from stillframe.algebra.plan import map_scans
from stillframe.change import Fetch, Link, body, driver, fetches
from stillframe.engine import Engine, Read, Staged, Tables, stage, staged_table
from stillframe.lake.frame import ViewState
from stillframe.lake.lookup import look_up
from stillframe.sources.base import Capture, Keys, Position, Source

KEY_LIMIT = 20_000


class Known(Protocol):
    """A bag whose join columns can be looked at by the driver."""

    @property
    def small(self) -> bool: ...

    def distinct(self, position: int) -> pa.Array: ...


@dataclass(frozen=True)
class ViewFiles:
    """Signed rows of a view, in files of the lake."""

    files: tuple[Path, ...]
    schema: Schema
    rows: int

    @property
    def small(self) -> bool:
        return self.rows <= KEY_LIMIT

    def distinct(self, position: int) -> pa.Array:
        name = self.schema[position].name
        parts = [pq.read_table(path, columns=[name]).column(0) for path in self.files]
        chunks = [chunk for part in parts for chunk in part.chunks]
        return pc.unique(pc.drop_null(pa.chunked_array(chunks))) if chunks else pa.array([])


@dataclass(frozen=True)
class Upstream:
    """A view as its readers see it in this session. `change` is None where it did not change, and the
    difference of two states where the reader was held back while the view went on. What a view has published
    itself is its `own`, and all of its columns are looked at."""

    before: ViewState
    after: ViewState
    change: ViewFiles | None
    changed: bool
    own: bool = False


class Reads:
    """Staged reads of one session; every read happens once, whoever asks for it."""

    def __init__(
        self,
        engine: Callable[[], Engine],
        sources: Mapping[str, Source],
        vector: Mapping[str, Position],
        columns: Mapping[str, frozenset[int]],
        schemas: Mapping[str, Schema],
        folder: Path,
        counted: Callable[[str, str, Staged], None],
    ) -> None:
        self._engine = engine
        self._sources = sources
        self._vector = vector
        self._columns = columns
        self._schemas = schemas
        self._folder = folder
        self._counted = counted
        self._memo: dict[tuple[object, ...], Staged] = {}
        self._looked_up: dict[tuple[object, ...], Staged | None] = {}

    def change(self, relation: str, after: Position) -> Staged:
        source, table = relation.split(".", 1)
        read = partial(
            self._sources[source].changes,
            table,
            self._names(relation),
            after,
            self._vector[source],
        )
        net = self._sources[source].capture is Capture.SNAPSHOT  # then it is two whole states
        return self._staged(("change", relation, after), relation, read, net=net)

    def state(self, relation: str, keys: Keys | None = None) -> Staged:
        source, table = relation.split(".", 1)
        whole = self._memo.get(("state", relation, None))
        if whole is not None:
            return whole
        read = partial(self._sources[source].state, table, self._names(relation), self._vector[source], keys)
        marks = None if keys is None else (keys.column, frozenset(keys.values.to_pylist()))
        return self._staged(("state", relation, marks), relation, read)

    def adopt(self, relation: str, rows: Staged, at: Position) -> None:
        """A relation that was read before, as it was at `at`: its changes since bring it to the vector."""
        since = self.change(relation, at)
        self._memo["state", relation, None] = Staged(
            (*rows.files, *since.files),
            rows.positions,
            rows.types,
            rows.rows + since.rows,
            rows.plain and not since.rows,
            small=False,
        )

    def looked_up(self, root: Path, view: ViewState, name: str | None, keys: Keys) -> Staged | None:
        """The rows of a view that have one of the keys, if they are quickly found; of a view that others read
        by a name, the columns they read."""
        files = (*(file.path for file in view.base), *(file.path for file in view.changes))
        positions = tuple(range(len(view.schema))) if name is None else self._positions(name)
        key = (positions, keys.column, frozenset(keys.values.to_pylist()), files)
        if key not in self._looked_up:
            found = look_up(root, view, positions, view.schema.position(keys.column), keys.values)
            folder = self._folder / f"rows-{len(self._looked_up)}"
            types = [view.schema[i].type for i in positions]
            self._looked_up[key] = None if found is None else staged_table(found, positions, types, folder)
        return self._looked_up[key]

    def pushable(self, relation: str, column: int) -> bool:
        source, table = relation.split(".", 1)
        return self._sources[source].pushable(table, self._schemas[relation][column].name)

    def _positions(self, relation: str) -> tuple[int, ...]:
        return tuple(sorted(self._columns[relation]))

    def _names(self, relation: str) -> tuple[str, ...]:
        return tuple(self._schemas[relation][i].name for i in self._positions(relation))

    def _staged(self, key: tuple[object, ...], relation: str, read: Read, *, net: bool = False) -> Staged:
        if key not in self._memo:
            positions = self._positions(relation)
            types = [self._schemas[relation][i].type for i in positions]
            folder = self._folder / str(len(self._memo))
            self._memo[key] = stage(self._engine, read, positions, types, folder, net=net)
            self._counted(str(key[0]), relation, self._memo[key])
        return self._memo[key]


@dataclass
class Binder:
    """Turns the scans of one view's plans into tables of the engine."""

    reads: Reads
    tables: Tables
    root: Path
    after: Mapping[str, Position]  # where each source stood for this view
    upstream: dict[str, Upstream]
    staged: dict[str, Staged] = field(default_factory=dict)  # rows that were computed on the way
    bound: dict[str, str] = field(default_factory=dict)  # what the tables of bound plans are

    def bind(self, term: Plan) -> Plan:
        """The term with every scan renamed to a table of its own."""
        tables = self.bound
        known: dict[int, Sequence[Known]] = {}
        places: dict[int, str] = {}
        join = body(term)
        if isinstance(join, Join):
            first = driver(join)
            leaf = join.inputs[first]
            if isinstance(leaf, Scan):
                places[first] = self._add(tables, self._leaf(leaf, None))
                known[first] = self._bags(leaf, None)
            for fetch in fetches(term):
                if fetch.place != first and isinstance(join.inputs[fetch.place], Scan):
                    keys = self._restriction(fetch, known)
                    places[fetch.place] = self._add(tables, self._leaf(fetch.scan, keys))
                    known[fetch.place] = self._bags(fetch.scan, keys)

        def rename(scan: Scan, place: int | None) -> Scan:
            name = places.get(place) if place is not None else None
            return replace(scan, relation=name or self._add(tables, self._leaf(scan, None)))

        return map_scans(term, rename)

    def plain(self, scans: Sequence[Scan]) -> bool:
        """Whether all these states count every row once, so that their join does too."""
        return all(
            not self.upstream[scan.relation].after.changes
            if scan.relation in self.upstream
            else self.reads.state(scan.relation).plain
            for scan in scans
        )

    @staticmethod
    def _add(tables: dict[str, str], sql: str) -> str:
        name = f"#{len(tables)}"
        tables[name] = sql
        return name

    def _restriction(self, fetch: Fetch, known: Mapping[int, Sequence[Known]]) -> Keys | None:
        relation = fetch.scan.relation
        for link in fetch.links:
            values = self._values(link, known)
            if values is None:
                continue
            if relation in self.upstream or self.reads.pushable(relation, link.column):
                column = fetch.scan.schema[link.column]
                return Keys(column.name, keys_as(values, column.type))
        return None

    @staticmethod
    def _values(link: Link, known: Mapping[int, Sequence[Known]]) -> pa.Array | None:
        bags = known.get(link.known)
        if bags is None or not all(bag.small for bag in bags):
            return None
        found = [bag.distinct(link.known_column) for bag in bags]
        arrays = [values for values in found if len(values)]
        if not arrays:
            return pa.array([])
        values = pc.unique(pa.chunked_array(arrays))
        return values if len(values) <= KEY_LIMIT else None

    def _bags(self, scan: Scan, keys: Keys | None) -> Sequence[Known]:
        """What a scan is made of, as far as the driver may look at it."""
        if scan.relation in self.staged:
            return [self.staged[scan.relation]]
        if scan.relation in self.upstream:
            change = self.upstream[scan.relation].change
            if scan.at is Moment.CHANGE and change is not None:
                return [change]
            return [self._looked_up(scan, keys) or ViewFiles((), scan.schema, KEY_LIMIT + 1)]
        if scan.at is Moment.CHANGE:
            return [self._change(scan.relation)]
        state = self.reads.state(scan.relation, keys)
        return [state] if scan.at is Moment.AFTER else [state, self._change(scan.relation)]

    def _change(self, relation: str) -> Staged:
        return self.reads.change(relation, self.after[relation.split(".", 1)[0]])

    def _leaf(self, scan: Scan, keys: Keys | None) -> str:
        if scan.relation in self.staged:
            return self.tables.staged(self.staged[scan.relation], scan.schema)
        if scan.relation in self.upstream:
            found = self._looked_up(scan, keys)
            return self._view_leaf(scan) if found is None else self.tables.staged(found, scan.schema)
        if scan.at is Moment.CHANGE:
            return self.tables.staged(self._change(scan.relation), scan.schema)
        state = self.tables.staged(self.reads.state(scan.relation, keys), scan.schema)
        if scan.at is Moment.AFTER:
            return state
        undone = self.tables.staged(self._change(scan.relation), scan.schema, sign=-1)
        return self.tables.sum([state, undone])

    def _looked_up(self, scan: Scan, keys: Keys | None) -> Staged | None:
        """The rows of a view's state that can join what is known; None where all are read."""
        if keys is None or scan.at is Moment.CHANGE:
            return None
        view = self.upstream[scan.relation]
        state = view.after if scan.at is Moment.AFTER else view.before
        return self.reads.looked_up(self.root, state, None if view.own else scan.relation, keys)

    def _view_leaf(self, scan: Scan) -> str:
        view = self.upstream[scan.relation]
        match scan.at:
            case Moment.AFTER:
                return self.tables.sum(self._content(view.after, 1))
            case Moment.BEFORE:
                return self.tables.sum(self._content(view.before, 1))
        if view.change is not None:
            return self.tables.view_rows(view.change.files, view.change.schema, signed=True)
        return self.tables.sum([*self._content(view.after, 1), *self._content(view.before, -1)])

    def _content(self, view: ViewState, sign: int) -> list[str]:
        base = [self.root / f.path for f in view.base]
        changes = [self.root / f.path for f in view.changes]
        return [
            self.tables.view_rows(base, view.schema, signed=False, sign=sign),
            self.tables.view_rows(changes, view.schema, signed=True, sign=sign),
        ]
