"""Connections to a SQLite file that keeps records, and its errors as errors a user can act on."""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

from stillframe.records.store import StoreError
from stillframe.records.stores.shared import AGAIN, ANSWER_SECONDS, Handle, Pool


class File(NamedTuple):
    """A file that was put in another's place is another."""

    path: str
    device: int
    inode: int


def _connect(file: File) -> sqlite3.Connection:
    uri = f"file:{quote(file.path)}?mode=rw"
    con = sqlite3.connect(
        uri, uri=True, timeout=ANSWER_SECONDS, isolation_level=None, check_same_thread=False
    )
    with suppress(sqlite3.OperationalError):  # another connection is at it
        con.execute("PRAGMA journal_mode = WAL")
    con.execute("PRAGMA synchronous = FULL")
    return con


def _begin(con: sqlite3.Connection) -> None:
    """Writers are quick, and SQLite's own waiting grows to a tenth of a second: this asks again sooner."""
    deadline = time.monotonic() + ANSWER_SECONDS
    con.execute("PRAGMA busy_timeout = 5")
    while True:
        try:
            con.execute("BEGIN IMMEDIATE")
            break
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > deadline:
                raise
        time.sleep(random.uniform(0, 0.01))
    con.execute(f"PRAGMA busy_timeout = {ANSWER_SECONDS * 1000}")


POOL: Pool[File, sqlite3.Connection] = Pool(_connect)


def path_of(handle: Handle) -> Path:
    rest = handle.url.partition("://")[2]
    if not rest.startswith("/") or rest in ("/", "/:memory:"):
        raise StoreError(
            f"the store of view {handle.view!r} names no database file",
            detail=handle.url,
            hint="three slashes before a relative path, four before an absolute one",
            code="BAD_URL",
        )
    return Path(rest[1:]).absolute()


@contextmanager
def connected(handle: Handle, path: Path) -> Iterator[sqlite3.Connection]:
    with explained(handle, path):
        if not path.exists():
            handle.not_made(str(path))
        file = path.stat()
        with POOL.connection(File(str(path), file.st_dev, file.st_ino)) as con:
            yield con


@contextmanager
def writing(handle: Handle, path: Path) -> Iterator[sqlite3.Connection]:
    """One transaction; a connection that is thrown away takes what it did not commit with it."""
    with connected(handle, path) as con:
        _begin(con)
        yield con
        con.execute("COMMIT")


@contextmanager
def explained(handle: Handle, path: Path) -> Iterator[None]:
    try:
        yield
    except (sqlite3.Error, OSError) as error:
        text = str(error)
        if "no such table" in text:
            handle.not_made(str(path))
        what, code = "cannot be used", StoreError.code
        hint = f"check the path in the url, and the right to write there; {AGAIN}"
        if "locked" in text or "busy" in text:
            what, code = f"stayed locked for {ANSWER_SECONDS} seconds", "LOCKED"
            hint = f"end the transaction that another program holds open on it; {AGAIN}"
        raise StoreError(
            f"the store of view {handle.view!r} {what}", detail=f"{path}: {text}", hint=hint, code=code
        ) from error
