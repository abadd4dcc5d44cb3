"""Whether the prices that `stillframe calibrate` finds tell what jobs take that it has not seen.

An engine is calibrated. Then invoices of accounts in regions, of another shape and of other sizes, are
joined: by changes of a thousandth, a fiftieth and a fifth of every relation; anew; and anew from states with
changes. Each is shown beside what the prices tell, and whether they put the change and computing anew in the
right order.

    python -m benchmarks.calibration --engine sail     # writes benchmarks/results/calibration-sail.json

With `--clock cpu`, seconds are those of processors, of all processes that take part: on a machine that has
much else to do they say more than a clock on the wall, but not what runs side by side.
"""

from __future__ import annotations

import argparse
import json
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.tpch.measure import tree
from stillframe.change.propagation import Calibration
from stillframe.engine import Engine, open_engine
from stillframe.runtime.calibrating import ROWS, calibrate, timed
from stillframe.runtime.prices import Measured
from stillframe.runtime.trial_data import Made
from stillframe.runtime.trials import Situation, Trial, anew, by_change

RESULTS = Path(__file__).parent / "results"
PARTS = {"0.1 %": 0.001, "2 %": 0.02, "20 %": 0.2}
TICKS = os.sysconf("SC_CLK_TCK")


def processors() -> float:
    """Seconds of processors that this process and those it started took."""
    found = time.process_time()
    for child in tree(os.getpid())[1:]:
        fields = Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()
        found += sum(map(int, fields[11:13])) / TICKS
    return found


CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": processors}


def invoices(engine: str, folder: Path, rows: int) -> dict[str, Trial]:
    region = Made(folder, f"region{rows}", max(20, rows // 200), 4, {})
    account = Made(folder, f"account{rows}", rows // 4, 4, {region.name: region.rows})
    invoice = Made(folder, f"invoice{rows}", rows, 9, {account.name: account.rows})
    relations = (invoice, account, region)

    def situation(part: float) -> Situation:
        return Situation(relations, {each.name: max(2, int(each.rows * part) // 2 * 2) for each in relations})

    found = {
        label: by_change(f"{rows} rows, {label}", situation(part), engine) for label, part in PARTS.items()
    }
    found["anew"] = anew(f"{rows} rows, anew", Situation(relations, {}), engine)
    found["anew, netted"] = anew(
        f"{rows} rows, anew with changes", situation(PARTS["2 %"]), engine, netted=True
    )
    return found


def judged(
    engine: Engine, prices: Calibration, folder: Path, sizes: Sequence[int], clock: Callable[[], float]
) -> list[dict[str, Any]]:
    trials = {rows: invoices(engine.kind, folder, rows) for rows in sizes}
    every = [(rows, label, trial) for rows, made in trials.items() for label, trial in made.items()]
    times = timed(engine, [trial for *_, trial in every], folder, print, clock)
    shown = [
        {"rows": rows, "job": label, "estimated": trial.estimate(prices), "measured": median(found)}
        for (rows, label, trial), found in zip(every, times, strict=True)
    ]
    for each in shown:
        other = next(o for o in shown if o["rows"] == each["rows"] and o["job"] == "anew, netted")
        each["ratio"] = each["estimated"] / each["measured"]
        each["in_order"] = (each["estimated"] < other["estimated"]) == (each["measured"] < other["measured"])
    return shown


def table(found: Measured, shown: Sequence[dict[str, Any]]) -> str:
    lines = [
        "| rows | job | estimated s | measured s | ratio | in order |",
        "| --- | --- | ---: | ---: | ---: | --- |",
    ]
    for each in shown:
        order = "" if each["job"].startswith("anew") else "yes" if each["in_order"] else "no"
        lines.append(
            f"| {each['rows']} | {each['job']} | {each['estimated']:.3f} | {each['measured']:.3f} "
            f"| {each['ratio']:.2f} | {order} |"
        )
    prices = ", ".join(
        f"{name} {value:.3g}"
        for name, value in found.calibration.to_json().items()
        if name.startswith("per_")
    )
    return "\n".join([*lines, "", f"prices: {prices}", f"fit: {found.fit['median_error']:.0%} in the middle"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--engine", choices=["spark", "sail"], default="sail")
    parser.add_argument("--rows", type=int, default=ROWS, help="of the calibration")
    parser.add_argument("--sizes", type=int, nargs="+", default=[50_000, 500_000], help="of the invoices")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall")
    options = parser.parse_args()
    clock = CLOCKS[options.clock]
    engine = open_engine({"engine": options.engine})
    try:
        with tempfile.TemporaryDirectory() as folder:
            found = calibrate(engine, Path(folder), options.rows, print, clock)
        print(table(found, []))
        with tempfile.TemporaryDirectory() as folder:
            shown = judged(engine, found.calibration, Path(folder), options.sizes, clock)
    finally:
        engine.close()
    print(table(found, shown))
    RESULTS.mkdir(exist_ok=True)
    document = {"clock": options.clock, **found.to_json(), "judged": shown}
    path = RESULTS / f"calibration-{options.engine}.json"
    path.write_text(json.dumps(document, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
