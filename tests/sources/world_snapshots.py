"""Databases of which only snapshots are taken, as worlds for the conformance checks: nothing is installed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from world_mariadb import MariadbWorld
from world_postgres import PostgresWorld
from world_sqlite import SqliteWorld

from servers import MariadbServer, PostgresServer, free_port
from stillframe.sources import Source
from stillframe.sources.conformance import Feature, World
from stillframe.sources.mariadb.snapshot_reader import MariadbSnapshotReader
from stillframe.sources.postgres.snapshot_reader import PostgresSnapshotReader
from stillframe.sources.snapshots.source import SnapshotReader, SnapshotSource
from stillframe.sources.sqlite.snapshot_reader import SqliteSnapshotReader

# What a source that compares states has no use for: a restored or replaced database is just another state.
UNNEEDED = frozenset(
    {
        Feature.LOGGED,
        Feature.TRANSACTIONS,
        Feature.ANY_CUT,
        Feature.MARKS,
        Feature.DROP_CAPTURE,
        Feature.DISABLE_CAPTURE,
        Feature.REPLACE_DATABASE,
        Feature.BACKUP,
        Feature.READ_ONLY_ACCOUNT,
        Feature.OTHER_ACCOUNTS,
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


class PostgresSnapshotWorld(Kept, PostgresWorld):
    """With an account that may only read."""

    offers = snapshotted(PostgresWorld.offers)

    def __init__(self, server: PostgresServer, kept: Path) -> None:
        super().__init__(server, "snapshotted")
        self.kept = kept

    def _make(self) -> None:
        super()._make()
        with self.server.connect(self.database) as con:
            con.execute("ALTER DEFAULT PRIVILEGES FOR ROLE app GRANT SELECT ON TABLES TO reader")

    def reader(self) -> SnapshotReader:
        return PostgresSnapshotReader("s", self._url("reader"), "public")

    def unreachable_source(self) -> Source:
        return SnapshotSource(
            PostgresSnapshotReader("s", self._url("reader", free_port()), "public"), self.kept
        )


class MariadbSnapshotWorld(Kept, MariadbWorld):
    """With an account that may only read."""

    offers = snapshotted(MariadbWorld.offers)

    def __init__(self, server: MariadbServer, kept: Path) -> None:
        super().__init__(server, "snapshotted")
        self.kept = kept

    def reader(self) -> SnapshotReader:
        return MariadbSnapshotReader("s", self._url("reader"))

    def unreachable_source(self) -> Source:
        return SnapshotSource(MariadbSnapshotReader("s", self._url("reader", free_port())), self.kept)


@contextmanager
def closing(world: Kept) -> Iterator[Kept]:
    try:
        yield world
    finally:
        world.close()


def sqlite_snapshot_world(folder: Path) -> AbstractContextManager[Kept]:
    folder.mkdir(parents=True, exist_ok=True)
    return closing(SqliteSnapshotWorld(folder / "s.db"))


def postgres_snapshot_world(server: PostgresServer, folder: Path) -> AbstractContextManager[Kept]:
    return closing(PostgresSnapshotWorld(server, folder / "kept"))


def mariadb_snapshot_world(server: MariadbServer, folder: Path) -> AbstractContextManager[Kept]:
    return closing(MariadbSnapshotWorld(server, folder / "kept"))
