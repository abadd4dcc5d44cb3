"""What a session goes through, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from stillframe.errors import StillframeError
from stillframe.lake.frame import Frame
from stillframe.runtime.recorder import Entry
from stillframe.sources.base import Position


class Step(StrEnum):
    """Points of a session at which it may be observed, or killed."""

    STARTED = "started"
    FIXED = "fixed"
    LOADED = "loaded"
    STAGED = "staged"
    AHEAD = "ahead"
    WRITTEN = "written"
    COMPUTED = "computed"
    PUBLISHED = "published"
    ACKNOWLEDGED = "acknowledged"
    REWRITTEN = "rewritten"
    SETTLED = "settled"
    MERGED = "merged"


Observer = Callable[[Step, str], None]


def unobserved(step: Step, subject: str) -> None:
    """Nobody looks."""


class NeedsFull(StillframeError):
    """A view that cannot be brought forward by its changes alone."""

    code = "NEEDS_FULL"


@dataclass(frozen=True)
class Outcome:
    """What a session did to one view. `rows_in` are changed rows, `rows_read` other rows of relations that
    were read for it; what was read for another view in the session is not read again."""

    mode: str
    reason: str
    algorithm: str
    rows_in: int = 0
    rows_out: int = 0
    seconds: float = 0.0
    error: StillframeError | None = None
    asked: int = 0
    rows_read: int = 0
    compensated: int = 0  # answers that had seen more than was reported when their question was sent
    detail: str | None = None  # why it was recomputed: what the engine said, or what either way costs
    cost: Mapping[str, float] | None = None  # seconds, estimated and measured

    def to_json(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "reason": self.reason,
            "algorithm": self.algorithm,
            "rows_in": self.rows_in,
            "rows_out": self.rows_out,
            "rows_read": self.rows_read,
            "seconds": round(self.seconds, 3),
            "questions": self.asked,
            "compensated": self.compensated,
            **({"detail": self.detail} if self.detail else {}),
            **({"cost": dict(self.cost)} if self.cost else {}),
        }


@dataclass(frozen=True)
class Result:
    frame: Frame
    vector: Mapping[str, Position]
    outcomes: Mapping[str, Outcome]
    history: tuple[Entry, ...] = ()  # what live protocols heard and did
    parts: Mapping[str, Outcome] = field(default_factory=dict)
    age: float | None = None  # seconds, of the oldest change it shows, when it did; where `run` asks for it

    @property
    def failures(self) -> dict[str, Outcome]:
        return {name: o for name, o in self.outcomes.items() if o.error is not None}
