"""The prices of the engine that computes: those measured on this machine, or those that come with Stillframe.

A file calibration/<engine>.json in the warehouse, which `stillframe calibrate` writes, holds measured ones.
Prices only choose between plans that are all right: a file that cannot be read is as good as none.
"""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from stillframe.change.propagation import Calibration

FOLDER = "calibration"

# Fitted by `benchmarks/calibration.py` on two cores. Plans are chosen by their proportions: the machine whose
# results are kept takes about two thirds of these seconds, for Spark and for Sail.
BUILT_IN = {
    "spark": Calibration(
        engine="spark",
        per_job=0.04,
        per_stage=0.095,
        per_row_made=3e-8,
        per_byte_scanned=4.1e-9,
        per_byte_broadcast=2.1e-8,
        per_byte_shuffled=1e-8,
        per_byte_written=8.9e-9,
        per_file_written=0.012,
        broadcast_limit=256 * 2**20,
    ),
    "sail": Calibration(
        engine="sail",
        per_job=0.004,
        per_stage=0.008,
        per_row_made=2.5e-9,
        per_byte_scanned=6e-10,
        per_byte_broadcast=2.4e-9,
        per_byte_shuffled=1.7e-9,
        per_byte_written=1.1e-9,
        per_file_written=0.0002,
        broadcast_limit=1024 * 2**20,
    ),
}


@dataclass(frozen=True)
class Measured:
    """Prices, when they were measured, and on what."""

    calibration: Calibration
    at: datetime
    machine: Mapping[str, Any]
    fit: Mapping[str, Any]

    @property
    def is_here(self) -> bool:
        return all(self.machine.get(name) == value for name, value in this_machine().items())

    def to_json(self) -> dict[str, Any]:
        return {
            "measured_at": self.at.isoformat(timespec="seconds"),
            "machine": dict(self.machine),
            "fit": dict(self.fit),
            "prices": self.calibration.to_json(),
        }

    @classmethod
    def from_json(cls, found: Mapping[str, Any]) -> Measured:
        at = datetime.fromisoformat(found["measured_at"])
        return cls(Calibration.from_json(found["prices"]), at, dict(found["machine"]), dict(found["fit"]))


def this_machine() -> dict[str, Any]:
    """What a machine is known by again."""
    return {"cores": os.cpu_count(), "processor": platform.machine(), "system": platform.system()}


def prices(engine: str, warehouse: Path | None = None) -> Calibration:
    found = measured(engine, warehouse)
    return found.calibration if found else BUILT_IN[engine]


def measured(engine: str, warehouse: Path | None) -> Measured | None:
    """What is stored for this engine in the warehouse; None where that is nothing."""
    if warehouse is None:
        return None
    path = stored_at(engine, warehouse)
    try:
        stamp = path.stat()
    except OSError:
        return None
    return _read(path, engine, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=16)
def _read(path: Path, engine: str, _changed: int, _size: int) -> Measured | None:
    try:
        found = Measured.from_json(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if found.calibration.engine == engine else None


def store(found: Measured, warehouse: Path) -> Path:
    path = stored_at(found.calibration.engine, warehouse)
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}")
    draft.write_text(json.dumps(found.to_json(), indent=1) + "\n", encoding="utf-8")
    draft.replace(path)
    return path


def stored_at(engine: str, warehouse: Path) -> Path:
    return warehouse / FOLDER / f"{engine}.json"


def origin(engine: str, warehouse: Path | None) -> dict[str, Any]:
    """Where the prices come from, for people and for programs."""
    found = measured(engine, warehouse)
    if found is None:
        there = warehouse is not None and stored_at(engine, warehouse).exists()
        text = "built in; the stored ones cannot be read" if there else "built in"
        return {"engine": engine, "measured_at": None, "text": text}
    where = "this machine" if found.is_here else "another machine"
    at = found.at.astimezone(UTC)
    text = f"measured on {where} {at.date().isoformat()}"
    return {"engine": engine, "measured_at": at.isoformat(timespec="seconds"), "text": text}
