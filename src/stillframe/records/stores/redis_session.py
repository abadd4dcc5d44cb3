"""Connections to a Redis server that keeps records, and its errors as errors a user can act on."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

import redis
from redis import exceptions as e
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.retry import Retry

from stillframe.records.store import StoreError
from stillframe.records.stores.shared import AGAIN, ANSWER_SECONDS, CONNECT_SECONDS, Handle, Pool

_OURS: dict[str, Any] = {
    "socket_connect_timeout": CONNECT_SECONDS,
    "socket_timeout": ANSWER_SECONDS,
    "retry": Retry(NoBackoff(), 0),  # who wrote and got no answer has to look first
    "decode_responses": False,
    "protocol": 2,
}
_KNOWN: tuple[tuple[tuple[type[e.RedisError], ...], str, str, str], ...] = (
    ((e.AuthenticationError, e.AuthorizationError, e.NoPermissionError), "LOGIN_REFUSED",
     "refuses the login", "check user and password in the url, and the rights of the account"),
    ((e.ConnectionError, e.TimeoutError), "UNREACHABLE",
     "cannot be reached", f"check host and port in the url, and that the server runs; {AGAIN}"),
    ((e.ReadOnlyError,), "READ_ONLY",
     "is read-only", "give the url of the primary server"),
    ((e.OutOfMemoryError,), "STORE_FULL",
     "is full", f"give the server more memory (maxmemory); {AGAIN}"),
    ((e.RedisError,), "STORE_ERROR",
     "refuses", f"see what the server says; {AGAIN}"),
)  # fmt: skip

_parts: Callable[[str], dict[str, Any]] = parse_url
Call = tuple[Sequence[str], Sequence[Any]]  # the keys and the arguments of a script


def _connect(url: str) -> redis.Redis:
    return redis.Redis.from_pool(redis.ConnectionPool(**(_parts(url) | _OURS)))


POOL: Pool[str, redis.Redis] = Pool(_connect)


def place_of(handle: Handle) -> str:
    """Where the server is. What is wrong with a url is not quoted: it may be a part of a password."""
    try:
        parts = _parts(handle.url)
        if not re.fullmatch(r"/?\d*", urlsplit(handle.url).path):
            raise ValueError
    except ValueError:
        raise StoreError(
            f"the url of the store of view {handle.view!r} cannot be read",
            hint="redis://:${PASSWORD}@host:6379/0; special characters in a password are written as %40"
            " and the like",
            code="BAD_URL",
        ) from None
    return f"{parts.get('host', 'localhost')}:{parts.get('port', 6379)}/{parts.get('db', 0)}"


@contextmanager
def connected(handle: Handle) -> Iterator[redis.Redis]:
    place = place_of(handle)
    try:
        with POOL.connection(handle.url) as client:
            yield client
    except e.RedisError as error:
        code, what, hint = next(known[1:] for known in _KNOWN if isinstance(error, known[0]))
        raise StoreError(
            f"the store of view {handle.view!r} {what}", detail=f"{place}: {error}", hint=hint, code=code
        ) from error


def answers(client: redis.Redis, script: str, calls: Sequence[Call]) -> list[Any]:
    """What a script answers to each of several calls, sent together. One that the server does not know (any
    more) was not run: the server is told it, and asked again."""
    found = _asked(client, script, calls)
    unknown = [n for n, answer in enumerate(found) if isinstance(answer, e.NoScriptError)]
    if unknown:
        client.script_load(script)
        for n, answer in zip(unknown, _asked(client, script, [calls[n] for n in unknown]), strict=True):
            found[n] = answer
    for answer in found:
        if isinstance(answer, Exception):
            raise answer
    return found


def _asked(client: redis.Redis, script: str, calls: Iterable[Call]) -> list[Any]:
    pipe = client.pipeline(transaction=False)
    sha = hashlib.sha1(script.encode(), usedforsecurity=False).hexdigest()
    for keys, arguments in calls:
        pipe.evalsha(sha, len(keys), *keys, *arguments)
    return pipe.execute(raise_on_error=False)
