"""What capture costs the writers of a PostgreSQL database: pgbench with and without, in alternating rounds.

Each transaction updates one row by its key, as prepared statements, from several clients. A round is one run
without capture and one with each way to capture, in an order that turns from round to round; the ratio of a
way is the median over the rounds of its rate over the rate without capture in the same round. `durable` is a
server as it comes (every commit waits for the disk); `unwaiting` has synchronous_commit off, so that next to
nothing but the work itself is measured.

    python -m benchmarks.capture_cost       # writes benchmarks/results/capture-cost.json
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

import servers
from stillframe.sources.postgres.triggers import PostgresSource

RESULTS = Path(__file__).parent / "results"
ROWS = 100_000
SCRIPT = f"""\\set aid random(1, {ROWS})
\\set delta random(-5000, 5000)
UPDATE pgbench_accounts SET abalance = abalance + :delta WHERE aid = :aid;
"""
LIMIT = 0.6  # of the rate without capture
SERVERS = {"durable": {"fsync": "on"}, "unwaiting": {"fsync": "on", "synchronous_commit": "off"}}
WITHOUT = "without"
Way = Callable[[str], Any]


def ways() -> dict[str, Way | None]:
    found: dict[str, Way | None] = {WITHOUT: None, "triggers": lambda url: PostgresSource("bench", url)}
    try:
        from stillframe.sources.postgres.logical import PostgresLogSource
    except ImportError:
        return found
    return found | {"log": lambda url: PostgresLogSource("bench", url)}


def rate(server: servers.PostgresServer, script: Path, seconds: int, clients: int) -> float:
    command = [servers.program("pgbench", "postgresql"), "-n", "-f", str(script), "-M", "prepared"]
    command += ["-T", str(seconds), "-c", str(clients), "-j", "1", server.url("bench")]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return float(said.split("tps = ")[1].split()[0])


def one_run(server: servers.PostgresServer, way: Way | None, run: Callable[[], float]) -> float:
    with server.connect("bench") as con:
        con.execute("VACUUM pgbench_accounts")
        con.execute("CHECKPOINT")
    if way is None:
        return run()
    source = way(server.url("bench"))
    source.attach("bench", ["pgbench_accounts"])
    try:
        return run()
    finally:
        source.detach("bench")


def measure(settings: dict[str, str], rounds: int, seconds: int, clients: int) -> dict[str, Any]:
    there = ways()
    rates: dict[str, list[float]] = {name: [] for name in there}
    with servers.postgres(shared_buffers="256MB", max_wal_size="4GB", **settings) as server:
        server.database("bench")
        initialise = [servers.program("pgbench", "postgresql"), "-i", "-q", "-s", "1", server.url("bench")]
        subprocess.run(initialise, check=True, capture_output=True)
        with tempfile.TemporaryDirectory() as folder:
            script = Path(folder) / "update.sql"
            script.write_text(SCRIPT)
            rate(server, script, 2, clients)
            for number in range(rounds):
                names = list(there)
                turned = names[number % len(names) :] + names[: number % len(names)]
                for name in turned:
                    rates[name].append(
                        one_run(server, there[name], lambda: rate(server, script, seconds, clients))
                    )
    ratios = {
        name: statistics.median(a / b for a, b in zip(found, rates[WITHOUT], strict=True))
        for name, found in rates.items()
        if name != WITHOUT
    }
    return {
        "settings": settings,
        "transactions_per_second": {name: [round(r) for r in found] for name, found in rates.items()},
        "ratio": {name: round(ratio, 3) for name, ratio in ratios.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7, help="rounds of each kind of server (7)")
    parser.add_argument("--seconds", type=int, default=5, help="of each run (5)")
    parser.add_argument("--clients", type=int, default=4, help="that write at once (4)")
    options = parser.parse_args()
    measured = {}
    for name, settings in SERVERS.items():
        measured[name] = measure(settings, options.rounds, options.seconds, options.clients)
        for way, ratio in measured[name]["ratio"].items():
            print(f"{name:10} {way:9} {ratio:6.1%} of the rate without capture")
    document = {
        "python": platform.python_version(),
        "postgres": subprocess.run(
            [servers.program("postgres", "postgresql"), "--version"],
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip(),
        "cores": os.cpu_count(),
        "clients": options.clients,
        "seconds_a_run": options.seconds,
        "limit": LIMIT,
        "measured": measured,
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "capture-cost.json").write_text(json.dumps(document, indent=2) + "\n")


if __name__ == "__main__":
    main()
