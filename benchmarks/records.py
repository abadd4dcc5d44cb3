"""How fast view managers bring changes into Redis, beside the bare test-and-set of the same client and
server.

A SUM over groups, and `--changes` changes of as many base records, dealt out by stream to 1, 2 and 4
managers in processes of their own: once with groups drawn evenly out of `--groups`, once with half of the
changes on one group. Bare: as many processes write as many records by the same script, in calls of the same
size, versions known beforehand, so that nothing is read and nothing computed. All of it in one run, in
turn; rates are of base changes (bare: of writes), and the last columns their ratios to the bare rate of as
many processes.

    python -m benchmarks.records                     # starts a Redis server of its own
    python -m benchmarks.records --changes 20000 --repeat 1
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import platform
import random
import shutil
import socket
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any
from zlib import crc32

import redis

from stillframe.algebra import Column, Schema
from stillframe.algebra.types import BIGINT
from stillframe.records.classes import served
from stillframe.records.entry import STREAMS, Entry, Image, Position
from stillframe.records.manager import PER_CALL, Manager
from stillframe.records.store import ABSENT, Key, Record, RecordStore, Write
from stillframe.records.stores.opening import open_store
from stillframe.records.view import Served
from stillframe.sql import Names, resolve

RESULTS = Path(__file__).parent / "results"
MANAGERS = (1, 2, 4)
ORDERS = Schema(
    (Column("id", BIGINT, False), Column("region", BIGINT), Column("amount", BIGINT)),
    frozenset({frozenset({0})}),
)
TEXT = "SELECT region, SUM(amount) AS total, COUNT(*) AS n FROM orders GROUP BY region"
SHOWN = Schema((Column("region", BIGINT), Column("total", BIGINT), Column("n", BIGINT)))


@contextmanager
def server() -> Iterator[str]:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tempfile.mkdtemp(prefix="stillframe-records-")
    command = ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", folder]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    client = redis.Redis(port=port)
    try:
        for _ in range(200):
            try:
                client.ping()
                break
            except redis.ConnectionError:
                time.sleep(0.05)
        yield f"redis://127.0.0.1:{port}/0"
    finally:
        process.terminate()
        process.wait()
        shutil.rmtree(folder, ignore_errors=True)


def way() -> Served:
    return served(resolve(TEXT, Names(views={"orders": ORDERS})))


def opened(url: str, view: str) -> RecordStore:
    return open_store(url, "bench", view, SHOWN, (0,), 1)


def entries(changes: int, groups: int, hot: bool, seed: int) -> list[Entry]:
    """Inserts of base records, in the order of streams and keys, as a task meets them."""
    draw = random.Random(seed)
    rows = []
    for number in range(changes):
        group = 0 if hot and draw.random() < 0.5 else draw.randrange(groups)
        rows.append((crc32(str(number).encode()) % STREAMS, number, group, draw.randrange(1000)))
    places = dict.fromkeys(range(STREAMS), 0)
    found = []
    for stream, _, group, amount in sorted(rows):
        places[stream] += 1
        found.append(Entry(stream, Position(2, places[stream]), None, Image((group,), (amount,))))
    return found


def managed(url: str, view: str, work: list[Entry]) -> tuple[int, int]:
    with closing(opened(url, view)) as store:
        tally = Manager(way(), store, lambda questions: []).take(work)
    return tally.writes, tally.conflicts


def bare(url: str, view: str, keys: range) -> tuple[int, int]:
    kept = b"[2,[[5,1234]],[3,[[1234,3],[3,3]]],null]"
    with closing(opened(url, view)) as store:
        for begin in range(0, len(keys), PER_CALL):
            some = keys[begin : begin + PER_CALL]
            store.test_and_set([Write(Key((i,)), ABSENT, Record(i + 1, (i, 1234, 3), kept)) for i in some])
    return len(keys), 0


def timed(
    url: str, view: str, run: Callable[..., tuple[int, int]], shares: list[Any]
) -> tuple[float, int, int]:
    """Seconds from the moment all processes begin to the one the last has ended, writes and conflicts."""
    with closing(opened(url, view)) as store:
        store.drop()
        store.create()
        store.fence(1)
    context = multiprocessing.get_context("fork")
    barrier, results = context.Barrier(len(shares) + 1), context.Queue()

    def process(share: Any) -> None:
        with closing(opened(url, view)) as store:
            store.read([Key((0,))])
        barrier.wait()
        results.put(run(url, view, share))

    processes = [context.Process(target=process, args=(share,)) for share in shares]
    for one in processes:
        one.start()
    barrier.wait()
    started = time.perf_counter()
    told = [results.get() for _ in processes]
    seconds = time.perf_counter() - started
    for one in processes:
        one.join()
    return seconds, sum(writes for writes, _ in told), sum(conflicts for _, conflicts in told)


def measure(url: str, changes: int, groups: int, repeat: int) -> list[dict[str, Any]]:
    work = {"uniform": entries(changes, groups, False, 1), "hot": entries(changes, groups, True, 1)}
    rates: dict[tuple[str, int], list[float]] = {}
    counts: dict[tuple[str, int], tuple[int, int]] = {}
    for _ in range(repeat):
        for managers in MANAGERS:
            size = -(-changes // managers)
            shares: list[Any] = [range(i * size, min((i + 1) * size, changes)) for i in range(managers)]
            seconds, *_ = timed(url, "bare", bare, shares)
            rates.setdefault(("bare", managers), []).append(changes / seconds)
            for kind, all_entries in work.items():
                dealt = [[e for e in all_entries if e.stream % managers == i] for i in range(managers)]
                seconds, writes, conflicts = timed(url, kind, managed, dealt)
                rates.setdefault((kind, managers), []).append(changes / seconds)
                counts[kind, managers] = writes, conflicts
    found = []
    for (kind, managers), measured in rates.items():
        rate, against = statistics.median(measured), statistics.median(rates["bare", managers])
        writes, conflicts = counts.get((kind, managers), (changes, 0))
        one = {"keys": kind, "managers": managers, "changes_per_second": round(rate), "each": measured}
        found.append({**one, "of_bare": round(rate / against, 3), "writes": writes, "conflicts": conflicts})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--changes", type=int, default=200_000)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--results", type=Path, default=RESULTS)
    asked = parser.parse_args()
    with server() as url:
        found = measure(url, asked.changes, asked.groups, asked.repeat)
    for one in found:
        print(
            f"{one['keys']:8} {one['managers']} managers: {one['changes_per_second']:>8} changes/s,"
            f" {one['of_bare']:.2f} of bare, {one['writes']} writes, {one['conflicts']} conflicts"
        )
    machine = {"cores": os.cpu_count(), "system": platform.system(), "load_average": os.getloadavg()}
    versions = {name: version(name) for name in ("stillframe", "redis")}
    document = {
        "changes": asked.changes,
        "groups": asked.groups,
        "machine": machine,
        "versions": versions,
        "found": found,
    }
    asked.results.mkdir(parents=True, exist_ok=True)
    path = asked.results / "records.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    print(f"kept in {path}")


if __name__ == "__main__":
    main()
