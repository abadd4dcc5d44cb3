"""kill -9 of the executor of a view manager that has written a part of its records, on a cluster whose
workers do not have our package: another manager does again what the lost one did, and no change counts twice.
Run with `--engine=spark --master=standalone`."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyspark.cloudpickle as cloudpickle
import pytest

import servers
from records.serving_views import Writer, views
from shops import Shop
from standalone import Cluster, wait_until
from stillframe.records.store import RecordStore, Write
from stillframe.runtime.serving import Place

pytestmark = [pytest.mark.engine, pytest.mark.long]

NAMES = ("summed", "dropped", "least", "named")
CHANGES = 1_000
SECONDS = 240.0

cloudpickle.register_pickle_by_value(sys.modules[__name__])


class HeldStore:
    """A store whose first write in a task is done, and then never ends."""

    def __init__(self, store: RecordStore, hold: Path) -> None:
        self.store, self.hold = store, hold

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def test_and_set(self, writes: Sequence[Write]) -> list[bool]:
        from pyspark import TaskContext

        done = self.store.test_and_set(writes)
        if TaskContext.get() is None:
            return done
        try:
            self.hold.rename(self.hold.with_name(f"held-{os.getpid()}"))
        except FileNotFoundError:
            return done
        daemon, until = os.getppid(), time.monotonic() + SECONDS
        while os.getppid() == daemon and time.monotonic() < until:
            time.sleep(0.05)
        raise RuntimeError("a manager that was killed goes on")


def held(opener: Callable[..., Callable[[], RecordStore]], hold: Path) -> Callable[..., Any]:
    def holding(place: Place, view: Any, epoch: int = 0) -> Callable[[], Any]:
        opened = opener(place, view, epoch)
        return lambda: HeldStore(opened(), hold)

    return holding


@pytest.mark.parametrize("store", ["redis", "postgresql"])
def test_what_a_lost_manager_wrote_does_not_count_twice(
    standalone_cluster: Cluster,
    shop: Shop,
    store: str,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    killed: list[int] = []

    def kill() -> None:
        wait_until(lambda: any(shop.root.glob("held-*")), "a manager that has written", SECONDS)
        (told,) = shop.root.glob("held-*")
        killed.append(standalone_cluster.executor_of(int(told.name.partition("-")[2])))
        told.unlink()
        os.kill(killed[-1], signal.SIGKILL)

    with servers.redis_server() as redis:
        url = redis.url()
        if store == "postgresql":
            server = request.getfixturevalue("postgres_server")
            server.database("executors")
            url = server.url("executors")
        writer = Writer(shop, seed=3)
        writer.write(CHANGES)
        shop.views(views(url, NAMES))
        wh = shop.open()
        wh.bring_forward()
        monkeypatch.setattr(Place, "opener", held(Place.opener, shop.root / "hold"))
        for name in NAMES:  # the first to write is of this view
            writer.write(CHANGES)
            standalone_cluster.wait_for_executors(2)
            (shop.root / "hold").touch()
            beside = threading.Thread(target=kill, daemon=True)
            beside.start()
            result = wh.bring_forward((name,))
            beside.join(SECONDS)
            assert result.outcomes[name].error is None
            assert result.outcomes[name].mode == "incremental"
        assert len(killed) == len(NAMES) and not set(killed) & set(standalone_cluster.executors())
        wh.bring_forward()
        assert {name: one.ok for name, one in wh.verify_all().items()} == dict.fromkeys(NAMES, True)
        print(f"{store}: {len(killed)} managers lost after they had written")
