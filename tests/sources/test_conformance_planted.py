"""Negative controls: sources with one bug each, and the check that must find it."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from world_sqlite import SqliteWorld, SqliteWriter

from stillframe.algebra.arrow import COUNT
from stillframe.algebra.selection import Every, Selection, Some
from stillframe.errors import CaptureGap
from stillframe.sources import (
    Committed,
    Keys,
    Position,
    Range,
    Relation,
    Source,
    SqliteSource,
)
from stillframe.sources.conformance import ALL_CHECKS, Check, Verdict, Writer, perform
from stillframe.sources.sqlite.read import writing

Batches = Iterator[pa.RecordBatch]


def with_counts(batch: pa.RecordBatch, counts: pa.Array) -> pa.RecordBatch:
    place = batch.schema.names.index(COUNT)
    return batch.set_column(place, batch.schema.field(place), counts)


class DropsOneOfTwoDuplicates(SqliteSource):
    def changes(self, *args: Any, **kwargs: Any) -> Batches:
        for batch in super().changes(*args, **kwargs):
            rows = batch.to_pylist()
            kept = [i for i, row in enumerate(rows) if i == 0 or row != rows[i - 1]]
            yield batch.take(pa.array(kept, pa.int64()))


class WrongSignOnUpdate(SqliteSource):
    """−OLD of an update is logged like an insert."""

    def changes(self, *args: Any, **kwargs: Any) -> Batches:
        for batch in super().changes(*args, **kwargs):
            counts = batch.column(COUNT).to_pylist()
            for i in range(len(counts) - 1):
                if (counts[i], counts[i + 1]) == (-1, 1):
                    counts[i] = 1
            yield with_counts(batch, pa.array(counts, pa.int64()))


class ForgetsDeletes(SqliteSource):
    def changes(self, *args: Any, **kwargs: Any) -> Batches:
        for batch in super().changes(*args, **kwargs):
            yield batch.filter(pc.greater(batch.column(COUNT), 0))


class CountsChangesTwice(SqliteSource):
    """The row at the lower end of the interval is taken again."""

    def changes(self, relation: str, columns: Any, after: Position, upto: Position, **kwargs: Any) -> Batches:
        yield from super().changes(relation, columns, after, upto, **kwargs)
        if after.sequence > 1:
            with writing(self.name, self.path) as con:
                (mark,) = con.execute(
                    "SELECT mark FROM _stillframe_log WHERE seq = ?", (after.sequence - 1,)
                ).fetchone()
            before = Position(after.source, after.sequence - 1, str(mark))
            yield from super().changes(relation, columns, before, after, **kwargs)


class AnswersWithTheNewestState(SqliteSource):
    def state(self, relation: str, columns: Any, at: Position, *args: Any, **kwargs: Any) -> Batches:
        newest = self.position(self.log_status().consumers[0].name, [relation])
        yield from super().state(relation, columns, newest, *args, **kwargs)


class ReadsRowsAndLogInTwoSnapshots(SqliteSource):
    def state(self, relation: str, columns: Any, at: Position, *args: Any, **kwargs: Any) -> Batches:
        consumer = self.log_status().consumers[0].name
        now = self.position(consumer, [relation])
        yield from super().state(relation, columns, now, *args, **kwargs)
        later = self.position(consumer, [relation])
        for batch in self.changes(relation, columns, at, later):
            yield with_counts(batch, pc.negate(batch.column(COUNT)))


class LagsByOneLogRow(SqliteSource):
    """A watermark that splits the newest transaction."""

    def position(self, consumer: str, relations: Sequence[str]) -> Position:
        newest = super().position(consumer, relations)
        with writing(self.name, self.path) as con:
            row = con.execute(
                "SELECT seq, mark FROM _stillframe_log WHERE seq = ? - 1", (newest.sequence,)
            ).fetchone()
        return Position(newest.source, row[0], str(row[1])) if row else newest


class MissesAKey(SqliteSource):
    def state(
        self, relation: str, columns: Any, at: Position, keys: Keys | None = None, within: Range | None = None
    ) -> Batches:
        if keys is not None and len(keys.values) > 1:
            keys = Keys(keys.column, keys.values[:-1])
        yield from super().state(relation, columns, at, keys, within)


class ForgetsWhatMovedOutOfTheKeys(SqliteSource):
    """Present rows are looked up by key, and the log is not looked at."""

    def state(
        self, relation: str, columns: Any, at: Position, keys: Keys | None = None, within: Range | None = None
    ) -> Batches:
        if keys is not None:
            at = self.position(self.log_status().consumers[0].name, [relation])
        yield from super().state(relation, columns, at, keys, within)


class RangesThatOverlap(SqliteSource):
    def state(
        self, relation: str, columns: Any, at: Position, keys: Keys | None = None, within: Range | None = None
    ) -> Batches:
        if within is not None and within.above is not None:
            within = replace(within, above=within.above - 1)
        yield from super().state(relation, columns, at, keys, within)


class RangesWithAHole(SqliteSource):
    def ranges(self, relation: str, rows: int) -> tuple[Range, ...]:
        found = super().ranges(relation, rows)
        return found[:1] + found[2:]


class KeepsWhatIsLeftOut(SqliteSource):
    def without(self, after: Position, upto: Position, numbers: Collection[int]) -> Position:
        return upto


class ForgetsMarks(SqliteSource):
    def transactions(
        self, relations: Sequence[str], after: Position, upto: Position
    ) -> tuple[Committed, ...]:
        told = super().transactions(relations, after, upto)
        return tuple(replace(each, group="", parts=0) for each in told)


class MiscountsRows(SqliteSource):
    def transactions(
        self, relations: Sequence[str], after: Position, upto: Position
    ) -> tuple[Committed, ...]:
        told = super().transactions(relations, after, upto)
        return tuple(replace(each, rows={name: n + 1 for name, n in each.rows.items()}) for each in told)


class TrimsTooFar(SqliteSource):
    """By whoever acknowledges last, not by whoever is furthest behind."""

    def acknowledge(self, consumer: str, position: Position) -> None:
        super().acknowledge(consumer, position)
        with writing(self.name, self.path) as con:
            con.execute("DELETE FROM _stillframe_log WHERE seq < ?", (position.sequence,))


class NeverTrims(SqliteSource):
    def acknowledge(self, consumer: str, position: Position) -> None:
        with writing(self.name, self.path) as con:
            con.execute(
                "UPDATE _stillframe_consumers SET position = ? WHERE name = ?", (position.sequence, consumer)
            )


class NeverGivesUp(SqliteSource):
    def acknowledge(self, consumer: str, position: Position) -> None:
        SqliteSource(self.name, self.path).acknowledge(consumer, position)


class CountsTransactionsForRows(SqliteSource):
    def behind(self, relations: Sequence[str], after: Position) -> int:
        return min(super().behind(relations, after), 1)


class HoldsItsBreath(SqliteSource):
    def beat(self, consumer: str) -> None:
        self.position(consumer, [])


class PassesGapsOver(SqliteSource):
    """Believes its own book-keeping, and never looks whether the triggers are still there."""

    def check(self, after: Position, relations: Sequence[str]) -> None:
        try:
            super().check(after, relations)
        except CaptureGap as gap:
            if "not as they were installed" not in str(gap):
                raise


class TakesACopyForTheSame(SqliteSource):
    """A position is a number, and nothing else."""

    def _believing(self, position: Position) -> Position:
        with writing(self.name, self.path) as con:
            row = con.execute(
                "SELECT seq, mark FROM _stillframe_log WHERE seq <= ? ORDER BY seq DESC LIMIT 1",
                (position.sequence,),
            ).fetchone()
        return Position(position.source, row[0], str(row[1]))

    def check(self, after: Position, relations: Sequence[str]) -> None:
        super().check(self._believing(after), relations)


class LeavesATrace(SqliteSource):
    def detach(self, consumer: str) -> None:
        super().detach(consumer)
        with writing(self.name, self.path) as con:
            con.execute("CREATE TABLE IF NOT EXISTS _stillframe_history (n INTEGER)")


class TakesNewRelationsForOld(SqliteSource):
    """A relation attached later counts as captured since ever."""

    def attach(self, consumer: str, relations: Sequence[str]) -> Position:
        position = super().attach(consumer, relations)
        with writing(self.name, self.path) as con:
            con.execute("UPDATE _stillframe_relations SET since = 0")
        return position


class AttachesInTwoSteps(SqliteSource):
    """The triggers are taken away and made again, with a moment between."""

    def attach(self, consumer: str, relations: Sequence[str]) -> Position:
        position = super().attach(consumer, relations)
        with writing(self.name, self.path) as con:
            found = con.execute(
                "SELECT name, sql FROM sqlite_master WHERE type = 'trigger' AND tbl_name NOT LIKE '%global'"
            ).fetchall()
            for name, _ in found:
                con.execute(f"DROP TRIGGER {name}")
        time.sleep(0.2)
        with writing(self.name, self.path) as con:
            for _, sql in found:
                con.execute(sql)
        return position


class CutsTextsShort(SqliteSource):
    def state(self, *args: Any, **kwargs: Any) -> Batches:
        for batch in super().state(*args, **kwargs):
            for i, column in enumerate(batch.columns):
                if pa.types.is_string(column.type):
                    cut = pc.utf8_slice_codeunits(column, 0, 60_000)
                    batch = batch.set_column(i, batch.schema.field(i), cut)
            yield batch


class LosesMicroseconds(SqliteSource):
    def changes(self, *args: Any, **kwargs: Any) -> Batches:
        for batch in super().changes(*args, **kwargs):
            for i, column in enumerate(batch.columns):
                if pa.types.is_timestamp(column.type):
                    cut = pc.floor_temporal(column, unit="second").cast(column.type)
                    batch = batch.set_column(i, batch.schema.field(i), cut)
            yield batch


class EmptyTextIsNull(SqliteSource):
    def state(self, *args: Any, **kwargs: Any) -> Batches:
        for batch in super().state(*args, **kwargs):
            for i, column in enumerate(batch.columns):
                if pa.types.is_string(column.type):
                    nothing = pa.scalar(None, column.type)
                    batch = batch.set_column(
                        i, batch.schema.field(i), pc.if_else(pc.equal(column, ""), nothing, column)
                    )
            yield batch


class OneGreatBatch(SqliteSource):
    def changes(self, *args: Any, **kwargs: Any) -> Batches:
        batches = list(super().changes(*args, **kwargs))
        if batches:
            yield from pa.Table.from_batches(batches).combine_chunks().to_batches()


class TakesSomeForEvery(SqliteSource):
    def changes(self, *args: Any, where: Selection | None = None, **kwargs: Any) -> Batches:
        narrow = Every(where.parts) if isinstance(where, Some) else where
        return super().changes(*args, where=narrow, **kwargs)


class SendsEverything(SqliteSource):
    def changes(self, *args: Any, where: Selection | None = None, **kwargs: Any) -> Batches:
        return super().changes(*args, **kwargs)


class ClaimsTooMuch(SqliteSource):
    @property
    def transactional(self) -> bool:
        return True


class DescribesWhatItCannotRead(SqliteSource):
    def describe(self) -> dict[str, Relation]:
        return {name: replace(relation, refused={}) for name, relation in super().describe().items()}


class LoggingOutsideOfTransactions(SqliteWriter):
    """What the triggers logged stays in the log when the transaction is rolled back."""

    def execute(self, sql: str) -> list[tuple[Any, ...]]:
        if not sql.startswith("ROLLBACK"):
            return super().execute(sql)
        there = super().execute("SELECT name FROM sqlite_master WHERE name = '_stillframe_log'")
        logged = super().execute("SELECT * FROM _stillframe_log") if there else []
        result = super().execute(sql)
        for row in logged:
            self.con.execute(
                f"INSERT OR IGNORE INTO _stillframe_log VALUES ({', '.join('?' * len(row))})", row
            )
        return result


class ForgetsRollbackWorld(SqliteWorld):
    def writer(self) -> Writer:
        return LoggingOutsideOfTransactions(self.path)


class PlantedWorld(SqliteWorld):
    def __init__(self, path: Path, source: type[SqliteSource]) -> None:
        super().__init__(path)
        self.planted = source

    def source(self, capture_limit: int | None = None) -> Source:
        return self.planted("s", self.path, capture_limit)


ATTEMPTS = 3  # random writers do not meet a bug every time

PLANTED: list[tuple[type[SqliteSource], str]] = [
    (DropsOneOfTwoDuplicates, "check_tables_without_keys"),
    (WrongSignOnUpdate, "check_every_statement_is_captured"),
    (ForgetsDeletes, "check_transactions_of_several_tables"),
    (CountsChangesTwice, "check_every_statement_is_captured"),
    (AnswersWithTheNewestState, "check_transactions_of_many_statements"),
    (ReadsRowsAndLogInTwoSnapshots, "check_a_read_is_one_snapshot"),
    (LagsByOneLogRow, "check_positions_fixed_while_others_write"),
    (MissesAKey, "check_keys_find_all_rows_asked_for"),
    (ForgetsWhatMovedOutOfTheKeys, "check_keys_find_all_rows_asked_for"),
    (RangesThatOverlap, "check_ranges_cover_the_relation_once"),
    (RangesWithAHole, "check_ranges_cover_the_relation_once"),
    (KeepsWhatIsLeftOut, "check_a_state_without_a_marked_transaction"),
    (ForgetsMarks, "check_marked_transactions_come_back"),
    (MiscountsRows, "check_what_lies_between_two_positions_is_one"),
    (TrimsTooFar, "check_acknowledging_spares_the_slow"),
    (NeverTrims, "check_the_log_is_trimmed_when_all_passed"),
    (NeverGivesUp, "check_a_dead_consumer_is_given_up"),
    (CountsTransactionsForRows, "check_what_waits_and_since_when"),
    (HoldsItsBreath, "check_consumers_and_heartbeats"),
    (PassesGapsOver, "check_capture_dropped_behind_our_back"),
    (TakesACopyForTheSame, "check_restored_from_an_older_copy"),
    (LeavesATrace, "check_detach_leaves_no_trace"),
    (TakesNewRelationsForOld, "check_relations_attached_later"),
    (AttachesInTwoSteps, "check_attach_while_others_write"),
    (CutsTextsShort, "check_texts_of_any_script"),
    (LosesMicroseconds, "check_types_at_their_extremes"),
    (EmptyTextIsNull, "check_texts_of_any_script"),
    (OneGreatBatch, "check_a_transaction_of_100_000_rows"),
    (TakesSomeForEvery, "check_changes_that_are_wanted_all_come"),
    (SendsEverything, "check_changes_that_are_not_wanted_stay"),
    (ClaimsTooMuch, "check_what_the_source_says_of_itself"),
    (DescribesWhatItCannotRead, "check_types_without_counterpart_are_refused_by_name"),
]


def check_named(name: str) -> Check:
    return next(check for check in ALL_CHECKS if check.name == name)


@contextmanager
def opened(world: SqliteWorld) -> Iterator[SqliteWorld]:
    try:
        yield world
    finally:
        world.close()


@pytest.mark.parametrize(("source", "check"), PLANTED, ids=[source.__name__ for source, _ in PLANTED])
def test_planted_bug(source: type[SqliteSource], check: str, tmp_path: Path) -> None:
    for attempt in range(ATTEMPTS):
        path = tmp_path / f"{attempt}.db"
        outcome = perform(check_named(check), lambda path=path: opened(PlantedWorld(path, source)))
        print(outcome.message[:500])
        if outcome.verdict is Verdict.BROKEN:
            return
    raise AssertionError(f"{check} does not find {source.__name__}")


@pytest.mark.parametrize("check", ["check_rolled_back_is_never_seen", "check_savepoints"])
def test_a_log_that_forgets_rollbacks(check: str, tmp_path: Path) -> None:
    outcome = perform(check_named(check), lambda: opened(ForgetsRollbackWorld(tmp_path / "s.db")))
    assert outcome.verdict is Verdict.BROKEN, f"{check} does not find that rolled back rows are logged"
