"""What the file system says of a file, without opening it."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

TICK_SECONDS = 0.05
COARSE_TICK_SECONDS = 2.1  # of file systems that keep whole seconds


@dataclass(frozen=True, slots=True)
class Stamp:
    """One file as it stood."""

    path: Path
    device: int
    inode: int
    size: int
    modified: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        found = path.stat()
        times = (found.st_mtime_ns, found.st_ctime_ns)
        return cls(path, found.st_dev, found.st_ino, found.st_size, *times)

    def young(self) -> float:
        """For how many seconds a write would still bear the same times."""
        tick = COARSE_TICK_SECONDS if self.changed % 1_000_000_000 == 0 else TICK_SECONDS
        age = time.time() - self.changed / 1e9
        return tick - age if 0 <= age < tick else 0.0
