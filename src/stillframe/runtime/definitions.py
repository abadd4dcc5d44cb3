"""View definitions: SQL files to resolved views in the order they must be maintained."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from stillframe.algebra import Plan, Schema, normalize, relations
from stillframe.errors import ProjectError
from stillframe.sources.base import Relation
from stillframe.sql import Names, Reason, Refused, ViewText, parse_views, resolve

LEVEL = "strong"
ALGORITHM = "tid"
ALGORITHMS = [
    "basic",
    "rv",
    "sc",
    "eca",
    "eca-key",
    "eca-local",
    "lca",
    "strobe",
    "t-strobe",
    "g-strobe",
    "c-strobe",
    "c-t-strobe",
    "tid",
]


@dataclass(frozen=True)
class View:
    """A view that can be maintained. `reads` are the relations and views in its text; `sources` those it
    depends on through whatever chain of views."""

    text: ViewText
    plan: Plan
    reads: tuple[str, ...]
    upstream: tuple[str, ...]
    sources: frozenset[str]
    level: str = LEVEL
    algorithm: str = ALGORITHM

    @property
    def name(self) -> str:
        return self.text.name

    @property
    def schema(self) -> Schema:
        return self.plan.schema

    @property
    def policy(self) -> str:
        return self.text.options.get("refresh_policy", "auto")

    @property
    def relations(self) -> tuple[str, ...]:
        """The sources' relations it reads itself."""
        return tuple(name for name in self.reads if name not in self.upstream)


@dataclass(frozen=True)
class Definitions:
    """Every view of a project: those that resolve, upstream first, and the reasons for those that do not."""

    views: Mapping[str, View]
    refused: Mapping[str, tuple[Reason, ...]]
    texts: Mapping[str, ViewText] = field(default_factory=dict)

    def closure(self, names: Iterable[str]) -> tuple[str, ...]:
        """The named views and all they read, upstream first."""
        wanted: set[str] = set()
        pending = list(names)
        while pending:
            name = pending.pop()
            if name not in self.views:
                raise unknown_view(name, (*self.views, *self.refused), self.refused.get(name))
            if name not in wanted:
                wanted.add(name)
                pending += self.views[name].upstream
        return tuple(name for name in self.views if name in wanted)

    def dependants(self, name: str) -> tuple[str, ...]:
        return tuple(view.name for view in self.views.values() if name in view.upstream)


def unknown_view(name: str, known: Iterable[str], reasons: tuple[Reason, ...] | None = None) -> ProjectError:
    if reasons:
        return Refused(reasons)
    names = ", ".join(known) or "none"
    return ProjectError(f"no view {name!r}", hint=f"there are: {names}", code="UNKNOWN_VIEW")


def read_texts(folder: Path) -> tuple[ViewText, ...]:
    found: dict[str, ViewText] = {}
    for path in sorted(folder.glob("*.sql")) if folder.is_dir() else []:
        for text in parse_views(path.read_text(encoding="utf-8"), path.name):
            other = found.get(text.name.lower())
            if other is not None:
                raise ProjectError(
                    f"view {text.name} is defined twice: in {other.origin} and in {text.origin}",
                    hint="view names are compared without regard to case",
                )
            found[text.name.lower()] = text
    return tuple(found.values())


def resolve_all(texts: Iterable[ViewText], catalog: Mapping[str, Mapping[str, Relation]]) -> Definitions:
    """Resolve views until no more can be: a view waits for those its text names."""
    all_texts = tuple(texts)
    pending = list(all_texts)
    views: dict[str, View] = {}
    refused: dict[str, tuple[Reason, ...]] = {}
    while pending:
        waiting: list[ViewText] = []
        names_left = {text.name.lower(): text.name for text in pending}
        for text in pending:
            try:
                view = _resolve(text, catalog, views)
            except Refused as error:
                if any(other != text.name.lower() and _mentions(error, other) for other in names_left):
                    waiting.append(text)
                else:
                    refused[text.name] = error.reasons
            else:
                views[view.name] = view
        if len(waiting) == len(pending):
            for text in waiting:
                refused[text.name] = (_cycle(text, waiting),)
            break
        pending = waiting
    return Definitions(views, refused, {text.name: text for text in all_texts})


def _mentions(error: Refused, name: str) -> bool:
    return any(r.code == "UNKNOWN_RELATION" and f"'{name}'" in r.message.lower() for r in error.reasons)


def _cycle(text: ViewText, waiting: Iterable[ViewText]) -> Reason:
    names = ", ".join(other.name for other in waiting)
    return Reason("CYCLE", f"views read each other: {names}", "break the cycle", text.line, 1, text.name)


def _resolve(
    text: ViewText, catalog: Mapping[str, Mapping[str, Relation]], views: Mapping[str, View]
) -> View:
    _check_options(text)
    names = Names(catalog, {name: view.schema for name, view in views.items()})
    try:
        plan = normalize(resolve(text.select, names, text.name))
    except Refused as refused:
        raise Refused([_in_file(text, reason) for reason in refused.reasons], refused.view) from None
    reads = relations(plan)
    upstream = tuple(name for name in reads if name in views)
    direct = {name.split(".", 1)[0] for name in reads if name not in views}
    return View(
        text, plan, reads, upstream, frozenset(direct.union(*(views[name].sources for name in upstream)))
    )


def _in_file(text: ViewText, reason: Reason) -> Reason:
    """A place in the SELECT as a place in the file it stands in."""
    column = reason.column + (text.select_column - 1 if reason.line == 1 else 0)
    return replace(reason, line=reason.line + text.select_line - 1, column=column)


def _check_options(text: ViewText) -> None:
    def refuse(code: str, message: str, hint: str) -> Refused:
        return Refused((Reason(code, message, hint, text.line, 1, text.name),))

    if text.options.get("consistency") == "complete":
        raise refuse(
            "LEVEL_UNAVAILABLE",
            "complete needs a log with transaction boundaries, and SQLite's triggers see none",
            "ask for consistency = 'strong', the nearest level there is",
        )
    algorithm = text.options.get("algorithm", "auto")
    if algorithm not in ("auto", ALGORITHM):
        known = algorithm in ALGORITHMS
        raise refuse(
            "ALGORITHM_UNAVAILABLE" if known else "UNKNOWN_ALGORITHM",
            f"algorithm {algorithm} cannot run here" if known else f"no algorithm {algorithm!r}",
            "sources with a change log are maintained by algorithm = 'tid' (or 'auto')",
        )
