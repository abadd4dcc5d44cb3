"""The warehouse: one object that opens a project and does what the command line and Python users ask."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from stillframe.change.propagation import Family, Tree
from stillframe.engine import (
    Engine,
    Room,
    adopt,
    engine_errors,
    is_beside,
    open_engine,
    room_within,
    view_struct,
)
from stillframe.errors import Busy, LakeError, ProjectError, SourceError, StillframeError
from stillframe.lake import Lake
from stillframe.lake.frame import RECORDS, Frame, ViewState
from stillframe.lake.reader import content, frame_query
from stillframe.lake.storage import Vacuumed
from stillframe.lake.warm import WARM
from stillframe.runtime.ahead import Ahead
from stillframe.runtime.alter import drop, rename
from stillframe.runtime.begun import Begun
from stillframe.runtime.catalog import Reached, reach, reached_or_remembered, store, stored
from stillframe.runtime.checking import check_views, unpublished, writer_for
from stillframe.runtime.choosing import UNREACHED, Offer
from stillframe.runtime.config import DRIVER, ENGINES, SCHEMAS, Project, bare_project, load_project
from stillframe.runtime.copying import Copying
from stillframe.runtime.definitions import COPIES, Definitions, read_texts, resolve_all, trusted, unknown_view
from stillframe.runtime.evaluating import MOST_ROWS
from stillframe.runtime.explain import explain, survey
from stillframe.runtime.loading import Loader
from stillframe.runtime.loads import Loads
from stillframe.runtime.loop import Waiting, Watch, run
from stillframe.runtime.metrics import Metrics
from stillframe.runtime.outcome import Observer, Result, unobserved
from stillframe.runtime.pace import Pace
from stillframe.runtime.serving import (
    Place,
    Serving,
    all_records,
    one_record,
    record_plan,
    records_of_frame,
    served_view,
)
from stillframe.runtime.session import Session
from stillframe.runtime.settle import Due, due, merge, settle
from stillframe.runtime.statistics import read_statistics
from stillframe.runtime.status import source_status, view_status, waiting_since
from stillframe.runtime.verify import FRAME_EXPIRED, Verification, VerifiedFrames, Verifier
from stillframe.sources import open_source
from stillframe.sources.base import Relation, Source
from stillframe.sources.opening import TRUSTED
from stillframe.sql import parse_views

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

WAIT_SECONDS = 60.0
VERIFY_ATTEMPTS = 5
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
            project = bare_project(Path(path), sources or {}, name)
        self.project = project
        self.metrics = Metrics()
        self.observe = observe
        self._spark = spark
        self._engine = engine
        self._engine_is_mine = engine is None
        self._engine_lock = threading.Lock()
        self._times: dict[int, datetime] = {}
        self._watch = Watch()
        self._trees: dict[tuple[object, ...], Tree] = {}
        self._ahead: Ahead | None = None
        self.pace = None if project.target_lag is None else Pace(project.target_lag)
        self._verified = VerifiedFrames(project.warehouse)
        self._definitions: tuple[object, Definitions] | None = None
        self._copying = Copying(project)
        self.sources: dict[str, Source] = {
            source: open_source(source, config, base=project.root, keep=project.warehouse / "snapshots")
            for source, config in project.sources.items()
        }
        self._loads = Loads(self._loader, self.sources)
        _refuse_twins(self.sources)
        self._lake = _lake_at(project.warehouse)
        if project.memory is not None:
            WARM.limit(project.memory)

    def __enter__(self) -> Warehouse:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop the engine, if this warehouse started it, and let go what is held of the lake."""
        WARM.keep(self.project.warehouse, ())
        if self._engine is not None and self._engine_is_mine:
            self._engine.close()
            self._engine = None

    @property
    def engine(self) -> Engine:
        """The engine, started when it is first needed."""
        with self._engine_lock:
            if self._engine is None:
                self._engine = adopt(self._spark) if self._spark else open_engine(self.project.spark)
            return self._engine.awake()

    @property
    def room(self) -> Room:
        """How much the driver takes upon itself. Of a caller's session, it is told when it is first used."""
        if self._engine is None:
            beside = self._spark is None and is_beside(self.project.spark)
        else:
            beside = self._engine.is_beside
        return room_within(WARM.room) if beside else Room()

    # -- the lake

    @property
    def lake(self) -> Lake:
        """Frames and their files."""
        found = self._lake_if_there()
        if found is None:
            raise LakeError(
                f"there is no warehouse at {self.project.warehouse}",
                hint="`stillframe refresh` makes it, if that is where it belongs",
                code="NO_WAREHOUSE",
            )
        return found

    def _lake_if_there(self, *, create: bool = False) -> Lake | None:
        """Only what defines or maintains views creates a warehouse; whoever looks for one finds it or not."""
        if self._lake is None:
            self._lake = _lake_at(self.project.warehouse, create=create)
        return self._lake

    def _newest(self) -> Frame | None:
        lake = self._lake_if_there()
        return lake.newest() if lake else None

    # -- definitions

    @property
    def definitions_folder(self) -> Path:
        views = self.project.views
        return views if views.is_dir() else self.project.warehouse / "definitions"

    def catalog(self, *, offline: bool = False) -> dict[str, dict[str, Relation]]:
        """The sources' relations: as they are now, or as the stored snapshot has them."""
        if offline:
            return stored(self.sources, self.project.root / SCHEMAS).relations
        return {name: source.describe() for name, source in self.sources.items()}

    def store_schemas(self) -> Path:
        """Write the snapshot that `check --offline` reads."""
        path = self.project.root / SCHEMAS
        store(self.sources, path)
        return path

    def _reached(self, *, offline: bool = False) -> Reached:
        if offline:
            return stored(self.sources, self.project.root / SCHEMAS)
        return reach(self.sources, self.project.warehouse / CATALOG)

    def unreachable(self) -> Mapping[str, StillframeError]:
        """The sources that do not answer, and why."""
        return self._reached().away

    def definitions(self, *, offline: bool = False) -> Definitions:
        return self._resolved(self._reached(offline=offline))

    def _resolved(self, reached: Reached) -> Definitions:
        texts = read_texts(self.definitions_folder)
        unreached = reached.unreached
        known = (texts, reached.relations, [str(error) for error in unreached.values()])
        if self._definitions is None or self._definitions[0] != known:
            resolved = resolve_all(texts.views, reached.relations, texts.unreadable, unreached, self._offer)
            sure = [name for name, config in self.project.sources.items() if config.foreign_keys == TRUSTED]
            resolved = replace(resolved, references=trusted(reached.relations, sure))
            self._definitions = (known, resolved)
        return self._copying.over(self._definitions[1], self._newest)

    def _offer(self, source: str) -> Offer:
        """Of a source that cannot be reached, what is likely: nothing is computed before it is reached."""
        try:
            return Offer.of(self.sources[source])
        except SourceError:
            return UNREACHED

    def create_view(self, name: str, select: str, **options: str) -> None:
        """Define a view; the next refresh makes it. Refused text raises, and nothing is kept."""
        settings = ", ".join(f"{key} = '{value}'" for key, value in options.items())
        options_text = f" WITH ({settings})" if settings else ""
        query = select.strip().rstrip(";")
        text = f"CREATE MATERIALIZED VIEW `{name}`{options_text} AS\n{query};\n"
        (parsed,) = parse_views(text, f"{name}.sql")
        existing = read_texts(self.definitions_folder)
        if any(other.name.lower() == name.lower() for other in existing.views):
            raise ProjectError(f"there is a view {name} already", hint="drop it first, or edit its text")
        if re.search(r"://[^/@\s]*:(?!\$\{)[^/@\s]+@", options.get("serve", "")):
            raise ProjectError(
                "a password would be written into the warehouse",
                hint="give it as ${NAME} in the place, and set NAME in the environment",
            )
        resolved = resolve_all((*existing.views, parsed), self.catalog(), offers=self._offer)
        if parsed.name not in resolved.views:
            raise unknown_view(parsed.name, resolved.views, resolved.refused.get(parsed.name))
        self._lake_if_there(create=True)
        folder = self.definitions_folder
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{re.sub(r'[^A-Za-z0-9_-]', '_', name)}.sql").write_text(text, encoding="utf-8")

    # -- maintaining

    def _session(self) -> Session:
        kind = self._engine.kind if self._engine else self.project.spark.get("engine", ENGINES[0])
        return Session(
            lake=self.lake,
            engine=lambda: self.engine,
            sources=self.sources,
            definitions=self.definitions(),
            consumer=self.project.name,
            metrics=self.metrics,
            observe=self.observe,
            kind=kind,
            small_changes=self.project.small_changes,
            room=self.room,
            settle_rows=self.project.settle.rows,
            trees=self._trees,
            statistics=read_statistics(self.lake.path, kind),
            ahead=self._ahead,
            root=self.project.root,
        )

    def maintain(
        self,
        views: Sequence[str] = (),
        *,
        full: bool = False,
        settle: bool = False,
        wait: float = WAIT_SECONDS,
    ) -> Result:
        """One session, and the settling that is due; see `refresh`."""
        result = self.bring_forward(views, full=full, wait=wait)
        self.settle_due(result.frame, everything=settle)
        return result

    def bring_forward(
        self,
        views: Sequence[str] = (),
        *,
        full: bool = False,
        wait: float = WAIT_SECONDS,
        beside: bool = False,
    ) -> Result:
        """One session alone. Large views that begin are loaded first, while others may go on; `beside` a
        load that runs, they are left out until it is done."""
        self._lake_if_there(create=True)
        if not beside:
            self.load_due(views, full=full, again=True)
        with self.lake.exclusive(wait):
            session = self._session()
            session.recover()
            out = self.loading() if beside else frozenset()
            names = views or None
            if out:
                names = [name for name in session.definitions.views if name not in out]
            result = session.run(
                names,
                full=full,
                loaded=self._loads.ready,
                kept=self._loader().kept(),
                failed=self._loads.failed,
                if_new=beside,
            )
        self._loads.shown({**result.outcomes, **result.parts}, session.definitions, self._newest())
        self._watch.tried()
        return result

    def _loader(self) -> Loader:
        project = self.project
        return Loader(
            project.warehouse,
            lambda: self.engine,
            self.sources,
            project.name,
            self.observe,
            project.load_chunk,
        )

    def loading(self) -> frozenset[str]:
        """Views that are not shown before they, or views they read, are loaded."""
        return self._loads.waiting(self.definitions(), self._newest())

    def load_due(self, views: Sequence[str] = (), *, full: bool = False, again: bool = False) -> None:
        """Load views that begin and are large, beside whatever else goes on."""
        self._loads.load(self.definitions(), self._newest(), views, full=full, again=again)

    def refresh(self, *views: str, full: bool = False, settle: bool = False) -> Frame:
        """Bring all views (or the named ones and what they read) to the sources' present state, as the
        next frame."""
        return self.maintain(views, full=full, settle=settle).frame

    def settle_due(self, frame: Frame | None = None, *, everything: bool = False) -> None:
        """Fold change files into plain tables where the bound is reached (or everywhere); merge them where
        they are many."""
        frame = frame or self._newest()
        for name in frame.views if frame else ():
            assert frame is not None
            view = frame.views.get(name)
            found = due(view, self.project.settle, self._published) if view else None
            if view and view.changes and (everything or found is Due.SETTLING):
                settled = settle(self.lake, lambda: self.engine, frame, name, self.observe, self.room)
                frame = settled or self.frame()
            elif found is Due.MERGING:
                merged = merge(self.lake, lambda: self.engine, frame, name, self.observe, self.room)
                frame = merged or self.frame()

    def _published(self, number: int) -> datetime | None:
        """When a frame was published; None where it is forgotten."""
        if number not in self._times:
            try:
                self._times[number] = datetime.fromisoformat(self.lake.frame(number).published_at)
            except LakeError:
                return None
        return self._times[number]

    def moved(self) -> bool:
        """Whether a session now could show something the newest frame does not."""
        return bool(self.waiting())

    def waiting(self) -> Waiting:
        """What a session now could show that the newest frame does not."""
        return self._watch.waiting(self._newest(), self.definitions(), self.sources, self.loading())

    def waiting_since(self) -> datetime | None:
        """When the oldest change that waits was made, by its writer's clock; None where no source says."""
        frame = self._newest()
        return waiting_since(self.sources, self.definitions(), frame) if frame else None

    def run(
        self,
        every: float = 1.0,
        *,
        stop: threading.Event | None = None,
        on_result: Callable[[Result], None] | None = None,
        on_look: Callable[[Definitions], None] | None = None,
    ) -> None:
        """Refresh until stopped. Settling goes on in the background; a frame in hand is finished first.
        `on_look` gets the views as they are defined, each time changes are looked for."""
        self._lake_if_there(create=True)
        self._ahead = Ahead(
            self.lake,
            lambda: self.engine,
            self.sources,
            self.project.name,
            lambda step, subject: self.observe(step, subject),
            lambda: self.room,
        )
        try:
            run(self, every, stop or threading.Event(), on_result, on_look)
        finally:
            self._ahead.drop()
            self._ahead = None

    # -- reading

    def frame(self, number: int | None = None) -> Frame:
        frame = self.lake.newest() if number is None else self.lake.frame(number)
        if frame is None:
            raise LakeError("there is no frame yet", hint="run `stillframe refresh`", code="NO_SUCH_FRAME")
        return frame

    def _state(self, name: str, number: int | None) -> ViewState:
        frame = self.frame(number)
        for known, view in frame.shown.items():
            if known.lower() == name.lower():
                if view.vector is None:
                    reason = view.reason or {}
                    raise StillframeError(
                        f"view {known} has no content: {reason.get('message', 'it never could be computed')}",
                        hint=reason.get("hint", ""),
                        code=reason.get("code", "STOPPED"),
                    )
                return view
        raise unknown_view(name, frame.shown)

    def view(self, name: str, frame: int | None = None) -> DataFrame:
        """The rows of a view in the newest (or another) frame, as a DataFrame of the caller's session. Its
        files are fixed: later frames do not change it. Of a view that is served, its records as they are
        now."""
        state = self._state(name, frame)
        with engine_errors():
            if state.algorithm == RECORDS:
                newest = self._newest()
                if frame is not None and newest is not None and frame != newest.number:
                    raise LakeError(
                        f"the records of view {name} are those of now, and not of frame {frame}",
                        hint="leave the frame out",
                        code="SERVED",
                    )
                rows = all_records(served_view(self.definitions(), state.table), self._place)
                return self.engine.caller.createDataFrame(rows, view_struct(state.schema, count=False))
            return content(self.engine.caller, self.lake.path, state)

    def record(self, view: str, /, **key: Any) -> dict[str, Any] | None:
        """One record of a view that is served, by the columns of its key; None where there is none."""
        return one_record(served_view(self.definitions(), view), self._place, key)

    @property
    def _place(self) -> Place:
        return Place(self.project.name, self.project.root)

    def arrow(self, name: str, frame: int | None = None) -> pa.Table:
        """The rows of a view as an Arrow table, which Polars, DuckDB and pandas take as it is."""
        with engine_errors():
            return self.view(name, frame).toArrow()

    def query(self, sql: str, frame: int | None = None) -> DataFrame:
        """Spark SQL over the views of one frame."""
        with engine_errors():
            return frame_query(self.engine.maintenance, self.lake.path, self.frame(frame), sql)

    def frames(self, limit: int | None = None) -> list[Frame]:
        lake = self._lake_if_there()
        return lake.history(limit) if lake else []

    # -- knowing

    def verify(self, *views: str, frame: int | None = None) -> dict[str, Verification] | Verification:
        """Compare views with their sources at the frame's own vector. One name gives one Verification."""
        found = self.verify_all(views, frame=frame)
        return found[views[0]] if len(views) == 1 else found

    def verify_all(self, views: Sequence[str] = (), *, frame: int | None = None) -> dict[str, Verification]:
        """Without `frame`, the newest; if a source trims its log meanwhile, the one that is newest then."""
        for name in views:
            if name not in self.frame(frame).shown:
                raise unknown_view(name, self.frame(frame).shown)
        _ = self.engine  # its start may take longer than a frame lasts
        found: dict[str, Verification] = {}
        left: Sequence[str] = views
        for _attempt in range(VERIFY_ATTEMPTS):
            found.update(self._verify_at(self.frame(frame), left))
            left = [n for n, v in found.items() if v.error is not None and v.error.code == FRAME_EXPIRED]
            if frame is not None or not left:
                break
        self._verified.add(found)
        for name, verification in found.items():
            wrong = verification.missing + verification.extra
            self.metrics.observe("stillframe_verify_mismatch_rows", wrong, view=name)
        return found

    def _verify_at(self, at: Frame, views: Sequence[str]) -> dict[str, Verification]:
        catalog = reached_or_remembered(self.sources, self.lake.path / CATALOG)

        def records(name: str) -> list[tuple[Any, ...]]:
            serving = Serving(self.lake.path, lambda: self.engine, self.sources, self._place)
            return records_of_frame(serving, served_view(self.definitions(), name), at.views[name])

        verifier = Verifier(
            self.lake, lambda: self.engine, self.sources, self.project.name, at, catalog, records
        )
        with_content = [name for name, state in at.shown.items() if state.vector is not None]
        return {name: verifier.verify(name) for name in views or with_content}

    def check(self, *, offline: bool = False) -> dict[str, dict[str, Any]]:
        """For each view: whether and how it can be maintained."""
        reached = self._reached(offline=offline)
        writer = self._engine.writer if self._engine else writer_for(self.project.spark)
        return check_views(self._resolved(reached), reached.away, writer)

    def capture(self, name: str) -> dict[str, Any]:
        """How a source's changes are found, and the other ways there are; nothing of one that is away."""
        source = self.sources[name]
        try:
            return {
                "capture": str(source.capture),
                "methods": [
                    {"capture": str(m.capture), "missing": list(m.missing), "gains": m.gains}
                    for m in source.methods()
                ],
            }
        except SourceError:
            return {}

    def plan(self, name: str, expression: str = "tree") -> dict[str, Any]:
        """The change plan of a view, as data: what `refresh` runs. `expression` asks how the change of a join
        would be computed by `all` terms, by `n-term`, or by the `tree` that a refresh chooses."""
        definitions = self.definitions()
        view = definitions.shown.get(name)
        if view is None:
            raise definitions.unknown(name)
        if view.served is not None:
            return record_plan(view)
        frame = self._newest()
        engine = self.project.spark.get("engine", ENGINES[0])
        known = read_statistics(self.project.warehouse, engine)
        units = (view, *(part for part in definitions.views.values() if part.owner == name))
        found = [
            explain(
                each,
                survey(each, definitions, frame.views if frame else {}, self.sources, known),
                self.sources,
                engine,
                Family(expression),
                self.project.warehouse,
                self.project.settle.rows,
                MOST_ROWS if self.project.small_changes == DRIVER else 0,
                self.room,
            )
            for each in units
        ]
        assert self._definitions is not None
        below = (definitions.views[each] for each in definitions.closure(unit.name for unit in units))
        asked = {relation for each in below if each.owner != COPIES for relation in each.relations}
        relations = definitions.base_relations(name)
        copies = self._copying.told(self._definitions[1], frame, relations, asked)
        return {**found[0], "parts": found[1:], "copies": copies}

    def status(self) -> dict[str, Any]:
        """Where every view and every source stands."""
        frame = self._newest()
        return {
            "frame": frame.number if frame else None,
            "published_at": frame.published_at if frame else None,
            "views": self._view_status(frame),
            "waiting": list(frame.waiting) if frame else [],
            "warehouse": str(self.project.warehouse),
            "sources": {
                name: source_status(source, self.project.name, self.metrics)
                for name, source in self.sources.items()
            },
            "settle_bound": asdict(self.project.settle),
            "target_lag": self.project.target_lag,
        }

    def _view_status(self, frame: Frame | None) -> dict[str, dict[str, Any]]:
        definitions, verified = self.definitions(), self._verified.read()
        shown: dict[str, dict[str, Any]] = {}
        if frame is not None:
            target = self.project.target_lag
            shown = view_status(frame, self.lake, self.sources, definitions, verified, self.metrics, target)
        return unpublished(definitions, shown)

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
            began = self.sources[source].attach(self.project.name, names)
            if self._newest() is None:
                Begun(self.project.warehouse).note(source, began)
        return tables

    def detach(self) -> None:
        """Remove this warehouse's capture from all sources; the last warehouse leaves no trace."""
        for source in self.sources.values():
            source.detach(self.project.name)
        Begun(self.project.warehouse).forget(self.sources)

    # -- changing what there is

    def drop(self, name: str) -> Frame | None:
        """Forget a view: its text, and its place in the next frame. Its files go with the next vacuum; if it
        is served, its records go now."""
        with self._alone() as lake:
            view = self.definitions().shown.get(name)
            if view is not None and view.served is not None:
                with self._place.open(view) as records:
                    records.drop()
            frame = drop(lake, self.definitions(), self.definitions_folder, name)
            self._release_unread(lake)
        return frame

    def rename(self, name: str, new: str) -> Frame | None:
        """Give a view another name, in its text and in the next frame; its content goes along."""
        with self._alone() as lake:
            view = self.definitions().shown.get(name)
            if view is not None and view.served is not None:
                raise ProjectError(
                    f"view {name} is served, and programs read its records under that name",
                    hint=f"define {new} beside it, let them read that, and drop {name}",
                )
            return rename(lake, self.definitions(), self.definitions_folder, name, new)

    def _release_unread(self, lake: Lake | None) -> None:
        """End the capture of relations that no view reads any more, neither in a frame nor by its text. A
        text that cannot be resolved may read anything. What fails here is done by `detach`, at the latest."""
        definitions = self.definitions()
        newest = lake.newest() if lake else None
        texts = {name: view.text.select for name, view in definitions.shown.items()}
        shown = {name: state.definition for name, state in newest.shown.items()} if newest else {}
        if definitions.refused or any(texts.get(name) != text for name, text in shown.items()):
            return
        tables = self._tables()
        for name, source in self.sources.items():
            with suppress(StillframeError):
                source.release(self.project.name, tables.get(name, []))

    @contextmanager
    def _alone(self) -> Iterator[Lake | None]:
        """The lake, while no other process works on it; None where there is none yet."""
        lake = self._lake_if_there()
        with lake.exclusive(WAIT_SECONDS) if lake else nullcontext():
            yield lake

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


def _lake_at(path: Path, *, create: bool = False) -> Lake | None:
    """The lake at a path; None where there is none."""
    try:
        nearest = next(place for place in (path, *path.parents) if place.exists())
        if not nearest.is_dir():
            raise NotADirectoryError(f"{nearest} is a file")
        return Lake.open(path, create)
    except LakeError as error:
        if error.code != "NO_WAREHOUSE":
            raise
        return None
    except NotADirectoryError as error:
        raise ProjectError(
            f"the warehouse cannot be at {path}",
            detail=str(error),
            hint="`warehouse:` in stillframe.yml names a folder",
        ) from error


def _refuse_twins(sources: Mapping[str, Source]) -> None:
    """One database under two names would be one consumer at two positions."""
    known: dict[str, str] = {}
    for name, source in sources.items():
        other = known.setdefault(source.address, name)
        if other != name:
            raise ProjectError(
                f"sources {other} and {name} are one database",
                hint=f"keep one of them, and write {other}.table in every view",
            )


__all__ = ["Busy", "Warehouse", "open_project"]
