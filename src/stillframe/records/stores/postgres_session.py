"""Connections to a PostgreSQL server that keeps records, and its errors as errors a user can act on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import psycopg
from psycopg import errors as e

from stillframe.postgres_url import HINT, place_of, url_parts
from stillframe.records.store import StoreError
from stillframe.records.stores.shared import AGAIN, ANSWER_SECONDS, CONNECT_SECONDS, Handle, Pool

# What was acknowledged is on the server's disk. Nobody waits for a lock, or holds one, without end. Each
# statement goes by keys, and its plan must not depend on when a table was last analysed.
_SETTINGS = {
    "search_path": "pg_catalog",
    "client_encoding": "UTF8",
    "datestyle": "ISO",
    "timezone": "UTC",
    "extra_float_digits": "3",
    "row_security": "off",
    "synchronous_commit": "on",
    "statement_timeout": f"{ANSWER_SECONDS}s",
    "lock_timeout": f"{ANSWER_SECONDS}s",
    "idle_in_transaction_session_timeout": f"{ANSWER_SECONDS}s",
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
}
_ALIVE = {
    "connect_timeout": CONNECT_SECONDS,
    "tcp_user_timeout": ANSWER_SECONDS * 1000,
    "keepalives_idle": 10,
    "keepalives_interval": 5,
    "keepalives_count": 4,
    "application_name": "stillframe",
}


@dataclass(frozen=True)
class Session:
    con: psycopg.Connection[tuple[Any, ...]]
    schema: str  # where the tables are

    def run(self, sql: str, *parameters: Any) -> psycopg.Cursor[tuple[Any, ...]]:
        return self.con.execute(sql, parameters)

    def one(self, sql: str, *parameters: Any) -> tuple[Any, ...] | None:
        return self.run(sql, *parameters).fetchone()

    def close(self) -> None:
        self.con.close()


def parts_of(handle: Handle) -> dict[str, Any]:
    parts = url_parts(handle.url)
    if parts is None:
        raise StoreError(
            f"the url of the store of view {handle.view!r} cannot be read", hint=HINT, code="BAD_URL"
        )
    return parts


def _connect(url: str) -> Session:
    parts: dict[str, Any] = _ALIVE | (url_parts(url) or {})
    con = psycopg.connect(**parts, autocommit=True)
    (schema,) = con.execute("SELECT current_schema()").fetchone() or (None,)
    if "search_path" not in str(parts.get("options", "")):
        schema = "public"
    told = ", ".join(f"set_config('{name}', '{to}', false)" for name, to in _SETTINGS.items())
    con.execute("SELECT " + told)
    if schema is None:
        con.close()
        raise e.InvalidSchemaName("no schema of the search_path in the url is there")
    return Session(con, str(schema))


POOL: Pool[str, Session] = Pool(_connect)

_LOGIN = ("authentication failed", "no password supplied", "pg_hba.conf", "not permitted to log in", "role ")
_KNOWN: tuple[tuple[tuple[type[psycopg.Error], ...], str, str, str], ...] = (
    ((e.LockNotAvailable, e.QueryCanceled, e.DeadlockDetected, e.SerializationFailure), "LOCKED",
     "stayed locked", f"end the transaction that another program holds open on it; {AGAIN}"),
    ((e.InsufficientPrivilege,), "NOT_PERMITTED",
     "is not ours to use", "GRANT USAGE, CREATE ON SCHEMA … to the account of the url"),
    ((e.InvalidSchemaName,), "NO_SCHEMA",
     "names a schema that is not there", "CREATE SCHEMA …, or check the options in the url"),
    ((e.ReadOnlySqlTransaction,), "READ_ONLY",
     "is read-only", "give the url of the primary server"),
    ((e.OperationalError, e.InterfaceError), "UNREACHABLE",
     "cannot be reached", f"check host and port in the url, and that the server runs; {AGAIN}"),
    ((psycopg.Error,), "STORE_ERROR",
     "refuses", f"see what the server says; {AGAIN}"),
)  # fmt: skip


@contextmanager
def connected(handle: Handle) -> Iterator[Session]:
    parts = parts_of(handle)
    place = place_of(parts)
    try:
        with POOL.connection(handle.url) as session:
            yield session
    except e.UndefinedTable:
        handle.not_made(place)
    except psycopg.Error as error:
        text = " ".join((error.diag.message_primary or str(error)).split())
        code, what, hint = next(known[1:] for known in _KNOWN if isinstance(error, known[0]))
        if code == "UNREACHABLE" and any(sign in text for sign in _LOGIN):
            code, what, hint = "LOGIN_REFUSED", "refuses the login", "check user and password in the url"
        raise StoreError(
            f"the store of view {handle.view!r} {what}", detail=f"{place}: {text}", hint=hint, code=code
        ) from error


@contextmanager
def transaction(handle: Handle) -> Iterator[Session]:
    """Each statement of it sees what was committed before it. They are sent when an answer is wanted, or at
    the end; a session that is thrown away takes what it did not commit with it."""
    with connected(handle) as session, session.con.pipeline():
        session.run("BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE")
        yield session
        session.run("COMMIT")
