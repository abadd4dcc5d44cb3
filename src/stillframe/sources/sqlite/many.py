"""Many rows of a log, read by processes of their own with Arrow's driver of SQLite: a third of the time that
Python takes to make values of them one by one, and less where there are cores for two of them.

Arrow's driver brings a SQLite library of its own. Two libraries in one process do not see each other's
locks, and what one closes unlocks what the other holds; in two processes they are two programs like any.

Law: a process answers with all rows of its query, in a snapshot that lacks none of the log (`Guard`), or not
at all. What lies between two positions of a log never changes, so its parts may be of different snapshots.
Where one of them is not answered the caller reads all itself, and says what is missing, or what is wrong with
a value. So this changes how long a read takes, and nothing else.
"""

from __future__ import annotations

import atexit
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from itertools import chain, pairwise
from pathlib import Path
from threading import Lock
from typing import Any

import pyarrow as pa

from stillframe.algebra.side_by_side import cores
from stillframe.sources.sqlite.read import Query
from stillframe.sources.sqlite.types import Reading

LEAST_ROWS = 20_000  # for which a process that is there is asked
WORTH_STARTING = 40_000  # one that is not
PROCESS = "stillframe.sources.sqlite.many_process"
_PARAMETERS = (int, str)
_FAILURES = (OSError, EOFError, ValueError, pickle.UnpicklingError, pa.ArrowException)


@dataclass(frozen=True)
class Guard:
    """A query of one number, which it must be."""

    sql: str
    parameters: tuple[int, ...]
    number: int


@dataclass(frozen=True)
class Request:
    """What to read and where to leave it; the columns, and after them the counts."""

    path: str
    sql: str
    parameters: tuple[Any, ...]
    readings: tuple[Reading, ...]
    guard: Guard
    file: str


class Helper:
    """A process, started when it is first needed. It ends when its input does: with this one. Whoever has its
    lock gives it a request, and then takes the answer."""

    def __init__(self) -> None:
        self.lock = Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._owner = 0

    def is_there(self) -> bool:
        process = self._process  # another thread may stop it
        return process is not None and self._owner == os.getpid() and process.poll() is None

    def give(self, request: Request) -> None:
        if not self.is_there():
            self._start()
        assert self._process is not None and self._process.stdin
        pickle.dump(request, self._process.stdin)
        self._process.stdin.flush()

    def answer(self) -> bool:
        """Whether the rows are where they were asked for."""
        assert self._process is not None and self._process.stdout
        return bool(pickle.load(self._process.stdout))

    def _start(self) -> None:
        """With the modules of this process, wherever it found them."""
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", PROCESS],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment,
        )
        self._owner = os.getpid()
        atexit.register(self.stop)

    def stop(self) -> None:
        if self._process is not None and self._owner == os.getpid():
            self._process.kill()
            self._process.wait()
            for pipe in (self._process.stdin, self._process.stdout):
                if pipe is not None:
                    with suppress(OSError):
                        pipe.close()
        self._process = None


HELPERS = (Helper(), Helper())


def worth_asking(rows: int) -> list[Helper]:
    """As many of the processes as gain by reading a part each; those that are there first."""
    chosen = list[Helper]()
    for helper in sorted(HELPERS[: cores()], key=lambda each: not each.is_there()):
        if rows >= (len(chosen) + 1) * (LEAST_ROWS if helper.is_there() else WORTH_STARTING):
            chosen.append(helper)
    return sorted(chosen, key=HELPERS.index)


def many(
    path: Path, after: int, upto: int, part: Callable[[int, int], tuple[Query, Guard]]
) -> Iterator[pa.RecordBatch] | None:
    """The rows of an interval of a log, read by `part`s; None where the caller should read them."""
    helpers = worth_asking(upto - after)
    cuts = [after + (upto - after) * n // len(helpers) for n in range(len(helpers) + 1)] if helpers else []
    asked = [part(*ends) for ends in pairwise(cuts)]
    if not asked or not all(_can_be_asked(query) for query, _ in asked):
        return None
    with ExitStack() as files:
        requests = []
        for query, guard in asked:  # files without a name: nothing is left of them
            file = files.enter_context(tempfile.TemporaryFile(prefix="stillframe-"))
            place = f"/proc/{os.getpid()}/fd/{file.fileno()}"
            requests.append(
                Request(str(path.absolute()), query.sql, query.parameters, query.readings, guard, place)
            )
        if not answered(helpers, requests):
            return None
        return chain(*(_batches(each.file) for each in requests))


def answered(helpers: Sequence[Helper], requests: Sequence[Request]) -> bool:
    """Whether each request was answered, all of them worked on at once. Helpers are in the order of HELPERS,
    so that two who ask do not wait for each other. Of one that was interrupted no answer is left over."""
    with ExitStack() as locks:
        for helper in helpers:
            locks.enter_context(helper.lock)
        try:
            for helper, request in zip(helpers, requests, strict=True):
                helper.give(request)
            answers = [helper.answer() for helper in helpers]  # each is taken, whatever the first one is
            return all(answers)
        except BaseException as error:
            for helper in helpers:
                helper.stop()
            if isinstance(error, _FAILURES):
                return False
            raise


def _can_be_asked(query: Query) -> bool:
    if query.tagged or not query.counted or any(reading.as_text for reading in query.readings):
        return False
    return all(type(value) in _PARAMETERS for value in query.parameters)


def _batches(place: str) -> list[pa.RecordBatch]:
    """What is mapped stays when the file is closed."""
    reader = pa.ipc.open_file(pa.memory_map(place))
    return [reader.get_batch(i) for i in range(reader.num_record_batches)]
