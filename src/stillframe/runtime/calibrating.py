"""The prices of an engine on the machine at hand, and of the driver beside it: jobs like those of refreshes
are timed over made-up data, and the prices are taken that explain their times best.

The jobs differ in what they are charged most of, so that prices can be told apart. They run in rounds, so
that whatever else the machine does meets all of them; of a job's times the middle one counts. The first round
does not: engines compile what they run.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import median
from typing import Any

from stillframe.change.propagation import Calibration
from stillframe.engine import Engine
from stillframe.errors import StillframeError
from stillframe.lake.warm import WARM
from stillframe.runtime.driver_trials import driver_trials
from stillframe.runtime.fitting import Fit, fitted
from stillframe.runtime.prices import BUILT_IN, Measured, this_machine
from stillframe.runtime.trial_data import Made
from stillframe.runtime.trials import PRICES, Situation, Trial, anew, by_change, grouped, into_files

ROWS = 400_000
LEAST_ROWS = 10_000
ROUNDS = 3
MOST_ROUNDS = 7
ENOUGH_SECONDS = {"spark": 75.0, "sail": 30.0}  # after which no round begins but those that are needed
WORST_ERROR = 0.4  # the middle job may be missed by so much
PACKAGES = {"spark": "pyspark", "sail": "pysail"}

Observe = Callable[[str], None]


def trials(engine: str, folder: Path, rows: int) -> list[Trial]:
    """Readings of sensors at sites: many narrow rows, half as many wide ones, a fifth to tell what a row more
    costs, and a journal with a row for every reading, so that two large relations meet."""
    site = Made(folder, "site", max(10, rows // 1000), 3, {})
    sensor = Made(folder, "sensor", max(100, rows // 10), 5, {"site": site.rows})
    reading = Made(folder, "reading", rows, 6, {"sensor": sensor.rows})
    fewer = Made(folder, "fewer", rows // 5, 6, {"sensor": sensor.rows})
    wide = Made(folder, "wide", rows // 2, 14, {"sensor": sensor.rows})
    journal = Made(folder, "journal", rows, 7, {"reading": rows})
    all_three = (reading, sensor, site)

    def changed(name: str, relations: tuple[Made, ...], **changes: int) -> Trial:
        even = {relation: max(2, signed // 2 * 2) for relation, signed in changes.items()}
        return by_change(name, Situation(relations, even), engine)

    some = {"reading": rows // 20, "sensor": rows // 200, "site": rows // 20_000}
    return [
        changed("few rows, few to join", (fewer, sensor), fewer=10),
        changed("few rows, some to join", (fewer, sensor), sensor=10),
        changed("few rows, many to join", (reading, sensor), sensor=10),
        changed("few rows, wide ones to join", (wide, sensor), sensor=10),
        changed("few rows of two", (reading, sensor), reading=10, sensor=10),
        changed("few rows of three", all_three, reading=10, sensor=10, site=2),
        changed("some rows", (reading, sensor), reading=rows // 20),
        changed("many rows", (reading, sensor), reading=rows // 3),
        changed("some rows that meet many", (reading, sensor), sensor=rows // 80),
        changed("some rows that meet wide ones", (wide, sensor), sensor=rows // 80),
        changed("some rows of three", all_three, **some),
        anew("anew, few", Situation((fewer, sensor), {}), engine),
        anew("anew", Situation((reading, sensor), {}), engine),
        anew("anew, wide", Situation((wide, sensor), {}), engine),
        anew("anew, large with large", Situation((journal, reading), {}), engine),
        anew("anew, with changes", Situation(all_three, some), engine, netted=True),
        anew("copied", Situation((reading,), {}), engine),
        grouped("grouped", reading, sensor.rows, engine),
        grouped("grouped, few", fewer, sensor.rows, engine),
        into_files("into one file", fewer, 1, engine),
        into_files("into many files", fewer, 24, engine),
        *driver_trials(folder),
    ]


def timed(
    engine: Engine,
    jobs: Sequence[Trial],
    folder: Path,
    observe: Observe,
    clock: Callable[[], float] = time.perf_counter,
) -> list[list[float]]:
    """Of each job the times of all rounds that count."""
    times: list[list[float]] = [[] for _ in jobs]
    began = time.perf_counter()
    for turn in range(MOST_ROUNDS + 1):
        if turn > ROUNDS and time.perf_counter() - began > ENOUGH_SECONDS[engine.kind]:
            break
        for place, job in enumerate(jobs):
            observe(f"{'warming up' if not turn else f'round {turn}'}: {job.name}")
            out = folder / "out"
            start = clock()
            job.run(engine, out)
            took = clock() - start
            if turn:
                times[place].append(took)
            shutil.rmtree(out, ignore_errors=True)
    return times


def calibrate(
    engine: Engine,
    folder: Path,
    rows: int = ROWS,
    observe: Observe = lambda _: None,
    clock: Callable[[], float] = time.perf_counter,
) -> Measured:
    """Prices from jobs over so many rows, whose files lie in a folder of the caller's."""
    observe("making up data")
    began = time.perf_counter()
    jobs = trials(engine.kind, folder, rows)
    try:
        times = timed(engine, jobs, folder, observe, clock)
    finally:
        WARM.keep(folder, ())
    middle = [median(each) for each in times]
    known = BUILT_IN[engine.kind].to_json()
    fit = fitted([job.charges for job in jobs], middle, {price: known[price] for price in PRICES})
    refuse_nonsense(fit)
    calibration = Calibration.from_json({**known, **fit.prices})
    told: dict[str, Any] = {
        "median_error": round(fit.median_error, 4),
        "explained": round(fit.explained, 4),
        "rows": rows,
        "rounds": len(times[0]),
        "seconds": round(time.perf_counter() - began, 1),
        "jobs": [
            {"name": job.name, "seconds": round(time_, 5), "estimated": round(job.estimate(calibration), 5)}
            for job, time_ in zip(jobs, middle, strict=True)
        ],
    }
    return Measured(calibration, datetime.now(UTC), {**this_machine(), **_versions(engine.kind)}, told)


def refuse_nonsense(fit: Fit) -> None:
    """Prices by which a job, a row more to read or to write, or what the driver does cost nothing, or which
    miss most jobs by far, choose worse than those that are built in."""
    prices = fit.prices
    free = [
        what
        for what, names in (
            ("a job", ("per_job", "per_stage", "per_file_written")),
            ("reading", ("per_byte_scanned",)),
            ("writing", ("per_row_made", "per_byte_written")),
            ("the driver", ("per_driver_second",)),
        )
        if not any(prices[name] for name in names)
    ]
    if not free and fit.median_error <= WORST_ERROR:
        return
    missed = f"the middle job is missed by {fit.median_error:.0%}"
    raise StillframeError(
        "the measured times make no prices; nothing is stored",
        detail=f"{' and '.join(free)} would cost nothing; {missed}" if free else missed,
        hint="run it again when the machine has less else to do, or with more --rows",
        code="NO_PRICES",
    )


def _versions(kind: str) -> dict[str, str]:
    found = {}
    for package in ("stillframe", PACKAGES[kind]):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
