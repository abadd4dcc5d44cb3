"""Databases captured from the server's own log keep every promise of `Source` that they can be held to."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from conforming import checks_but, must_keep, not_offered
from world_logs import mariadb_log_world, postgres_log_world

import servers
from stillframe.sources.conformance import Check

NOT_OFFERED_BY_POSTGRES = frozenset(
    {
        "check_what_lies_between_two_positions_is_one",
        "check_cascades_not_captured_are_refused",
        "check_a_cascade_added_later_is_a_gap",
        # The log tells that a table was emptied, not of which rows.
        "check_truncation_is_captured",
        # A slot begins when every transaction that was open has ended.
        "check_one_open_since_before_attach",
        # There is no such statement.
        "check_rows_pushed_out_by_replace",
        # What such an account is offered is told by capture by triggers.
        "check_an_account_that_only_reads",
    }
)


NOT_OFFERED_BY_MARIADB = frozenset(
    {
        "check_what_lies_between_two_positions_is_one",
        # The log has neither the rows of TRUNCATE nor those of cascades.
        "check_truncation_is_captured",
        "check_cascades_are_captured",
        # It belongs to the server, and waits for nobody.
        "check_the_log_is_trimmed_when_all_passed",
        "check_a_dead_consumer_is_given_up",
        # Nothing is installed that could be lost, but by a session that switches the log off.
        "check_capture_dropped_behind_our_back",
        "check_capture_switched_off_and_on_again",
        # What such an account is offered is told by capture by triggers.
        "check_an_account_that_only_reads",
    }
)


# What a log is decoded to, where it begins and ends, and who may lose it; the rest is a longer campaign.
OF_THE_LOG = frozenset(
    {
        "check_every_statement_is_captured",
        "check_transactions_of_several_tables",
        "check_transactions_of_many_statements",
        "check_savepoints",
        "check_tables_without_keys",
        "check_rows_pushed_out_by_replace",
        "check_cascades_are_captured",
        "check_wide_rows",
        "check_columns_whose_names_need_quoting",
        "check_a_transaction_of_100_000_rows",
        "check_every_common_type_is_listed",
        "check_types_at_their_extremes",
        "check_texts_of_any_script",
        "check_any_bytes",
        "check_types_without_counterpart_are_refused_by_name",
        "check_keys_find_all_rows_asked_for",
        "check_a_read_is_one_snapshot",
        "check_a_source_is_a_value",
        "check_what_the_source_says_of_itself",
        "check_transactions_are_told_apart",
        "check_states_without_some_transactions",
        "check_marked_transactions_come_back",
        "check_positions_fixed_while_others_write",
        "check_transactions_that_commit_late",
        "check_late_transactions_are_told_once",
        "check_several_consumers_at_once",
        "check_transactions_follow_those_they_build_on",
        "check_the_log_is_trimmed_when_all_passed",
        "check_a_dead_consumer_is_given_up",
        "check_what_waits_and_since_when",
        "check_relations_attached_later",
        "check_attach_while_others_write",
        "check_attach_beside_an_open_transaction",
        "check_attach_killed_half_way",
        "check_detach_leaves_no_trace",
        "check_capture_dropped_behind_our_back",
        "check_capture_switched_off_and_on_again",
        "check_log_trimmed_by_someone_else",
        "check_another_database_in_its_place",
        "check_restored_from_an_older_copy",
        "check_restored_and_written_as_much_again",
        "check_table_dropped_and_created_again",
        "check_truncation_is_named",
        "check_cascades_not_captured_are_refused",
        "check_an_added_column_goes_unnoticed",
        "check_a_dropped_column_stops_its_relation_only",
        "check_a_retyped_column_stops_its_relation_only",
        "check_accounts_that_may_only_write",
        "check_sessions_with_other_settings",
        "check_generated_columns",
        "check_the_server_is_restarted",
        "check_the_server_crashes",
    }
)


@pytest.fixture(scope="module")
def mariadb() -> Iterator[servers.MariadbServer]:
    with servers.mariadb(*servers.BINLOG, "--log-bin-trust-function-creators=1") as started:
        yield started


@pytest.fixture(scope="module")
def postgres() -> Iterator[servers.PostgresServer]:
    with servers.postgres() as started:
        yield started


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED_BY_POSTGRES, OF_THE_LOG - NOT_OFFERED_BY_POSTGRES))
def test_postgres_log(check: Check, postgres: servers.PostgresServer) -> None:
    must_keep(check, lambda: postgres_log_world(postgres))


@pytest.mark.parametrize("check", checks_but(NOT_OFFERED_BY_MARIADB, OF_THE_LOG - NOT_OFFERED_BY_MARIADB))
def test_mariadb_log(check: Check, mariadb: servers.MariadbServer) -> None:
    must_keep(check, lambda: mariadb_log_world(mariadb))


def test_what_logs_do_not_offer(postgres: servers.PostgresServer, mariadb: servers.MariadbServer) -> None:
    assert not_offered(lambda: postgres_log_world(postgres)) == NOT_OFFERED_BY_POSTGRES
    assert not_offered(lambda: mariadb_log_world(mariadb)) == NOT_OFFERED_BY_MARIADB
