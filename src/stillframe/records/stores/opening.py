"""From a url to the store of a view's records. Nothing is reached here: a handle connects when it is used."""

from __future__ import annotations

from collections.abc import Callable

from stillframe.algebra.schema import Schema
from stillframe.records.store import RecordStore, StoreError

FORMS = (
    "sqlite:///relative.db, sqlite:////absolute.db, redis://:${PASSWORD}@host:6379/0, rediss://…"
    " or postgresql://user:${PASSWORD}@host/database"
)


def open_store(
    url: str, name: str, view: str, schema: Schema, key: tuple[int, ...], epoch: int
) -> RecordStore:
    """The records of view `view` of project `name`. Readers see the columns of `schema`; `key` are the places
    of the view's key columns in it. What the handle writes, it writes at `epoch`."""
    scheme, separator, _ = url.partition("://")
    opener = _SCHEMES.get(scheme.lower()) if separator else None
    if opener is None:
        raise StoreError(
            f"the store of view {view!r} has a url of an unknown kind",
            detail=f"scheme {scheme!r}" if separator and scheme.isalnum() else "the url has no scheme",
            hint=f"use {FORMS}",
            code="BAD_URL",
        )
    return opener(url, name, view, schema, key, epoch)


def _sqlite(url: str, name: str, view: str, schema: Schema, key: tuple[int, ...], epoch: int) -> RecordStore:
    from stillframe.records.stores.sqlite_store import SqliteStore

    return SqliteStore(url, name, view, schema, key, epoch)


def _redis(url: str, name: str, view: str, schema: Schema, key: tuple[int, ...], epoch: int) -> RecordStore:
    from stillframe.records.stores.redis_store import RedisStore

    return RedisStore(url, name, view, schema, key, epoch)


def _postgres(
    url: str, name: str, view: str, schema: Schema, key: tuple[int, ...], epoch: int
) -> RecordStore:
    from stillframe.records.stores.postgres_store import PostgresStore

    return PostgresStore(url, name, view, schema, key, epoch)


Opener = Callable[[str, str, str, Schema, tuple[int, ...], int], RecordStore]
_SCHEMES: dict[str, Opener] = {
    "sqlite": _sqlite,
    "redis": _redis,
    "rediss": _redis,
    "postgresql": _postgres,
    "postgres": _postgres,
}
