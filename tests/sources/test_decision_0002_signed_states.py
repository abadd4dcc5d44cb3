"""Why a state is a signed sum: the published formula with monus brings back a row that never was."""

from __future__ import annotations

from pathlib import Path

from sqlite_world import ME, bag, database

from stillframe.algebra import Bag
from stillframe.sources import SqliteSource


def test_a_row_inserted_and_deleted_within_one_interval_is_in_no_earlier_state(tmp_path: Path) -> None:
    connection = database(tmp_path / "s.db", "CREATE TABLE r (x INT)", "INSERT INTO r VALUES (1)")
    source = SqliteSource("s", tmp_path / "s.db")
    past = source.attach(ME, ["r"])
    connection.execute("INSERT INTO r VALUES (2)")
    connection.execute("DELETE FROM r WHERE x = 2")
    now = source.position(ME, ["r"])

    assert bag(source.state("r", ["x"], past)) == Bag.of([(1,)])
    assert bag(source.changes("r", ["x"], past, now)) == Bag()

    # The same by monus on two sets of rows: (current − inserted) ∪ deleted.
    current, inserted, deleted = Bag.of([(1,)]), Bag.of([(2,)]), Bag.of([(2,)])
    monus = Bag({row: max(current[row] - inserted[row], 0) for row in current})
    assert monus + deleted == Bag.of([(1,), (2,)])  # row 2 was never in the past state
