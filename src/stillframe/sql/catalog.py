"""What a view text can name: relations of sources, and other views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable

from stillframe.algebra.schema import Schema
from stillframe.sources.base import Relation


class Catalog(Protocol):
    """A KeyError's message lists what there is."""

    def relation(self, source: str, table: str) -> Relation: ...

    def view(self, name: str) -> Schema: ...


@runtime_checkable
class Spelled(Protocol):
    """A catalog that takes names in any case also says how they are spelled."""

    def spelling(self, *parts: str) -> str:
        """`source.table`, or the view's name, as plans carry it."""
        ...


class UnknownName(KeyError):
    def __str__(self) -> str:
        return str(self.args[0])


@dataclass(frozen=True)
class Names:
    """A catalog of what is already known."""

    sources: Mapping[str, Mapping[str, Relation]] = field(default_factory=dict)
    views: Mapping[str, Schema] = field(default_factory=dict)

    def relation(self, source: str, table: str) -> Relation:
        owner = _match("source", source, self.sources)
        return self.sources[owner][_match(f"table of source {owner}", table, self.sources[owner])]

    def view(self, name: str) -> Schema:
        return self.views[_match("view", name, self.views)]

    def spelling(self, *parts: str) -> str:
        if len(parts) == 1:
            return _match("view", parts[0], self.views)
        source, table = parts
        owner = _match("source", source, self.sources)
        return f"{owner}.{_match(f'table of source {owner}', table, self.sources[owner])}"


def _match(kind: str, wanted: str, there: Iterable[str]) -> str:
    """The exact spelling if it is there, else the only one that differs in case alone."""
    names = list(there)
    if wanted in names:
        return wanted
    alike = [name for name in names if name.lower() == wanted.lower()]
    if len(alike) == 1:
        return alike[0]
    if alike:
        raise UnknownName(f"{wanted!r} could be any of {', '.join(sorted(alike))}")
    raise UnknownName(f"no {kind} {wanted!r}; there are: {', '.join(sorted(names)) or 'none'}")
