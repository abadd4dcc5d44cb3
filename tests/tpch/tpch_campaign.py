"""The benchmark as one warehouse: views over three live databases, changes, frames, and what came of each."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tpch_changes import Changes
from tpch_oracle import PERMITTED, Bag, Oracle
from tpch_sources import Sources
from tpch_tables import generated

import servers
from shops import Shop
from stillframe.runtime import Warehouse
from stillframe.runtime.outcome import Result

TEXTS = {f"q{i}": Path(__file__).parent / "views" / f"q{i:02}.sql" for i in range(1, 23)}
FRACTION = "0.0001"  # of q11, at scale 1
FORWARD = ("incremental", "unchanged")


@dataclass
class Campaign:
    """`moved` counts for each view the frames in which its answer was another one than before, `seconds` for
    each view and part what frames after the first took."""

    shop: Shop
    sources: Sources
    scale: float
    seed: int
    texts: dict[str, str] = field(default_factory=dict)
    selects: dict[str, str] = field(default_factory=dict)
    recomputed: dict[str, set[str]] = field(default_factory=dict)
    moved: Counter[str] = field(default_factory=Counter)
    seconds: Counter[str] = field(default_factory=Counter)
    last: dict[str, Bag] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.oracle = Oracle()
        self.changes = Changes(self.sources, self.oracle, Random(self.seed), self.scale)
        for view, path in TEXTS.items():
            text = path.read_text(encoding="utf-8").replace(FRACTION, f"{float(FRACTION) / self.scale:.4g}")
            named, select = re.split(r"(?<=\w) AS\n", text, maxsplit=1)
            self.texts[view] = f"{named} WITH (refresh_policy = 'incremental') AS\n{select}"  # at any cost
            self.selects[view] = select.rstrip().rstrip(";")

    def refused(self) -> dict[str, str]:
        """The views that are not accepted, and the code of the first reason."""
        self.define(self.texts)
        with self.shop.open() as warehouse:
            return {
                view: found["reasons"][0]["code"]
                for view, found in warehouse.check().items()
                if not found["ok"]
            }

    def define(self, views: Collection[str]) -> None:
        for view, text in self.texts.items():
            path = self.shop.root / "views" / TEXTS[view].name
            if view in views:
                path.write_text(text, encoding="utf-8")
            else:
                path.unlink(missing_ok=True)

    def run(self, views: Collection[str], frames: int, rounds: int) -> None:
        self.define(views)
        with self.shop.open() as warehouse:
            warehouse.attach()
            self.exact(warehouse, views)
            for _ in range(frames - 1):
                self.changes.one_frame(rounds)
                self.exact(warehouse, views)
            warehouse.detach()

    def exact(self, warehouse: Warehouse, views: Collection[str]) -> None:
        """One more frame. The sources are quiet meanwhile: what they hold is what its vector names."""
        started = time.perf_counter()
        result = warehouse.maintain()
        maintained = time.perf_counter() - started
        assert result.failures == {}, {n: str(o.error) for n, o in result.failures.items()}
        self._note(result, maintained)
        self.oracle.look(self.sources)
        wrong = [difference for view in views if (difference := self._difference(warehouse, view))]
        number = result.frame.number
        assert not wrong, f"seed {self.seed}, scale {self.scale}, frame {number}:\n" + "\n".join(wrong)
        compared = time.perf_counter() - started - maintained
        print(f"frame {number}: maintained in {maintained:.1f} s, compared in {compared:.1f} s", flush=True)

    def _note(self, result: Result, seconds: float) -> None:
        first = result.frame.number == 1
        self.seconds["first frame" if first else "later frames"] += seconds
        for name, outcome in {**result.outcomes, **result.parts}.items():
            view = name.split("~")[0]
            if not first:
                self.seconds[name] += outcome.seconds
                if outcome.mode not in FORWARD and outcome.reason != "UPSTREAM_FULL":
                    self.recomputed.setdefault(view, set()).add(f"{name} {outcome.mode} {outcome.reason}")

    def _difference(self, warehouse: Warehouse, view: str) -> str:
        """What a view shows otherwise than the oracle; nothing where all is well."""
        table = warehouse.arrow(view)
        expected = self.oracle.answer(view, self.selects[view], table.schema)
        self.moved[view] += view in self.last and self.last[view] != expected
        self.last[view] = expected
        free = [i for i, name in enumerate(table.column_names) if (view, name) in PERMITTED]
        shown = Counter(zip(*(column.to_pylist() for column in table.columns), strict=True))
        missing = _without(expected, free) - _without(shown, free)
        extra = _without(shown, free) - _without(expected, free)
        if not missing and not extra:
            return ""
        few = 5
        return (
            f"{view}: {missing.total()} rows missing, {extra.total()} too many"
            f"\n  missing {list(missing.items())[:few]}\n  too many {list(extra.items())[:few]}"
        )

    def report(self) -> str:
        forward = [view for view in self.last if view not in self.recomputed]
        lines = [
            f"seed {self.seed}, scale {self.scale}: {len(forward)} of {len(self.last)} views incremental"
        ]
        lines += [f"  {view}: {', '.join(sorted(why))}" for view, why in sorted(self.recomputed.items())]
        lines += [f"  {name}: {seconds:.2f} s" for name, seconds in self.seconds.most_common(25)]
        return "\n".join(lines)


def _without(rows: Bag, columns: Collection[int]) -> Bag:
    if not columns:
        return rows
    left: Bag = Counter()
    for row, times in rows.items():
        left[tuple(value for i, value in enumerate(row) if i not in columns)] += times
    return left


def campaign(
    shop: Shop,
    postgres: servers.PostgresServer,
    mariadb: servers.MariadbServer,
    scale: float,
    seed: int,
) -> Campaign:
    sources = Sources(postgres, mariadb, shop.root / "lite.db")
    started = time.perf_counter()
    sources.load(generated(scale))
    print(f"tables at scale {scale} in {time.perf_counter() - started:.1f} s", flush=True)
    shop.configure(name="tpch", extra=sources.configuration)
    return Campaign(shop, sources, scale, seed)
