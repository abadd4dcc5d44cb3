"""The four experiments, each a list of measurements, kept as one file."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.tpch.changes import Workload
from benchmarks.tpch.peers import PEERS
from benchmarks.tpch.worker import OURS, STRATEGIES, measured

RESULTS = Path(__file__).parents[1] / "results" / "tpch"
RECOMPUTING = ("spark-full", "spark-pipelines", "duckdb-full", "postgres")


@dataclass(frozen=True)
class Options:
    """What the command line says. `turns` bounds the frames of peers that recompute: each costs the same."""

    scale: float = 0.01
    frames: int = 6
    engines: tuple[str, ...] = ("sail",)
    percents: tuple[float, ...] = ()
    sizes: tuple[float, ...] = ()
    spreads: tuple[str, ...] = ("uniform",)
    peers: tuple[str, ...] = tuple(PEERS)
    views: tuple[str, ...] = ("joined",)
    repeat: int = 3
    turns: int = 5
    seed: int = 1
    results: Path = RESULTS
    say: Callable[[str], None] = print


def paper(options: Options) -> Path:
    """Figures 4 and 5 of the paper: recomputation, n terms and the tree, by the size of the changes and by
    the size of the relations."""
    found = []
    for engine in options.engines:
        for percent in options.percents or (2, 4, 6, 8, 10):
            found.append(_strategies(options, engine, options.scale, percent, "figure 4"))
        for size in options.sizes or (50, 100, 150, 200):
            found.append(_strategies(options, engine, options.scale * size / 100, 10, "figure 5"))
    return _keep(options, "paper", found)


def _strategies(options: Options, engine: str, scale: float, percent: float, figure: str) -> dict[str, Any]:
    workload = Workload(scale, percent, 1, seed=options.seed)
    found = measured(STRATEGIES, workload, engine=engine, repeat=options.repeat)
    medians = {name: one["median"] for name, one in found.get("strategies", {}).items()}
    options.say(f"{figure}, {engine}, scale {scale:g}, {percent:g} %: {medians or found.get('failed')}")
    return {**found, "figure": figure, "engine": engine}


def sweep(options: Options) -> Path:
    """Refresh time by the size of the changes: incremental, recomputation, and what `auto` chooses. Rounds
    follow each other, so that an hour of noise is in all of them."""
    found = []
    for turn in range(options.repeat):
        for engine in options.engines:
            for percent in options.percents or (0.01, 0.1, 1, 2, 5, 10, 20, 50):
                for policy in ("incremental", "full", "auto"):
                    workload = Workload(options.scale, percent, options.frames, seed=options.seed)
                    found.append({**_ours(options, workload, engine, policy=policy), "round": turn})
    return _keep(options, f"sweep-{'-'.join(options.views)}", found)


def peers(options: Options) -> Path:
    """Side by side with what people would use instead."""
    found = []
    for spread in options.spreads:
        for percent in options.percents or (0.1, 1, 2, 10):
            workload = Workload(options.scale, percent, options.frames, spread, options.seed)
            for engine in options.engines:
                found.append(_ours(options, workload, engine))
            for peer in options.peers:
                turns = options.turns if peer in RECOMPUTING else options.frames
                one = measured(peer, workload, views=options.views, turns=turns)
                _say(options, peer, workload, one)
                found.append({**one, "peer": peer})
    return _keep(options, f"peers-{'-'.join(options.views)}", found)


def growth(options: Options) -> Path:
    """How cost grows: view sizes at a fixed change, and numbers of views over the same relations. The change
    is as many rows as `percent` of the smallest size has."""
    percent = (options.percents or (1,))[0]
    found = []
    for engine in options.engines:
        for size in options.sizes or (1, 2, 4, 8):
            workload = Workload(options.scale * size, percent / size, options.frames, seed=options.seed)
            found.append({**_ours(options, workload, engine), "size": size})
        workload = Workload(options.scale, percent, options.frames, seed=options.seed)
        for views in (1, 2, 4, 8, 16):
            found.append({**_ours(options, workload, engine, more=views - 1), "count": views})
    return _keep(options, "growth", found)


EXPERIMENTS = {"paper": paper, "sweep": sweep, "peers": peers, "growth": growth}


def _ours(options: Options, workload: Workload, engine: str, **setting: Any) -> dict[str, Any]:
    wanted = {"engine": engine, "views": options.views, **setting}
    found = measured(OURS, workload, setting=wanted)
    _say(options, f"stillframe on {engine} {setting or ''}", workload, found)
    return {**found, "engine": engine}


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


def _keep(options: Options, name: str, found: Sequence[dict[str, Any]]) -> Path:
    options.results.mkdir(parents=True, exist_ok=True)
    path = options.results / f"{name}-scale-{options.scale:g}.json"
    document = {"experiment": name.split("-")[0], "scale": options.scale, "measurements": list(found)}
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")
    options.say(f"kept in {path}")
    return path
