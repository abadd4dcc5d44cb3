"""MariaDB, captured by triggers, keeps every promise of `Source` that it can be held to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conforming import checks_but, must_keep, not_offered
from world_mariadb import mariadb_world

import servers
from stillframe.sources.conformance import Check

NOT_OFFERED = frozenset(
    {
        "check_what_lies_between_two_positions_is_one",
        # Neither TRUNCATE nor cascades fire triggers: they are named, and refused.
        "check_truncation_is_captured",
        "check_cascades_are_captured",
    }
)


@pytest.fixture(scope="module")
def server() -> Iterator[servers.MariadbServer]:
    with servers.mariadb() as started:
        yield started


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED))
def test_mariadb(check: Check, server: servers.MariadbServer) -> None:
    must_keep(check, lambda: mariadb_world(server))


def test_what_mariadb_does_not_offer(server: servers.MariadbServer) -> None:
    assert not_offered(lambda: mariadb_world(server)) == NOT_OFFERED
