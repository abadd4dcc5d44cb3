"""A polite queue for whole processes. It saves work that would end in `Busy`; no guarantee rests on it."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from stillframe.errors import Busy

_POLL_SECONDS = 0.05


@contextmanager
def exclusive(path: Path, wait_seconds: float) -> Iterator[bool]:
    """Yields whether this process was the last to hold it."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        deadline = time.monotonic() + wait_seconds
        while not _try_lock(descriptor):
            left = deadline - time.monotonic()
            if left <= 0:
                raise Busy(
                    "another process is working on this warehouse",
                    detail=f"process {_holder(path)} holds {path}",
                    hint="wait for it to finish, or stop it",
                )
            time.sleep(min(_POLL_SECONDS, left))
        mine = str(os.getpid()).encode()
        again = os.pread(descriptor, 64, 0) == mine
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, mine, 0)
        yield again
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _holder(path: Path) -> str:
    return path.read_text().strip() or "unknown"
