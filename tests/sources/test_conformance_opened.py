"""What a project's own words open keeps the promises that the source behind it keeps."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from conforming import checks_but, must_keep
from test_conformance_mariadb import NOT_OFFERED as NOT_OFFERED_BY_MARIADB
from test_conformance_postgres import NOT_OFFERED as NOT_OFFERED_BY_POSTGRES
from world_mariadb import MariadbWorld
from world_postgres import PostgresWorld

import servers
from stillframe.sources import Source, SourceConfig, open_source
from stillframe.sources.conformance import Check, World

# All else is the same as of the source that is chosen.
OF_THE_CHOICE = frozenset(
    {
        "check_a_source_is_a_value",
        "check_what_the_source_says_of_itself",
        "check_attach_killed_half_way",
        "check_detach_leaves_no_trace",
        "check_an_account_that_only_reads",
        "check_passwords_are_never_shown",
    }
)


class OpenedPostgres(PostgresWorld):
    kept: Path

    def _opened(self, url: str, capture_limit: int | None = None) -> Source:
        return open_source("s", SourceConfig(url=url, capture_limit=capture_limit), keep=self.kept)

    def source(self, capture_limit: int | None = None) -> Source:
        return self._opened(self._url("app"), capture_limit)

    def unreachable_source(self) -> Source:
        return self._opened(self._url("app", servers.free_port()))


class OpenedMariadb(MariadbWorld):
    kept: Path

    def _opened(self, url: str, capture_limit: int | None = None) -> Source:
        return open_source("s", SourceConfig(url=url, capture_limit=capture_limit), keep=self.kept)

    def source(self, capture_limit: int | None = None) -> Source:
        return self._opened(self._url("app"), capture_limit)

    def unreachable_source(self) -> Source:
        return self._opened(self._url("app", servers.free_port()))


@contextmanager
def opened(world: OpenedPostgres | OpenedMariadb, folder: Path) -> Iterator[World]:
    world.kept = folder
    try:
        yield world
    finally:
        world.close()


@pytest.fixture(scope="module")
def postgres() -> Iterator[servers.PostgresServer]:
    with servers.postgres() as started:
        yield started


@pytest.fixture(scope="module")
def mariadb() -> Iterator[servers.MariadbServer]:
    with servers.mariadb() as started:
        yield started


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED_BY_POSTGRES, OF_THE_CHOICE))
def test_opened_postgres(check: Check, postgres: servers.PostgresServer, tmp_path: Path) -> None:
    must_keep(check, lambda: opened(OpenedPostgres(postgres, "opened"), tmp_path))


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED_BY_MARIADB, OF_THE_CHOICE))
def test_opened_mariadb(check: Check, mariadb: servers.MariadbServer, tmp_path: Path) -> None:
    must_keep(check, lambda: opened(OpenedMariadb(mariadb, "opened"), tmp_path))
