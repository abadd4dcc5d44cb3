"""The benchmark of the paper's view: CUSTOMER ⋈ ORDERS ⋈ LINEITEM ⋈ SUPPLIER ⋈ NATION ⋈ REGION.

    python -m benchmarks.tpch paper                     # figures 4 and 5 of the paper
    python -m benchmarks.tpch sweep --engine spark      # refresh time by the size of the changes
    python -m benchmarks.tpch peers --scale 1 --frames 52
    python -m benchmarks.tpch growth                    # by the size of the view, and the number of views
    python -m benchmarks.tpch report                    # tables and plots from what was kept

Small by default, to try it; `--scale 1 --frames 52` is the benchmark: two frames warm up, fifty count. Every
measurement runs in a process of its own, and is kept when it ends: what was broken off goes on with
`--resume`. What is made and kept: see `data.py` and `benchmarks/results/tpch`.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from benchmarks.tpch.experiments import EXPERIMENTS, RESULTS, Options
from benchmarks.tpch.peers import PEERS
from benchmarks.tpch.peers.base import WARM_UP
from benchmarks.tpch.report import report
from benchmarks.tpch.views import SHOWN


def _numbers(text: str) -> tuple[float, ...]:
    return tuple(float(one) for one in text.split(","))


def _turns(text: str) -> int:
    if not text.isdecimal() or int(text) <= WARM_UP:
        raise argparse.ArgumentTypeError(
            f"{text!r}: {WARM_UP} frames warm up, so there are {WARM_UP + 1} at least"
        )
    return int(text)


def _turns_of(text: str) -> tuple[str, int]:
    peer, _, turns = text.partition("=")
    if peer not in PEERS:
        raise argparse.ArgumentTypeError(f"{text!r} is not PEER=N with one of {', '.join(PEERS)}")
    return peer, _turns(turns)


def _names(known: tuple[str, ...]) -> object:
    def parse(text: str) -> tuple[str, ...]:
        chosen = known if text == "all" else tuple(text.split(","))
        for one in chosen:
            if one not in known:
                raise argparse.ArgumentTypeError(f"{one!r} is none of {', '.join(known)}")
        return chosen

    return parse


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(
        prog="python -m benchmarks.tpch",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    made.add_argument("experiment", choices=[*EXPERIMENTS, "all", "report"])
    made.add_argument("--scale", type=float, default=0.01, help="scale factor of the tables")
    made.add_argument("--frames", type=int, default=6, help="frames in a row; the first two warm up")
    made.add_argument(
        "--engine", type=_names(("sail", "spark")), default=("sail",), help="sail, spark, or all"
    )
    made.add_argument("--percents", type=_numbers, default=(), help="sizes of changes, as 0.1,1,10")
    made.add_argument(
        "--sizes", type=_numbers, default=(), help="paper: percents of the scale; growth: times"
    )
    made.add_argument("--spread", type=_names(("uniform", "skewed")), default=("uniform",))
    made.add_argument("--peers", type=_names(tuple(PEERS)), default=tuple(PEERS))
    made.add_argument(
        "--views",
        type=_names(tuple(SHOWN)),
        default=(),
        help="joined, revenue (an aggregate of it), or all; sweep takes each by itself, others the join",
    )
    made.add_argument("--repeat", type=int, default=5, help="paper and sweep: rounds, in turn")
    made.add_argument("--turns", type=_turns, default=5, help="frames of peers that recompute")
    made.add_argument(
        "--turns-of", type=_turns_of, action="append", default=[], metavar="PEER=N", help="frames of one peer"
    )
    made.add_argument("--seed", type=int, default=1)
    made.add_argument(
        "--resume", action="store_true", help="measure only what the kept results lack, or what failed"
    )
    made.add_argument("--results", type=Path, default=RESULTS, help="where results are kept")
    return made


def main() -> None:
    asked = parser().parse_args()
    options = Options(
        scale=asked.scale,
        frames=asked.frames,
        engines=asked.engine,
        percents=asked.percents,
        sizes=asked.sizes,
        spreads=asked.spread,
        peers=asked.peers,
        views=asked.views,
        repeat=asked.repeat,
        turns=asked.turns,
        turns_of=dict(asked.turns_of),
        seed=asked.seed,
        results=asked.results,
        resume=asked.resume,
    )
    for name, experiment in EXPERIMENTS.items():
        if asked.experiment in (name, "all"):
            experiment(options)
    print(f"written: {report(asked.results)}")


if __name__ == "__main__":
    main()
