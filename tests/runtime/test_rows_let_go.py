"""What a session read is let go when it ends, not when the collector of cycles happens to come by."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from shops import Shop
from stillframe.engine import Staged
from stillframe.runtime import reads
from stillframe.runtime.learning import Learning


def held() -> list[Staged]:
    return [each for each in gc.get_objects() if type(each) is Staged and each.held is not None]


@pytest.fixture
def before() -> Iterator[list[Staged]]:
    """What others left; nothing is collected until the test ends."""
    gc.collect()
    gc.disable()
    yield held()
    gc.enable()


@pytest.mark.parametrize("copies", ["none", "all"])
def test_no_rows_of_a_session_outlast_it(shop: Shop, copies: str, before: list[Staged]) -> None:
    shop.source(
        "a",
        "CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER, amount INTEGER);"
        "CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT);"
        "INSERT INTO customers VALUES (1, 'x'), (2, 'y'); INSERT INTO orders VALUES (1, 1, 5), (2, 2, 7);",
    )
    join = "FROM a.orders o JOIN a.customers c ON c.id = o.customer"
    shop.views(
        f"CREATE MATERIALIZED VIEW joined AS SELECT o.id, c.name, o.amount {join};"
        f"CREATE MATERIALIZED VIEW dear AS SELECT o.id, c.name, o.amount {join} WHERE o.amount > 5;"
        "CREATE MATERIALIZED VIEW total AS SELECT name, sum(amount) AS total FROM joined GROUP BY name;"
    )
    shop.configure(extra=f"copies: {copies}\n")
    with shop.open() as warehouse:
        for change in (
            "",
            "UPDATE orders SET amount = amount + 1",
            "UPDATE customers SET name = name || 'z'",
        ):
            if change:
                shop.write("a", change)
            result = warehouse.maintain()
            assert not result.failures
            assert [each.rows for each in held() if not any(each is other for other in before)] == []


def test_what_is_learned_of_a_read_does_not_hold_rows_for_which_there_is_no_room(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.source("a", "CREATE TABLE t (id INTEGER PRIMARY KEY); INSERT INTO t VALUES (1), (2);")
    shop.views("CREATE MATERIALIZED VIEW v AS SELECT id FROM a.t;")
    told, learn = list[tuple[int, bool]](), Learning.staged

    def seen(learning: Learning, kind: str, relation: str, staged: Staged, seconds: float) -> None:
        told.append((staged.rows, staged.held is None))
        learn(learning, kind, relation, staged, seconds)

    monkeypatch.setattr(Learning, "staged", seen)
    monkeypatch.setattr(reads, "ALL_HELD", 0)
    with shop.open() as warehouse:
        warehouse.refresh()
        shop.write("a", "INSERT INTO t VALUES (3)")
        warehouse.refresh()
        assert warehouse.verify("v").ok
    assert told and all(is_let_go for rows, is_let_go in told if rows)
