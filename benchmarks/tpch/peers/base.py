"""What a peer is asked to do, and what it hands back."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.tpch.changes import Workload
from benchmarks.tpch.data import duck
from benchmarks.tpch.measure import Meter, machine, progress, versions
from benchmarks.tpch.views import aggregate, checksum, join

WARM_UP = 2


@dataclass
class Task:
    """Views to keep over a workload. `turns` is how many of its frames are taken, the last ones warm."""

    workload: Workload
    views: tuple[str, ...]
    folder: Path
    turns: int
    meter: Meter = field(default_factory=Meter)

    @property
    def cores(self) -> int:
        return len(os.sched_getaffinity(0))

    @contextmanager
    def refreshing(self, number: int) -> Iterator[None]:
        kind = "refresh" if number > WARM_UP else "warming"
        with self.meter.timed(kind):
            yield
        progress(f"frame {number} of {self.turns}: {self.meter.seconds[kind][-1]:.2f} s")

    def recompute(self, compute: Callable[[Path], None]) -> None:
        """Load, then compute anew after every frame. Links to the tables stand in one folder, so that paths
        stay the same."""
        current = self.folder / "tables"
        for number in range(self.turns + 1):
            state = self.workload.state(number)
            current.unlink(missing_ok=True)
            current.symlink_to(state)
            if number == 0:
                with self.meter.timed("load"):
                    compute(current)
            else:
                with self.refreshing(number):
                    compute(current)

    def finish(self, who: str, settings: Mapping[str, Any], packages: Mapping[str, str]) -> dict[str, Any]:
        measured = self.meter.close()
        return {
            "who": who,
            "setting": {**settings, "views": list(self.views)},
            "workload": dict(self.workload.__dict__),
            "machine": machine(),
            "versions": {**versions("duckdb", "pyarrow"), **packages},
            **measured,
        }

    def exactness(self, relations: Mapping[str, str], con: Any = None) -> dict[str, Any]:
        """What a peer shows, as relations that DuckDB reads, against DuckDB's own computation over the
        tables after the last frame that was taken."""
        con = con or duck()
        folder = self.workload.state(self.turns)
        joined = join({table: f"'{folder}/{table}.parquet'" for table in TABLE_NAMES})
        wanted = {"joined": f"({joined})", "revenue": f"({aggregate(f'({joined})')})"}
        found = {}
        for view in self.views:
            expected, shown = checksum(con, wanted[view], view), checksum(con, relations[view], view)
            found[view] = {"exact": expected == shown, "rows": shown[0], "expected": expected[0]}
        return found


TABLE_NAMES = ("customer", "orders", "lineitem", "supplier", "nation", "region")
