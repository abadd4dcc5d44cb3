"""`target_lag`: `run` puts sessions off as long as it allows, and `status` tells whether it is met."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta

import pytest
from rich.console import Console

from shops import Shop
from stillframe.cli.reading import status_text
from stillframe.errors import ProjectError
from stillframe.runtime import Warehouse, load_project
from stillframe.runtime.loop import Timing, Waiting
from stillframe.runtime.outcome import Result
from stillframe.runtime.pace import Pace

TWO_HOURS_AGO = "UPDATE _stillframe_log SET mark = mark - (7200 << 31) WHERE seq = {}"


def make(shop: Shop, target: str) -> Warehouse:
    shop.source("one", "CREATE TABLE t (id INTEGER PRIMARY KEY, x INT); INSERT INTO t VALUES (1, 1);")
    shop.views("CREATE MATERIALIZED VIEW v AS SELECT id, x + 1 AS y FROM one.t WHERE x > 0;")
    shop.configure(extra=f"target_lag: {target}\n")
    return shop.open()


def followed(wh: Warehouse, script: dict[int, Callable[[], object]], looks: int) -> dict[int, Result]:
    """What `run` shows, and at which look, while a script does something at some of them."""
    stop, seen, shown = threading.Event(), [0], {}

    def look(_: object) -> None:
        seen[0] += 1
        script.get(seen[0], lambda: None)()
        if seen[0] == looks:
            stop.set()

    wh.run(0.001, stop=stop, on_result=lambda result: shown.update({seen[0]: result}), on_look=look)
    return shown


def text(wh: Warehouse) -> str:
    screen = Console(width=200, file=io.StringIO(), force_terminal=False)
    screen.print(status_text(wh.status()))
    return screen.file.getvalue()


@pytest.mark.engine
def test_sessions_are_put_off_while_the_target_allows(shop: Shop) -> None:
    wh = make(shop, "1h")

    def insert(number: int) -> Callable[[], None]:
        return lambda: shop.write("one", f"INSERT INTO t VALUES ({number}, {number})")

    def make_older() -> None:
        """The first of the changes that wait; log rows count from one, and the frame has two of them."""
        shop.write("one", TWO_HOURS_AGO.format(3))

    shown = followed(wh, {2: insert(2), 4: insert(4), 6: insert(6), 12: make_older}, 20)
    assert list(shown) == [1, 2, 12], "a new view, the first change of all, and one that is late already"
    assert shown[1].age is None and shown[2].age is not None and shown[2].age < 3600
    assert shown[12].age is not None and shown[12].age > 7200
    assert shown[12].outcomes["v"].rows_in == 2
    assert wh.verify("v").ok  # type: ignore[union-attr]


@pytest.mark.engine
def test_status_tells_whether_the_target_is_met(shop: Shop) -> None:
    wh = make(shop, "1h")
    assert "target lag 3600 s: not known of v" in text(wh)
    wh.refresh()
    assert wh.status()["target_lag"] == 3600.0
    assert wh.status()["views"]["v"]["within_target"] is True
    assert "target lag 3600 s: met" in text(wh)
    shop.write("one", "INSERT INTO t VALUES (2, 2)", TWO_HOURS_AGO.format(2))
    assert wh.status()["views"]["v"]["within_target"] is False
    assert "target lag 3600 s: missed by v" in text(wh)
    shop.configure()
    other = shop.open()
    assert other.status()["target_lag"] is None and other.status()["views"]["v"]["within_target"] is None
    assert "target" not in text(other)


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@contextmanager
def lasting(clock: Clock, timing: Timing, waiting: Waiting, seconds: float) -> Iterator[None]:
    with timing.session(waiting):
        clock.now += seconds
        yield


def test_where_no_source_says_how_old_a_change_is_it_is_taken_to_be_as_old_as_it_can_be() -> None:
    clock, pace = Clock(), Pace(10.0)
    pace.took(5, 1.0)
    timing = Timing(pace, clock)
    for nobody in (None, datetime.now(UTC) + timedelta(hours=1)):
        clock.now += 3.0
        assert timing.slack(Waiting(), lambda: None) > 10.0
        clock.now += 2.0
        assert timing.slack(Waiting(5), lambda told=nobody: told) < 10.0 - 1.0 - 2.0
        with lasting(clock, timing, Waiting(5), 1.0):
            pass
        assert timing.age == pytest.approx(3.0)
        clock.now += 0.5
        timing.slack(Waiting(5), lambda told=nobody: told)
        with lasting(clock, timing, Waiting(5), 1.0):
            pass
        assert timing.age == pytest.approx(2.5), "what came while a session lasted is as old as its beginning"


def test_what_is_not_a_change_does_not_wait() -> None:
    timing = Timing(Pace(3600.0), Clock())
    assert timing.slack(Waiting(0, more=True), lambda: None) == 0.0
    assert timing.slack(Waiting(7, more=True), lambda: datetime.now(UTC)) == 0.0
    assert Timing(None).slack(Waiting(7), lambda: None) == 0.0


def test_a_target_is_a_time_above_zero(shop: Shop) -> None:
    for target in ("0s", "soon", "-3s"):
        make_text = f"name: x\nsources: {{}}\ntarget_lag: {target}\n"
        (shop.root / "stillframe.yml").write_text(make_text, encoding="utf-8")
        with pytest.raises(ProjectError) as found:
            load_project(shop.root)
        assert found.value.hint
