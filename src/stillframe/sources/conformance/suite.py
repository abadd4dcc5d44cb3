"""What a check is, and running them all."""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import StrEnum

from stillframe.sources.conformance.world import Feature, World

Maker = Callable[[], AbstractContextManager[World]]


@dataclass(frozen=True)
class Check:
    """A promise of `Source`, under the name of the function that holds a source to it. It applies to worlds
    that offer all of `needs` and none of `unless`."""

    function: Callable[[World], None]
    needs: frozenset[Feature]
    unless: frozenset[Feature]
    long: bool

    @property
    def name(self) -> str:
        return self.function.__name__

    def applies(self, world: World) -> bool:
        return self.needs <= world.offers and not self.unless & world.offers

    def __call__(self, world: World) -> None:
        self.function(world)


def promise(
    *needs: Feature, unless: Sequence[Feature] = (), long: bool = False
) -> Callable[[Callable[[World], None]], Check]:
    def made(function: Callable[[World], None]) -> Check:
        return Check(function, frozenset(needs), frozenset(unless), long)

    return made


class Verdict(StrEnum):
    KEPT = "kept"
    BROKEN = "broken"
    NOT_OFFERED = "not offered"


@dataclass(frozen=True)
class Outcome:
    check: str
    verdict: Verdict
    seconds: float
    message: str = ""
    where: str = ""


@dataclass(frozen=True)
class Report:
    outcomes: tuple[Outcome, ...]

    def named(self, verdict: Verdict) -> tuple[str, ...]:
        return tuple(o.check for o in self.outcomes if o.verdict is verdict)

    @property
    def broken(self) -> tuple[str, ...]:
        return self.named(Verdict.BROKEN)

    @property
    def not_offered(self) -> tuple[str, ...]:
        return self.named(Verdict.NOT_OFFERED)

    def __str__(self) -> str:
        return "\n".join(
            f"{o.verdict:11} {o.seconds:6.2f} s  {o.check}" + (f": {o.message}" if o.message else "")
            for o in self.outcomes
        )


def perform(check: Check, make: Maker) -> Outcome:
    """One check in a world of its own. Whatever it raises is a broken promise."""
    started = time.monotonic()
    with make() as world:
        if not check.applies(world):
            return Outcome(check.name, Verdict.NOT_OFFERED, 0.0)
        try:
            check(world)
        except AssertionError as broken:
            return _broken(check, started, str(broken))
        except Exception as error:
            return _broken(check, started, f"{type(error).__name__}: {error}")
        return Outcome(check.name, Verdict.KEPT, time.monotonic() - started)


def _broken(check: Check, started: float, message: str) -> Outcome:
    seconds = time.monotonic() - started
    return Outcome(check.name, Verdict.BROKEN, seconds, message, traceback.format_exc())
