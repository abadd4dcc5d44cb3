"""Sources: autonomous databases, their changes captured and their states read. No Spark here."""

from __future__ import annotations

from pathlib import Path

from stillframe.errors import ProjectError
from stillframe.sources.base import Consumer, Keys, LogStatus, Position, Relation, Source
from stillframe.sources.sqlite import SqliteSource

__all__ = [
    "Consumer",
    "Keys",
    "LogStatus",
    "Position",
    "Relation",
    "Source",
    "SqliteSource",
    "open_source",
]


def open_source(name: str, url: str, *, capture_limit: int | None = None, base: Path | None = None) -> Source:
    """The source a url names. `sqlite:///shop.db` is relative to `base`, `sqlite:////data/shop.db` is not."""
    scheme, separator, rest = url.partition("://")
    if not separator or scheme.lower() != "sqlite":
        raise ProjectError(
            f"source {name!r} has a url of an unknown kind",
            detail=f"scheme {scheme!r}" if separator else "the url has no scheme",
            hint="use sqlite:///relative.db or sqlite:////absolute.db",
        )
    if not rest.startswith("/") or rest in ("/", "/:memory:"):
        raise ProjectError(
            f"source {name!r} names no database file",
            detail=url,
            hint="three slashes before a relative path, four before an absolute one",
        )
    return SqliteSource(name, (base or Path.cwd()) / rest[1:], capture_limit)
