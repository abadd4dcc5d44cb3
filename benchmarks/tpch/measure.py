"""What a process and all it started take: wall time, CPU seconds, bytes written, memory. From /proc.

One way of measuring for all that are compared. Memory is the sum of proportional set sizes, so that pages
which processes share count once; it is sampled, so a peak shorter than a sample is missed. Who writes to our
sources meanwhile is somebody else: a process of its own, whose memory does not count.
"""

from __future__ import annotations

import multiprocessing
import os
import platform
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

SAMPLE_SECONDS = 0.5
PROGRESS = "STILLFRAME_BENCH_PROGRESS"  # names the file descriptor of who waits for a measurement
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def progress(text: str) -> None:
    """A line that whoever waits for a measurement sees meanwhile."""
    told = os.environ.get(PROGRESS)
    if told:
        os.write(int(told), f"  … {text}\n".encode())


def tree(root: int) -> list[int]:
    """The process and its descendants."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                text = (entry / "stat").read_text()
            except OSError:
                continue
            children.setdefault(int(text.rpartition(")")[2].split()[1]), []).append(int(entry.name))
    found, waiting = [], [root]
    while waiting:
        pid = waiting.pop()
        found.append(pid)
        waiting += children.get(pid, [])
    return found


def _cpu(pid: int) -> float:
    """Seconds on a processor, those of children that ended included."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / _TICKS


def _written(pid: int) -> int:
    for line in Path(f"/proc/{pid}/io").read_text().splitlines():
        if line.startswith("wchar:"):
            return int(line.split()[1])
    return 0


def _resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE


def memory_of(pid: int) -> int:
    """Its proportional set size, in bytes. The kernel goes over all its pages for it."""
    for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) * 1024
    return 0


def _sum(what: Any, pids: Sequence[int]) -> float:
    total = 0.0
    for pid in pids:
        try:
            total += what(pid)
        except OSError:  # ended meanwhile, or not ours to look at
            continue
    return total


@dataclass
class Meter:
    """Times of named pieces of work, and what they took together."""

    seconds: dict[str, list[float]] = field(default_factory=dict)
    cpu: dict[str, float] = field(default_factory=dict)
    written: dict[str, float] = field(default_factory=dict)
    peak: int = 0

    def __post_init__(self) -> None:
        self._stop, self._sampling = threading.Event(), threading.Lock()
        self._thread = threading.Thread(target=self._sample, daemon=True)
        self._thread.start()

    def _sample(self) -> None:
        """What processes share is counted once. To ask for that takes a tenth of a core where there is much
        memory, so it is asked only when more pages are held than ever before."""
        most = 0.0
        while not self._stop.wait(SAMPLE_SECONDS):
            with self._sampling:
                pids = tree(os.getpid())
                held = _sum(_resident, pids)
                if held > 1.01 * most:
                    most = held
                    self.peak = max(self.peak, int(_sum(memory_of, pids)))

    def apart(self, work: Callable[..., object], *values: object) -> None:
        """What others do: not measured."""
        with self._sampling:
            apart(work, *values)

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        pids = tree(os.getpid())
        cpu, written = _sum(_cpu, pids), _sum(_written, pids)
        began = time.perf_counter()
        yield
        taken = time.perf_counter() - began
        pids = tree(os.getpid())
        self.seconds.setdefault(name, []).append(taken)
        self.cpu[name] = self.cpu.get(name, 0.0) + _sum(_cpu, pids) - cpu
        self.written[name] = self.written.get(name, 0.0) + _sum(_written, pids) - written

    def close(self) -> dict[str, Any]:
        self._stop.set()
        self._thread.join()
        return {
            "peak_memory_bytes": self.peak,
            "work": {
                name: {
                    **summary(taken),
                    "cpu_seconds": round(self.cpu[name], 3),
                    "bytes_written": int(self.written[name]),
                }
                for name, taken in self.seconds.items()
            },
        }


def apart(work: Callable[..., object], *values: object) -> None:
    """By a process of its own, which leaves nothing in this one's memory."""
    process = multiprocessing.get_context("spawn").Process(target=work, args=values)
    process.start()
    process.join()
    if process.exitcode:
        raise RuntimeError(f"{work.__qualname__} ended with {process.exitcode}")


def summary(taken: Sequence[float]) -> dict[str, Any]:
    ordered = sorted(taken)
    return {
        "times": len(ordered),
        "median": round(statistics.median(ordered), 4),
        "p95": round(ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))], 4),
        "total": round(sum(ordered), 4),
        "each": [round(one, 4) for one in taken],
    }


def machine() -> dict[str, Any]:
    memory = _PAGE * os.sysconf("SC_PHYS_PAGES")
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": memory,
        "load_average": [round(one, 2) for one in os.getloadavg()],
        "commit": _commit(),
    }


def _commit() -> str:
    """The state of the project that was measured, with a `+` where files differ from it; results, which the
    one before may just have written, do not count."""
    git = ["git", "-C", str(Path(__file__).parents[2])]
    others = ["status", "--porcelain", "--untracked-files=no", "--", ".", ":(exclude)benchmarks/results"]

    def asked(*words: str) -> str:
        return subprocess.run([*git, *words], capture_output=True, text=True, check=True).stdout.strip()

    try:
        return asked("rev-parse", "--short", "HEAD") + ("+" if asked(*others) else "")
    except (OSError, subprocess.CalledProcessError):
        return ""


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def versions(*names: str) -> dict[str, str]:
    found = {}
    for name in names:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
