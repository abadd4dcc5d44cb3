"""The bags a live protocol's plans speak of. Rows of large ones stay in files of the engine; small ones are
Python values, so that small work needs no job.

Law: replacing a plan by a scan of the bag it denotes changes nothing a protocol does. So a plan over small
bags is evaluated at once, and one that reads a large bag stays a plan until its rows are wanted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, is_dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from stillframe.algebra import Bag, Plan, Scan, Schema, evaluate, scans
from stillframe.algebra.arrow import COUNT, arrow_type, internal_name, staged_schema
from stillframe.algebra.functions import EvaluationError
from stillframe.algebra.plan import walk
from stillframe.engine import (
    Engine,
    EngineError,
    Read,
    Staged,
    Tables,
    canonical_sql,
    consolidated_sql,
    select_sql,
    stage,
    staged_query,
)
from stillframe.lake.frame import ViewState

T = TypeVar("T")

SMALL = 20_000  # rows the driver looks at itself
KNOWN = 10_000  # parts of states to remember, at the least
DEEP = 16  # nodes over large bags after which a plan's rows are written
_MARK = "#"


@dataclass(frozen=True)
class _Content:
    """A view's content in the lake."""

    root: Path
    state: ViewState


class Holding:
    """Bags under names; a name is a scan of relation `#n`."""

    def __init__(self, engine: Callable[[], Engine], folder: Path) -> None:
        self._engine = engine
        self._folder = folder
        self._bags: list[Bag | Staged | _Content] = []
        self._folders = 0
        self._known: dict[int, Any] = {}  # parts of states that are settled, by identity
        self._known_limit = KNOWN

    # -- holding

    def hold(self, bag: Bag, schema: Schema) -> Scan:
        return self._add(bag, schema)

    def view(self, root: Path, state: ViewState) -> Scan:
        """What a view shows."""
        if state.rows <= SMALL and sum(f.rows for f in state.changes) <= SMALL:
            return self._add(_content(root, state), state.schema)
        return self._add(_Content(root, state), state.schema)

    def take(self, read: Read, schema: Schema, positions: Sequence[int], *, net: bool = False) -> Scan:
        """Rows of a relation as a source gives them: the columns at `positions`, nobody looks at others."""
        batches, rows = list[pa.RecordBatch](), 0
        for batch in read():
            batches.append(batch)
            rows += batch.num_rows
            if rows > SMALL:
                types = [schema[i].type for i in positions]
                staged = stage(self._engine, read, positions, types, self._fresh(), net=net)
                return self._add(staged.in_files(), schema) if staged.rows else self._add(Bag(), schema)
        return self._add(bag_of(batches, len(schema), positions), schema)

    def _add(self, bag: Bag | Staged | _Content, schema: Schema) -> Scan:
        self._bags.append(bag)
        return Scan(f"{_MARK}{len(self._bags) - 1}", Schema(schema.columns))

    def _fresh(self) -> Path:
        self._folders += 1
        return self._folder / f"bag-{self._folders}"

    # -- looking

    def _held(self, scan: Scan) -> Bag | Staged | _Content:
        return self._bags[int(scan.relation[1:])]

    @staticmethod
    def is_held(plan: Plan) -> bool:
        return isinstance(plan, Scan) and plan.relation.startswith(_MARK)

    def small(self, plan: Plan) -> bool:
        """Whether the driver may evaluate a plan."""
        return all(self.is_held(scan) and isinstance(self._held(scan), Bag) for scan in scans(plan))

    def empty(self, plan: Plan) -> bool:
        """Whether a plan is known to denote nothing."""
        return self.small(plan) and not self.bag(plan)

    def count(self, scan: Plan) -> int:
        """How many signed rows a held bag has, each once."""
        assert isinstance(scan, Scan)
        held = self._held(scan)
        return (
            held.state.rows
            if isinstance(held, _Content)
            else held.rows
            if isinstance(held, Staged)
            else len(held)
        )

    def bag(self, plan: Plan) -> Bag:
        """The value of a plan over small bags. What fails here fails as it would in the engine."""
        try:
            return evaluate(plan, self._small_content)
        except EvaluationError as error:
            raise EngineError("the engine could not compute this", detail=str(error)) from error

    def _small_content(self, scan: Scan) -> Bag:
        held = self._held(scan)
        assert isinstance(held, Bag), "only plans over small bags are evaluated here"
        return held

    def values(self, scan: Scan, column: int, limit: int) -> pa.Array | None:
        """The values a column of a held bag has, without NULL; None where they are too many."""
        held = self._held(scan)
        if isinstance(held, Bag):
            found = {row[column] for row in held}
            return pa.array([v for v in found if v is not None], arrow_type(scan.schema[column].type))
        if isinstance(held, Staged) and held.rows <= 50 * limit:
            unique = pc.unique(pc.drop_null(held.table([column]).column(0)))
            return unique if len(unique) <= limit else None
        return None

    # -- evaluating

    def settle(self, value: T) -> T:
        """A state, or actions, with the plans in them evaluated as far as it pays. What was settled before is
        known again, so that a step costs what it changed and not what there is."""
        if len(self._known) > self._known_limit:
            self._known.clear()
            found = self._settle(value)
            self._known_limit = max(KNOWN, 4 * len(self._known))
            return found  # type: ignore[no-any-return]
        return self._settle(value)  # type: ignore[no-any-return]

    def _settle(self, value: Any) -> Any:
        if isinstance(value, Plan):
            return self._settled(value)
        if isinstance(value, tuple):
            changed = tuple(self._settle(item) for item in value)
            return value if all(a is b for a, b in zip(changed, value, strict=True)) else changed
        if self._known.get(id(value)) is value:
            return value
        if is_dataclass(value) and not isinstance(value, type):
            old = {field.name: getattr(value, field.name) for field in fields(value)}
            new = {name: self._settle(item) for name, item in old.items()}
            changes = {name: item for name, item in new.items() if item is not old[name]}
            found = replace(value, **changes) if changes else value
            self._known[id(found)] = found
            return found
        return value

    def _settled(self, plan: Plan) -> Plan:
        if self.is_held(plan):
            return plan
        if self.small(plan):
            return self.hold(self.bag(plan), plan.schema)
        return self.written(plan) if _nodes(plan) > DEEP else plan

    def settled(self, plan: Plan) -> Scan:
        """A plan's rows under a name."""
        if self.is_held(plan):
            assert isinstance(plan, Scan)
            return plan
        return self.hold(self.bag(plan), plan.schema) if self.small(plan) else self.written(plan)

    def written(self, plan: Plan) -> Scan:
        """A plan's rows, computed by the engine."""
        found = staged_query(self._engine(), self.query(plan), plan.schema.types, self._fresh())
        if found.rows > SMALL:
            return self._add(replace(found, small=False), plan.schema)
        batches = [batch for path in found.files for batch in pq.read_table(path).to_batches()]
        width = len(plan.schema)
        return self.hold(bag_of(batches, width, range(width)), plan.schema)

    def query(self, plan: Plan) -> str:
        """SQL of the engine for a plan's signed rows, each once."""
        engine = self._engine()
        tables = Tables(engine)

        def leaf(scan: Scan) -> str:
            held = self._held(scan)
            if isinstance(held, _Content):
                return _content_sql(tables, held)
            return tables.staged(self._as_files(held, scan.schema), scan.schema)

        sql = canonical_sql(select_sql(plan, leaf, engine.writer), plan.schema.types)
        return consolidated_sql(sql, len(plan.schema))

    def _as_files(self, held: Bag | Staged, schema: Schema) -> Staged:
        if isinstance(held, Staged):
            return held
        positions = tuple(range(len(schema)))
        if not held:
            return Staged((), positions, schema.types, 0, plain=True, small=True)
        folder = self._fresh()
        folder.mkdir(parents=True)
        path = folder / "part-0.parquet"
        pq.write_table(arrow_of(held, schema), path)
        return Staged((path,), positions, schema.types, len(held), plain=False, small=True)


def _nodes(plan: Plan) -> int:
    return sum(1 for _ in walk(plan))


def bag_of(batches: Sequence[pa.RecordBatch], width: int, positions: Sequence[int]) -> Bag:
    """Signed rows in the staged form as a bag of rows of the given width."""
    counted = []
    for batch in batches:
        columns: list[Sequence[Any]] = [[None] * batch.num_rows for _ in range(width)]
        for i, position in enumerate(positions):
            columns[position] = batch.column(batch.schema.get_field_index(internal_name(i))).to_pylist()
        counts = batch.column(batch.schema.get_field_index(COUNT)).to_pylist()
        rows = zip(*columns, strict=True) if width else iter(() for _ in counts)
        counted += list(zip(rows, counts, strict=True))
    return Bag(counted)


def arrow_of(bag: Bag, schema: Schema, names: Sequence[str] | None = None) -> pa.Table:
    """A bag as signed rows, under internal names or the given ones."""
    form = staged_schema(schema.types)
    columns: list[Sequence[Any]] = list(zip(*bag, strict=True)) if bag else [() for _ in schema]
    arrays = [pa.array(values, form.field(i).type) for i, values in enumerate(columns)]
    table = pa.Table.from_arrays([*arrays, pa.array(list(bag.values()), pa.int64())], schema=form)
    return table if names is None else table.rename_columns([*names, COUNT])


def _content(root: Path, state: ViewState) -> Bag:
    counted = list[tuple[tuple[Any, ...], int]]()
    for files, signed in ((state.base, False), (state.changes, True)):
        for file in files:
            table = pq.read_table(root / file.path)
            columns = [table.column(c.name).to_pylist() for c in state.schema]
            counts = table.column(COUNT).to_pylist() if signed else [1] * table.num_rows
            counted += zip(zip(*columns, strict=True), counts, strict=True)
    return Bag(counted)


def _content_sql(tables: Tables, held: _Content) -> str:
    base = [held.root / f.path for f in held.state.base]
    changes = [held.root / f.path for f in held.state.changes]
    return tables.sum(
        [
            tables.view_rows(base, held.state.schema, signed=False),
            tables.view_rows(changes, held.state.schema, signed=True),
        ]
    )
