"""Connections to a MariaDB server, and its errors as errors a user can act on.

A snapshot is one transaction: it sees what was committed when it began, of all InnoDB tables at once. It does
not see definitions so: a table that was truncated or altered after it began answers with error 1412 (or 1146
while it is being replaced), and the whole read is begun again.
"""

from __future__ import annotations

import ssl
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, TypeVar
from urllib.parse import parse_qs, unquote, urlsplit

import pymysql
from pymysql.cursors import SSCursor

from stillframe.errors import ProjectError, SourceError

HERE = "\0"
CONNECT_SECONDS = 10
LOCK_SECONDS = 30.0
CHANGED_DEFINITION = (1412,)
LOCK_WAIT, DEADLOCK, STATEMENT_TIMEOUT = 1205, 1213, 1969
_ACCESS = (1044, 1142, 1143, 1227, 1370, 1419, 1410)
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Server:
    """Where a database is and who we are there. Never printed with its password."""

    host: str
    port: int
    user: str
    password: str = field(repr=False)
    database: str
    ssl_ca: str | None = None

    @property
    def address(self) -> str:
        return f"mariadb:{self.host}:{self.port}/{self.database}"


def server_of(source: str, url: str) -> Server:
    """mariadb://user:password@host:port/database, with ?ssl_ca=FILE if the server is to prove itself."""
    hint = "use mariadb://user:${PASSWORD}@host:3306/database"
    try:
        parts = urlsplit(url)
        port = parts.port or 3306
    except ValueError:
        raise ProjectError(f"the url of source {source!r} cannot be read", hint=hint) from None
    database = unquote(parts.path.removeprefix("/"))
    if not parts.hostname or not database or "/" in database:
        raise ProjectError(f"the url of source {source!r} names no host, or no database", hint=hint)
    options = parse_qs(parts.query)
    unknown = sorted(set(options) - {"ssl_ca"})
    if unknown:
        raise ProjectError(
            f"the url of source {source!r} has unknown options", detail=", ".join(unknown), hint=hint
        )
    return Server(
        parts.hostname,
        port,
        unquote(parts.username or ""),
        unquote(parts.password or ""),
        database,
        options.get("ssl_ca", [None])[-1],
    )


@lru_cache(maxsize=16)
def _tls(ca: str | None) -> ssl.SSLContext:
    """With a certificate to go by, the server has to prove itself; else TLS is used where the server has
    it."""
    context = ssl.create_default_context(cafile=ca)
    if ca is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


class Connection:
    """One session, in UTF-8 and UTC, in no strict mode: what is stored is read as it is."""

    def __init__(self, server: Server) -> None:
        self.raw: pymysql.Connection[Any] = pymysql.connect(
            host=server.host,
            port=server.port,
            user=server.user,
            password=server.password,
            database=server.database,
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            ssl_disabled=True,
            defer_connect=True,
            init_command="SET time_zone = '+00:00', sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO',"
            " net_write_timeout = 3600, max_statement_time = 0",
        )
        # As the driver would do it, which reads all certificates of the system for each connection.
        raw: Any = self.raw
        raw.ssl, raw._ssl_required, raw.ctx = True, server.ssl_ca is not None, _tls(server.ssl_ca)
        raw.connect()

        self._memory: dict[str, Any] = {}

    def remembered(self, name: str, find: Callable[[Connection], _T]) -> _T:
        """What was found once on this connection, and does not change for whoever it serves."""
        if name not in self._memory:
            self._memory[name] = find(self)
        found: _T = self._memory[name]
        return found

    def forget(self) -> None:
        self._memory.clear()

    def run(self, sql: str, parameters: Sequence[Any] = ()) -> int:
        """Executes, and says how many rows were affected. A parameter stands where the text says %s, or, in a
        text with names of the user's in it, which may say that too, where it has a HERE."""
        with self.raw.cursor() as cursor:
            return int(cursor.execute(_text(sql), tuple(parameters) or None))

    def all(self, sql: str, parameters: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        with self.raw.cursor() as cursor:
            cursor.execute(_text(sql), tuple(parameters) or None)
            return list(cursor.fetchall())

    def one(self, sql: str, parameters: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        rows = self.all(sql, parameters)
        return rows[0] if rows else None

    def value(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
        row = self.one(sql, parameters)
        return row[0] if row else None

    @contextmanager
    def stream(self, sql: str, parameters: Sequence[Any] = ()) -> Iterator[SSCursor]:
        """A cursor whose rows stay at the server until they are fetched, as bytes. One left before its end
        takes its connection with it: the rows still under way are not worth waiting for."""
        cursor = self.raw.cursor(SSCursor)
        cursor.execute(_text(sql), tuple(parameters) or None)
        result: Any = cursor._result  # type: ignore[attr-defined]
        result.converters = [(None, None)] * len(cursor.description)
        try:
            yield cursor
        finally:
            if result.unbuffered_active:
                result.unbuffered_active = False
                self.raw._force_close()  # type: ignore[attr-defined]
            else:
                cursor.close()

    def close(self) -> None:
        if self.raw.open:
            self.raw.close()


def _text(sql: str) -> str:
    return sql.replace("%", "%%").replace(HERE, "%s") if HERE in sql else sql


@contextmanager
def explained(source: str, server: Server) -> Iterator[None]:
    """The server's own errors as errors a user can act on."""
    try:
        yield
    except pymysql.err.MySQLError as error:
        raise _explanation(source, server, error) from error


def _explanation(source: str, server: Server, error: pymysql.err.MySQLError) -> SourceError:
    code = error.args[0] if error.args and isinstance(error.args[0], int) else 0
    text = str(error.args[1]) if len(error.args) > 1 else str(error)
    where = f"{server.host}:{server.port}"
    if code in (2002, 2003, 2005, 2006, 2013):
        return SourceError(
            f"source {source!r} cannot be reached",
            detail=f"{where}: {text}",
            hint="check the url of the source, and that the server runs",
            code="UNREACHABLE",
        )
    if code == 1045 or code == 1698:
        return SourceError(
            f"source {source!r} does not let the user {server.user!r} in",
            detail=text,
            hint="check the user and password in the url of the source",
            code="ACCESS_DENIED",
        )
    if code == 1049:
        return SourceError(
            f"source {source!r} has no database {server.database!r}",
            detail=f"at {where}",
            hint="check the url of the source; a missing database is never created",
            code="NO_DATABASE",
        )
    if code in _ACCESS:
        return SourceError(
            f"the user {server.user!r} may not do that at source {source!r}",
            detail=text,
            hint="`stillframe check` says which rights each way to capture needs",
            code="ACCESS_DENIED",
        )
    if code in (1290, 1836, 1792):
        return SourceError(
            f"source {source!r} is read-only",
            detail=text,
            hint="capture: snapshot needs no writing; or use the server that takes writes",
            code="READ_ONLY",
        )
    if code in (LOCK_WAIT, DEADLOCK, STATEMENT_TIMEOUT):
        return SourceError(
            f"source {source!r} stayed locked for {LOCK_SECONDS:g} seconds",
            detail=text,
            hint="end the transaction that another program holds open on it, then try again",
            code="LOCKED",
        )
    return SourceError(f"source {source!r} cannot be used", detail=f"{where}: {code} {text}")


@contextmanager
def connected(source: str, server: Server) -> Iterator[Connection]:
    """A session in which each statement is its own transaction."""
    with explained(source, server):
        con = Connection(server)
        try:
            yield con
        finally:
            con.close()


@contextmanager
def snapshot(source: str, server: Server) -> Iterator[Connection]:
    """One snapshot."""
    with connected(source, server) as con:
        begin_snapshot(con)
        yield con


def begin_snapshot(con: Connection) -> None:
    con.run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
    con.run("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY")


@contextmanager
def transaction(con: Connection) -> Iterator[None]:
    """Committed if its block ends well."""
    con.run("START TRANSACTION")
    try:
        yield
        con.run("COMMIT")
    except BaseException:
        if con.raw.open:
            con.raw.rollback()
        raise


def error_number(error: pymysql.err.MySQLError) -> int:
    return error.args[0] if error.args and isinstance(error.args[0], int) else 0


def redefined(error: pymysql.err.MySQLError) -> bool:
    """A table was defined anew since the snapshot began, or a segment of the log was dropped."""
    number = error_number(error)
    dropped = number == 1146 and "._stillframe_log" in str(error).replace("`", "")
    return dropped or number in CHANGED_DEFINITION


def locked(error: pymysql.err.MySQLError) -> bool:
    return error_number(error) in (LOCK_WAIT, DEADLOCK, STATEMENT_TIMEOUT)


def retried(
    attempt: Callable[[], _T],
    *,
    when: Callable[[pymysql.err.MySQLError], bool],
    seconds: float = LOCK_SECONDS,
) -> _T:
    """The attempt's result, made again while it fails with such an error."""
    deadline = time.monotonic() + seconds
    pause = 0.05
    while True:
        try:
            return attempt()
        except pymysql.err.MySQLError as error:
            if not when(error) or time.monotonic() > deadline:
                raise
        time.sleep(pause)
        pause = min(pause * 1.5, 0.5)
