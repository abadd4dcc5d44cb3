"""Where the stores under test are: empty databases of real servers."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import NamedTuple
from urllib.parse import quote

import pytest

import servers
from stillframe.records.conformance import ORDERS, View
from stillframe.records.store import RecordStore
from stillframe.records.stores.opening import open_store

SECRET = "s3cret/@:%?"
STORES = ("sqlite", "redis", "postgresql")
NUMBERS = count(1)

on_all = pytest.mark.parametrize("place", STORES, indirect=True)
on_servers = pytest.mark.parametrize("place", STORES[1:], indirect=True)


def on(*names: str) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("place", names, indirect=True)


class Place(NamedTuple):
    """`space` is what tells it from the places of other tests: a file, a project, a schema."""

    kind: str
    url: str
    project: str
    space: str
    server: servers.RedisServer | servers.PostgresServer | None = None

    def __call__(self, epoch: int, view: View = ORDERS, /) -> RecordStore:
        return open_store(self.url, self.project, *view, epoch)


def sqlite_place(folder: Path) -> Place:
    path = folder / "shop.db"
    return Place("sqlite", f"sqlite:///{path}", "shop", str(path))


def redis_place(server: servers.RedisServer) -> Place:
    project = f"shop {next(NUMBERS)}"
    return Place("redis", server.url(), project, project, server)


def postgres_place(server: servers.PostgresServer) -> Place:
    schema = f"shop_{next(NUMBERS)}"
    with server.connect() as con:
        con.execute(f"CREATE SCHEMA {schema}")
    options = quote(f"-csearch_path={schema}", safe="")
    url = server.url(password=quote(SECRET, safe=""))
    return Place("postgresql", f"{url}?options={options}", "shop", schema, server)
