"""First loads: the relations of a new view are read while their writers go on, chunk by chunk.

Law: every chunk is a range of a key, read in a snapshot of its own and taken back to one vector p by the
changes logged since p; the chunks of a relation are therefore the relation at p, whenever each was read.
Capture begins before p is fixed, and the logs are kept from p on until the view is published. A chunk is
there whole or not at all, so a load that was interrupted goes on with the next one.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from stillframe.algebra import scans
from stillframe.change import columns_read
from stillframe.engine import Engine, Staged, counts_one, stage
from stillframe.errors import GAPS, Busy, SourceError, StillframeError
from stillframe.lake.layout import attempt_name, encode_name
from stillframe.lake.lock import exclusive
from stillframe.runtime.begun import Begun
from stillframe.runtime.definitions import View, by_source
from stillframe.runtime.outcome import Observer, Step
from stillframe.sources.base import Position, Range, Source

FOLDER = "loading"
PLAN = "plan.json"
CHUNK_ROWS = 250_000
ATTEMPTS = 3
WAIT_SECONDS = 24 * 3600.0


@dataclass(frozen=True)
class Loaded:
    """The relations of a view at one vector, in files; `text` says of which view."""

    text: str
    vector: Mapping[str, Position]
    relations: Mapping[str, Staged]

    def fits(self, view: View) -> bool:
        """Whether it is what the view reads now."""
        return self.text == _text(view)


@dataclass(frozen=True)
class _Relation:
    name: str
    positions: tuple[int, ...]
    ranges: tuple[Range | None, ...]
    rows: int


@dataclass(frozen=True)
class _Plan:
    text: str
    vector: Mapping[str, Position]
    relations: tuple[_Relation, ...]

    def to_json(self) -> dict[str, Any]:
        return {
            "text": self.text,
            "vector": {source: position.to_json() for source, position in self.vector.items()},
            "relations": [
                [r.name, r.positions, [[x.column, x.above, x.upto] if x else None for x in r.ranges], r.rows]
                for r in self.relations
            ],
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> _Plan:
        return cls(
            document["text"],
            {source: Position.from_json(position) for source, position in document["vector"].items()},
            tuple(
                _Relation(name, tuple(positions), tuple(Range(*x) if x else None for x in ranges), rows)
                for name, positions, ranges, rows in document["relations"]
            ),
        )


class Loader:
    """Loads of one warehouse. `chunk` is about how many rows are read at a time; a view over fewer needs no
    load."""

    def __init__(
        self,
        lake: Path,
        engine: Callable[[], Engine],
        sources: Mapping[str, Source],
        consumer: str,
        observe: Observer,
        chunk: int = CHUNK_ROWS,
    ) -> None:
        self._root = lake / FOLDER
        self._engine = engine
        self._sources = sources
        self._consumer = consumer
        self._observe = observe
        self._chunk = chunk

    def large(self, view: View) -> bool:
        """Whether a view is worth a load of its own."""
        rows = 0
        for relation in view.relations:
            source, table = relation.split(".", 1)
            try:
                rows += self._sources[source].rows(table)
            except SourceError:
                return False
        return rows > self._chunk

    def load(self, view: View) -> Loaded:
        """Begin a load, or go on with one; two processes do not do it at once."""
        folder = self._root / encode_name(view.name)
        with _alone(folder):
            for _ in range(ATTEMPTS - 1):
                try:
                    return self._loaded(view, folder)
                except StillframeError as error:
                    if error.code not in GAPS:
                        raise
                    _empty(folder)  # a log was trimmed: what was read belongs to a state that is gone
            return self._loaded(view, folder)

    def _loaded(self, view: View, folder: Path) -> Loaded:
        plan = _read(folder)
        if plan is None or plan.text != _text(view):
            _empty(folder)
            plan = self._begun(view, folder)
        for draft in folder.glob(".*-*"):
            shutil.rmtree(draft, ignore_errors=True)
        pace = _Pace(sum(r.rows for r in plan.relations), view.name)
        found = {}
        schemas = {scan.relation: scan.schema for scan in scans(view.plan)}
        for i, relation in enumerate(plan.relations):
            source, table = relation.name.split(".", 1)
            schema = schemas[relation.name]
            types = [schema[position].type for position in relation.positions]
            columns = [schema[position].name for position in relation.positions]
            files: list[Path] = []
            for j, within in enumerate(relation.ranges):
                chunk = folder / f"{i}-{j}"
                if not chunk.is_dir():
                    read = partial(
                        self._sources[source].state, table, columns, plan.vector[source], None, within
                    )
                    draft = folder / f".{attempt_name()}"
                    staged = stage(self._engine, read, relation.positions, types, draft)
                    if not staged.files:
                        draft.mkdir(exist_ok=True)
                    draft.rename(chunk)
                here = sorted(p for p in chunk.glob("*.parquet") if p.name[0] not in "._")
                pace.add(sum(pq.read_metadata(path).num_rows for path in here))
                files += here
                self._observe(Step.LOADED, pace.told(relation.name))
            rows = sum(pq.read_metadata(path).num_rows for path in files)
            found[relation.name] = Staged(
                tuple(files), relation.positions, tuple(types), rows, counts_one(files), small=False
            )
        return Loaded(plan.text, plan.vector, found)

    def _begun(self, view: View, folder: Path) -> _Plan:
        """Capture first, then the ranges, whose outer ends are open, so that they cover every state; then the
        vector. Once the plan is written the logs are kept: a vector that was trimmed before is no use."""
        for source, tables in by_source(view.relations).items():
            began = self._sources[source].attach(self._consumer, tables)
            Begun(self._root.parent).note(source, began)
        columns = columns_read(view.plan)
        relations = []
        for relation in view.relations:
            source, table = relation.split(".", 1)
            ranges = self._sources[source].ranges(table, self._chunk)
            bounds = [bound for one in ranges for bound in (one.above, one.upto) if bound is not None]
            whole = not ranges or not all(isinstance(bound, int | str) for bound in bounds)
            rows = self._sources[source].rows(table)
            positions = tuple(sorted(columns[relation]))
            relations.append(_Relation(relation, positions, (None,) if whole else ranges, rows))
        plan = _Plan(_text(view), self._vector(view), tuple(relations))
        folder.mkdir(parents=True, exist_ok=True)
        draft = folder / f".{PLAN}"
        draft.write_text(json.dumps(plan.to_json()), encoding="utf-8")
        draft.replace(folder / PLAN)
        for source, tables in by_source(view.relations).items():
            self._sources[source].check(plan.vector[source], tables)
        return plan

    def _vector(self, view: View) -> dict[str, Position]:
        tables = by_source(view.relations)
        return {source: self._sources[source].position(self._consumer, tables[source]) for source in tables}

    def kept(self) -> Iterator[tuple[str, Position]]:
        """What running and interrupted loads still need of each source."""
        for folder in self._root.iterdir() if self._root.is_dir() else ():
            plan = _read(folder)
            if plan is not None:
                yield from plan.vector.items()

    def keep_only(self, views: Iterable[str]) -> None:
        """Forget loads of views that are published, or gone."""
        wanted = {encode_name(view) for view in views}
        for folder in list(self._root.iterdir()) if self._root.is_dir() else ():
            if folder.is_dir() and folder.name not in wanted:
                with suppress(Busy), _alone(folder, wait=0.0):  # another process may be loading it
                    shutil.rmtree(folder, ignore_errors=True)


class _Pace:
    """How fast a load goes. What an earlier process read counts as done, not as speed."""

    def __init__(self, total: int, view: str) -> None:
        self._total = max(total, 1)
        self._view = view
        self._began = time.monotonic()
        self._done = self._read = 0

    def add(self, rows: int) -> None:
        self._done += rows
        if time.monotonic() - self._began > 0.5:
            self._read += rows

    def told(self, relation: str) -> str:
        share = min(self._done / self._total, 1.0)
        rate = self._read / max(time.monotonic() - self._began, 0.001)
        left = f", {max(self._total - self._done, 0) / rate:,.0f} s left" if rate else ""
        bar = "━" * round(20 * share) + "─" * (20 - round(20 * share))
        return f"{self._view} {bar} {share:4.0%} {relation} {rate:,.0f} rows/s{left}"


def _text(view: View) -> str:
    """What a load rests on: the text, and the columns it reads by name and type."""
    schemas = {scan.relation: scan.schema for scan in scans(view.plan)}
    read = {
        relation: [[i, schemas[relation][i].name, str(schemas[relation][i].type)] for i in sorted(positions)]
        for relation, positions in columns_read(view.plan).items()
        if relation in view.relations
    }
    return json.dumps([view.text.select, view.schema.to_json(), read], sort_keys=True)


def _read(folder: Path) -> _Plan | None:
    try:
        return _Plan.from_json(json.loads((folder / PLAN).read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _empty(folder: Path) -> None:
    shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def _alone(folder: Path, wait: float = WAIT_SECONDS) -> Iterator[None]:
    folder.parent.mkdir(parents=True, exist_ok=True)
    name = hashlib.sha256(folder.name.encode()).hexdigest()[:16]  # a view's name may be as long as a file's
    with exclusive(folder.parent / f".{name}.lock", wait):
        yield
