"""Installing capture at a PostgreSQL database, and removing it, beside writers who go on.

Every change of what is installed is one transaction, one at a time. It waits for a table only briefly, and
holds none while it waits for long: whoever queues behind it passes on between two attempts.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from stillframe.errors import CaptureGap, SourceError
from stillframe.sources.postgres import log
from stillframe.sources.postgres.capture import (
    CONSUMERS,
    FORMAT,
    FOUNDATION,
    IDENTITIES,
    LOG,
    NEEDS,
    RELATIONS,
    SLOTS,
    SOURCE,
    S,
    functions,
    installed_digest,
    log_table,
    removal,
    shape,
    triggers,
    widened,
)
from stillframe.sources.postgres.catalog import Connection, Table, read_table
from stillframe.sources.postgres.read import reading, writing
from stillframe.sources.postgres.seen import NOTHING, Mark

ATTACH_SECONDS = 30.0
# Less than the second after which the server looks for deadlocks: it is never a writer that is ended.
WAIT_MILLISECONDS = 700
_ONE_AT_A_TIME = 5_717_004_301  # the key of the lock that those hold who change what is installed


@dataclass(frozen=True)
class Installing:
    """What every way to capture has in common."""

    name: str
    url: str
    schema: str

    def patiently(self, work: Callable[[Connection], None]) -> None:
        """Change what is installed, in one transaction, one of us at a time. Where a table stays locked, let
        those who queue behind us pass, and try again."""
        deadline = time.monotonic() + ATTACH_SECONDS
        pause = 0.1
        while True:
            try:
                with writing(self.name, self.url) as con:
                    con.execute(f"SELECT pg_advisory_xact_lock({_ONE_AT_A_TIME})")
                    limit_waiting(con)
                    work(con)
                return
            except SourceError as error:
                if error.code != "LOCKED" or time.monotonic() + pause > deadline:
                    raise
            time.sleep(pause)
            pause = min(2 * pause, 2.0)

    def founded(self, con: Connection) -> log.Installed:
        """Capture of this very database, made anew where there is none or it is that of another one."""
        found = log.installed(con)
        if found is not None:
            return found
        con.execute(f"DROP SCHEMA IF EXISTS {S} CASCADE")
        for statement in FOUNDATION:
            con.execute(statement)
        con.execute(
            f"INSERT INTO {SOURCE} SELECT %s, here_system, here_database, %s, %s"
            f" FROM (SELECT {log.PLACE}) AS here",
            (str(uuid.uuid4()), FORMAT, str(NOTHING)),
        )
        made = log.installed(con)
        assert made is not None
        return made

    def capturable(self, con: Connection, relation: str) -> Table:
        table = read_table(con, self.name, self.schema, relation)
        owned, owner, account = con.execute(
            "SELECT pg_has_role(relowner, 'USAGE'), quote_ident(pg_get_userbyid(relowner)),"
            " quote_ident(current_user) FROM pg_class WHERE oid = %s",
            (table.oid,),
        ).fetchone() or (False, "", "")
        if table.refusal:
            raise SourceError(
                f"table {relation!r} of source {self.name!r} cannot be captured",
                detail=table.refusal,
                hint="leave the table out of the views, or change what is named here",
                code="UNCAPTURABLE_TABLE",
            )
        if not owned:
            raise SourceError(
                f"table {relation!r} of source {self.name!r} belongs to another account",
                detail="only its owner can make triggers that always fire, and remove them",
                hint=f"GRANT {owner} TO {account}, or use `capture: snapshot`",
                code="NOT_PERMITTED",
            )
        return table


@dataclass(frozen=True)
class Installer(Installing):
    """Capture by triggers, of the tables of one schema."""

    def attach(self, consumer: str, relations: Sequence[str]) -> None:
        """The consumer is registered first, so that whatever is cut off half-way has one who can attach
        again or detach. Then each table in a transaction of its own: whoever locks several can only wait for
        writers who lock them in another order, and they for it."""
        names = sorted(set(relations))
        self.patiently(lambda con: self._register(con, consumer, names))
        for name in names:
            self.patiently(lambda con, name=name: self._capture(con, name))  # type: ignore[misc]

    def detach(self, consumer: str) -> None:
        with writing(self.name, self.url) as con:
            if log.installed(con) is None:
                return
            for table, column in ((CONSUMERS, "name"), (NEEDS, "consumer")):
                con.execute(
                    f"DELETE FROM {table} WHERE {column} = %s AND schema = %s", (consumer, self.schema)
                )
        self.remove_unneeded()
        self.patiently(remove_foundation)

    def _register(self, con: Connection, consumer: str, relations: Sequence[str]) -> None:
        for relation in relations:
            self.capturable(con, relation)
        here = self.founded(con)
        con.execute(f"INSERT INTO {LOG} SELECT WHERE NOT EXISTS (SELECT FROM {LOG})")
        mark = Mark(here.snapshot, "0/0", 0, 0, here.timeline)
        con.execute(
            f"INSERT INTO {CONSUMERS} AS c VALUES (%s, %s, %s, %s, %s, %s) ON CONFLICT (name, schema)"
            " DO UPDATE SET position = coalesce(c.position, excluded.position),"
            " mark = coalesce(c.mark, excluded.mark), heartbeat = excluded.heartbeat",
            (consumer, self.schema, here.snapshot.size, str(mark), now(), now()),
        )
        for relation in relations:
            con.execute(
                f"INSERT INTO {NEEDS} VALUES (%s, %s, %s) ON CONFLICT DO NOTHING",
                (consumer, self.schema, relation),
            )

    def _capture(self, con: Connection, relation: str) -> None:
        """All is prepared before the table is locked against writers. Those who wrote to it before have ended
        when the lock is had."""
        if log.installed(con) is None:
            return
        table, standing = self.capturable(con, relation), self._standing(con, relation)
        columns = table.captured()
        if standing is not None and standing.columns >= {c.number for c in columns}:
            return
        (number,) = con.execute(f"SELECT coalesce(max(id), 0) + 1 FROM {RELATIONS}").fetchone() or (1,)
        if standing is None:
            for statement in [*log_table(number, columns), *functions(table, number, columns)]:
                con.execute(statement)
        limit_waiting(con)
        # Triggers are removed behind a stronger lock, which is never asked for on top of a weaker one.
        removes = standing is None and self._is_captured(con, relation)
        mode = "ACCESS EXCLUSIVE" if removes else "SHARE ROW EXCLUSIVE"
        con.execute(f"LOCK TABLE {table.sql} IN {mode} MODE")
        if self.capturable(con, relation) != table:
            raise locked(self.name, f"table {relation!r} was altered meanwhile")
        (xid,) = con.execute("SELECT pg_current_xact_id()::text::bigint").fetchone() or (0,)
        if standing is None:
            self._remove(con, relation)
            self._install(con, table, number, xid)
        else:
            self._extend(con, table, standing, xid)

    def _standing(self, con: Connection, relation: str) -> log.Captured | None:
        """Capture that goes on; None where it is missing or broken, and has to begin anew."""
        try:
            return log.captured(con, self.name, self.schema, relation)
        except CaptureGap:
            return None

    def _install(self, con: Connection, table: Table, relation: int, xid: int) -> None:
        parts = con.execute(
            "SELECT p::oid::regclass::text FROM unnest(%s::oid[]) AS p ORDER BY p", (list(table.parts),)
        )
        for statement in triggers(table, relation, [name for (name,) in parts.fetchall()]):
            con.execute(statement)
        self._record(con, table, relation, xid, {})

    def _extend(self, con: Connection, table: Table, there: log.Captured, xid: int) -> None:
        """Columns keep their place in the log for good, so that its rows hold the older ones where the new
        functions put them."""
        new = tuple(c for c in table.captured() if c.number not in there.columns)
        for statement in [*widened(there.id, new), *functions(table, there.id, table.captured())]:
            con.execute(statement)
        con.execute(f"DELETE FROM {RELATIONS} WHERE id = {there.id}")
        added = dict(there.added) | {c.name: xid for c in new}
        self._record(con, table, there.id, there.since, added)

    def _record(
        self, con: Connection, table: Table, relation: int, since: int, added: dict[str, int]
    ) -> None:
        con.execute(
            f"INSERT INTO {RELATIONS} VALUES (%s, %s, %s, %s, %s, %s)",
            (
                relation,
                self.schema,
                table.name,
                since,
                json.dumps(shape(table, table.captured(), added)),
                installed_digest(con, table, relation),
            ),
        )

    def _is_captured(self, con: Connection, relation: str) -> bool:
        found = con.execute(
            f"SELECT 1 FROM {RELATIONS} WHERE schema = %s AND name = %s", (self.schema, relation)
        )
        return found.fetchone() is not None

    def _remove(self, con: Connection, relation: str) -> None:
        found = con.execute(
            f"DELETE FROM {RELATIONS} WHERE schema = %s AND name = %s RETURNING id", (self.schema, relation)
        )
        for (number,) in found.fetchall():
            for statement in removal(number):
                con.execute(statement)

    def remove_unneeded(self) -> None:
        """Each table in a transaction of its own: to remove a trigger is to lock readers out as well. A
        consumer that was dropped needs nothing until it is back."""
        with reading(self.name, self.url) as con:
            if not log.is_there(con):
                return
            unneeded = con.execute(f"SELECT name FROM ({_UNNEEDED}) AS r WHERE schema = %s", (self.schema,))
            names = [name for (name,) in unneeded.fetchall()]
        for name in names:
            self.patiently(lambda con, name=name: self._remove_if_unneeded(con, name))  # type: ignore[misc]

    def _remove_if_unneeded(self, con: Connection, relation: str) -> None:
        still = con.execute(
            f"SELECT 1 FROM ({_UNNEEDED}) AS r WHERE schema = %s AND name = %s", (self.schema, relation)
        )
        if log.is_there(con) and still.fetchone() is not None:
            self._remove(con, relation)


_UNNEEDED = (
    f"SELECT schema, name FROM {RELATIONS} WHERE (schema, name) NOT IN (SELECT schema, relation FROM {NEEDS}"
    f" WHERE (consumer, schema) IN (SELECT name, schema FROM {CONSUMERS} WHERE mark IS NOT NULL))"
)


def remove_foundation(con: Connection) -> None:
    """Where no consumer is left; its last relations went before."""
    if log.installed(con) is None:
        return
    active = f"{CONSUMERS} WHERE mark IS NOT NULL"
    if any(_any(con, rows) for rows in (active, RELATIONS, SLOTS, IDENTITIES)):
        return
    con.execute(f"DROP SCHEMA {S} CASCADE")


def _any(con: Connection, rows: str) -> bool:
    return con.execute(f"SELECT EXISTS (SELECT FROM {rows})").fetchone() == (True,)


def limit_waiting(con: Connection) -> None:
    con.execute(f"SET LOCAL lock_timeout = {WAIT_MILLISECONDS}")


def locked(source: str, detail: str) -> SourceError:
    return SourceError(
        f"a table of source {source!r} stayed locked",
        detail=detail,
        hint="end the transaction that another program holds open on it, then try again",
        code="LOCKED",
    )


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
