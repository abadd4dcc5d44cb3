"""View definitions: SQL files to resolved views in the order they must be maintained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from stillframe.algebra import Plan, Schema, normalize, relations
from stillframe.algebra.narrow import narrow
from stillframe.algebra.selection import Selection
from stillframe.change import Refers, selections, split
from stillframe.errors import ProjectError, StillframeError
from stillframe.lake.frame import RECORDS
from stillframe.records.classes import served
from stillframe.records.view import SIGNATURE, NoRecords, Served
from stillframe.runtime.choosing import DEFAULT_LEVEL, NATIVE, Offer, choose
from stillframe.sources.base import Reference, Relation
from stillframe.sql import (
    Names,
    Operator,
    Reason,
    Refused,
    ViewText,
    read_views,
    resolved,
    sources_named,
)

COPIES = "~copies"  # owns the copies of relations
COPY = "copy~"  # before a relation's name: its copy


@dataclass(frozen=True)
class View:
    """A view that can be maintained, or a part of one, its `owner`. `plan` is what is maintained: it reads
    the parts that `query`, the plan of the text, was split into. `reads` are the relations, views and parts
    it reads; `sources` those it depends on through whatever chain of views."""

    text: ViewText
    plan: Plan
    reads: tuple[str, ...]
    upstream: tuple[str, ...]
    sources: frozenset[str]
    level: str = DEFAULT_LEVEL
    algorithm: str = NATIVE
    why: str = ""
    query: Plan | None = None
    owner: str = ""
    operators: tuple[Operator, ...] = ()
    served: Served | None = None  # as records

    @property
    def whole(self) -> Plan:
        return self.query or self.plan

    @property
    def name(self) -> str:
        return self.text.name

    @property
    def schema(self) -> Schema:
        return self.plan.schema

    @property
    def conducted(self) -> bool:
        """Whether a live protocol brings it forward."""
        return self.algorithm not in (NATIVE, RECORDS)

    @property
    def policy(self) -> str:
        return self.text.options.get("refresh_policy", "auto")

    @property
    def relations(self) -> tuple[str, ...]:
        """The sources' relations it reads itself."""
        return tuple(name for name in self.reads if name not in self.upstream)


@dataclass(frozen=True)
class Texts:
    """The files of a project: the views in them, and for each file what in it could not be read."""

    views: tuple[ViewText, ...]
    unreadable: Mapping[str, tuple[Reason, ...]] = field(default_factory=dict)


@dataclass(frozen=True)
class Definitions:
    """Every view of a project: those that resolve, upstream first, and the reasons for those that do not.
    What cannot even be read as a view is refused under its file's name (which no view can have). `away`
    holds those of the refused whose source was never reached."""

    views: Mapping[str, View]
    refused: Mapping[str, tuple[Reason, ...]]
    texts: Mapping[str, ViewText] = field(default_factory=dict)
    away: Mapping[str, StillframeError] = field(default_factory=dict)
    references: Mapping[str, tuple[Reference, ...]] = field(default_factory=dict)  # that are trusted

    @property
    def shown(self) -> dict[str, View]:
        """The views, without their parts."""
        return {name: view for name, view in self.views.items() if not view.owner}

    @property
    def unreadable(self) -> tuple[str, ...]:
        """The files with something in them that is no view."""
        return tuple(name for name in self.refused if name not in self.texts)

    def unknown(self, name: str) -> StillframeError:
        """Why there is no such view."""
        if name in self.away:
            return self.away[name]
        return unknown_view(name, self.texts, self.refused.get(name), self.unreadable)

    def closure(self, names: Iterable[str]) -> tuple[str, ...]:
        """The named views and all they read, upstream first."""
        wanted: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in self.views:
                raise self.unknown(name)
            if name not in wanted:
                wanted.add(name)
                pending += self.views[name].upstream
        return tuple(name for name in self.views if name in wanted)

    def with_parts(self, names: Iterable[str]) -> frozenset[str]:
        """The named views, what they were split into, and the copies that these read."""
        wanted = frozenset(names)
        wanted |= {name for name, view in self.views.items() if view.owner in wanted}
        read = {name for view in self.views.values() if view.name in wanted for name in view.upstream}
        return wanted | {name for name in read if self.views[name].owner == COPIES}

    def selections(self, views: Iterable[View]) -> dict[str, Selection]:
        """What these views ask of changed rows, for their sources to be told. Of a relation that others are
        trusted to refer to, all are read: whether a key is new is told by them."""
        referenced = {one.relation for references in self.references.values() for one in references}
        asked = _selections(tuple(view.plan for view in views))
        return {relation: rows for relation, rows in asked.items() if relation not in referenced}

    def base_relations(self, name: str) -> tuple[str, ...]:
        """The sources' relations a view reads, itself or through the views it reads."""
        found = (relation for one in self.closure([name]) for relation in self.views[one].relations)
        return tuple(dict.fromkeys(found))

    def dependants(self, name: str) -> tuple[str, ...]:
        readers = (view for view in self.views.values() if name in view.upstream)
        return tuple(dict.fromkeys(view.owner or view.name for view in readers))


def trusted(
    catalog: Mapping[str, Mapping[str, Relation]], sources: Iterable[str]
) -> dict[str, tuple[Reference, ...]]:
    """The foreign keys of some sources, between relations as views name them."""
    return {
        f"{source}.{name}": tuple(
            replace(reference, relation=f"{source}.{reference.relation}") for reference in relation.references
        )
        for source in sources
        for name, relation in catalog.get(source, {}).items()
        if relation.references
    }


@lru_cache(maxsize=64)
def _selections(plans: tuple[Plan, ...]) -> dict[str, Selection]:
    return selections(plans)


def referring(
    schemas: Mapping[str, Schema], references: Mapping[str, tuple[Reference, ...]]
) -> dict[str, list[Refers]]:
    """What relations refer to among each other; a copy refers to what its relation does, and to its copy."""
    found: dict[str, list[Refers]] = {}
    for name, schema in schemas.items():
        for reference in references.get(name.removeprefix(COPY), ()):
            for there in (reference.relation, f"{COPY}{reference.relation}"):
                with suppress(KeyError):
                    here = tuple(map(schema.position, reference.columns))
                    referenced = tuple(map(schemas[there].position, reference.referenced))
                    found.setdefault(name, []).append(Refers(here, there, referenced))
    return found


def by_source(relations: Iterable[str]) -> dict[str, list[str]]:
    """`source.table` names as the tables of each source."""
    tables: dict[str, list[str]] = {}
    for relation in relations:
        source, table = relation.split(".", 1)
        tables.setdefault(source, []).append(table)
    return tables


def unknown_view(
    name: str,
    known: Iterable[str],
    reasons: tuple[Reason, ...] | None = None,
    unreadable: Iterable[str] = (),
) -> ProjectError:
    if reasons:
        return Refused(reasons)
    files = ", ".join(unreadable)
    return ProjectError(
        f"no view {name!r}",
        detail=f"not all of {files} could be read" if files else "",
        hint=f"there are: {', '.join(known) or 'none'}",
        code="UNKNOWN_VIEW",
    )


def view_files(folder: Path) -> tuple[Path, ...]:
    """The files that hold views, in order; hidden ones are an editor's."""
    return tuple(sorted(path for path in folder.glob("*.sql") if not path.name.startswith(".")))


def read_texts(folder: Path) -> Texts:
    """A name belongs to the text that has it first, files in order of their names."""
    found: dict[str, ViewText] = {}
    unreadable: dict[str, tuple[Reason, ...]] = {}
    for path in view_files(folder):
        try:
            texts, reasons = read_views(path.read_text(encoding="utf-8"), path.name)
        except FileNotFoundError:
            continue  # gone since the folder was listed
        except (OSError, UnicodeDecodeError) as error:
            texts, reasons = (), (Reason("UNREADABLE_FILE", f"{path.name} cannot be read: {error}"),)
        for text in texts:
            first = found.setdefault(text.name.lower(), text)
            if first is not text:
                reasons = (*reasons, _twice(text, first))
        if reasons:
            unreadable[path.name] = reasons
    return Texts(tuple(found.values()), unreadable)


def _twice(text: ViewText, first: ViewText) -> Reason:
    return Reason(
        "DEFINED_TWICE",
        f"view {text.name} is defined in {first.origin} already",
        "view names are compared without regard to case; keep one of the two",
        text.line,
        1,
        text.name,
    )


def resolve_all(
    texts: Iterable[ViewText],
    catalog: Mapping[str, Mapping[str, Relation]],
    unreadable: Mapping[str, tuple[Reason, ...]] | None = None,
    unreached: Mapping[str, StillframeError] | None = None,
    offers: Callable[[str], Offer] | None = None,
) -> Definitions:
    """Resolve views until no more can be: a view waits for those its text names. `unreached` are sources
    the catalog lacks because nobody ever reached them; without `offers` nobody asks by which algorithm."""
    all_texts = tuple(texts)
    away = {text.name: error for text in all_texts if (error := _unreached(text, unreached or {}))}
    refused: dict[str, tuple[Reason, ...]] = dict(unreadable or {})
    refused.update((text.name, (_reason(text, away[text.name]),)) for text in all_texts if text.name in away)
    pending = [text for text in all_texts if text.name not in away]
    views: dict[str, View] = {}
    while pending:
        waiting: list[ViewText] = []
        names_left = {text.name.lower(): text.name for text in pending}
        for text in pending:
            try:
                resolved = _resolve(text, catalog, views, offers)
            except Refused as error:
                if any(other != text.name.lower() and _mentions(error, other) for other in names_left):
                    waiting.append(text)
                    continue
                cause = next((other for other in refused if _mentions(error, other.lower())), None)
                refused[text.name] = (_upstream_refused(text, cause),) if cause else error.reasons
                if cause in away:
                    away[text.name] = away[cause]
            else:
                views |= {view.name: view for view in resolved}
        if len(waiting) == len(pending):
            for text in waiting:
                refused[text.name] = (_cycle(text, waiting),)
            break
        pending = waiting
    return Definitions(views, refused, {text.name: text for text in all_texts}, away)


def _unreached(text: ViewText, unreached: Mapping[str, StillframeError]) -> StillframeError | None:
    named = sources_named(text.select) if unreached else frozenset()
    return next((error for source, error in unreached.items() if source.lower() in named), None)


def _reason(text: ViewText, error: StillframeError) -> Reason:
    """An error that no single place of the text is to blame for."""
    return Reason(error.code, error.message, error.hint, text.line, 1, text.name)


def _upstream_refused(text: ViewText, upstream: str) -> Reason:
    message = f"view {text.name} reads view {upstream}, which is refused"
    return Reason("UPSTREAM_REFUSED", message, f"mend {upstream} first", text.line, 1, text.name)


def _mentions(error: Refused, name: str) -> bool:
    missing = f"no view {name!r};"
    return any(r.code == "UNKNOWN_RELATION" and missing in r.message.lower() for r in error.reasons)


def _cycle(text: ViewText, waiting: Iterable[ViewText]) -> Reason:
    names = ", ".join(other.name for other in waiting)
    return Reason("CYCLE", f"views read each other: {names}", "break the cycle", text.line, 1, text.name)


def _resolve(
    text: ViewText,
    catalog: Mapping[str, Mapping[str, Relation]],
    views: Mapping[str, View],
    offers: Callable[[str], Offer] | None,
) -> tuple[View, ...]:
    """The view, after the parts it is split into."""
    shown = {n: view.schema for n, view in views.items() if not view.owner and view.served is None}
    names = Names(catalog, shown)
    try:
        found, operators = resolved(text.select, names, text.name)
        plan = normalize(narrow(normalize(found)))
    except Refused as refused:
        raise Refused([_in_file(text, reason) for reason in refused.reasons], refused.view) from None
    if "serve" in text.options:
        return (_as_records(text, normalize(found), views),)
    parts, rest = split(plan, text.name)
    known = dict(views)
    made: list[View] = []
    for name, part in {**parts, text.name: rest}.items():
        reads = relations(part)
        upstream = tuple(read for read in reads if read in known)
        direct = {read.split(".", 1)[0] for read in reads if read not in known}
        sources = frozenset(direct.union(*(known[read].sources for read in upstream)))
        owner = "" if name == text.name else text.name
        own = replace(text, name=name)
        known[name] = View(own, part, reads, upstream, sources, query=None if owner else plan, owner=owner)
        if not owner:
            placed = tuple(_in_file(text, operator) for operator in operators)
            known[name] = replace(known[name], operators=placed)
        made.append(known[name])
    if offers is None:
        return tuple(made)
    try:
        offered = {source: offers(source) for source in sorted(made[-1].sources)}
        above = bool(set(relations(plan)) & views.keys())
        choice = choose(text.name, rest if not parts else None, above, text.options, offered)
    except Refused as refused:
        raise Refused([replace(r, line=text.line) for r in refused.reasons], refused.view) from None
    return tuple(
        replace(view, level=choice.level, algorithm=choice.algorithm, why=choice.why) for view in made
    )


def _as_records(text: ViewText, plan: Plan, views: Mapping[str, View]) -> View:
    """A view of sources' relations that is served as records."""
    try:
        reads = relations(plan)
        above = [name for name in reads if name in views]
        if above:
            raise NoRecords(
                f"a view that is served reads relations of sources, and {text.name} reads view {above[0]}",
                hint=f"write what {above[0]} selects in its place",
            )
        for option, word in (("refresh_policy", "full"), ("algorithm", text.options.get("algorithm"))):
            if word not in (None, "auto") and text.options.get(option) == word:
                raise NoRecords(
                    f"a view that is served has no {option} = {word!r}",
                    hint="leave it out: its records follow the changes",
                )
        given = text.options
        key = [_position(plan.schema, name.strip()) for name in given.get("key", "").split(",") if name]
        way = served(plan, given.get("consistency", DEFAULT_LEVEL), key, given.get("test_and_set", SIGNATURE))
    except NoRecords as error:
        message = ": ".join(filter(None, (error.message, error.detail)))
        reason = Reason(error.code, message, error.hint, text.line, 1, text.name)
        raise Refused([reason], text.name) from None
    sources = frozenset(name.split(".", 1)[0] for name in reads)
    why = f"served as records of a view of class {way.called}"
    return View(text, plan, reads, (), sources, way.level, RECORDS, why, query=plan, served=way)


def _position(schema: Schema, name: str) -> int:
    try:
        return schema.position(name)
    except KeyError as error:
        raise NoRecords(f"key names a column that the view does not show: {name}", hint=str(error)) from None


Placed = TypeVar("Placed", Reason, Operator)


def _in_file(text: ViewText, found: Placed) -> Placed:
    """A place in the SELECT as a place in the file it stands in."""
    column = found.column + (text.select_column - 1 if found.line == 1 else 0)
    return replace(found, line=found.line + text.select_line - 1, column=column)
