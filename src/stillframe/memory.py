"""The memory that this process may have, and what becomes of memory that is free.

Nothing here imports anything that takes memory: what is decided has to be known before Arrow is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

CGROUPS = Path("/sys/fs/cgroup")
GROUPS = Path("/proc/self/cgroup")
AMPLE = 8 * 2**30
KEPT_FOR, SETTING = "300000", "MIMALLOC_PURGE_DELAY"  # milliseconds; of the allocator of Arrow and of Sail


def there_is() -> int:
    """Bytes: the machine's, or what the container may have."""
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([memory, *_limits()])


def keep_what_is_free() -> None:
    """What a session frees, the next one needs again. So where there is ample memory it is given back to the
    system after some minutes and not at once, unless the environment says otherwise; where there is little,
    others may need it sooner."""
    if there_is() >= AMPLE:
        os.environ.setdefault(SETTING, KEPT_FOR)


def _limits() -> Iterator[int]:
    """What the groups of processes say that this one is in, old ones and new, and those around them."""
    found: list[str] = []
    with suppress(OSError):
        found = GROUPS.read_text(encoding="utf-8").splitlines()
    for line in (*found, "0::/", "0:memory:/"):
        _, kinds, name = line.split(":", 2)
        if kinds and "memory" not in kinds.split(","):
            continue
        root, file = (CGROUPS / "memory", "memory.limit_in_bytes") if kinds else (CGROUPS, "memory.max")
        here = root / name.strip("/")
        for group in (here, *(each for each in here.parents if each.is_relative_to(root))):
            with suppress(OSError, ValueError):  # it does not say, or says there is no limit
                yield int((group / file).read_text(encoding="ascii"))
