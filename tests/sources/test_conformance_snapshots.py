"""Databases of which only snapshots are taken keep every promise of `Source` that they can be held to."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from conforming import checks_but, must_keep, not_offered
from world_snapshots import mariadb_snapshot_world, postgres_snapshot_world, sqlite_snapshot_world

import servers
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
    "check_trimming_spares_what_commits_late",
    "check_accounts_that_may_only_write",
    "check_the_server_is_restarted",
    "check_the_server_crashes",
    "check_transactions_that_commit_late",
    "check_one_open_since_before_attach",
    "check_truncation_is_captured",
    "check_passwords_are_never_shown",
}


NOT_OFFERED_BY_POSTGRES = NO_LOG | {"check_accounts_that_may_only_write", "check_rows_pushed_out_by_replace"}
NOT_OFFERED_BY_MARIADB = NO_LOG | {"check_accounts_that_may_only_write"}

# All else rests on the snapshots that are kept, which is the same for every database.
OF_THE_READER = frozenset(
    {
        "check_every_statement_is_captured",
        "check_transactions_of_several_tables",
        "check_cascades_are_captured",
        "check_truncation_is_captured",
        "check_wide_rows",
        "check_tables_whose_names_need_quoting",
        "check_columns_whose_names_need_quoting",
        "check_a_transaction_of_100_000_rows",
        "check_every_common_type_is_listed",
        "check_types_at_their_extremes",
        "check_texts_of_any_script",
        "check_any_bytes",
        "check_types_without_counterpart_are_refused_by_name",
        "check_what_the_source_says_of_itself",
        "check_positions_fixed_while_others_write",
        "check_transactions_that_commit_late",
        "check_one_open_since_before_attach",
        "check_attach_while_others_write",
        "check_detach_leaves_no_trace",
        "check_table_dropped_and_created_again",
        "check_an_added_column_goes_unnoticed",
        "check_a_dropped_column_stops_its_relation_only",
        "check_a_retyped_column_stops_its_relation_only",
        "check_a_renamed_column_stops_its_relation_only",
        "check_passwords_are_never_shown",
        "check_sessions_with_other_settings",
        "check_generated_columns",
        "check_the_server_is_restarted",
        "check_the_server_crashes",
    }
)


@pytest.fixture(scope="module")
def postgres() -> Iterator[servers.PostgresServer]:
    with servers.postgres() as started:
        yield started


@pytest.fixture(scope="module")
def mariadb() -> Iterator[servers.MariadbServer]:
    with servers.mariadb() as started:
        yield started


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED_BY_SQLITE, OF_THE_READER - NOT_OFFERED_BY_SQLITE))
def test_sqlite_snapshots(check: Check, tmp_path: Path) -> None:
    must_keep(check, lambda: sqlite_snapshot_world(tmp_path))


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED_BY_POSTGRES, OF_THE_READER))
def test_postgres_snapshots(check: Check, postgres: servers.PostgresServer, tmp_path: Path) -> None:
    must_keep(check, lambda: postgres_snapshot_world(postgres, tmp_path))


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED_BY_MARIADB, OF_THE_READER))
def test_mariadb_snapshots(check: Check, mariadb: servers.MariadbServer, tmp_path: Path) -> None:
    must_keep(check, lambda: mariadb_snapshot_world(mariadb, tmp_path))


def test_what_snapshots_do_not_offer(
    postgres: servers.PostgresServer, mariadb: servers.MariadbServer, tmp_path: Path
) -> None:
    assert not_offered(lambda: sqlite_snapshot_world(tmp_path)) == NOT_OFFERED_BY_SQLITE
    assert not_offered(lambda: postgres_snapshot_world(postgres, tmp_path)) == NOT_OFFERED_BY_POSTGRES
    assert not_offered(lambda: mariadb_snapshot_world(mariadb, tmp_path)) == NOT_OFFERED_BY_MARIADB
