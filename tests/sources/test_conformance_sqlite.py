"""SQLite keeps every promise of `Source` that it can be held to."""

from __future__ import annotations

from pathlib import Path

import pytest
from conforming import checks_but, must_keep, not_offered
from world_sqlite import sqlite_world

from stillframe.sources.conformance import Check

NOT_OFFERED = frozenset(
    {
        # One writer at a time, and no number that tells a transaction from the next.
        "check_transactions_that_commit_late",
        "check_late_transactions_are_told_once",
        "check_trimming_spares_what_commits_late",
        "check_transactions_follow_those_they_build_on",
        "check_one_open_since_before_attach",
        "check_transactions_are_told_apart",
        "check_numbers_are_names_for_good",
        "check_states_without_some_transactions",
        # Cascades fire triggers, and there is no TRUNCATE.
        "check_truncation_is_captured",
        "check_truncation_is_named",
        "check_cascades_not_captured_are_refused",
        "check_a_cascade_added_later_is_a_gap",
        # Triggers cannot be switched off.
        "check_capture_switched_off_and_on_again",
        # A file has no accounts, and no server.
        "check_accounts_that_may_only_write",
        "check_the_server_is_restarted",
        "check_the_server_crashes",
        "check_an_account_that_only_reads",
        "check_passwords_are_never_shown",
    }
)


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED))
def test_sqlite(check: Check, tmp_path: Path) -> None:
    must_keep(check, lambda: sqlite_world(tmp_path))


def test_what_sqlite_does_not_offer(tmp_path: Path) -> None:
    assert not_offered(lambda: sqlite_world(tmp_path)) == NOT_OFFERED
