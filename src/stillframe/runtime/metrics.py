"""Counters under their Prometheus names, counted from the start; an end-point can show them later."""

from __future__ import annotations

from collections import defaultdict
from threading import Lock

Key = tuple[str, tuple[tuple[str, str], ...]]


class Metrics:
    def __init__(self) -> None:
        self._values: dict[Key, float] = defaultdict(float)
        self._lock = Lock()

    def count(self, name: str, by: float, **labels: str) -> None:
        with self._lock:
            self._values[_key(name, labels)] += by

    def observe(self, name: str, value: float, **labels: str) -> None:
        with self._lock:
            self._values[_key(name, labels)] = value

    def snapshot(self) -> dict[str, float]:
        """`name{label="value"}` → value, sorted."""
        with self._lock:
            return {_text(key): value for key, value in sorted(self._values.items())}


def _key(name: str, labels: dict[str, str]) -> Key:
    return name, tuple(sorted(labels.items()))


def _text(key: Key) -> str:
    name, labels = key
    inside = ",".join(f'{label}="{value}"' for label, value in labels)
    return f"{name}{{{inside}}}" if inside else name
