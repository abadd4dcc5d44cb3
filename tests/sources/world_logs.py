"""Databases captured from the server's own log, as worlds for the conformance checks."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from world_mariadb import MariadbWorld
from world_postgres import PostgresWorld

from servers import MariadbServer, PostgresServer, free_port
from stillframe.sources import Source
from stillframe.sources.conformance import Feature
from stillframe.sources.mariadb.binlog import MariadbLogSource
from stillframe.sources.postgres.logical import PostgresLogSource


class PostgresLogWorld(PostgresWorld):
    """With an account that may replicate."""

    offers = (PostgresWorld.offers | {Feature.COMMIT_ORDER}) - {
        Feature.ATTACH_BESIDE_OPEN,
        Feature.TRUNCATE_CAPTURED,
        Feature.READ_ONLY_ACCOUNT,
    }

    def _make(self) -> None:
        self._drop_slots()
        super()._make()
        with self.server.connect() as con:
            con.execute("ALTER ROLE app REPLICATION")

    def _drop_slots(self) -> None:
        with self.server.connect() as con:
            con.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE database = %s",
                (self.database,),
            )

    def source(self, capture_limit: int | None = None) -> Source:
        return PostgresLogSource("s", self._url("app"), "public", capture_limit)

    def unreachable_source(self) -> Source:
        return PostgresLogSource("s", self._url("app", free_port()), "public", None)

    def drop_capture(self, relation: str) -> None:
        found = self.own.execute(f"SELECT pubname FROM pg_publication_tables WHERE tablename = '{relation}'")
        self.run(*(f'ALTER PUBLICATION "{name}" DROP TABLE {relation}' for (name,) in found))

    def disable_capture(self, relation: str) -> None:
        self.run(f"ALTER TABLE {relation} REPLICA IDENTITY DEFAULT")

    def enable_capture(self, relation: str) -> None:
        self.run(f"ALTER TABLE {relation} REPLICA IDENTITY FULL")

    def trim_log(self) -> None:
        """Who reads from a slot what was meant for another."""
        with self.server.connect(self.database) as con:
            con.execute(
                "SELECT pg_replication_slot_advance(slot_name, pg_current_wal_insert_lsn())"
                " FROM pg_replication_slots WHERE database = current_database()"
            )

    def restore(self, copy: object) -> None:
        if copy == 0:
            self._drop_slots()
        super().restore(copy)


@contextmanager
def postgres_log_world(server: PostgresServer, database: str = "logged") -> Iterator[PostgresLogWorld]:
    world = PostgresLogWorld(server, database)
    try:
        yield world
    finally:
        world.close()


class MariadbLogWorld(MariadbWorld):
    """With an account that may read the server's log; the server has one."""

    offers = (MariadbWorld.offers | {Feature.COMMIT_ORDER}) - {
        Feature.CAPTURE_LIMIT,
        Feature.TRIMS,
        Feature.DROP_CAPTURE,
        Feature.DISABLE_CAPTURE,
        Feature.READ_ONLY_ACCOUNT,
    }
    refused_types = (*MariadbWorld.refused_types, "UUID")
    types = tuple(case for case in MariadbWorld.types if case.declared != "UUID")

    def _make(self) -> None:
        super()._make()
        with self.server.connect() as con, con.cursor() as cursor:
            cursor.execute("GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO app@'%'")

    def source(self, capture_limit: int | None = None) -> Source:
        return MariadbLogSource("s", self._url("app"), capture_limit)

    def unreachable_source(self) -> Source:
        return MariadbLogSource("s", self._url("app", free_port()), None)

    def trim_log(self) -> None:
        with self.server.connect() as con, con.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
            cursor.execute("SHOW BINARY LOGS")
            last = cursor.fetchall()[-1][0]
            for _ in range(100):  # what the engine still needs is not let go at once
                cursor.execute(f"PURGE BINARY LOGS TO '{last}'")
                cursor.execute("SHOW BINARY LOGS")
                if cursor.fetchall()[0][0] == last:
                    return
                time.sleep(0.1)
        raise AssertionError("the server keeps its log")


@contextmanager
def mariadb_log_world(server: MariadbServer, database: str = "logged") -> Iterator[MariadbLogWorld]:
    world = MariadbLogWorld(server, database)
    try:
        yield world
    finally:
        world.close()
