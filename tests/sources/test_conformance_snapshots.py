"""Databases of which only snapshots are taken keep every promise of `Source` that they can be held to."""

from __future__ import annotations

from pathlib import Path

import pytest
from conforming import checks_but, must_keep, not_offered
from world_snapshots import sqlite_snapshot_world

from stillframe.sources.conformance import Check

# No log: what lies between two looks is one change, and any other state is a change like another.
NO_LOG = frozenset(
    {
        "check_late_transactions_are_told_once",
        "check_transactions_follow_those_they_build_on",
        "check_transactions_are_told_apart",
        "check_numbers_are_names_for_good",
        "check_states_without_some_transactions",
        "check_marked_transactions_come_back",
        "check_a_state_without_a_marked_transaction",
        "check_capture_dropped_behind_our_back",
        "check_capture_switched_off_and_on_again",
        "check_another_database_in_its_place",
        "check_restored_from_an_older_copy",
        "check_restored_and_written_as_much_again",
        "check_truncation_is_named",
        "check_cascades_not_captured_are_refused",
        "check_a_cascade_added_later_is_a_gap",
        "check_an_account_that_only_reads",
    }
)
NOT_OFFERED_BY_SQLITE = NO_LOG | {
    "check_transactions_that_commit_late",
    "check_one_open_since_before_attach",
    "check_truncation_is_captured",
    "check_passwords_are_never_shown",
}


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED_BY_SQLITE))
def test_sqlite_snapshots(check: Check, tmp_path: Path) -> None:
    must_keep(check, lambda: sqlite_snapshot_world(tmp_path))


def test_what_sqlite_snapshots_do_not_offer(tmp_path: Path) -> None:
    assert not_offered(lambda: sqlite_snapshot_world(tmp_path)) == NOT_OFFERED_BY_SQLITE
