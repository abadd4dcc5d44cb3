"""Where this warehouse's capture of each source began, until a frame shows the source.

What lies between that state and the first frame is part of the first frame's interval: a global transaction
with a part there is known to have it.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from stillframe.sources.base import Position

FILE = "begun.json"


class Begun:
    def __init__(self, warehouse: Path) -> None:
        self._path = warehouse / FILE

    def note(self, source: str, attached: Position) -> Position:
        """The first state that capture was ever attached at, by whichever process."""
        known = self._read()
        first = known.get(source)
        if first is not None and first.source == attached.source:
            return first
        self._write({**known, source: attached})
        return attached

    def forget(self, sources: Iterable[str]) -> None:
        known = self._read()
        left = {source: position for source, position in known.items() if source not in set(sources)}
        if left:
            self._write(left)
            return
        self._path.unlink(missing_ok=True)
        with suppress(OSError):  # of a warehouse that holds nothing else, nothing is left
            self._path.parent.rmdir()

    def _read(self) -> dict[str, Position]:
        try:
            document = json.loads(self._path.read_text(encoding="utf-8"))
            return {source: Position.from_json(position) for source, position in document.items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return {}

    def _write(self, known: dict[str, Position]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        draft = self._path.with_name(f".{FILE}")
        draft.write_text(
            json.dumps({source: position.to_json() for source, position in known.items()}), encoding="utf-8"
        )
        draft.replace(self._path)
