"""PostgreSQL, captured by triggers, keeps every promise of `Source` that it can be held to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conforming import checks_but, must_keep, not_offered
from world_postgres import postgres_world

import servers
from stillframe.sources.conformance import Check

NOT_OFFERED = frozenset(
    {
        # Transactions are told apart, TRUNCATE and cascades are captured.
        "check_what_lies_between_two_positions_is_one",
        "check_truncation_is_named",
        "check_cascades_not_captured_are_refused",
        "check_a_cascade_added_later_is_a_gap",
        # There is no such statement.
        "check_rows_pushed_out_by_replace",
    }
)


@pytest.fixture(scope="module")
def server() -> Iterator[servers.PostgresServer]:
    with servers.postgres() as started:
        yield started


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED))
def test_postgres(check: Check, server: servers.PostgresServer) -> None:
    must_keep(check, lambda: postgres_world(server))


def test_what_postgres_does_not_offer(server: servers.PostgresServer) -> None:
    assert not_offered(lambda: postgres_world(server)) == NOT_OFFERED
