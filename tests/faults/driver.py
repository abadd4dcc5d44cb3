"""The other process of the fault tests: opens a project and does what its arguments say, until it is done
or killed. Its last line of output is a JSON document; a kill leaves none."""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from faults_project import Writer, java_children, kill

from stillframe.engine import Room
from stillframe.errors import Busy, StillframeError
from stillframe.runtime import Warehouse, ahead, load_project
from stillframe.runtime.outcome import Step
from stillframe.sources import SqliteSource
from stillframe.sources.base import Keys, Position


def say(text: str) -> None:
    os.write(1, f"{text}\n".encode())


class Killer:
    """Kills this process (or its JVM) at the n-th occurrence of a step; and counts them."""

    def __init__(self, step: str, occurrence: int, whom: str) -> None:
        self.step = step
        self.left = occurrence
        self.whom = whom
        self.seen: Counter[Step] = Counter()

    def __call__(self, step: Step, subject: str) -> None:
        self.seen[step] += 1
        if step == self.step:
            self.left -= 1
            if self.left == 0:
                say(f"killed {self.whom} at {step} {subject}")
                for pid in [os.getpid()] if self.whom == "driver" else java_children(os.getpid()):
                    kill(pid)
                time.sleep(0.2)


def loop(wh: Warehouse, rounds: int) -> dict[str, Any]:
    """Refresh, and settle everything every other time, without end unless rounds are given."""
    done = 0
    try:
        while not rounds or done < rounds:
            for outcome in wh.maintain(settle=done % 2 == 1).failures.values():
                if outcome.error is not None:
                    raise outcome.error
            done += 1
            say("refreshed")
    except StillframeError as error:
        return {"rounds": done, "code": error.code, "message": error.message, "hint": error.hint}
    return {"rounds": done}


def contend(wh: Warehouse, frames: int, polite: bool, rng: random.Random) -> dict[str, Any]:
    """Refresh against others until so many frames are made. The rude do not queue at the lock: only the
    commit keeps them apart."""
    made: list[int] = []
    busy = 0
    while not (wh.project.root / "go").exists():
        time.sleep(0.01)
    while len(made) < frames and busy < 2000:
        try:
            if polite:
                made.append(wh.maintain(wait=rng.choice([0.0, 0.05, 30.0])).frame.number)
            else:
                made.append(wh._session().run().frame.number)
        except Busy:
            busy += 1
            time.sleep(rng.random() * 0.1)
    return {"frames": made, "busy": busy}


@dataclass(frozen=True)
class TroubledSource(SqliteSource):
    """A source whose first read inside a task of the engine breaks off in the middle, or does not end."""

    trouble: str = "fail"

    def state(
        self, relation: str, columns: Sequence[str], at: Position, keys: Keys | None = None
    ) -> Iterator[pa.RecordBatch]:
        from pyspark import TaskContext

        for batch in super().state(relation, columns, at, keys):
            yield batch
            if TaskContext.get() is not None:
                try:
                    self.path.with_name("trouble").unlink()
                except FileNotFoundError:
                    continue
                if self.trouble == "fail":
                    raise RuntimeError("this task fails once")
                time.sleep(300)


def troubled(wh: Warehouse, trouble: str) -> dict[str, Any]:
    """A refresh in which a task has to be run twice."""
    Warehouse.room = sys.modules["stillframe.engine.stage"].LITTLE = Room(50_000)
    wh.sources = {
        name: TroubledSource(name, source.path, None, trouble) for name, source in wh.sources.items()
    }
    flag = wh.project.root / "trouble"
    flag.touch()
    wh.refresh()
    return {"happened": not flag.exists()}


def write(path: Path, name: str, changes: int, pause: float) -> dict[str, Any]:
    writer = Writer(path, name, random.Random(name))
    committed = transactions = 0
    while committed < changes:
        committed += writer.transact()
        transactions += 1
        time.sleep(pause)
    return {"changes": committed, "transactions": transactions}


def run(wh: Warehouse, every: float, seen: Counter[Step]) -> dict[str, Any]:
    """`run` as the command line has it: SIGTERM ends it after the frame in hand."""
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    frames = []
    say("running")
    wh.run(every, stop=stop, on_result=lambda result: frames.append(result.frame.number))
    wh.refresh()
    return {"frames": len(frames), "ahead": seen[Step.AHEAD]}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("work", choices=["loop", "contend", "write", "run", "troubled"])
    parser.add_argument("--kill", default="")
    parser.add_argument("--occurrence", type=int, default=1)
    parser.add_argument("--whom", default="driver")
    parser.add_argument("--trouble", default="fail")
    parser.add_argument("--rounds", type=int, default=0)
    parser.add_argument("--rude", action="store_true")
    parser.add_argument("--seed", default="0")
    parser.add_argument("--source", default="shop")
    parser.add_argument("--changes", type=int, default=0)
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--every", type=float, default=0.3)
    parser.add_argument("--ahead", action="store_true", help="changes are read ahead, however few")
    options = parser.parse_args()
    if options.work == "write":
        result = write(options.root / f"{options.source}.db", options.seed, options.changes, options.pause)
    else:
        if options.ahead:
            ahead.LEAST_ROWS, ahead.PAUSE_SECONDS = 1, 0.01
        observe = Killer(options.kill, options.occurrence, options.whom)
        wh = Warehouse(project=load_project(options.root), observe=observe)
        assert wh.engine
        say("ready")
        match options.work:
            case "loop":
                result = loop(wh, options.rounds)
            case "contend":
                result = contend(wh, options.rounds, not options.rude, random.Random(options.seed))
            case "troubled":
                result = troubled(wh, options.trouble)
            case _:
                result = run(wh, options.every, observe.seen)
        say(json.dumps(result))
        # The JVM may be gone: nothing is left to be closed politely.
        sys.stdout.flush()
        os._exit(0)
    say(json.dumps(result))


if __name__ == "__main__":
    main()
