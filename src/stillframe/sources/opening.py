"""From what a project says of a source to the source. Nothing is reached here."""

from __future__ import annotations

import glob
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from stillframe.errors import ProjectError
from stillframe.sources.auto import AutoSource
from stillframe.sources.base import Capture, Source
from stillframe.sources.sqlite.source import SqliteSource

AUTO = "auto"
IGNORED, TRUSTED = "ignored", "trusted"  # the foreign keys that a database declares
CAPTURES = (AUTO, *(str(capture) for capture in Capture))


@dataclass(frozen=True)
class SourceConfig:
    """One entry of `sources`. A database has a url, a set of exports has `files` and perhaps a `key`."""

    url: str = ""
    schema: str | None = None
    capture: str = AUTO
    capture_limit: int | None = None
    files: str = ""
    key: tuple[str, ...] = ()
    columns: Mapping[str, str] = field(default_factory=dict)
    foreign_keys: str = IGNORED


def open_source(name: str, config: SourceConfig, *, base: Path | None = None, keep: Path) -> Source:
    """The source a project describes. Relative paths are relative to `base`; a source that can only be
    snapshotted keeps its snapshots below `keep`."""
    base = base or Path.cwd()
    if config.files:
        return _files(name, config, base, keep)
    scheme, separator, _ = config.url.partition("://")
    opener = _SCHEMES.get(scheme.lower()) if separator else None
    if opener is None:
        raise ProjectError(
            f"source {name!r} has a url of an unknown kind",
            detail=f"scheme {scheme!r}" if separator else "the url has no scheme",
            hint="use sqlite:///relative.db, sqlite:////absolute.db, postgresql://user:${PASSWORD}@host/db"
            ' or mariadb://user:${PASSWORD}@host/db; exports are given as files: "folder/*.csv"',
        )
    return opener(name, config, base, keep)


def _sqlite(name: str, config: SourceConfig, base: Path, keep: Path) -> Source:
    rest = config.url.partition("://")[2]
    if not rest.startswith("/") or rest in ("/", "/:memory:"):
        raise ProjectError(
            f"source {name!r} names no database file",
            detail=config.url,
            hint="three slashes before a relative path, four before an absolute one",
        )
    from stillframe.sources.snapshots.source import SnapshotSource
    from stillframe.sources.sqlite.snapshot_reader import SqliteSnapshotReader

    path, limit = base / rest[1:], config.capture_limit
    return _one_of(
        name,
        config,
        keep,
        SqliteSource(name, path, limit),
        SnapshotSource(SqliteSnapshotReader(name, path), keep / name, limit),
    )


def _postgres(name: str, config: SourceConfig, base: Path, keep: Path) -> Source:
    from stillframe.sources.postgres.logical import PostgresLogSource
    from stillframe.sources.postgres.snapshot_reader import PostgresSnapshotReader
    from stillframe.sources.postgres.triggers import PostgresSource
    from stillframe.sources.snapshots.source import SnapshotSource

    url, schema, limit = config.url, config.schema or "public", config.capture_limit
    return _one_of(
        name,
        config,
        keep,
        PostgresSource(name, url, schema, limit),
        PostgresLogSource(name, url, schema, limit),
        SnapshotSource(PostgresSnapshotReader(name, url, schema), keep / name, limit),
    )


def _mariadb(name: str, config: SourceConfig, base: Path, keep: Path) -> Source:
    from stillframe.sources.mariadb.binlog import MariadbLogSource
    from stillframe.sources.mariadb.snapshot_reader import MariadbSnapshotReader
    from stillframe.sources.mariadb.triggers import MariadbSource
    from stillframe.sources.snapshots.source import SnapshotSource

    url, limit = config.url, config.capture_limit
    return _one_of(
        name,
        config,
        keep,
        MariadbSource(name, url, limit),
        MariadbLogSource(name, url, limit),
        SnapshotSource(MariadbSnapshotReader(name, url), keep / name, limit),
    )


def _one_of(name: str, config: SourceConfig, keep: Path, *ways: Source) -> Source:
    """The way to capture that is asked for, or the best."""
    asked = None if config.capture == AUTO else Capture(config.capture)
    there = [str(way.capture) for way in ways]
    if asked is not None and asked not in there:
        raise ProjectError(
            f"source {name!r} cannot be captured by {asked}",
            detail="its kind of database has no such log",
            hint=f"use capture: {' or '.join([AUTO, *there])}",
        )
    return cast(Source, AutoSource(name, ways, keep / name / "capture.json", asked))


def _files(name: str, config: SourceConfig, base: Path, keep: Path) -> Source:
    from stillframe.sources.files.reader import FilesReader
    from stillframe.sources.snapshots.source import SnapshotSource

    pattern = str(Path(glob.escape(str(base))) / config.files)
    return SnapshotSource(FilesReader(name, pattern, config.key, config.columns), keep / name)


Opener = Callable[[str, SourceConfig, Path, Path], Source]
_SCHEMES: Mapping[str, Opener] = {
    "sqlite": _sqlite,
    "postgresql": _postgres,
    "postgres": _postgres,
    "mariadb": _mariadb,
    "mysql": _mariadb,
}
