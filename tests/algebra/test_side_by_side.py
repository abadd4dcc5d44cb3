"""Work side by side: as if one had been done after the other."""

from __future__ import annotations

import os
import time
from concurrent.futures import Future
from threading import get_ident

import pytest

from stillframe.algebra import side_by_side as module
from stillframe.algebra.side_by_side import side_by_side


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "cores", lambda: 2)


def test_answers_come_in_order() -> None:
    def late(number: int) -> int:
        time.sleep(0.002 * (5 - number))
        return number

    assert side_by_side(late, range(5)) == list(range(5))
    assert side_by_side(late, []) == []


def test_work_within_work_does_not_wait_for_itself() -> None:
    def outer(number: int) -> list[tuple[int, bool]]:
        mine = get_ident()
        return side_by_side(lambda inner: (number * inner, get_ident() == mine), range(3))

    found = side_by_side(outer, range(8))
    assert found == [[(number * inner, True) for inner in range(3)] for number in range(8)]


def test_when_it_raises_all_of_the_work_is_over() -> None:
    done = []

    def work(number: int) -> None:
        if number < 2:
            raise ValueError(number)
        time.sleep(0.05)
        done.append(number)

    with pytest.raises(ValueError, match=r"^0$"):
        side_by_side(work, range(4))
    assert sorted(done) == [2, 3]


def test_a_forked_process_has_threads_of_its_own() -> None:
    side_by_side(str, range(4))
    child = os.fork()
    if child == 0:
        os._exit(0 if side_by_side(str, range(4)) == ["0", "1", "2", "3"] else 1)
    for _ in range(500):
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            break
        time.sleep(0.01)
    else:
        os.kill(child, 9)
        os.waitpid(child, 0)
        pytest.fail("it waits for a thread that is not there")
    assert status == 0


def test_when_it_is_interrupted_all_of_the_work_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    wait, done = module.wait, list[int]()

    def interrupted(started: list[Future[None]]) -> object:
        monkeypatch.setattr(module, "wait", wait)
        raise KeyboardInterrupt

    def work(number: int) -> None:
        time.sleep(0.05)
        done.append(number)

    monkeypatch.setattr(module, "wait", interrupted)
    with pytest.raises(KeyboardInterrupt):
        side_by_side(work, range(20))
    at_once = list(done)
    assert len(at_once) < 20  # what had not begun is not begun any more
    time.sleep(0.2)
    assert done == at_once
