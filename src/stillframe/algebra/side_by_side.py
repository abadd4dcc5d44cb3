"""The same work on several things, on the cores there are.

Law: when it returns or raises, all of the work is over; of several failures the first one's is raised. Only
work that Arrow and NumPy do for long outside of the interpreter gains by it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import cache
from threading import local
from typing import TypeVar

A = TypeVar("A")
B = TypeVar("B")

_here = local()


def side_by_side(work: Callable[[A], B], things: Sequence[A]) -> list[B]:
    if len(things) < 2 or cores() < 2 or getattr(_here, "working", False):
        return [work(thing) for thing in things]  # within such work there is no core to wait for

    def task(thing: A) -> B:
        _here.working = True
        return work(thing)

    started = list[Future[B]]()
    try:
        for thing in things:
            started.append(_pool().submit(task, thing))
        wait(started)
    finally:  # also where it was interrupted
        for each in started:
            each.cancel()
        wait(started)
    return [each.result() for each in started]


def cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(cores(), thread_name_prefix="stillframe-columns")


os.register_at_fork(after_in_child=_pool.cache_clear)  # threads do not come along
