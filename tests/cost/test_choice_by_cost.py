"""Going forward by changes, or computing anew: which is taken, why, and what is recorded of it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pytest

from shops import Shop
from stillframe.engine import ENGINE_LOST, Engine, EngineError
from stillframe.lake.frame import ViewState
from stillframe.runtime import Warehouse, deciding, weighing
from stillframe.runtime.computing import Computing
from stillframe.runtime.deciding import FULL, Deciding, Decision, totals
from stillframe.runtime.definitions import View
from stillframe.runtime.estimating import Estimator, Sized
from stillframe.runtime.learning import Learning
from stillframe.runtime.ordering import Ordering
from stillframe.runtime.outcome import Outcome
from stillframe.runtime.prices import BUILT_IN
from stillframe.runtime.statistics import GROWTH, Statistics, read_statistics, write_statistics
from stillframe.runtime.work import Work

ROWS = 3000
SOME = 5e3  # changed rows of a million: the model has a view go forward
TABLES = """
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer INTEGER NOT NULL, amount INTEGER);
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL);
"""
VIEWS = """
CREATE MATERIALIZED VIEW joined AS
SELECT o.id, c.name, o.amount FROM a.orders o JOIN a.customers c ON c.id = o.customer;
CREATE MATERIALIZED VIEW by_name AS SELECT name, sum(amount) AS total FROM joined GROUP BY name;
CREATE MATERIALIZED VIEW always WITH (refresh_policy = 'incremental') AS
SELECT o.id, o.amount, c.name FROM a.orders o JOIN a.customers c ON c.id = o.customer;
"""


@pytest.fixture
def shop(tmp_path: Path, engine: Engine, engine_name: str) -> Iterator[Shop]:
    made = Shop(tmp_path, engine, engine_name)
    made.source("a", TABLES)
    con = sqlite3.connect(made.root / "a.db")
    con.executemany("INSERT INTO customers VALUES (?, 'c' || ?)", ((i, i % 50) for i in range(ROWS // 10)))
    con.executemany(
        "INSERT INTO orders VALUES (?, ?, ?)", ((i, i % (ROWS // 10), i % 7) for i in range(ROWS))
    )
    con.commit()
    con.close()
    made.views(VIEWS)
    yield made


def test_a_large_change_computes_anew_and_says_why(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "FEW_ROWS", 1000)  # three thousand rows are many here
    monkeypatch.setattr(deciding, "CLEARLY", 0.0)
    with shop.open() as warehouse:
        warehouse.refresh()
        shop.write("a", "UPDATE orders SET amount = amount + 1 WHERE id % 2 = 0")
        planned = warehouse.plan("joined")
        assert (planned["mode"], planned["next"]["reason"]) == ("full", "COST")
        assert planned["alternatives"][0]["why_not"] == planned["next"]["detail"]
        assert warehouse.plan("always")["next"] == {"mode": "incremental", "reason": "CHANGES"}
        result = warehouse.maintain()
        assert (result.outcomes["joined"].mode, result.outcomes["joined"].reason) == ("full", "COST")
        assert "anew about" in (result.outcomes["joined"].detail or "")
        assert result.outcomes["by_name"].mode == "full"
        assert result.outcomes["always"].mode == "incremental"  # its policy says so
        cost = result.outcomes["always"].cost
        assert cost is not None and cost["measured"] > 0 and cost["incremental"] > 0 and cost["full"] > 0
        assert cost["way"] in ("by rows", "by columns", "by jobs")
        assert cost["why"].startswith("by its changes about") and "anew about" in cost["why"]
        assert result.frame.views["joined"].session["cost"]["estimated"] > 0
        assert all(found.ok for found in warehouse.verify_all().values())


def test_a_view_that_cannot_be_computed_anew_goes_forward(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(deciding, "FEW_ROWS", 1000)
    monkeypatch.setattr(deciding, "CLEARLY", 0.0)
    recomputed: Callable[..., Outcome] = Work._recomputed

    def too_much(self: Work, view: View, reason: str) -> Outcome:
        if reason == "COST" and view.name == "joined":
            raise EngineError("no room for all of it")
        return recomputed(self, view, reason)

    with shop.open() as warehouse:
        warehouse.refresh()
        monkeypatch.setattr(Work, "_recomputed", too_much)
        shop.write("a", "UPDATE orders SET amount = amount + 1 WHERE id % 2 = 0")
        result = warehouse.maintain()
        assert not result.failures
        assert result.outcomes["joined"].mode == "incremental"
        assert all(found.ok for found in warehouse.verify_all().values())


def test_few_rows_that_meet_many_are_not_sent_to_every_task(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = list[bool]()
    computing: Callable[..., Computing] = Work._computing

    def seen(self: Work, order: Ordering) -> Computing:
        found = computing(self, order)
        sent.append(found.broadcast())
        return found

    with shop.open() as warehouse:
        warehouse.refresh()
        monkeypatch.setattr(Work, "_computing", seen)
        shop.write("a", "UPDATE customers SET name = name || 'x' WHERE id < 100")
        warehouse.refresh("always")
        least = replace(BUILT_IN[shop.engine_name], broadcast_limit=20_000)  # 100 rows and the 1000 they meet
        monkeypatch.setattr(weighing, "prices", lambda *_: least)
        shop.write("a", "UPDATE customers SET name = name || 'x' WHERE id < 100")
        warehouse.refresh("always")
        shop.write("a", "UPDATE customers SET name = name || 'x' WHERE id = 1")
        warehouse.refresh("always")
    assert sent == [True, False, True]


@pytest.mark.parametrize("small_changes", ["driver", "engine"])
def test_what_is_sent_is_asked_about_only_where_a_job_of_spark_is_written(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, small_changes: str
) -> None:
    asked = list[bool]()
    can_be_sent: Callable[[Ordering], bool] = Ordering.can_be_sent

    def seen(order: Ordering) -> bool:
        asked.append(can_be_sent(order))
        return asked[-1]

    shop.configure(extra=f"small_changes: {small_changes}\n")
    with shop.open() as warehouse:
        warehouse.refresh()
        monkeypatch.setattr(Ordering, "can_be_sent", seen)
        monkeypatch.setattr(Computing, "_one_task", lambda *_: False)
        shop.write("a", "UPDATE customers SET name = name || 'x' WHERE id < 100")
        warehouse.refresh("always")
        assert warehouse.verify("always").ok
    assert bool(asked) is (small_changes == "engine" and shop.engine_name == "spark")


def test_over_few_rows_a_view_always_goes_forward(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(deciding, "CLEARLY", 0.0)
    with shop.open() as warehouse:
        warehouse.refresh()
        shop.write("a", "UPDATE orders SET amount = amount + 1")
        result = warehouse.maintain()
        assert {outcome.mode for outcome in result.outcomes.values()} <= {"incremental", "unchanged"}


def test_plan_tells_statistics_and_seconds(shop: Shop) -> None:
    with shop.open() as warehouse:
        warehouse.refresh()
        shop.write(
            "a", "UPDATE orders SET amount = amount + 1 WHERE id < 30", "DELETE FROM orders WHERE id < 5"
        )
        warehouse.refresh()
        found = warehouse.plan("joined")
        known = found["statistics"]["a.orders"]
        assert known["rows"] == ROWS - 5
        assert 0 < known["changed"] <= 60
        assert known["distinct"]["customer"] == pytest.approx(ROWS / 10, rel=0.5)
        assert found["cost"]["seconds"] > 0
        assert found["alternatives"][0]["seconds"] > 0
        json.dumps(found)


def test_values_are_counted_again_when_most_rows_changed_though_none_came(shop: Shop) -> None:
    shop.configure(extra="copies: all\n")

    def counted(warehouse: Warehouse) -> float:
        known = read_statistics(warehouse.project.warehouse, shop.engine_name)
        return known.of("copy~a.orders").distinct["customer"]

    with shop.open() as warehouse:
        warehouse.refresh()
        assert counted(warehouse) == pytest.approx(ROWS / 10, rel=0.5)
        shop.write("a", "UPDATE orders SET customer = id % 3")
        warehouse.refresh(settle=True)
        shop.write("a", "UPDATE orders SET amount = 0 WHERE id = 1")
        warehouse.refresh()
        assert counted(warehouse) == 3


def test_values_of_nothing_are_not_counted(tmp_path: Path, engine: Engine, engine_name: str) -> None:
    """Rows of views may all be in changes, or be none."""
    made = Shop(tmp_path, engine, engine_name)
    made.source("a", TABLES)
    made.views(
        VIEWS + "CREATE MATERIALIZED VIEW twice AS"
        " SELECT x.id FROM joined x JOIN joined y ON x.name = y.name AND x.amount = y.amount;"
    )
    with made.open() as warehouse:
        for number in range(3):
            assert not warehouse.maintain().failures
            made.write("a", f"INSERT INTO customers VALUES ({number}, 'x')")
            made.write("a", f"INSERT INTO orders VALUES ({number}, {number}, 1)")
        assert all(found.ok for found in warehouse.verify_all().values())


# -- the decision alone


def views_of(shop: Shop) -> dict[str, View]:
    with shop.open() as warehouse:
        return dict(warehouse.definitions().views)


def decisions(
    views: dict[str, View], change: float, known: Statistics, rows: float = 1e6, **of_driver: int
) -> dict[str, Decision]:
    sizes = {"a.orders": Sized(rows, change), "a.customers": Sized(rows / 10, 0)}
    estimator = Estimator(BUILT_IN["spark"], 0.1, **of_driver)
    made = Deciding(views, lambda view: sizes.__getitem__, lambda name: rows, estimator, known)
    made.decide(views)
    return made.decisions


def decided(shop: Shop, change: float, known: Statistics | None = None, rows: float = 1e6) -> dict[str, str]:
    found = decisions(views_of(shop), change, known or Statistics(), rows)
    return {name: decision.mode for name, decision in found.items()}


def test_small_changes_go_forward_and_large_ones_do_not(shop: Shop) -> None:
    assert decided(shop, 100)["joined"] == "incremental"
    assert decided(shop, 1.8e6)["joined"] == "full"
    assert decided(shop, 1.8e6)["always"] == "incremental"
    assert decided(shop, 1.8e3, rows=1e3)["joined"] == "incremental"


def test_what_was_learned_turns_the_choice(shop: Shop) -> None:
    known = Statistics()
    for _ in range(10):
        known = known.with_measure("joined", "by jobs", 5e4, 1.0, 25.0)
        known = known.with_measure("by_name", "by jobs", 5e4, 1.0, 25.0)
    assert decided(shop, 5e4)["joined"] == "incremental"
    assert decided(shop, 5e4, known)["joined"] == "full"


def test_what_was_learned_of_one_way_says_nothing_of_another(shop: Shop) -> None:
    """What is computed in columns may take far longer than estimated, and jobs not."""
    views, known = views_of(shop), Statistics()
    few = decisions(views, 1_000, known, driver_rows=2_000)
    for name, each in few.items():
        known = known.with_measure(name, each.model.way, 1_000, each.model.incremental, 30.0)
    for change, way in ((1_000, "by columns"), (20_000, "by columns"), (400_000, "by jobs")):
        found = decisions(views, change, known, driver_rows=2_000)["joined"]
        assert found.model.way == way
        assert (found.estimate == found.model) == (way == "by jobs")


@dataclass
class Sessions:
    """In which going forward takes `off` times what the model says of it, and computing anew what it says."""

    views: dict[str, View]
    known: Statistics
    change: float = SOME
    off: float = 1.0
    modes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    best: float = 0.0

    def run(self, count: int) -> list[str]:
        for _ in range(count):
            self._one()
        return self.modes

    def _one(self) -> None:
        sizes = {"a.orders": Sized(1e6, self.change), "a.customers": Sized(1e5, 0)}
        estimator = Estimator(BUILT_IN["spark"], 0.1)
        made = Deciding(self.views, lambda view: sizes.__getitem__, lambda name: 1e6, estimator, self.known)
        made.decide(self.views)
        learning, anew = Learning(self.known), set[str]()
        forward = full = took = 0.0
        for name, each in made.decisions.items():
            if each.mode == FULL or not anew.isdisjoint(self.views[name].upstream):
                anew.add(name)
            rows = int(self.change)
            outcome = Outcome(FULL if name in anew else "incremental", "", "", rows, rows)
            trial = each.trial == outcome.mode
            seconds = each.model.full if name in anew else each.model.incremental * self.off
            learning.maintained(self.views[name], each.model, outcome, seconds, trial=trial)
            if name != "always":
                took += seconds + (0.0 if name in anew else each.model.settling)
                forward += each.model.incremental * self.off + each.model.settling
                full += each.model.full
        self.known = learning.statistics.with_set_aside(made.set_aside)
        self.modes.append(made.decisions["joined"].mode)
        self.seconds += took
        self.best += min(forward, full)


def believed(views: dict[str, View], off: float, change: float = SOME) -> Statistics:
    known = Statistics()
    for _ in range(10):
        for name in views:
            known = known.with_measure(name, "by jobs", change, 1.0, off)
    return known


@pytest.mark.parametrize("learned_of", [SOME, SOME / 10])
def test_a_wrong_belief_does_not_last(shop: Shop, learned_of: float) -> None:
    """As of a machine that was busy, or of changes of another size: what nobody tries would be believed for
    ever."""
    views = views_of(shop)
    off = 5.0 if learned_of == SOME else 25.0  # of which half is believed, of changes ten times as large
    modes = Sessions(views, believed(views, off, learned_of)).run(40)
    assert modes[0] == "full"
    turned = modes.index("incremental")
    assert turned < 20 and set(modes[turned:]) == {"incremental"}


def test_an_odd_change_does_not_last(shop: Shop) -> None:
    """Many rows changed with each: so would those of all later changes seem to."""
    views, known = views_of(shop), Statistics()
    for _ in range(10):
        known = known.with_measure("joined", GROWTH, SOME, 1.0, 25.0)
    modes = Sessions(views, known).run(120)
    assert modes[0] == "full"
    turned = modes.index("incremental")
    assert turned < 60 and set(modes[turned:]) == {"incremental"}


@pytest.mark.parametrize("off", [5.0, 10.0, 25.0])
def test_trying_a_right_belief_takes_a_tenth_at_the_most(shop: Shop, off: float) -> None:
    views = views_of(shop)
    sessions = Sessions(views, believed(views, off), off=off)
    modes = sessions.run(300)
    assert modes[0] == "full" and "incremental" in modes
    assert sessions.seconds < 1.12 * sessions.best


@pytest.mark.parametrize("off", [5.0, 25.0])
def test_computing_anew_is_tried_as_well(shop: Shop, off: float) -> None:
    """A first load on a machine that was busy would be believed for ever."""
    views, known = views_of(shop), Statistics()
    for name in views:
        known = known.with_measure(name, FULL, 1.1e6, 1.0, off)
        known = known.with_measure(name, FULL, 1.1e6, 1.0, off)
    modes = Sessions(views, known, change=1e5).run(200)
    assert modes[0] == "incremental"
    assert set(modes[modes.index("full") :]) == {"full"}


def test_what_seems_equal_is_not_tried_in_every_session(shop: Shop) -> None:
    """Computing anew is believed to take as long as going forward: in doubt a view goes forward."""
    views, change = views_of(shop), 1e5
    model = [each for name, each in decisions(views, change, Statistics()).items() if name != "always"]
    by_change, full = totals(each.model for each in model)
    known = Statistics()
    for _ in range(20):
        for name in views:
            known = known.with_measure(name, FULL, 1.1e6, 1.0, by_change / full)
    modes = Sessions(views, known, change=change).run(9)
    assert modes.count("incremental") >= 8


def test_a_view_without_changes_is_not_computed_anew(shop: Shop) -> None:
    known = believed(views_of(shop), 29.0, 1.0)
    assert set(decided(shop, 0, known).values()) == {"incremental"}


def test_a_trial_is_paid_for_before_it_begins(
    shop: Shop, engine_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that takes the engine with it would come again in every session."""
    monkeypatch.setattr(deciding, "FEW_ROWS", 1000)
    # A job costs what makes few rows dearer anew than by a look-up, by the model alone, yet not thirty times.
    prices = replace(BUILT_IN["sail"], per_job=0.02)
    monkeypatch.setattr(weighing, "prices", lambda *_: prices)
    shop.configure(extra="small_changes: driver\n")
    forward = Work._incremental

    def lost(work: Work, view: View, former: ViewState) -> Outcome:
        if view.name == "joined":
            raise EngineError("gone", code=ENGINE_LOST)
        return forward(work, view, former)

    def known(warehouse: Warehouse) -> Statistics:
        sizes = read_statistics(warehouse.lake.path, engine_name).relations
        found = Statistics(sizes).with_set_aside({"joined": 1e6})
        for _ in range(20):
            for name in warehouse.definitions().views:
                for way in ("by columns", "by columns, then rows"):
                    found = found.with_measure(name, way, 2, 1.0, 30.0)
        return found

    with shop.open() as warehouse:
        warehouse.refresh()
        write_statistics(warehouse.lake.path, engine_name, known(warehouse))
        shop.write("a", "UPDATE orders SET amount = amount + 1 WHERE id = 7")
        monkeypatch.setattr(Work, "_incremental", lost)
        with pytest.raises(EngineError):
            warehouse.refresh()
        monkeypatch.setattr(Work, "_incremental", forward)
        assert read_statistics(warehouse.lake.path, engine_name).set_aside["joined"] == 0
        done = warehouse.maintain().outcomes["joined"]
        assert (done.mode, done.reason) == ("full", "COST")
        # When enough is set aside again, it is tried.
        found = read_statistics(warehouse.lake.path, engine_name).with_set_aside({"joined": 1e6})
        write_statistics(warehouse.lake.path, engine_name, found)
        shop.write("a", "UPDATE orders SET amount = amount + 1 WHERE id = 7")
        done = warehouse.maintain().outcomes["joined"]
        assert done.mode == "incremental" and done.detail is not None and "tried" in done.detail
        assert all(found.ok for found in warehouse.verify_all().values())


def test_what_the_model_says_as_well_is_not_tried(shop: Shop) -> None:
    views = views_of(shop)
    sessions = Sessions(views, believed(views, 2.0, 1.8e6), change=1.8e6, off=2.0)
    assert set(sessions.run(60)) == {"full"}
    assert not sessions.known.set_aside


def test_a_view_is_not_computed_anew_at_the_expense_of_those_above(shop: Shop) -> None:
    """by_name would be dear to compute anew: joined goes forward for its sake."""
    known = Statistics()
    for _ in range(10):
        known = known.with_measure("joined", "by jobs", 5e4, 1.0, 15.0)
    assert decided(shop, 5e4, known)["joined"] == "full"
    for _ in range(10):
        known = known.with_measure("by_name", "full", 1e6, 1.0, 29.0)
        for part in (name for name in decided(shop, 5e4) if name.startswith("by_name~")):
            known = known.with_measure(part, "full", 1e6, 1.0, 29.0)
    assert decided(shop, 5e4, known)["joined"] == "incremental"
