"""The four experiments, each a list of measurements, kept as one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.tpch import policies
from benchmarks.tpch.changes import Workload
from benchmarks.tpch.peers import PEERS, RECOMPUTING
from benchmarks.tpch.views import SHOWN
from benchmarks.tpch.worker import OURS, POLICIES, STRATEGIES, measured

RESULTS = Path(__file__).parents[1] / "results" / "tpch"


@dataclass(frozen=True)
class Options:
    """What the command line says. `turns` bounds the frames of peers that recompute: each costs the same;
    `turns_of`, those of the peers it names."""

    scale: float = 0.01
    frames: int = 6
    engines: tuple[str, ...] = ("sail",)
    percents: tuple[float, ...] = ()
    sizes: tuple[float, ...] = ()
    spreads: tuple[str, ...] = ("uniform",)
    peers: tuple[str, ...] = tuple(PEERS)
    views: tuple[str, ...] = ()
    repeat: int = 5
    turns: int = 5
    turns_of: Mapping[str, int] = field(default_factory=dict)
    seed: int = 1
    results: Path = RESULTS
    resume: bool = False
    say: Callable[[str], None] = print


class Kept:
    """The measurements of one experiment, in a file after each of them. What is there already is not measured
    again by an experiment that is resumed, unless it failed."""

    def __init__(self, options: Options, name: str) -> None:
        self.say, self.name, self.scale = options.say, name, options.scale
        self.path = options.results / f"{name}-scale-{options.scale:g}.json"
        self.found: list[dict[str, Any]] = []
        if options.resume and self.path.exists():
            before = json.loads(self.path.read_text(encoding="utf-8"))["measurements"]
            self.found = [one for one in before if "failed" not in one]

    def add(self, asked: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> None:
        asked = json.loads(json.dumps(asked))
        if any(one["asked"] == asked for one in self.found):
            return
        now = datetime.now(UTC).isoformat(" ", timespec="minutes")
        self.found.append({**measure(), **asked, "asked": asked, "at": now})
        self.path.parent.mkdir(parents=True, exist_ok=True)
        document = {"experiment": self.name.split("-")[0], "scale": self.scale, "measurements": self.found}
        self.path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")

    def end(self) -> Path:
        self.say(f"kept in {self.path}")
        return self.path


def paper(options: Options) -> Path:
    """Figures 4 and 5 of the paper: recomputation, n terms and the tree, by the size of the changes and by
    the size of the relations."""
    kept = Kept(options, "paper")
    for engine in options.engines:
        for percent in options.percents or (2, 4, 6, 8, 10):
            _strategies(options, kept, engine, options.scale, percent, "figure 4")
        for size in options.sizes or (50, 100, 150, 200):
            _strategies(options, kept, engine, options.scale * size / 100, 10, "figure 5")
    return kept.end()


def _strategies(options: Options, kept: Kept, engine: str, scale: float, percent: float, figure: str) -> None:
    workload = Workload(scale, percent, 1, seed=options.seed)

    def measure() -> dict[str, Any]:
        found = measured(STRATEGIES, workload, engine=engine, repeat=options.repeat)
        medians = {name: one["median"] for name, one in found.get("strategies", {}).items()}
        options.say(f"{figure}, {engine}, scale {scale:g}, {percent:g} %: {medians or found.get('failed')}")
        return found

    kept.add({"figure": figure, "engine": engine, "of": _told(workload), "repeat": options.repeat}, measure)


def sweep(options: Options) -> Path:
    """Refresh time by the size of the changes: incremental, recomputation, and what `auto` chooses. Of each
    view by itself, all sizes in one process."""
    for view in options.views or tuple(SHOWN):
        kept = Kept(options, f"sweep-{view}")
        for engine in options.engines:
            _policies(options, kept, engine, view)
        kept.end()
    return options.results


def _policies(options: Options, kept: Kept, engine: str, view: str) -> None:
    percents = options.percents or (0.01, 0.1, 1, 2, 5, 10, 20, 50)
    workload = policies.growing(options.scale, percents, options.repeat, options.seed)
    wanted = {"engine": engine, "views": (view,)}

    def measure() -> dict[str, Any]:
        found = measured(POLICIES, workload, setting=wanted)
        for size in found.get("sizes", ()):
            taken = ", ".join(f"{name} {size[name]['median']:.3f}" for name in policies.POLICIES)
            options.say(f"{view}, {engine}, scale {options.scale:g}, {size['percent']:g} %: {taken}")
        if "failed" in found:
            options.say(f"{view}, {engine}: failed\n{found['failed']}")
        return found

    kept.add({"engine": engine, "of": _told(workload), "wanted": wanted}, measure)


def peers(options: Options) -> Path:
    """Side by side with what people would use instead."""
    kept = Kept(options, f"peers-{'-'.join(_views(options))}")
    for spread in options.spreads:
        for percent in options.percents or (0.1, 1, 2, 10):
            workload = Workload(options.scale, percent, options.frames, spread, options.seed)
            for engine in options.engines:
                _ours(options, kept, workload, engine)
            for peer in options.peers:
                _peer(options, kept, workload, peer)
    return kept.end()


def growth(options: Options) -> Path:
    """How cost grows: view sizes at a fixed change, and numbers of views over the same relations. The first
    size is a quarter of the scale, so that eight times as much fits the machine that has room for the
    scale; the change is as many rows as `percent` of it has."""
    first = options.scale / 4
    percent = (options.percents or (1,))[0]
    kept = Kept(options, "growth")
    for engine in options.engines:
        for size in options.sizes or (1, 2, 4, 8):
            workload = Workload(first * size, percent / size, options.frames, seed=options.seed)
            _ours(options, kept, workload, engine, {"size": size})
        workload = Workload(first, percent, options.frames, seed=options.seed)
        for views in (1, 2, 4, 8, 16):
            _ours(options, kept, workload, engine, {"count": views}, more=views - 1)
    return kept.end()


EXPERIMENTS = {"paper": paper, "sweep": sweep, "peers": peers, "growth": growth}


def _told(workload: Workload) -> dict[str, Any]:
    """What a measurement is known by again; percentages, only where there are several."""
    return {name: value for name, value in asdict(workload).items() if name != "percents" or value}


def _views(options: Options) -> tuple[str, ...]:
    return options.views or ("joined",)


def _ours(
    options: Options,
    kept: Kept,
    workload: Workload,
    engine: str,
    place: dict[str, Any] | None = None,
    **setting: Any,
) -> None:
    wanted = {"engine": engine, "views": _views(options), **setting}

    def measure() -> dict[str, Any]:
        found = measured(OURS, workload, setting=wanted)
        _say(options, f"stillframe on {engine} {setting or ''}", workload, found)
        return found

    kept.add({"engine": engine, "of": _told(workload), "wanted": wanted, **(place or {})}, measure)


def _peer(options: Options, kept: Kept, workload: Workload, peer: str) -> None:
    turns = options.turns_of.get(peer, options.turns if peer in RECOMPUTING else options.frames)

    def measure() -> dict[str, Any]:
        found = measured(peer, workload, views=_views(options), turns=turns)
        _say(options, peer, workload, found)
        return found

    kept.add({"peer": peer, "of": _told(workload), "turns": turns}, measure)


def _say(options: Options, who: str, workload: Workload, found: dict[str, Any]) -> None:
    if "failed" in found:
        options.say(f"{who}: failed\n{found['failed']}")
        return
    work = found["work"]
    spent = work.get("refresh and settling") or work.get("refresh") or work["warming"]
    exact = all(one["exact"] for one in found["exact"].values())
    options.say(
        f"{who}, scale {workload.scale:g}, {workload.percent:g} % {workload.spread}:"
        f" load {work['load']['median']:.2f} s, refresh {spent['median']:.3f} s (95 %: {spent['p95']:.3f}),"
        f" {found['peak_memory_bytes'] >> 20} MiB, {'exact' if exact else 'NOT EXACT'}"
    )
