"""A process that uses a source in processes of its own, which can be killed at any moment, and measured.

It reads requests on its input and does each in a fork. A fork that ended stays unreaped until it is asked
for, so that its number names nothing else in the meantime.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from stillframe.sources.base import Position, Source

_WAIT = "wait"


@dataclass(frozen=True)
class Ended:
    """Whether a use of the source ended well, how long it took, and the most memory it had (bytes)."""

    well: bool
    seconds: float
    memory: int


class Apart:
    """`with Apart(source) as apart: apart.attach(…)`."""

    def __init__(self, source: Source) -> None:
        self.source = source

    def __enter__(self) -> Apart:
        path = os.pathsep.join(entry for entry in sys.path if entry)
        self.server = subprocess.Popen(
            [sys.executable, "-c", f"from {__name__} import serve; serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path},
        )
        self._send(self.source)
        self._told()
        return self

    def __exit__(self, *_: object) -> None:
        assert self.server.stdin is not None and self.server.stdout is not None
        self.server.stdin.close()
        self.server.wait(30)
        self.server.stdout.close()

    def attach(self, consumer: str, relations: Sequence[str], kill_after: float | None = None) -> Ended:
        return self._do(("attach", consumer, list(relations)), kill_after)

    def read_changes(self, relation: str, columns: Sequence[str], after: Position, upto: Position) -> Ended:
        return self._do(("changes", relation, list(columns), after, upto))

    def read_state(self, relation: str, columns: Sequence[str], at: Position) -> Ended:
        return self._do(("state", relation, list(columns), at))

    def _do(self, request: tuple[Any, ...], kill_after: float | None = None) -> Ended:
        self._send(request)
        pid = int(self._told())
        started = time.monotonic()
        if kill_after is not None:
            time.sleep(kill_after)
            os.kill(pid, 9)
        self._send(_WAIT)
        status, kilobytes = map(int, self._told().split())
        return Ended(status == 0, time.monotonic() - started, kilobytes * 1024)

    def _send(self, message: object) -> None:
        assert self.server.stdin is not None
        self.server.stdin.write(pickle.dumps(message))
        self.server.stdin.flush()

    def _told(self) -> str:
        assert self.server.stdout is not None
        line = self.server.stdout.readline().decode().strip()
        assert line, "the process that uses the source ended; see its errors above"
        return line


def serve() -> None:
    requests = sys.stdin.buffer
    source = pickle.load(requests)
    print("ready", flush=True)
    pid = 0
    while True:
        try:
            request = pickle.load(requests)
        except EOFError:
            return
        if request == _WAIT:
            _, status, used = os.wait4(pid, 0)
            print(status, used.ru_maxrss, flush=True)
            continue
        pid = os.fork()
        if pid == 0:
            _use(source, request)
        print(pid, flush=True)


def _use(source: Source, request: tuple[Any, ...]) -> None:
    """What is read is counted and let go, batch by batch."""
    status = 1
    try:
        verb, *arguments = request
        if verb == "attach":
            source.attach(*arguments)
        else:
            for batch in getattr(source, verb)(*arguments):
                assert batch.num_rows >= 0
        status = 0
    finally:
        os._exit(status)
