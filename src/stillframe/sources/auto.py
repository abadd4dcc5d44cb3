"""The ways to capture a source. With `capture: auto` it is the best that the account at hand may use, decided
when the source is first needed, and kept.

Triggers come first: they are exact, need no server setting, and lose nothing while nobody looks. A server's
own log comes next, then comparing snapshots, which needs only the right to read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stillframe.errors import SourceError
from stillframe.sources.base import Capture, Method, Position, Source, another, captured_by, named

PREFERRED = (Capture.TRIGGERS, Capture.LOG, Capture.SNAPSHOT)


@dataclass(frozen=True)
class AutoSource:
    """A source that is one of several; everything but its name and its methods is asked of the one."""

    name: str
    ways: tuple[Source, ...]
    memory: Path
    asked: Capture | None = None  # not auto after all

    @property
    def address(self) -> str:
        return self._by(Capture.TRIGGERS).address

    def methods(self) -> tuple[Method, ...]:
        return self._by(Capture.TRIGGERS).methods()

    def chosen(self) -> Source:
        if self.asked is not None:
            return self._by(self.asked)
        remembered = self._remembered()
        if remembered is None:
            usable = {method.capture for method in self.methods() if not method.missing}
            remembered = next((way for way in PREFERRED if way in usable), PREFERRED[0])
        return self._by(remembered)

    def _by(self, capture: Capture) -> Source:
        return next(way for way in self.ways if way.capture is capture)

    def attach(self, consumer: str, relations: Any) -> Any:
        """What is installed stays the way this source is captured, until another one is asked for."""
        source = self.chosen()
        position = source.attach(consumer, relations)
        former = self._remembered()
        if former is not source.capture:
            if former is not None:
                self._by(former).detach(consumer)
            self._remember(source.capture)
        return position

    def check(self, after: Position, relations: Sequence[str]) -> None:
        chosen = self.chosen()
        if captured_by(after.source) is not chosen.capture:
            raise another(self.name, named(chosen.capture, ""), after.source)
        chosen.check(after, relations)

    def detach(self, consumer: str) -> None:
        """Of the other ways nothing is left either, as far as the account may tell."""
        chosen = self.chosen()
        chosen.detach(consumer)
        for other in self.ways:
            if other is not chosen:
                with suppress(SourceError):
                    other.detach(consumer)
        self.memory.unlink(missing_ok=True)
        with suppress(OSError):
            self.memory.parent.rmdir()
            self.memory.parent.parent.rmdir()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return getattr(self.chosen(), name)

    def _remembered(self) -> Capture | None:
        try:
            return Capture(json.loads(self.memory.read_text(encoding="utf-8"))["capture"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _remember(self, capture: Capture) -> None:
        if self._remembered() is not capture:
            self.memory.parent.mkdir(parents=True, exist_ok=True)
            draft = self.memory.with_name(f".{self.memory.name}")
            draft.write_text(json.dumps({"capture": str(capture)}), encoding="utf-8")
            draft.replace(self.memory)
