"""kill -9 of executors while their tasks bring records forward, on a cluster whose workers do not have our
package: other managers do again what the lost ones did, and no change counts twice. Run with
`--engine=spark --master=standalone`."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

import servers
from records.serving_views import Writer, views
from shops import Shop
from standalone import Cluster, Stages
from stillframe.engine import Engine

pytestmark = [pytest.mark.engine, pytest.mark.long]

NAMES = ("summed", "dropped", "least", "named")
ROUNDS, CHANGES, KILLS = 3, 6_000, 3  # a task may be lost as often: the fourth time Spark gives up


class Killer(threading.Thread):
    """Kills executors whose tasks run, each when another one has taken the place of the last."""

    def __init__(self, cluster: Cluster, stages: Stages) -> None:
        super().__init__(daemon=True)
        self.cluster, self.stages = cluster, stages
        self.hit: list[tuple[int, ...]] = []
        self.stopped = threading.Event()

    def run(self) -> None:
        while not self.stopped.wait(0.02) and len(self.hit) < KILLS:
            running = self.stages.at_work()
            self.stopped.wait(0.5)  # what the driver knows lags behind; who takes this long is a manager
            still = tuple(stage for stage in self.stages.at_work() if stage in running)
            executors = self.cluster.executors()
            if still and len(executors) > 1:
                with suppress(ProcessLookupError):
                    os.kill(executors[len(self.hit) % 2], signal.SIGKILL)
                    self.hit.append(still)
                self.stopped.wait(2)


@contextmanager
def killing(cluster: Cluster, stages: Stages) -> Iterator[Killer]:
    killer = Killer(cluster, stages)
    killer.start()
    try:
        yield killer
    finally:
        killer.stopped.set()
        killer.join()


@pytest.mark.parametrize("store", ["redis", "postgresql"])
def test_no_change_counts_twice(
    standalone_cluster: Cluster, shop: Shop, engine: Engine, store: str, request: pytest.FixtureRequest
) -> None:
    stages = Stages(engine.caller.sparkContext)
    with servers.redis_server() as redis:
        url = redis.url()
        if store == "postgresql":
            server = request.getfixturevalue("postgres_server")
            server.database("executors")
            url = server.url("executors")
        writer = Writer(shop, seed=3)
        shop.views(views(url, NAMES))
        wh = shop.open()
        wh.bring_forward()
        killed: list[tuple[int, ...]] = []
        for _ in range(ROUNDS):
            writer.write(CHANGES)
            standalone_cluster.wait_for_executors(2)
            with killing(standalone_cluster, stages) as killer:
                result = wh.bring_forward()
            assert {name: str(o.error) for name, o in result.outcomes.items() if o.error is not None} == {}
            killed += killer.hit
        lost = sum(stages.lost(hit) for hit in killed)
        print(f"{store}: {len(killed)} executors killed, tasks lost to {lost} of them")
        assert lost
        assert {name: one.ok for name, one in wh.verify_all().items()} == dict.fromkeys(NAMES, True)
