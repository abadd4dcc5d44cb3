"""Every algorithm against live sources that change between its questions and their answers.

Oracle: SQLite itself joins the attached databases by the view's own conditions, at a moment when nothing is
written any more.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Any

import pytest

from shops import Shop
from stillframe.protocol import ALGORITHMS
from stillframe.runtime import conduct
from stillframe.runtime.recorder import Entry, Installed, Reported, Told
from stillframe.sources.base import Position

A = (
    "CREATE TABLE r (id INTEGER PRIMARY KEY, k INTEGER, v INTEGER);"
    "CREATE TABLE q (id INTEGER PRIMARY KEY, w TEXT);"
)
B = "CREATE TABLE t (id INTEGER PRIMARY KEY, w TEXT);"
ONE = "SELECT r.id, q.id AS qid, r.v, q.w FROM a.r JOIN a.q ON r.k = q.id WHERE r.v < 90"
TWO = "SELECT r.id, t.id AS tid, r.v, t.w FROM a.r JOIN b.t ON r.k = t.id WHERE r.v < 90"
HIDDEN = "SELECT r.v, t.w FROM a.r JOIN b.t ON r.k = t.id"
SELF = "SELECT x.id, y.id AS other FROM a.r x JOIN a.r y ON x.v = y.k"
OF_ONE_SOURCE = ("rv", "eca", "eca-key", "eca-local", "lca")
WEAK = ("basic",)
ON_BOTH_ENGINES = ("eca", "t-strobe")  # what differs between engines is below all algorithms


def selects(algorithm: str) -> list[str]:
    if algorithm in OF_ONE_SOURCE:
        return [ONE] if algorithm == "eca-key" else [ONE, SELF]
    return [ONE, TWO, HIDDEN]


@dataclass
class Interfering:
    """A source whose writers do something whenever somebody asks it where it stands."""

    source: Any
    write: Callable[[], None]

    def position(self, consumer: str, relations: Any) -> Position:
        found: Position = self.source.position(consumer, relations)
        self.write()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self.source, name)


class Writers:
    """Random transactions, as long as the budget lasts."""

    def __init__(self, shop: Shop, seed: int) -> None:
        self.shop, self.random, self.budget = shop, Random(seed), 0

    def once(self) -> None:
        if self.budget > 0:
            self.budget -= 1
            self.transaction()

    def transaction(self) -> None:
        pick = self.random.randrange
        source = self.random.choice("aab")
        tables = ["r", "q"] if source == "a" else ["t"]
        made = []
        for _ in range(pick(1, 4)):
            table, key, other = self.random.choice(tables), pick(6), pick(4)
            value = f"{other}, {pick(100)}" if table == "r" else f"'{'xyz'[pick(3)]}'"
            made += {
                0: [f"INSERT OR REPLACE INTO {table} VALUES ({key}, {value})"],
                1: [f"DELETE FROM {table} WHERE id = {key}"],
                2: [
                    f"UPDATE {table} SET {'k = ' + str(other) if table == 'r' else 'w = id'} WHERE id = {key}"
                ],
                3: [f"UPDATE OR IGNORE {table} SET id = {other} WHERE id = {key}"],
            }[self.random.choice([0, 0, 0, 1, 2, 3])]
        self.shop.write(source, *made)


def truth(shop: Shop, select: str) -> Counter[tuple[Any, ...]]:
    con = sqlite3.connect(":memory:")
    for name in shop.sources:
        con.execute(f"ATTACH '{shop.root / name}.db' AS {name}")
    return Counter(con.execute(select).fetchall())


def rows_of(table: Any) -> Counter[tuple[Any, ...]]:
    return Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))


def check_channels_are_ordered(history: Sequence[Entry]) -> None:
    """Before an answer is told, everything committed by its state has been reported, and nothing else."""
    reported: dict[tuple[str, str], Position] = {}
    for entry in history:
        match entry:
            case Reported(view, source, upto):
                assert (view, source) not in reported or reported[view, source].sequence <= upto.sequence
                reported[view, source] = upto
            case Told(view, source, _, at):
                assert reported[view, source] == at
            case Installed(view, vector):
                known = {source: reported.get((view, source), at) for source, at in vector.items()}
                assert vector == known


@pytest.mark.parametrize(
    "algorithm",
    [
        pytest.param(name, marks=[pytest.mark.engine] if name in ON_BOTH_ENGINES else [])
        for name in ALGORITHMS
        if name not in WEAK
    ],
)
def test_views_are_exact_however_sources_interfere(algorithm: str, make_shop: Callable[[str], Shop]) -> None:
    shop = make_shop(algorithm)
    shop.source("a", A)
    shop.source("b", B)
    texts = {f"v{i}": select for i, select in enumerate(selects(algorithm))}
    shop.views(
        "\n".join(
            f"CREATE MATERIALIZED VIEW {name} WITH (algorithm = '{algorithm}') AS {select};"
            for name, select in texts.items()
        )
    )
    writers = Writers(shop, seed=list(ALGORITHMS).index(algorithm))
    compensated = 0
    with shop.open() as warehouse:
        for _ in range(15):
            writers.transaction()
        warehouse.refresh()
        warehouse.sources.update(
            {name: Interfering(source, writers.once) for name, source in warehouse.sources.items()}
        )
        for _ in range(5):
            writers.budget = 6
            writers.transaction()
            result = warehouse.maintain()
            assert not result.failures, {n: str(o.error) for n, o in result.failures.items()}
            assert {o.mode for o in result.outcomes.values()} <= {"incremental", "unchanged"}
            check_channels_are_ordered(result.history)
            compensated += sum(outcome.compensated for outcome in result.outcomes.values())
            found = warehouse.verify()
            assert all(v.ok for v in found.values()), found
        writers.budget = 0
        warehouse.maintain()
        assert {v.algorithm for v in warehouse.frame().views.values()} == {algorithm}
        for name, select in texts.items():
            assert rows_of(warehouse.arrow(name)) == truth(shop, select), name
    if algorithm not in ("tid", "sc"):
        assert compensated > 0, "no answer saw more than its question knew: nothing interfered"


def test_the_naive_algorithm_is_wrong_when_sources_interfere(make_shop: Callable[[str], Shop]) -> None:
    wrong = 0
    for seed in range(4):
        shop = make_shop(f"basic{seed}")
        shop.source("a", A)
        shop.source("b", B)
        shop.views(f"CREATE MATERIALIZED VIEW v WITH (algorithm = 'basic') AS {HIDDEN};")
        writers = Writers(shop, seed)
        with shop.open() as warehouse:
            for _ in range(15):
                writers.transaction()
            warehouse.refresh()
            assert warehouse.frame().views["v"].level == "none"
            warehouse.sources.update(
                {name: Interfering(source, writers.once) for name, source in warehouse.sources.items()}
            )
            writers.budget = 12
            writers.transaction()
            warehouse.maintain()
            wrong += not warehouse.verify("v").ok
    assert wrong > 0


@pytest.mark.parametrize("algorithm", ["strobe", "t-strobe", "g-strobe", "c-strobe", "c-t-strobe"])
def test_sources_that_never_keep_still(
    algorithm: str, make_shop: Callable[[str], Shop], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every look at a source meets another transaction; the session comes to rest all the same."""
    monkeypatch.setattr(conduct, "MOVING_SECONDS", 0.3)
    shop = make_shop(algorithm)
    shop.source("a", A)
    shop.source("b", B)
    shop.views(f"CREATE MATERIALIZED VIEW v WITH (algorithm = '{algorithm}') AS {HIDDEN};")
    looks = count()

    def write() -> None:
        n = next(looks)
        shop.write("a", f"INSERT INTO r VALUES ({n}, {n % 3}, {n})")
        shop.write("b", f"INSERT OR REPLACE INTO t VALUES ({n % 3}, '{n}')")

    for _ in range(3):
        write()
    with shop.open() as warehouse:
        warehouse.refresh()
        warehouse.sources.update(
            {name: Interfering(source, write) for name, source in warehouse.sources.items()}
        )
        for _ in range(2):
            outcome = warehouse.maintain().outcomes["v"]
            assert outcome.mode == "incremental", outcome
            assert outcome.compensated > 0
            assert warehouse.verify("v").ok  # type: ignore[union-attr]
