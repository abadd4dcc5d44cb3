"""A driver that takes little upon itself, so that tasks of the engine do what they do with more rows."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from stillframe.engine import Room
from stillframe.runtime import Warehouse


def driver_takes(
    rows: int, patch: Callable[[Any, str, Any], None] = setattr, *, beside: bool = False
) -> None:
    """`patch` is a monkeypatch's `setattr`, where it is to be taken back."""
    room = Room(rows, beside=beside)
    patch(sys.modules["stillframe.engine.stage"], "LITTLE", room)
    patch(Warehouse, "room", room)
