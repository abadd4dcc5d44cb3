"""One server of each kind for a module, one empty place in it for a test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from places import SECRET, Place, postgres_place, redis_place, sqlite_place

import servers
from stillframe.records.stores import postgres_session, redis_session, sqlite_session


@pytest.fixture(scope="module")
def redis() -> Iterator[servers.RedisServer]:
    with servers.redis_server("--appendonly", "yes", "--appendfsync", "always", password=SECRET) as server:
        yield server


@pytest.fixture(scope="module")
def postgres() -> Iterator[servers.PostgresServer]:
    with servers.postgres() as server:
        yield server


@pytest.fixture
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "sqlite":
        return sqlite_place(tmp_path)
    if request.param == "redis":
        return redis_place(request.getfixturevalue("redis"))
    return postgres_place(request.getfixturevalue("postgres"))


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """The connections of one test are of no use to the next."""
    yield
    for session in (sqlite_session, redis_session, postgres_session):
        session.POOL.close()
