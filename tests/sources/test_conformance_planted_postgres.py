"""Negative controls that need transactions of several writers open at once: PostgreSQL with one bug each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from world_postgres import PostgresWorld

import servers
from stillframe.algebra.arrow import TAG
from stillframe.sources import Committed, Position, Source
from stillframe.sources.conformance import ALL_CHECKS, Verdict, perform
from stillframe.sources.postgres.seen import Mark, Snapshot
from stillframe.sources.postgres.triggers import PostgresSource


def holding_all_below(position: Position) -> Position:
    mark = Mark.parse(position.mark)
    return replace(position, mark=str(replace(mark, snapshot=Snapshot(mark.snapshot.xmax))))


class WatermarkByHighestNumber(PostgresSource):
    """Whatever has a lower number than the highest seen counts as seen."""

    def position(self, consumer: str, relations: Sequence[str]) -> Position:
        return holding_all_below(super().position(consumer, relations))


class LosesLateTransactions(PostgresSource):
    def changes(
        self,
        relation: str,
        columns: Any,
        after: Position,
        upto: Position,
        *,
        tagged: bool = False,
        **how: Any,
    ) -> Iterator[pa.RecordBatch]:
        xmax = Mark.parse(after.mark).snapshot.xmax
        for batch in super().changes(relation, columns, after, upto, tagged=True, **how):
            batch = batch.filter(pc.greater_equal(batch.column(TAG), xmax))
            yield batch if tagged else batch.drop_columns([TAG])


class TellsThemInTheOrderTheyBegan(PostgresSource):
    def transactions(
        self, relations: Sequence[str], after: Position, upto: Position
    ) -> tuple[Committed, ...]:
        return tuple(sorted(super().transactions(relations, after, upto), key=lambda each: each.number))


class TellsEachRelationApart(PostgresSource):
    """A transaction of two tables becomes two."""

    def transactions(
        self, relations: Sequence[str], after: Position, upto: Position
    ) -> tuple[Committed, ...]:
        return tuple(
            replace(each, rows={name: count})
            for each in super().transactions(relations, after, upto)
            for name, count in each.rows.items()
        )


class TrimsWhatWasLeftOut(PostgresSource):
    """An acknowledged state without some transactions is taken for one that has them."""

    def acknowledge(self, consumer: str, position: Position) -> None:
        super().acknowledge(consumer, holding_all_below(position))


class ShowsItsPassword(PostgresSource):
    def __repr__(self) -> str:
        return f"PostgresSource({self.url!r})"


class ClaimsCommitOrder(PostgresSource):
    @property
    def commit_order(self) -> bool:
        return True


class PlantedWorld(PostgresWorld):
    def __init__(self, server: servers.PostgresServer, source: type[PostgresSource]) -> None:
        super().__init__(server, "planted")
        self.planted = source

    def source(self, capture_limit: int | None = None) -> Source:
        return self.planted("s", self._url("app"), "public", capture_limit)


ATTEMPTS = 4  # random writers do not meet a bug every time

PLANTED: list[tuple[type[PostgresSource], str]] = [
    (WatermarkByHighestNumber, "check_transactions_that_commit_late"),
    (WatermarkByHighestNumber, "check_positions_fixed_while_others_write"),
    (LosesLateTransactions, "check_transactions_that_commit_late"),
    (LosesLateTransactions, "check_late_transactions_are_told_once"),
    (TellsThemInTheOrderTheyBegan, "check_transactions_follow_those_they_build_on"),
    (TellsEachRelationApart, "check_transactions_are_told_apart"),
    (TrimsWhatWasLeftOut, "check_states_without_some_transactions"),
    (ShowsItsPassword, "check_passwords_are_never_shown"),
    (ClaimsCommitOrder, "check_what_the_source_says_of_itself"),
]


@pytest.fixture(scope="module")
def server() -> Iterator[servers.PostgresServer]:
    with servers.postgres() as started:
        yield started


@contextmanager
def planted(server: servers.PostgresServer, source: type[PostgresSource]) -> Iterator[PlantedWorld]:
    world = PlantedWorld(server, source)
    try:
        yield world
    finally:
        world.close()


@pytest.mark.parametrize(
    ("source", "name"), PLANTED, ids=[f"{source.__name__}-{name}" for source, name in PLANTED]
)
def test_planted_bug(source: type[PostgresSource], name: str, server: servers.PostgresServer) -> None:
    check = next(check for check in ALL_CHECKS if check.name == name)
    for _ in range(ATTEMPTS):
        outcome = perform(check, lambda: planted(server, source))
        print(outcome.message[:500])
        if outcome.verdict is Verdict.BROKEN:
            return
    raise AssertionError(f"{name} does not find {source.__name__}")
