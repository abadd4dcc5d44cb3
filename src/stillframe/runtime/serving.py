"""Views that are served as records: a session's piece of the logs is brought into a store by view managers.

    fix the piece (durably) → fence → managers → the piece is done (durably) → the frame is published

A piece that was begun is finished before another begins, with the very bounds it began with: so each of its
entries has the position it had (`records.entry`), and what a killed session did of it is recognised. Where
the records stand is said by a file of their own, not by the frame: a frame that was never published leaves
them ahead of it, which harms nobody; the logs reach back to the frame."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, closing
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

from stillframe.engine import Engine, staged_by_task
from stillframe.engine.managers import Work, columns_needed, manage
from stillframe.errors import ProjectError, StillframeError
from stillframe.lake.frame import ViewState
from stillframe.lake.layout import sync
from stillframe.records.book import Book, read_book, write_book
from stillframe.records.keeping import state_of
from stillframe.records.manager import Manager, Tally, forget
from stillframe.records.store import Key, RecordStore, StoreError, Write
from stillframe.records.stores.opening import open_store
from stillframe.runtime.checking import as_records
from stillframe.runtime.definitions import Definitions, View
from stillframe.sources.base import Position, Source

FOLDER = "records"
_VARIABLE = re.compile(r"\$\{(\w+)\}")

Vector = Mapping[str, Position]


@dataclass(frozen=True)
class Piece:
    """Where the records of a view stand: the last piece of the logs, `done` or begun. `since` is the session
    in which the view was loaded last; `of` tells the view's text, place and columns from others, `owner` this
    warehouse's records from those of another."""

    owner: str
    of: str
    session: int
    since: int
    after: dict[str, Any]
    upto: dict[str, Any]
    done: bool

    @property
    def loads(self) -> bool:
        return self.since == self.session


@dataclass(frozen=True)
class Place:
    """Whose records these are, and where relative paths begin."""

    project: str
    root: Path

    def opener(self, view: View, epoch: int = 0) -> Callable[[], RecordStore]:
        """Opens the store of a view; small, and meant to travel into tasks."""
        assert view.served is not None
        url = _url(view)
        scheme, _, path = url.partition(":///")
        if scheme == "sqlite" and path and not path.startswith("/"):
            url = f"sqlite:///{self.root.absolute() / path}"
        return partial(open_store, url, self.project, view.name, view.schema, view.served.key, epoch)

    def open(self, view: View, epoch: int = 0) -> AbstractContextManager[RecordStore]:
        return closing(self.opener(view, epoch)())


def _url(view: View) -> str:
    """Where a view is served, with what its variables hold."""

    def value(match: re.Match[str]) -> str:
        found = os.environ.get(match[1])
        if found is None:
            raise ProjectError(
                f"view {view.name} is served at a place that uses ${{{match[1]}}}, which is not set",
                hint=f"export {match[1]}=… and try again",
            )
        return found

    return _VARIABLE.sub(value, view.text.options["serve"])


def served_view(definitions: Definitions, name: str) -> View:
    for known, view in definitions.shown.items():
        if known.lower() == name.lower():
            if view.served is None:
                raise ProjectError(
                    f"view {known} is not served as records", hint="give it WITH (serve = '…')"
                )
            return view
    raise definitions.unknown(name)


def one_record(view: View, place: Place, key: Mapping[str, Any]) -> dict[str, Any] | None:
    with place.open(view) as store:
        (record,) = store.read([record_key(view, key)])
    return None if record.shown is None else dict(zip(view.schema.names, record.shown, strict=True))


def all_records(view: View, place: Place) -> list[tuple[Any, ...]]:
    """As they are now, one after the other."""
    with place.open(view) as store:
        return list(store.scan())


def records_of_frame(serving: Serving, view: View, state: ViewState) -> list[tuple[Any, ...]]:
    """All records, if they are those of a frame and no session is at work on them."""
    before = serving.piece(view)
    rows = all_records(view, serving.place)
    if before is None or not before.done or before.upto != state.vector or before != serving.piece(view):
        raise StillframeError(
            f"the records of view {view.name} are on their way to another state than the frame shows",
            hint="try again when the session is done, or refresh",
            code="FRAME_EXPIRED",
        )
    return rows


def record_plan(view: View) -> dict[str, Any]:
    """How a view that is served is kept, as data."""
    assert view.served is not None
    return {
        "view": view.name,
        "level": view.level,
        "algorithm": view.algorithm,
        "why": view.why,
        "relations": list(view.relations),
        "key": [view.schema[i].name for i in view.served.key],
        "records": as_records(view.served),
    }


def record_key(view: View, given: Mapping[str, Any]) -> Key:
    """The record that these values name."""
    assert view.served is not None
    names = [view.schema[i].name for i in view.served.key]
    values = {name.lower(): value for name, value in given.items()}
    if values.keys() != {name.lower() for name in names}:
        raise ProjectError(
            f"a record of view {view.name} is found by {', '.join(names) or 'nothing: it has one record'}",
            detail=f"given: {', '.join(given) or 'nothing'}",
        )
    return Key(tuple(values[name.lower()] for name in names))


@dataclass
class Serving:
    root: Path
    engine: Callable[[], Engine]
    sources: Mapping[str, Source]
    place: Place

    def bring(self, view: View, vector: Vector, staging: Path, *, anew: bool) -> tuple[Tally, bool]:
        """The records of a view to a state of its sources; and whether they were loaded anew."""
        upto = {name: vector[name].to_json() for name in sorted(view.sources)}
        epoch, found = self._epoch(view), None if anew else self._to_go_on_from(view)
        total = Tally()
        if found is None:
            last = self.piece(view)
            session = max(last.session if last else 0, epoch) + 1
            piece = Piece(uuid4().hex, _identity(view), session, session, {}, upto, done=False)
            return self._run(view, piece, staging / "load"), True
        if not found.done:
            total += self._run(view, found, staging / "again")
        if found.upto != upto:
            after = dict(found.upto)
            piece = replace(found, session=found.session + 1, after=after, upto=upto, done=False)
            total += self._run(view, piece, staging / "next")
        return total, False

    def stands(self, view: View) -> dict[str, Position]:
        """The state of the sources that the records of a view have reached, or are on their way to."""
        found = self.piece(view)
        return {name: Position.from_json(at) for name, at in (found.upto if found else {}).items()}

    def _to_go_on_from(self, view: View) -> Piece | None:
        """The last piece, if it is of this view and the store holds what it says. A store that was emptied,
        set back, or written by another warehouse of the name is loaded anew; so is a load that did not
        end."""
        found = self.piece(view)
        if found is None or found.of != _identity(view) or (found.loads and not found.done):
            return None
        with self.place.open(view) as store:
            book = read_book(store)
        ways = [Book(found.owner, found.session, True)]
        if not found.done:
            ways += [Book(found.owner, found.session, False), Book(found.owner, found.session - 1, True)]
        return found if book in ways else None

    def _epoch(self, view: View) -> int:
        """The last session of whoever served a view of this name there, this warehouse or one before it."""
        with self.place.open(view) as store:
            try:
                store.create()
            except StoreError as error:
                if error.code != "STORE_TAKEN" or self.piece(view) is None:
                    raise
                store.drop()  # ours, from when the view had other columns
                store.create()
            return store.fenced()

    def _run(self, view: View, piece: Piece, staging: Path) -> Tally:
        way = view.served
        assert way is not None
        self._write(view, piece)
        with self.place.open(view, piece.session) as store:
            store.create()
            store.fence(piece.session)
            write_book(store, Book(piece.owner, piece.session, False))
            forget(store, piece.session - 1)
            if piece.loads and way.is_one:
                Manager(way, store, lambda questions: (), since=piece.since).begin(piece.session)
        upto = {name: Position.from_json(at) for name, at in piece.upto.items()}
        after = {name: Position.from_json(at) for name, at in piece.after.items()}
        base = tuple(
            (self.sources[source], table, upto[source])
            for source, table in (side.relation.split(".", 1) for side in way.sides)
        )
        opener = self.place.opener(view, piece.session)
        total = Tally()
        # Partners before the rows that refer to them.
        for turn, number in enumerate(reversed(range(len(way.sides)))):
            side, (source, table, at) = way.sides[number], base[number]
            columns = columns_needed(side)
            names = [side.schema[i].name for i in columns]
            types = [side.schema[i].type for i in columns]
            name = side.relation.split(".", 1)[0]
            if not piece.loads and not source.transactions([table], after[name], at):
                continue
            read = (
                partial(source.state, table, names, at)
                if piece.loads
                else partial(source.changes, table, names, after[name], at)
            )
            engine = self.engine()
            rows = staged_by_task(engine, read, columns, types, staging / str(number))
            work = Work(way, number, turn, piece.session, piece.since, columns, opener, base)
            total += manage(engine, rows.files, work)
        if piece.loads:
            self._clear(view, piece)
        with self.place.open(view, piece.session) as store:
            write_book(store, Book(piece.owner, piece.session, True))
        self._write(view, replace(piece, done=True))
        return total

    def _clear(self, view: View, piece: Piece) -> None:
        """Records that were shown before the view was loaded anew, and that nothing touched since."""
        assert view.served is not None
        with self.place.open(view, piece.session) as store:
            for some in _some(store.scan(), 500):
                keys = [Key(tuple(row[i] for i in view.served.key)) for row in some]
                old = [
                    Write(key, version, None)
                    for key, (version, kept) in zip(keys, store.kept(keys), strict=True)
                    if kept and state_of(kept).signature.session < piece.since
                ]
                store.test_and_set(old)

    def _path(self, view: View) -> Path:
        return self.root / FOLDER / f"{hashlib.sha256(view.name.encode()).hexdigest()[:16]}.json"

    def piece(self, view: View) -> Piece | None:
        try:
            return Piece(**json.loads(self._path(view).read_text(encoding="utf-8")))
        except (FileNotFoundError, ValueError, TypeError):
            return None

    def _write(self, view: View, piece: Piece) -> None:
        path = self._path(view)
        path.parent.mkdir(parents=True, exist_ok=True)
        new = path.with_suffix(".new")
        new.write_text(json.dumps(asdict(piece)), encoding="utf-8")
        sync(new)
        new.replace(path)
        sync(path.parent)


def _some(rows: Iterable[Any], size: int) -> Iterable[list[Any]]:
    some: list[Any] = []
    for row in rows:
        some.append(row)
        if len(some) == size:
            yield some
            some = []
    if some:
        yield some


def _identity(view: View) -> str:
    """Of the text, the columns and the place, without what its variables hold."""
    told = [view.text.select, view.text.options.get("serve"), view.schema.to_json(), view.level, view.served]
    return hashlib.sha256(repr(told).encode()).hexdigest()[:16]
