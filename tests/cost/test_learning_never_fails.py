"""Nothing that a session learns, or fails to learn, makes it fail."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from shops import Shop
from stillframe.runtime.statistics import FILE
from stillframe.runtime.weighing import Weighing
from stillframe.sources.sqlite.source import SqliteSource

DDL = """
CREATE TABLE t (id INTEGER PRIMARY KEY, g INTEGER, h INTEGER);
CREATE TABLE s (g INTEGER, n INTEGER);
INSERT INTO t VALUES (1, 1, 1), (2, 1, 1);
INSERT INTO s VALUES (1, 7);
"""
VIEWS = """
CREATE MATERIALIZED VIEW u AS SELECT id, g FROM a.t;
CREATE MATERIALIZED VIEW d AS SELECT u.id, s.n FROM u JOIN a.s s ON u.g = s.g;
"""


def test_a_view_that_stands_as_it_was_has_no_column_of_its_new_text(shop: Shop) -> None:
    shop.source("a", DDL)
    shop.views(VIEWS)
    with shop.open() as warehouse:
        warehouse.maintain()
        shop.write("a", "UPDATE t SET h = 'no number' WHERE id = 2")
        shop.views(VIEWS.replace("id, g", "id, h AS k").replace("u.g", "u.k"))
        result = warehouse.maintain()
        assert set(result.failures) == {"u", "d"}
        assert warehouse.maintain().frame.number == result.frame.number + 1


def test_a_file_of_odd_numbers_and_learning_that_fails(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.source("a", DDL)
    shop.views(VIEWS)
    with shop.open() as warehouse:
        warehouse.maintain()
        odd = (
            '{"relations": {"a.s": {"rows": NaN}, "u": {"rows": 1e999}}, "growth": {"d": NaN}, "engines": {}}'
        )
        (warehouse.lake.path / FILE).write_text(odd)
        shop.write("a", "INSERT INTO t VALUES (3, 1, 1)", "INSERT INTO s VALUES (1, 8)")
        assert not warehouse.maintain().failures
        assert warehouse.arrow("d").num_rows == 6

        def fails(*_: Any) -> Any:
            raise KeyError("whatever it is")

        monkeypatch.setattr(Weighing, "learned", fails)
        shop.write("a", "DELETE FROM s WHERE n = 7")
        assert not warehouse.maintain().failures
        assert warehouse.arrow("d").num_rows == 3


def test_what_is_computed_anew_on_demand_reads_no_log(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.source("a", DDL)
    shop.views(VIEWS)
    with shop.open() as warehouse:
        warehouse.maintain()
        shop.write("a", "INSERT INTO t VALUES (3, 1, 1)")
        read: list[str] = []
        changes: Callable[..., Any] = SqliteSource.changes

        def counted(self: SqliteSource, relation: str, *args: Any) -> Any:
            read.append(relation)
            return changes(self, relation, *args)

        monkeypatch.setattr(SqliteSource, "changes", counted)
        assert not warehouse.maintain(full=True).failures
        assert not read
