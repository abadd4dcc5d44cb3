"""Verify: recompute a view from its sources at the frame's own vector, while writers go on, and compare
bag to bag with what readers of the lake get.

Only the sources and the published files are read. Upstream views are recomputed too, never trusted. Where
it can be done, the view's own text is what Spark runs, with nothing but the names of relations replaced;
so neither our resolver nor our change rules have a part in the answer.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from stillframe.algebra import Scan, Schema, Window, relations, scans
from stillframe.algebra.arrow import COUNT, internal_name
from stillframe.algebra.plan import walk
from stillframe.algebra.precision import inexact_columns
from stillframe.change import columns_read, merged
from stillframe.engine import (
    Engine,
    EngineError,
    Staged,
    Tables,
    canonical_sql,
    consolidated_sql,
    engine_errors,
    identifier,
    misread_by_sail,
    repeated_sql,
    select_sql,
    stage,
    staged_query,
    view_struct,
)
from stillframe.errors import GAPS, LakeError, StillframeError
from stillframe.lake.frame import RECORDS, DataFile, Frame, ViewState
from stillframe.lake.reader import content
from stillframe.lake.storage import Storage
from stillframe.runtime.catalog import Catalog
from stillframe.runtime.definitions import Definitions, View, resolve_all, unknown_view
from stillframe.sources.base import Position, Source
from stillframe.sql import ViewText
from stillframe.sql.rewrite import relations_named, retarget
from stillframe.sql.subqueries import PERHAPS_IN

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

SAMPLE = 10
FRAME_EXPIRED = "FRAME_EXPIRED"
# What Sail takes for something else, and says nothing. Of grouping sets over no rows it makes a group.
_MISTAKEN_BY_SAIL = re.compile(
    r"<=>|\bDISTINCT\s+FROM\b|\bequal_null\b|\b(INTERSECT|EXCEPT|MINUS)\s+ALL\b"
    r"|\bGROUPING\s+SETS\b|\bROLLUP\b|\bCUBE\b",
    re.IGNORECASE,
)
DRIFT = (
    *GAPS,
    "MISSING_FILE",
    "DAMAGED_FILE",
)  # errors that say the lake or a log is not what it was


@dataclass(frozen=True)
class Verification:
    """`missing` rows should be in the view and are not; `extra` rows are and should not be. Neither `ok` nor
    `drift`: it could not be told, and `error` says why."""

    view: str
    frame: int
    ok: bool
    rows: int = 0
    missing: int = 0
    extra: int = 0
    sample: tuple[Mapping[str, Any], ...] = ()
    reason: str = ""
    error: StillframeError | None = field(default=None, compare=False)

    @property
    def drift(self) -> bool:
        return not self.ok and (self.error is None or self.error.code in DRIFT)

    def to_json(self) -> dict[str, Any]:
        document = {
            "ok": self.ok,
            "frame": self.frame,
            "rows": self.rows,
            "missing": self.missing,
            "extra": self.extra,
            "sample": [dict(row) for row in self.sample],
        }
        return {**document, "reason": self.reason} if self.reason else document


class VerifiedFrames:
    """The newest frame of each view that was found exact, remembered beside the lake's tables."""

    def __init__(self, folder: Path) -> None:
        self._path = folder / "verified.json"

    def read(self) -> dict[str, int]:
        with suppress(OSError, ValueError):
            return dict(json.loads(self._path.read_text(encoding="utf-8")))
        return {}

    def add(self, found: Mapping[str, Verification]) -> None:
        known = self.read()
        known.update({name: v.frame for name, v in found.items() if v.ok and v.frame >= known.get(name, 0)})
        draft = self._path.with_name(f".{self._path.name}-{os.getpid()}")
        draft.write_text(json.dumps(known), encoding="utf-8")
        draft.replace(self._path)


@dataclass
class Verifier:
    """Judges one frame by the texts that frames carry themselves, whatever the project's files say by now."""

    lake: Storage
    engine: Callable[[], Engine]
    sources: Mapping[str, Source]
    consumer: str
    frame: Frame
    catalog: Catalog
    records: Callable[[str], list[tuple[Any, ...]]] | None = None  # of views that are served

    def verify(self, name: str) -> Verification:
        try:
            return self._verify(name)
        except StillframeError as error:
            return Verification(name, self.frame.number, ok=False, reason=error.message, error=error)

    def _verify(self, name: str) -> Verification:
        state = self.frame.views[name]
        if state.vector is None:
            raise StillframeError(
                f"view {name} has no content to verify", detail=(state.reason or {}).get("message", "")
            )
        definitions = self._definitions(state)
        view = definitions.views.get(name)
        if view is None:
            raise unknown_view(name, self.frame.views, definitions.refused.get(name))
        if (view.schema.names, view.schema.types) != (state.schema.names, state.schema.types):
            raise StillframeError(
                f"what view {name} reads has other columns than in frame {self.frame.number}",
                hint="refresh first",
                code="SCHEMA_CHANGED",
            )
        vector = {source: Position.from_json(document) for source, document in state.vector.items()}
        try:
            found = self._recomputed(view, definitions, state, vector)
        except StillframeError as error:
            if error.code not in GAPS:  # which may have been raised in a task of the engine
                raise
            return self._beyond_the_log(view, definitions, state, error)
        return self._table_drift(name, state) or found if found.ok else found

    def _definitions(self, state: ViewState) -> Definitions:
        """Of the frame in which the view was last maintained: one that is held since shows what its upstream
        views said then."""
        made = self.frame
        if state.session.get("frame") not in (None, self.frame.number):
            with suppress(LakeError):  # forgotten
                made = self.lake.frame(state.session["frame"])
        texts = [ViewText(name, {}, view.definition) for name, view in made.shown.items()]
        return resolve_all(texts, self.catalog)

    def _recomputed(
        self, view: View, definitions: Definitions, state: ViewState, vector: Mapping[str, Position]
    ) -> Verification:
        folder = self.lake.attempt("staging")
        try:
            tables = Tables(self.engine())
            closure = [definitions.views[name] for name in definitions.closure([view.name])]
            columns = merged(columns_read(each.whole) for each in closure if not each.owner)
            recomputation = _Recomputation(self, definitions, vector, columns, tables, folder)
            try:
                with engine_errors():
                    return self._as_computed(view, state, recomputation.query(view))
            except StillframeError as error:
                if error.code != EngineError.code:
                    raise
                cannot = error
            recomputation = _Recomputation(self, definitions, vector, columns, tables, folder, plans=True)
            try:
                with engine_errors():
                    return self._as_computed(view, state, recomputation.query(view))
            except EngineError:
                raise cannot from None
        finally:
            self.lake.discard(folder)

    def _beyond_the_log(
        self, view: View, definitions: Definitions, state: ViewState, gap: StillframeError
    ) -> Verification:
        """The logs must reach back to the newest frame; that they do not is drift. What the view should be
        at its vector nobody can say any more: the samples are its differences from the sources as they
        are now. To an older frame the logs need not reach."""
        newest = self.lake.newest()
        if newest is None or newest.number != self.frame.number:
            raise StillframeError(
                f"the sources' logs no longer reach back to frame {self.frame.number}",
                detail=gap.message,
                hint="verify the newest frame",
                code=FRAME_EXPIRED,
            ) from gap
        lost = Verification(view.name, self.frame.number, ok=False, reason=gap.message, error=gap)
        try:
            present = {source: self.sources[source].position(self.consumer, ()) for source in view.sources}
            found = self._recomputed(view, definitions, state, present)
            return replace(found, ok=False, reason=gap.message, error=gap)
        except StillframeError:
            return lost

    def _table_drift(self, name: str, state: ViewState) -> Verification | None:
        """What other engines read: at the newest frame, the view's Delta table has the rows it settled."""
        newest = self.lake.newest()
        now = newest.views.get(name) if newest else None
        settled = frozenset(file.path for file in state.base)
        shown = self.lake.settled_files(state.table)
        if now is None or now.base != state.base or shown == settled:
            return None
        if self.lake.settled_frame(state.table) != state.settled:  # on its way there
            return None
        with engine_errors():
            base = content(self.engine().maintenance, self.lake.path, replace(state, changes=()))
            expected = f"SELECT {_internal(state.schema)}, CAST(1 AS BIGINT) AS {COUNT} FROM {{base}}"
            table = replace(state, base=tuple(DataFile(path, 0, 0) for path in sorted(shown)), changes=())
            found = self._compared(name, state, expected, table, base=base)
        if found.ok:  # another engine arranged the same rows in other files
            return None
        return replace(found, reason=f"the Delta table of view {name} was changed by another program")

    def _as_computed(self, view: View, state: ViewState, expected: str) -> Verification:
        """A view's rows against those it should have. Where floats were added up, in whatever order, seven
        digits of the sum are compared."""
        found = self._compared(view.name, state, expected, state)
        rough = inexact_columns(view.whole) if not found.ok else frozenset()
        return self._compared(view.name, state, expected, state, rough) if rough else found

    def _compared(
        self,
        name: str,
        state: ViewState,
        expected: str,
        actual: ViewState,
        rough: frozenset[int] = frozenset(),
        **inputs: DataFrame,
    ) -> Verification:
        session = self.engine().maintenance
        if actual.algorithm == RECORDS:
            inputs["published"] = self._served(name, state)
            names = ", ".join([*(internal_name(i) for i in range(len(state.schema))), COUNT])
            expected = f"SELECT DISTINCT {names} FROM ({expected})"  # rows that are alike are one record
        else:
            inputs["published"] = content(session, self.lake.path, actual)
        rows = self._counted(name, inputs["published"])
        published = f"SELECT {_internal(state.schema)}, CAST(-1 AS BIGINT) AS {COUNT} FROM {{published}}"
        both = f"({canonical_sql(expected, state.schema.types)}) UNION ALL ({published})"
        if rough:
            columns = (
                f"CAST({internal_name(i)} AS FLOAT) AS {internal_name(i)}" if i in rough else internal_name(i)
                for i in range(len(state.schema))
            )
            both = f"SELECT {', '.join([*columns, COUNT])} FROM ({both})"
        difference = consolidated_sql(both, len(state.schema))
        (totals,) = session.sql(
            f"SELECT COALESCE(SUM(CASE WHEN {COUNT} > 0 THEN {COUNT} END), 0) AS missing, "
            f"COALESCE(SUM(CASE WHEN {COUNT} < 0 THEN -{COUNT} END), 0) AS extra FROM ({difference})",
            **inputs,
        ).collect()
        missing, extra = totals
        sample = f"SELECT * FROM ({difference}) LIMIT {SAMPLE}"
        return Verification(
            view=name,
            frame=self.frame.number,
            ok=not missing and not extra,
            rows=rows,
            missing=missing,
            extra=extra,
            sample=tuple(
                _shown(row, state.schema)
                for row in (session.sql(sample, **inputs).collect() if missing or extra else ())
            ),
        )

    def _served(self, name: str, state: ViewState) -> DataFrame:
        """The records as they are now, which is what the newest frame shows."""
        newest = self.lake.newest()
        if self.records is None or newest is None or newest.number != self.frame.number:
            raise StillframeError(
                f"the records of view {name} are those of the newest frame",
                hint="verify the newest frame",
                code=FRAME_EXPIRED,
            )
        rows = self.records(name)
        return self.engine().maintenance.createDataFrame(rows, view_struct(state.schema, count=False))

    @staticmethod
    def _counted(name: str, published: DataFrame) -> int:
        """Every column is read, so a file that cannot be read is found before anything is compared."""
        try:
            with engine_errors():
                everything = published.selectExpr("count(*)", "max(struct(*)) IS NULL").collect()
        except StillframeError as error:
            if error.code != EngineError.code:
                raise
            raise LakeError(
                f"the files of view {name} cannot be read",
                detail=error.detail or error.message,
                hint=f"run `stillframe refresh {name} --full` to compute the view again",
                code="DAMAGED_FILE",
            ) from error
        return int(everything[0][0])


def _internal(schema: Schema) -> str:
    return ", ".join(f"{identifier(c.name)} AS {internal_name(i)}" for i, c in enumerate(schema))


def _shown(row: Any, schema: Schema) -> dict[str, Any]:
    *values, count = row
    return {
        "row": dict(zip(schema.names, values, strict=True)),
        "is": "missing" if count > 0 else "extra",
        "count": abs(count),
    }


class _Recomputation:
    """The relations at a vector, and the views' own texts over them. Columns that no text uses are not read:
    one that was added since is in no log, and NULL here."""

    def __init__(
        self,
        verifier: Verifier,
        definitions: Definitions,
        vector: Mapping[str, Position],
        columns: Mapping[str, frozenset[int]],
        tables: Tables,
        folder: Path,
        *,
        plans: bool = False,
    ) -> None:
        """`plans`: all by our own plans, where an engine cannot run a text."""
        self._plans = plans
        self._verifier = verifier
        self._columns = columns
        self._definitions = definitions
        self._vector = vector
        self._tables = tables
        self._folder = folder
        self._names: dict[str, str] = {}

    def query(self, view: View) -> str:
        """SQL for the rows the view should have, under internal names, one count each."""
        engine = self._verifier.engine()
        text = view.text.select
        mistaken = _MISTAKEN_BY_SAIL.search(text) or misread_by_sail(text, view.whole)
        if self._plans or (engine.kind == "sail" and mistaken):
            return self._compiled(view)
        if any(isinstance(node, Window) and node.has_ties for node in walk(view.whole)):
            return self._compiled(view)
        if any(operator.name == PERHAPS_IN for operator in view.operators):  # Spark says false
            return self._compiled(view)
        names = {name: self._table(view, name) for name in relations(view.whole)}
        text = retarget(text, {**self._unread(view), **names})
        with engine_errors():
            renamed = engine.sql(text).toDF(*(internal_name(i) for i in range(len(view.schema))))
            registered = self._tables.register_frame(renamed)
        columns = ", ".join(
            f"CAST({internal_name(i)} AS {c.type}) AS {internal_name(i)}" for i, c in enumerate(view.schema)
        )
        return f"SELECT {columns}, CAST(1 AS BIGINT) AS {COUNT} FROM {registered}"

    def _unread(self, view: View) -> dict[str, str]:
        """Empty tables for what is named only in a query of WITH that nobody reads."""
        known = {
            f"{source}.{name}": relation.schema
            for source, tables in self._verifier.catalog.items()
            for name, relation in tables.items()
        }
        known |= {name: above.schema for name, above in self._definitions.views.items()}
        named = relations_named(view.text.select)
        found = {}
        for name in known.keys() - relations(view.whole):
            if name.lower() in named:
                columns = (f"CAST(NULL AS {c.type}) AS {internal_name(i)}" for i, c in enumerate(known[name]))
                found[name] = self._named(f"SELECT {', '.join(columns)} WHERE 1 = 0", known[name])
        return found

    def _compiled(self, view: View) -> str:
        """By our own plan: what Sail would silently take for something else, and what the text leaves open
        where an order has ties."""

        def leaf(scan: Scan) -> str:
            columns = ", ".join(
                f"{identifier(c.name)} AS {internal_name(i)}" for i, c in enumerate(scan.schema)
            )
            table = self._table(view, scan.relation)
            return f"(SELECT {columns}, CAST(1 AS BIGINT) AS {COUNT} FROM {table})"

        return select_sql(view.whole, leaf, self._verifier.engine().writer)

    def _table(self, view: View, name: str) -> str:
        """A temporary view with the rows of a relation at the vector, or of an upstream view recomputed."""
        if name not in self._names:
            if name in self._definitions.views:
                self._names[name] = self._view(self._definitions.views[name])
            else:
                self._names[name] = self._relation(view, name)
        return self._names[name]

    def _view(self, view: View) -> str:
        """Computed once and kept in files: an engine would plan it again wherever it is named."""
        query = self.query(view)
        folder = self._folder / ("plans" if self._plans else "texts") / f"view-{len(self._names)}"
        with engine_errors():
            staged = staged_query(self._verifier.engine(), query, view.schema.types, folder)
        return self._named(self._repeated(staged, view.schema), view.schema)

    def _repeated(self, staged: Staged, schema: Schema) -> str:
        query = f"SELECT * FROM {self._tables.staged(staged, schema)}"
        if staged.plain:
            return query
        return repeated_sql(consolidated_sql(canonical_sql(query, schema.types), len(schema)), len(schema))

    def _relation(self, view: View, name: str) -> str:
        schema = next(scan.schema for scan in scans(view.whole) if scan.relation == name)
        source_name, table = name.split(".", 1)
        source = self._verifier.sources[source_name]
        positions = sorted(self._columns[name])
        names, types = [schema[i].name for i in positions], [schema[i].type for i in positions]
        read = partial(source.state, table, names, self._vector[source_name], None)
        folder = self._folder / ("plans" if self._plans else "texts") / str(len(self._names))
        staged = stage(self._verifier.engine, read, positions, types, folder)
        return self._named(self._repeated(staged, schema), schema)

    def _named(self, query: str, schema: Schema) -> str:
        columns = ", ".join(f"{internal_name(i)} AS {identifier(c.name)}" for i, c in enumerate(schema))
        with engine_errors():
            return self._tables.register_frame(
                self._verifier.engine().sql(f"SELECT {columns} FROM ({query})")
            )
