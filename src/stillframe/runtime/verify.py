"""Verify: recompute a view from its sources at the frame's own vector, while writers go on, and compare
bag to bag with what readers of the lake get.

Only the sources and the published files are read. Upstream views are recomputed too, never trusted. Where
it can be done, the view's own text is what Spark runs, with nothing but the names of relations replaced;
so neither our resolver nor our change rules have a part in the answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from stillframe.algebra import Schema, scans
from stillframe.algebra.arrow import COUNT, internal_name
from stillframe.engine import (
    Engine,
    Tables,
    canonical_sql,
    consolidated_sql,
    engine_errors,
    identifier,
    repeated_sql,
    stage,
)
from stillframe.errors import StillframeError
from stillframe.lake.frame import Frame, ViewState
from stillframe.lake.reader import content
from stillframe.lake.storage import Storage
from stillframe.runtime.definitions import Definitions, View, unknown_view
from stillframe.sources.base import Position, Source
from stillframe.sql.rewrite import retarget

SAMPLE = 10


@dataclass(frozen=True)
class Verification:
    """`missing` rows should be in the view and are not; `extra` rows are and should not be."""

    view: str
    frame: int
    ok: bool
    rows: int = 0
    missing: int = 0
    extra: int = 0
    sample: tuple[Mapping[str, Any], ...] = ()
    reason: str = ""
    error: StillframeError | None = field(default=None, compare=False)

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


@dataclass
class Verifier:
    lake: Storage
    engine: Callable[[], Engine]
    sources: Mapping[str, Source]
    definitions: Definitions

    def verify(self, frame: Frame, name: str) -> Verification:
        """CAPTURE_GAP where the sources' logs no longer reach back to the frame."""
        state = frame.views.get(name)
        view = self.definitions.views.get(name)
        if state is None or view is None:
            raise unknown_view(name, frame.views)
        if state.vector is None:
            raise StillframeError(
                f"view {name} has no content to verify", detail=(state.reason or {}).get("message", "")
            )
        if view.text.select != state.definition:
            raise StillframeError(
                f"the definition of view {name} changed after frame {frame.number}", hint="refresh first"
            )
        folder = self.lake.attempt("staging")
        try:
            expected = _Recomputation(self, state, Tables(self.engine()), folder).query(view)
            return self._compare(frame, state, name, expected)
        finally:
            self.lake.discard(folder)

    def _compare(self, frame: Frame, state: ViewState, name: str, expected: str) -> Verification:
        engine = self.engine()
        published = f"sf_published_{abs(hash((name, frame.number)))}"
        columns = ", ".join(f"{identifier(c.name)} AS {internal_name(i)}" for i, c in enumerate(state.schema))
        with engine_errors():
            content(engine.maintenance, self.lake.path, state).createOrReplaceTempView(published)
            try:
                actual = f"SELECT {columns}, CAST(-1 AS BIGINT) AS {COUNT} FROM {published}"
                both = f"({canonical_sql(expected, state.schema.types)}) UNION ALL ({actual})"
                difference = consolidated_sql(both, len(state.schema))
                (totals,) = engine.sql(
                    f"SELECT COALESCE(SUM(CASE WHEN {COUNT} > 0 THEN {COUNT} END), 0) AS missing, "
                    f"COALESCE(SUM(CASE WHEN {COUNT} < 0 THEN -{COUNT} END), 0) AS extra FROM ({difference})"
                ).collect()
                sampled = f"SELECT * FROM ({difference}) LIMIT {SAMPLE}"
                sample = engine.sql(sampled).collect() if any(totals) else []
                (rows,) = engine.sql(f"SELECT COUNT(*) AS n FROM {published}").collect()
            finally:
                engine.maintenance.catalog.dropTempView(published)
        missing, extra = totals
        return Verification(
            view=name,
            frame=frame.number,
            ok=not missing and not extra,
            rows=rows[0],
            missing=missing,
            extra=extra,
            sample=tuple(_shown(row, state.schema) for row in sample),
        )


def _shown(row: Any, schema: Schema) -> dict[str, Any]:
    *values, count = row
    return {
        "row": dict(zip(schema.names, values, strict=True)),
        "is": "missing" if count > 0 else "extra",
        "count": abs(count),
    }


class _Recomputation:
    """The relations at a vector, and the views' own texts over them."""

    def __init__(self, verifier: Verifier, state: ViewState, tables: Tables, folder: Any) -> None:
        self._verifier = verifier
        self._tables = tables
        self._folder = folder
        self._names: dict[str, str] = {}
        assert state.vector is not None
        self._vector = {name: Position.from_json(p) for name, p in state.vector.items()}

    def query(self, view: View) -> str:
        """SQL for the rows the view should have, under internal names, one count each."""
        engine = self._verifier.engine()
        names = {name: self._table(view, name) for name in view.reads}
        text = retarget(view.text.select, names)
        with engine_errors():
            renamed = engine.sql(text).toDF(*(internal_name(i) for i in range(len(view.schema))))
            registered = self._tables.register_frame(renamed)
        columns = ", ".join(
            f"CAST({internal_name(i)} AS {c.type}) AS {internal_name(i)}" for i, c in enumerate(view.schema)
        )
        return f"SELECT {columns}, CAST(1 AS BIGINT) AS {COUNT} FROM {registered}"

    def _table(self, view: View, name: str) -> str:
        """A temporary view with the rows of a relation at the vector, or of an upstream view recomputed."""
        if name not in self._names:
            if name in view.upstream:
                above = self._verifier.definitions.views[name]
                self._names[name] = self._named(self.query(above), above.schema)
            else:
                self._names[name] = self._relation(view, name)
        return self._names[name]

    def _relation(self, view: View, name: str) -> str:
        schema = next(scan.schema for scan in scans(view.plan) if scan.relation == name)
        source_name, table = name.split(".", 1)
        source = self._verifier.sources[source_name]
        positions = sorted(range(len(schema)))
        read = partial(source.state, table, schema.names, self._vector[source_name], None)
        staged = stage(
            self._verifier.engine, read, positions, schema.types, self._folder / str(len(self._names))
        )
        query = f"SELECT * FROM {self._tables.staged(staged, schema)}"
        if not staged.plain:
            query = repeated_sql(
                consolidated_sql(canonical_sql(query, schema.types), len(schema)), len(schema)
            )
        return self._named(query, schema)

    def _named(self, query: str, schema: Schema) -> str:
        columns = ", ".join(f"{internal_name(i)} AS {identifier(c.name)}" for i, c in enumerate(schema))
        with engine_errors():
            return self._tables.register_frame(
                self._verifier.engine().sql(f"SELECT {columns} FROM ({query})")
            )
