"""Sources: autonomous databases, their changes captured and their states read. No Spark here."""

from __future__ import annotations

from stillframe.sources.base import (
    Capture,
    Committed,
    Consumer,
    Keys,
    LogStatus,
    Method,
    Position,
    Range,
    Relation,
    Source,
)
from stillframe.sources.opening import SourceConfig, open_source
from stillframe.sources.sqlite.source import SqliteSource

__all__ = [
    "Capture",
    "Committed",
    "Consumer",
    "Keys",
    "LogStatus",
    "Method",
    "Position",
    "Range",
    "Relation",
    "Source",
    "SourceConfig",
    "SqliteSource",
    "open_source",
]
