"""Which process owns something, and whether it still lives.

A pid means something only within one pid namespace of one boot of one machine, and only together with the
time its process started. Where that cannot be compared, the answer is "unknown", never a guess.
"""

from __future__ import annotations

import hashlib
import os
import re
import socket
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_UNKNOWN_START = 0


@dataclass(frozen=True, slots=True)
class Owner:
    machine: str
    pid: int
    start: int

    def __str__(self) -> str:
        return f"{self.machine}-{self.pid}-{self.start}"

    @classmethod
    def parse(cls, text: str) -> Owner | None:
        found = re.fullmatch(r"(\w+\.\w+)-(\d+)-(\d+)", text)
        return cls(found[1], int(found[2]), int(found[3])) if found else None

    @classmethod
    def this_process(cls) -> Owner:
        pid = os.getpid()
        return cls(_machine(), pid, _start_of(pid) or _UNKNOWN_START)

    def alive(self) -> bool | None:
        """None where it cannot be known from here."""
        if self.machine != _machine():
            return None
        start = _start_of(self.pid)
        if start is None:
            return False
        return _UNKNOWN_START in (start, self.start) or start == self.start


@cache
def _machine() -> str:
    """The host's name, and a digest of what gives its pids their meaning."""
    host = re.sub(r"\W", "", socket.gethostname(), flags=re.ASCII)[:32] or "host"
    identity = "/".join((socket.gethostname(), _boot(), _namespace()))
    return f"{host}.{hashlib.sha256(identity.encode()).hexdigest()[:8]}"


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _start_of(pid: int) -> int | None:
    """When a process started, in the kernel's ticks; None if there is none, or only its corpse."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] in "ZX" else int(fields[19])
    except (OSError, IndexError):
        pass
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return None
    except PermissionError:
        pass
    return _UNKNOWN_START
