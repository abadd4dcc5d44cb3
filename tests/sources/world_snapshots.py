"""Databases of which only snapshots are taken, as worlds for the conformance checks: nothing is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from world_sqlite import SqliteWorld

from stillframe.sources import Source
from stillframe.sources.conformance import Feature, World
from stillframe.sources.snapshots import SnapshotReader, SnapshotSource
from stillframe.sources.sqlite_snapshot import SqliteSnapshotReader

# What a source that compares states has no use for: a restored or replaced database is just another state.
UNNEEDED = frozenset(
    {
        Feature.LOGGED,
        Feature.TRANSACTIONS,
        Feature.MARKS,
        Feature.DROP_CAPTURE,
        Feature.DISABLE_CAPTURE,
        Feature.REPLACE_DATABASE,
        Feature.BACKUP,
        Feature.READ_ONLY_ACCOUNT,
    }
)


def snapshotted(offers: frozenset[Feature]) -> frozenset[Feature]:
    captured = {Feature.TRUNCATE: Feature.TRUNCATE_CAPTURED, Feature.FOREIGN_KEYS: Feature.CASCADES_CAPTURED}
    return (offers - UNNEEDED) | {also for feature, also in captured.items() if feature in offers}


class Kept(World):
    """`kept` is where the snapshots are; what is kept there counts as installed."""

    kept: Path

    def reader(self) -> SnapshotReader:
        raise NotImplementedError

    def source(self, capture_limit: int | None = None) -> Source:
        return SnapshotSource(self.reader(), self.kept, capture_limit)

    def schema_dump(self) -> str:
        found = sorted(str(path) for path in self.kept.rglob("*")) if self.kept.exists() else []
        return "\n".join([super().schema_dump(), *found])

    def trim_log(self) -> None:
        for path in self.kept.glob("*/*.parquet"):
            path.unlink()


class SqliteSnapshotWorld(Kept, SqliteWorld):
    offers = snapshotted(SqliteWorld.offers)

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.kept = path.parent / "kept"

    def reader(self) -> SnapshotReader:
        return SqliteSnapshotReader("s", self.path)


@contextmanager
def sqlite_snapshot_world(folder: Path) -> Iterator[SqliteSnapshotWorld]:
    folder.mkdir(parents=True, exist_ok=True)
    world = SqliteSnapshotWorld(folder / "s.db")
    try:
        yield world
    finally:
        world.close()
