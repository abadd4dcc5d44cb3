"""The warehouse: one object that opens a project and does what the command line and Python users ask."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stillframe.engine import Engine, adopt, engine_errors, open_engine
from stillframe.errors import Busy, CaptureGap, LakeError, ProjectError, StillframeError
from stillframe.lake import Lake
from stillframe.lake.frame import STOPPED, Frame, ViewState
from stillframe.lake.reader import content
from stillframe.lake.storage import Vacuumed
from stillframe.runtime.alter import drop, rename
from stillframe.runtime.catalog import reached_or_remembered, read_catalog, write_catalog
from stillframe.runtime.config import SCHEMAS, Project, SourceConfig, load_project
from stillframe.runtime.definitions import Definitions, read_texts, resolve_all, unknown_view
from stillframe.runtime.explain import explain
from stillframe.runtime.metrics import Metrics
from stillframe.runtime.session import Observer, Result, Session, unobserved
from stillframe.runtime.settle import due, settle
from stillframe.runtime.status import log_positions, source_status, transactions_behind, view_status
from stillframe.runtime.verify import Verification, Verifier
from stillframe.sources import open_source
from stillframe.sources.base import Relation, Source
from stillframe.sql import parse_views

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

WAIT_SECONDS = 60.0
VERIFIED = "verified.json"
CATALOG = "catalog.json"


class Warehouse:
    """Views over sources, kept in a folder of Delta tables.

    Open one with `stillframe.open(project folder)`, or build one around a SparkSession of yours:
    `Warehouse(spark=spark, path="warehouse", sources={"shop": "sqlite:///shop.db"})`.
    """

    def __init__(
        self,
        *,
        spark: SparkSession | None = None,
        path: str | Path | None = None,
        sources: Mapping[str, str | Mapping[str, Any]] | None = None,
        name: str = "stillframe",
        project: Project | None = None,
        engine: Engine | None = None,
        observe: Observer = unobserved,
    ) -> None:
        if project is None:
            if path is None:
                raise ProjectError("a warehouse needs a path")
            project = _bare_project(Path(path), sources or {}, name)
        self.project = project
        self.metrics = Metrics()
        self.observe = observe
        self._spark = spark
        self._engine = engine
        self._engine_is_mine = engine is None
        self._engine_lock = threading.Lock()
        self._times: dict[int, datetime] = {}
        self._tried: dict[str, object] = {}
        self._definitions: tuple[object, Definitions] | None = None
        self.sources: dict[str, Source] = {
            source: open_source(source, config.url, capture_limit=config.capture_limit, base=project.root)
            for source, config in project.sources.items()
        }
        self.lake = Lake.open(project.warehouse, create=True)

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine, if this warehouse started it."""
        if self._engine is not None and self._engine_is_mine:
            self._engine.close()
            self._engine = None

    @property
    def engine(self) -> Engine:
        """The engine, started when it is first needed."""
        with self._engine_lock:
            if self._engine is None:
                self._engine = adopt(self._spark) if self._spark else open_engine(self.project.spark)
            return self._engine

    # -- definitions

    @property
    def definitions_folder(self) -> Path:
        return self.project.views if self.project.views.is_dir() else self.lake.path / "definitions"

    def catalog(self, *, offline: bool = False) -> dict[str, dict[str, Relation]]:
        """The sources' relations: as they are now, or as the stored snapshot has them."""
        stored = self.project.root / SCHEMAS
        if offline:
            if not stored.is_file():
                raise ProjectError(
                    f"there is no stored snapshot of the sources' schemas ({SCHEMAS})",
                    hint="run `stillframe check` once where the sources can be reached, and keep the file",
                )
            return read_catalog(stored)
        return {name: source.describe() for name, source in self.sources.items()}

    def store_schemas(self) -> Path:
        """Write the snapshot that `check --offline` reads."""
        stored = self.project.root / SCHEMAS
        write_catalog(stored, self.catalog())
        return stored

    def definitions(self, *, offline: bool = False) -> Definitions:
        texts = read_texts(self.definitions_folder)
        catalog = (
            self.catalog(offline=True)
            if offline
            else reached_or_remembered(self.sources, self.lake.path / CATALOG)
        )
        known = (texts, catalog)
        if self._definitions is None or self._definitions[0] != known:
            self._definitions = (known, resolve_all(texts, catalog))
        return self._definitions[1]

    def create_view(self, name: str, select: str, **options: str) -> None:
        """Define a view; the next refresh makes it. Refused text raises, and nothing is kept."""
        settings = ", ".join(f"{key} = '{value}'" for key, value in options.items())
        options_text = f" WITH ({settings})" if settings else ""
        query = select.strip().rstrip(";")
        text = f"CREATE MATERIALIZED VIEW `{name}`{options_text} AS\n{query};\n"
        (parsed,) = parse_views(text, f"{name}.sql")
        existing = read_texts(self.definitions_folder)
        if any(other.name.lower() == name.lower() for other in existing):
            raise ProjectError(f"there is a view {name} already", hint="drop it first, or edit its text")
        resolved = resolve_all((*existing, parsed), self.catalog())
        if parsed.name not in resolved.views:
            raise unknown_view(parsed.name, resolved.views, resolved.refused.get(parsed.name))
        folder = self.definitions_folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)}.sql").write_text(text, encoding="utf-8")

    # -- maintaining

    def _session(self) -> Session:
        return Session(
            lake=self.lake,
            engine=lambda: self.engine,
            sources=self.sources,
            definitions=self.definitions(),
            consumer=self.project.name,
            metrics=self.metrics,
            observe=self.observe,
        )

    def maintain(
        self,
        views: Sequence[str] = (),
        *,
        full: bool = False,
        settle: bool = False,
        wait: float = WAIT_SECONDS,
    ) -> Result:
        """One session; see `refresh`."""
        with self.lake.exclusive(wait):
            session = self._session()
            session.recover()
            result = session.run(views or None, full=full)
        self.settle_due(result.frame, everything=settle)
        return result

    def refresh(self, *views: str, full: bool = False, settle: bool = False) -> Frame:
        """Bring all views (or the named ones and what they read) to the sources' present state, as the
        next frame."""
        return self.maintain(views, full=full, settle=settle).frame

    def settle_due(self, frame: Frame | None = None, *, everything: bool = False) -> None:
        """Fold change files into plain tables where the bound is reached (or everywhere)."""
        frame = frame or self.lake.newest()
        for name in frame.views if frame else ():
            assert frame is not None
            view = frame.views[name]
            if view.changes and (everything or due(view, self.project.settle, self._published)):
                frame = settle(self.lake, self.engine, frame, name, self.observe) or self.frame()

    def _published(self, number: int) -> datetime | None:
        """When a frame was published; None where it is forgotten."""
        if number not in self._times:
            try:
                self._times[number] = datetime.fromisoformat(self.lake.frame(number).published_at)
            except LakeError:
                return None
        return self._times[number]

    def moved(self) -> bool:
        """Whether a session now could show something the newest frame does not. A stopped view is tried
        again only when its text or its sources are not those it was last tried with."""
        frame = self.lake.newest()
        stopped: dict[str, object] = {}
        work = False
        for view in self.definitions().views.values():
            state = frame.views.get(view.name) if frame else None
            if state is None:
                work = True
            elif state.state == STOPPED:
                stopped[view.name] = (view.text.select, log_positions(self.sources, view.sources))
            else:
                behind = transactions_behind(self.sources, view.relations, state)
                work = work or state.definition != view.text.select or any(n != 0 for n in behind.values())
        work = work or any(self._tried.get(name) != now for name, now in stopped.items())
        self._tried = stopped
        return work

    def run(
        self,
        every: float = 1.0,
        *,
        stop: threading.Event | None = None,
        on_result: Any = None,
    ) -> None:
        """Refresh until stopped. Settling goes on in the background; a frame in hand is finished first."""
        stop = stop or threading.Event()
        settler: threading.Thread | None = None
        try:
            while not stop.is_set():
                began = time.monotonic()
                if self.moved():
                    with self.lake.exclusive(WAIT_SECONDS):
                        session = self._session()
                        session.recover()
                        result = session.run()
                    if on_result is not None:
                        on_result(result)
                if settler is None or not settler.is_alive():
                    settler = threading.Thread(target=self._settle_quietly, name="settle", daemon=True)
                    settler.start()
                stop.wait(max(0.0, every - (time.monotonic() - began)))
        finally:
            if settler is not None:
                settler.join()

    def _settle_quietly(self) -> None:
        """Settling only moves rows into another form; what fails now is tried again at the next frame."""
        with suppress(StillframeError):
            self.settle_due()

    # -- reading

    def frame(self, number: int | None = None) -> Frame:
        frame = self.lake.newest() if number is None else self.lake.frame(number)
        if frame is None:
            raise LakeError("there is no frame yet", hint="run `stillframe refresh`", code="NO_SUCH_FRAME")
        return frame

    def _state(self, name: str, number: int | None) -> ViewState:
        frame = self.frame(number)
        for known, view in frame.views.items():
            if known.lower() == name.lower():
                if view.vector is None:
                    reason = view.reason or {}
                    raise StillframeError(
                        f"view {known} has no content: {reason.get('message', 'it never could be computed')}",
                        hint=reason.get("hint", ""),
                        code=reason.get("code", "STOPPED"),
                    )
                return view
        raise unknown_view(name, frame.views)

    def view(self, name: str, frame: int | None = None) -> DataFrame:
        """The rows of a view in the newest (or another) frame, as a DataFrame of the caller's session. Its
        files are fixed: later frames do not change it."""
        state = self._state(name, frame)
        with engine_errors():
            return content(self.engine.caller, self.lake.path, state)

    def arrow(self, name: str, frame: int | None = None) -> pa.Table:
        """The rows of a view as an Arrow table, which Polars, DuckDB and pandas take as it is."""
        with engine_errors():
            return self.view(name, frame).toArrow()

    def query(self, sql: str, frame: int | None = None) -> DataFrame:
        """Spark SQL over the views of one frame."""
        session = self.engine.maintenance
        with engine_errors():
            for name, state in self.frame(frame).views.items():
                if state.vector is not None:
                    content(session, self.lake.path, state).createOrReplaceTempView(name)
            return session.sql(sql)

    def frames(self, limit: int | None = None) -> list[Frame]:
        return self.lake.history(limit)

    # -- knowing

    def verify(self, *views: str, frame: int | None = None) -> dict[str, Verification] | Verification:
        """Compare views with their sources at the frame's own vector. One name gives one Verification."""
        found = self.verify_all(views, frame=frame)
        return found[views[0]] if len(views) == 1 else found

    def verify_all(self, views: Sequence[str] = (), *, frame: int | None = None) -> dict[str, Verification]:
        at = self.frame(frame)
        verifier = Verifier(self.lake, lambda: self.engine, self.sources, self.definitions())
        with_content = [name for name, state in at.views.items() if state.vector is not None]
        found = {name: self._verified(verifier, at, name) for name in views or with_content}
        self._remember(found)
        for name, verification in found.items():
            wrong = verification.missing + verification.extra
            self.metrics.observe("stillframe_verify_mismatch_rows", wrong, view=name)
        return found

    def _verified(self, verifier: Verifier, at: Frame, name: str) -> Verification:
        """The logs of the sources must reach back to the newest frame; that they do not is drift, too. To
        an older frame they need not."""
        try:
            return verifier.verify(at, name)
        except CaptureGap as gap:
            newest = self.lake.newest()
            if newest is None or at.number != newest.number:
                raise
            return Verification(view=name, frame=at.number, ok=False, reason=gap.message, error=gap)

    def _remember(self, found: Mapping[str, Verification]) -> None:
        path = self.lake.path / VERIFIED
        known = self.verified_through()
        known.update({name: v.frame for name, v in found.items() if v.ok and v.frame >= known.get(name, 0)})
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(known), encoding="utf-8")
        temporary.replace(path)

    def verified_through(self) -> dict[str, int]:
        path = self.lake.path / VERIFIED
        with suppress(OSError, ValueError):
            return dict(json.loads(path.read_text(encoding="utf-8")))
        return {}

    def check(self, *, offline: bool = False) -> dict[str, dict[str, Any]]:
        """For each view: whether and how it can be maintained."""
        definitions = self.definitions(offline=offline)
        found: dict[str, dict[str, Any]] = {}
        for name in definitions.texts:
            view = definitions.views.get(name)
            found[name] = {
                "ok": view is not None,
                "level": view.level if view else None,
                "algorithm": view.algorithm if view else None,
                "incremental": view is not None and view.policy != "full",
                "reasons": [
                    {
                        "code": r.code,
                        "message": r.message,
                        "hint": r.hint,
                        "file": definitions.texts[name].origin,
                        "line": r.line,
                        "column": r.column,
                        "text": r.snippet,
                    }
                    for r in definitions.refused.get(name, ())
                ],
            }
        return found

    def plan(self, name: str) -> dict[str, Any]:
        """The change plan of a view, as data: what `refresh` runs."""
        definitions = self.definitions()
        view = definitions.views.get(name)
        if view is None:
            raise unknown_view(name, definitions.texts, definitions.refused.get(name))
        frame = self.lake.newest()
        state = frame.views.get(name) if frame else None
        pending = transactions_behind(self.sources, view.relations, state) if state and state.vector else {}
        return explain(view, pending, self.sources)

    def status(self) -> dict[str, Any]:
        """Where every view and every source stands."""
        frame = self.lake.newest()
        return {
            "frame": frame.number if frame else None,
            "published_at": frame.published_at if frame else None,
            "views": self._view_status(frame) if frame else {},
            "sources": {
                name: source_status(source, self.project.name, self.metrics)
                for name, source in self.sources.items()
            },
            "settle_bound": asdict(self.project.settle),
        }

    def _view_status(self, frame: Frame) -> dict[str, dict[str, Any]]:
        verified = self.verified_through()
        return view_status(frame, self.lake, self.sources, self.definitions(), verified, self.metrics)

    # -- sources

    def _tables(self) -> dict[str, list[str]]:
        found: dict[str, set[str]] = {}
        for view in self.definitions().views.values():
            for relation in view.relations:
                source, table = relation.split(".", 1)
                found.setdefault(source, set()).add(table)
        return {source: sorted(tables) for source, tables in found.items()}

    def attach(self) -> dict[str, list[str]]:
        """Install change capture for every relation a view reads."""
        tables = self._tables()
        for source, names in tables.items():
            self.sources[source].attach(self.project.name, names)
        return tables

    def detach(self) -> None:
        """Remove this warehouse's capture from all sources; the last warehouse leaves no trace."""
        for source in self.sources.values():
            source.detach(self.project.name)

    # -- changing what there is

    def drop(self, name: str) -> Frame | None:
        """Forget a view: its text, and its place in the next frame. Its files go with the next vacuum."""
        with self.lake.exclusive(WAIT_SECONDS):
            return drop(self.lake, self.definitions(), self.definitions_folder, name)

    def rename(self, name: str, new: str) -> Frame | None:
        """Give a view another name, in its text and in the next frame; its content goes along."""
        with self.lake.exclusive(WAIT_SECONDS):
            return rename(self.lake, self.definitions(), self.definitions_folder, name, new)

    # -- housekeeping

    def compact(self) -> None:
        """Settle every view, and keep the history of frames quick to open."""
        self.settle_due(everything=True)
        with self.lake.exclusive(WAIT_SECONDS):
            self.lake.compact()

    def vacuum(self, retention: timedelta | None = None) -> Vacuumed:
        """Remove frames older than the retention and the files only they need."""
        with self.lake.exclusive(WAIT_SECONDS):
            self.lake.sweep()
            return self.lake.vacuum(self.project.retention if retention is None else retention)


def open_project(path: str | Path, *, observe: Observer = unobserved) -> Warehouse:
    return Warehouse(project=load_project(Path(path).resolve()), observe=observe)


def _bare_project(path: Path, sources: Mapping[str, str | Mapping[str, Any]], name: str) -> Project:
    configs = {
        source: SourceConfig(config) if isinstance(config, str) else SourceConfig(**config)
        for source, config in sources.items()
    }
    return Project(name=name, root=Path.cwd(), warehouse=path.resolve(), sources=configs)


__all__ = ["Busy", "Warehouse", "open_project"]
