"""Frames as values: which files are each view's content, and which state of the sources they show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from stillframe.algebra.schema import Schema

CURRENT = "current"
HELD = "held"
STOPPED = "stopped"
RECORDS = "records"  # the algorithm of views whose content is in a store of records, and not here


@dataclass(frozen=True, slots=True)
class DataFile:
    """One Parquet file, by its path relative to the warehouse."""

    path: str
    rows: int
    bytes: int


@dataclass(frozen=True, slots=True)
class ChangeFile:
    """One Parquet file of signed rows that frame `frame` brought; or the net rows of all frames from `since`
    to it, where their files were merged."""

    path: str
    rows: int
    bytes: int
    frame: int
    since: int = 0

    def __post_init__(self) -> None:
        if not self.since:
            object.__setattr__(self, "since", self.frame)

    def to_json(self) -> list[str | int]:
        merged = [self.since] if self.since != self.frame else []
        return [self.path, self.rows, self.bytes, self.frame, *merged]


@dataclass(frozen=True, slots=True)
class ViewState:
    """One view in one frame.

    content = `base` (plain rows) + `changes` (signed rows, oldest frame first). `settled` is the frame whose
    content `base` alone is; the view's Delta table shows exactly `base` to other engines.
    `changed` is the last frame in which the content changed. `vector` maps each source the view reads
    (directly or through views) to a position document; None where the level has no vector.
    `definition` is the view's SELECT text. `rows` counts the content with its multiplicities. A part of
    another view, its `owner`, is kept like a view and shown to nobody.
    """

    table: str
    schema: Schema
    definition: str
    level: str
    algorithm: str
    state: str
    base: tuple[DataFile, ...]
    changes: tuple[ChangeFile, ...]
    settled: int
    changed: int
    rows: int
    vector: Mapping[str, Mapping[str, Any]] | None
    reason: Mapping[str, str] | None = None
    session: Mapping[str, Any] = field(default_factory=dict)
    owner: str = ""

    @property
    def counted(self) -> int | None:
        """The rows; None of a view whose content is elsewhere."""
        return None if self.algorithm == RECORDS else self.rows

    def to_json(self) -> dict[str, Any]:
        return {
            "table": self.table,
            "schema": self.schema.to_json(),
            "definition": self.definition,
            "level": self.level,
            "algorithm": self.algorithm,
            "state": self.state,
            "base": [[f.path, f.rows, f.bytes] for f in self.base],
            "changes": [f.to_json() for f in self.changes],
            "settled": self.settled,
            "changed": self.changed,
            "rows": self.rows,
            "vector": self.vector,
            "reason": self.reason,
            "session": self.session,
            **({"owner": self.owner} if self.owner else {}),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> ViewState:
        plain = dict(document)
        plain["schema"] = Schema.from_json(document["schema"])
        plain["base"] = tuple(DataFile(*f) for f in document["base"])
        plain["changes"] = tuple(ChangeFile(*f) for f in document["changes"])
        return cls(**plain)


@dataclass(frozen=True, slots=True)
class Frame:
    """One published state of every view. A settled view gives the same frame a new `revision`: other
    files, the same content. `groups` names global transactions of which frames so far show parts, but not
    all: their numbers by source. `waiting` are some of those left out because parts of them are missing."""

    number: int
    revision: int
    published_at: str
    views: Mapping[str, ViewState]
    groups: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    waiting: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "frame": self.number,
            "revision": self.revision,
            "published_at": self.published_at,
            "views": {name: view.to_json() for name, view in self.views.items()},
            "groups": {group: dict(parts) for group, parts in self.groups.items()},
            "waiting": list(self.waiting),
        }

    @classmethod
    def from_json(cls, document: Mapping[str, Any]) -> Frame:
        views = {name: ViewState.from_json(view) for name, view in document["views"].items()}
        groups, waiting = document.get("groups", {}), tuple(document.get("waiting", ()))
        return cls(document["frame"], document["revision"], document["published_at"], views, groups, waiting)

    @property
    def shown(self) -> dict[str, ViewState]:
        """The views, without their parts."""
        return {name: view for name, view in self.views.items() if not view.owner}

    @property
    def files(self) -> frozenset[str]:
        """Every file this frame needs."""
        paths = {f.path for view in self.views.values() for f in view.base}
        return frozenset(paths | {f.path for view in self.views.values() for f in view.changes})
