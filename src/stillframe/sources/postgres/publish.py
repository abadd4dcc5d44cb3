"""Installing log capture at a PostgreSQL database, and removing it.

Of a table only its replica identity is changed, to FULL, and put back when no one needs it any more; the rest
is a publication and a replication slot for each consumer. A slot keeps the server's log for as long as it
stands: so what names it is written before it is made, and removed after it.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass

import psycopg

from stillframe.errors import CaptureGap, SourceError
from stillframe.sources.postgres import log
from stillframe.sources.postgres.capture import GLOBAL, IDENTITIES, PUBLISHED, SLOTS, shape
from stillframe.sources.postgres.catalog import Connection, Table
from stillframe.sources.postgres.install import (
    ATTACH_SECONDS,
    Installing,
    limit_waiting,
    locked,
    now,
    remove_foundation,
)
from stillframe.sources.postgres.read import connected, reading, require_primary
from stillframe.sources.postgres.slots import (
    GLOBAL_PUBLICATION,
    NONE,
    LogMark,
    decodable,
    end_of_log,
    full_identity,
    published_digest,
    require_slot,
    slot_name,
)


@dataclass(frozen=True)
class Publisher(Installing):
    """Capture by the server's log, of the tables of one schema."""

    def slot(self, con: Connection, consumer: str) -> str:
        (database,) = con.execute("SELECT current_database()::text").fetchone() or ("",)
        return slot_name(database, self.schema, consumer)

    def attach(self, consumer: str, relations: Sequence[str]) -> None:
        names = sorted(set(relations))
        self.patiently(lambda con: self._register(con, consumer, names))
        for name in names:
            self.patiently(lambda con, name=name: self._publish(con, consumer, name))  # type: ignore[misc]
        self._open_slot(consumer)

    def _register(self, con: Connection, consumer: str, relations: Sequence[str]) -> None:
        for relation in relations:
            self._decodable(con, relation)
        self.founded(con)
        slot = self.slot(con, consumer)
        con.execute(
            f"INSERT INTO {SLOTS} VALUES (%s, %s, %s, NULL, NULL, %s, %s)"
            " ON CONFLICT (slot) DO UPDATE SET heartbeat = excluded.heartbeat",
            (slot, consumer, self.schema, now(), now()),
        )
        for name, tables in (
            (slot, ""),
            (GLOBAL_PUBLICATION, f" FOR TABLE {GLOBAL} WITH (publish = 'insert')"),
        ):
            if con.execute("SELECT 1 FROM pg_publication WHERE pubname = %s", (name,)).fetchone() is None:
                con.execute(f"CREATE PUBLICATION {name}{tables}")

    def _decodable(self, con: Connection, relation: str) -> Table:
        table = decodable(self.capturable(con, relation))
        if table.partitioned and not table.primary:
            raise SourceError(
                f"table {relation!r} of source {self.name!r} cannot be captured from the server's log",
                detail="it has partitions and no primary key: writers to a partition made later would fail",
                hint="give it a primary key, or use `capture: triggers`",
                code="UNCAPTURABLE_TABLE",
            )
        return table

    def _publish(self, con: Connection, consumer: str, relation: str) -> None:
        """Those who wrote to the table before have ended when it is locked."""
        slot, table = self.slot(con, consumer), self._decodable(con, relation)
        if log.installed(con) is None:
            return
        columns = json.dumps(shape(table, table.captured(), {}))
        if self._stands(con, slot, table):
            # Columns added since are told like the others.
            con.execute(
                f"UPDATE {PUBLISHED} SET shape = %s WHERE slot = %s AND relation = %s",
                (columns, slot, relation),
            )
            return
        limit_waiting(con)
        con.execute(f"LOCK TABLE {table.sql} IN ACCESS EXCLUSIVE MODE")
        if self._decodable(con, relation) != table:
            raise locked(self.name, f"table {relation!r} was altered meanwhile")
        for part in table.parts:
            self._identify(con, part)
        there = con.execute(
            "SELECT 1 FROM pg_publication_rel AS r JOIN pg_publication AS p ON p.oid = r.prpubid"
            " WHERE p.pubname = %s AND r.prrelid = %s",
            (slot, table.oid),
        )
        if there.fetchone() is not None:
            con.execute(f"ALTER PUBLICATION {slot} DROP TABLE {table.sql}")
        con.execute(f"ALTER PUBLICATION {slot} ADD TABLE {table.sql}")
        con.execute(f"DELETE FROM {PUBLISHED} WHERE slot = %s AND relation = %s", (slot, relation))
        con.execute(
            f"INSERT INTO {PUBLISHED} VALUES (%s, %s, %s, %s, %s)",
            (
                slot,
                relation,
                end_of_log(con),
                columns,
                published_digest(con, slot, table.oid),
            ),
        )

    def _stands(self, con: Connection, slot: str, table: Table) -> bool:
        row = con.execute(
            f"SELECT shape, digest FROM {PUBLISHED} WHERE slot = %s AND relation = %s", (slot, table.name)
        ).fetchone()
        if row is None or row[1] != published_digest(con, slot, table.oid):
            return False
        try:
            log.require_shape(self.name, table, json.loads(row[0]))
        except CaptureGap:
            return False
        return full_identity(con, table.parts)

    def _identify(self, con: Connection, part: int) -> None:
        name, identity, index = con.execute(
            "SELECT c.oid::regclass::text, c.relreplident::text, (SELECT quote_ident(x.relname)"
            " FROM pg_index AS i JOIN pg_class AS x ON x.oid = i.indexrelid WHERE i.indrelid = c.oid"
            " AND i.indisreplident) FROM pg_class AS c WHERE c.oid = %s",
            (part,),
        ).fetchone() or ("", "", None)
        had = {"d": "DEFAULT", "n": "NOTHING", "f": "FULL"}.get(identity, f"USING INDEX {index}")
        con.execute(f"INSERT INTO {IDENTITIES} VALUES (%s, %s) ON CONFLICT DO NOTHING", (part, had))
        con.execute(f"ALTER TABLE {name} REPLICA IDENTITY FULL")

    def reopen(self, consumer: str) -> None:
        """Put a new slot in the place of one that has nothing more to tell."""
        with connected(self.name, self.url) as con:
            require_primary(con, self.name)
            con.execute(
                f"UPDATE {SLOTS} SET position = NULL, mark = NULL WHERE slot = %s",
                (self.slot(con, consumer),),
            )
        self._open_slot(consumer)

    def _open_slot(self, consumer: str) -> None:
        """To make a slot is to wait for every transaction that runs, in the way of nobody."""
        with connected(self.name, self.url) as con:
            require_primary(con, self.name)
            con.execute(f"SET lock_timeout = '{ATTACH_SECONDS}s'")
            slot = self.slot(con, consumer)
            self._drop_if_lost(con, slot)
            row = con.execute(
                "SELECT (confirmed_flush_lsn - '0/0')::bigint FROM pg_replication_slots WHERE slot_name = %s",
                (slot,),
            ).fetchone()
            noted = con.execute(f"SELECT mark FROM {SLOTS} WHERE slot = %s", (slot,)).fetchone()
            if row is not None and noted is not None and noted[0] is not None:
                return
            if row is None:
                row = self._make_slot(con, slot)
            here = log.required(con, self.name)
            mark = LogMark(row[0], NONE, here.timeline, slot)
            con.execute(
                f"UPDATE {SLOTS} SET position = %s, mark = %s WHERE slot = %s", (mark.lsn, str(mark), slot)
            )

    def _make_slot(self, con: Connection, slot: str) -> tuple[int]:
        try:
            (place,) = con.execute(
                "SELECT (lsn - '0/0')::bigint FROM pg_create_logical_replication_slot(%s, 'pgoutput')",
                (slot,),
            ).fetchone() or (0,)
        except psycopg.errors.LockNotAvailable as error:
            raise SourceError(
                f"source {self.name!r} has a transaction open for long",
                detail="a replication slot can be made only when all that were open have ended",
                hint="end it, then try again, or use `capture: triggers`",
                code="LOCKED",
            ) from error
        except psycopg.errors.ConfigurationLimitExceeded as error:
            raise SourceError(
                f"the server of source {self.name!r} has no replication slot left",
                detail=str(error).strip(),
                hint="raise max_replication_slots, or use `capture: triggers`",
                code="NO_SLOT_LEFT",
            ) from error
        return (int(place),)

    def _drop_if_lost(self, con: Connection, slot: str) -> None:
        try:
            require_slot(con, self.name, slot)
        except CaptureGap:
            drop_slot(con, slot)
            con.execute(f"UPDATE {SLOTS} SET mark = NULL WHERE slot = %s", (slot,))

    def release(self, consumer: str, keep: Sequence[str]) -> None:
        def unpublish(con: Connection) -> None:
            slot = self.slot(con, consumer)
            gone = con.execute(
                f"DELETE FROM {PUBLISHED} WHERE slot = %s AND relation <> ALL (%s) RETURNING relation",
                (slot, list(keep)),
            ).fetchall()
            for (relation,) in gone:
                self._unpublish(con, slot, relation)

        self.patiently(unpublish)
        self._restore_identities()

    def _unpublish(self, con: Connection, slot: str, relation: str) -> None:
        there = con.execute(
            "SELECT c.oid::regclass::text FROM pg_publication_rel AS r JOIN pg_publication AS p"
            " ON p.oid = r.prpubid JOIN pg_class AS c ON c.oid = r.prrelid JOIN pg_namespace AS n"
            " ON n.oid = c.relnamespace WHERE p.pubname = %s AND n.nspname = %s AND c.relname = %s",
            (slot, self.schema, relation),
        )
        for (table,) in there.fetchall():
            con.execute(f"ALTER PUBLICATION {slot} DROP TABLE {table}")

    def detach(self, consumer: str) -> None:
        with connected(self.name, self.url) as con:
            require_primary(con, self.name)
            if not log.is_there(con):
                return
            slot = self.slot(con, consumer)
            drop_slot(con, slot)

        def forget(con: Connection) -> None:
            if log.is_there(con):
                con.execute(f"DROP PUBLICATION IF EXISTS {slot}")
                con.execute(f"DELETE FROM {PUBLISHED} WHERE slot = %s", (slot,))
                con.execute(f"DELETE FROM {SLOTS} WHERE slot = %s", (slot,))
                if con.execute(f"SELECT 1 FROM {SLOTS}").fetchone() is None:
                    con.execute(f"DROP PUBLICATION IF EXISTS {GLOBAL_PUBLICATION}")

        self.patiently(forget)
        self._restore_identities()
        self.patiently(remove_foundation)

    def _restore_identities(self) -> None:
        """Each table in a transaction of its own, which locks readers out as well."""
        with reading(self.name, self.url) as con:
            if not log.is_there(con):
                return
            held = con.execute(f"SELECT part FROM {IDENTITIES}").fetchall()
            needed = _needed_parts(con)
        for (part,) in held:
            if part not in needed:
                self.patiently(lambda con, part=part: _restore_identity(con, part))  # type: ignore[misc]


def _needed_parts(con: Connection) -> set[int]:
    rows = con.execute(f"SELECT shape FROM {PUBLISHED}").fetchall()
    return {part for (text,) in rows for part in json.loads(text)["parts"][0]}


def _restore_identity(con: Connection, part: int) -> None:
    if not log.is_there(con) or part in _needed_parts(con):
        return
    row = con.execute(f"DELETE FROM {IDENTITIES} WHERE part = %s RETURNING identity", (part,)).fetchone()
    table = con.execute(
        "SELECT oid::regclass::text FROM pg_class WHERE oid = %s AND relreplident = 'f'", (part,)
    ).fetchone()
    if row is None or table is None or row[0] == "FULL":
        return
    if row[0].startswith("USING INDEX"):
        index = row[0].removeprefix("USING INDEX ")
        there = con.execute(
            "SELECT 1 FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid"
            " WHERE i.indrelid = %s AND quote_ident(c.relname) = %s",
            (part, index),
        )
        if there.fetchone() is None:
            return
    con.execute(f"ALTER TABLE {table[0]} REPLICA IDENTITY {row[0]}")


def drop_slot(con: Connection, slot: str) -> None:
    """Whoever reads it is given a while to end."""
    deadline = time.monotonic() + ATTACH_SECONDS
    while True:
        try:
            con.execute(
                "SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots WHERE slot_name = %s",
                (slot,),
            )
            return
        except psycopg.errors.ObjectInUse as error:
            if time.monotonic() > deadline:
                raise locked(slot, str(error).strip()) from error
            time.sleep(0.2)
