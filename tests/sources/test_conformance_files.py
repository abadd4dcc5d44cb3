"""Exports in CSV and Parquet keep every promise of `Source` that they can be held to."""

from __future__ import annotations

from pathlib import Path

import pytest
from conforming import checks_but, must_keep, not_offered
from world_exports import CsvWorld, ExportsWorld, ParquetWorld, exports_world

from stillframe.sources.conformance import Check

NOT_OFFERED = frozenset(
    {
        # One relation.
        "check_transactions_of_several_tables",
        "check_tables_whose_names_need_quoting",
        "check_ranges_of_other_tables",
        "check_relations_attached_later",
        "check_released_relations",
        "check_cascades_are_captured",
        "check_cascades_not_captured_are_refused",
        "check_a_cascade_added_later_is_a_gap",
        # An export shows no transactions.
        "check_transactions_that_commit_late",
        "check_late_transactions_are_told_once",
        "check_trimming_spares_what_commits_late",
        "check_transactions_follow_those_they_build_on",
        "check_one_open_since_before_attach",
        "check_transactions_are_told_apart",
        "check_numbers_are_names_for_good",
        "check_states_without_some_transactions",
        "check_marked_transactions_come_back",
        "check_a_state_without_a_marked_transaction",
        # Nothing is installed that could be lost; any other state is a change like another.
        "check_truncation_is_captured",
        "check_truncation_is_named",
        "check_capture_dropped_behind_our_back",
        "check_capture_switched_off_and_on_again",
        "check_another_database_in_its_place",
        "check_restored_from_an_older_copy",
        "check_restored_and_written_as_much_again",
        # Files have no accounts, no server and no programs of their own.
        "check_accounts_that_may_only_write",
        "check_sessions_with_other_settings",
        "check_writers_see_the_keys_they_were_given",
        "check_triggers_of_the_application",
        "check_generated_columns",
        "check_the_server_is_restarted",
        "check_the_server_crashes",
        "check_an_account_that_only_reads",
        "check_passwords_are_never_shown",
    }
)
NOT_OFFERED_BY_CSV = NOT_OFFERED | {
    "check_any_bytes",
    "check_types_without_counterpart_are_refused_by_name",
}


# All else is the same for both kinds of files.
OF_PARQUET = frozenset(
    {
        "check_every_statement_is_captured",
        "check_tables_without_keys",
        "check_wide_rows",
        "check_columns_whose_names_need_quoting",
        "check_a_transaction_of_100_000_rows",
        "check_every_common_type_is_listed",
        "check_types_at_their_extremes",
        "check_texts_of_any_script",
        "check_any_bytes",
        "check_types_without_counterpart_are_refused_by_name",
        "check_positions_fixed_while_others_write",
        "check_an_added_column_goes_unnoticed",
        "check_a_dropped_column_stops_its_relation_only",
        "check_a_retyped_column_stops_its_relation_only",
        "check_a_renamed_column_stops_its_relation_only",
    }
)


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED, OF_PARQUET))
def test_parquet(check: Check, tmp_path: Path) -> None:
    must_keep(check, lambda: exports_world(ParquetWorld, tmp_path))


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED_BY_CSV))
def test_csv(check: Check, tmp_path: Path) -> None:
    must_keep(check, lambda: exports_world(CsvWorld, tmp_path))


@pytest.mark.parametrize(("kind", "names"), [(ParquetWorld, NOT_OFFERED), (CsvWorld, NOT_OFFERED_BY_CSV)])
def test_what_files_do_not_offer(kind: type[ExportsWorld], names: frozenset[str], tmp_path: Path) -> None:
    assert not_offered(lambda: exports_world(kind, tmp_path)) == names
