"""What live protocols heard and did, in order: the history of a session, as values that a checker takes.

A position in an entry is the exact state of its source; so from the entries alone one can tell what every
answer had seen, what had been reported by then, and which states of the sources each installed view shows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from stillframe.sources.base import Position


@dataclass(frozen=True)
class Reported:
    """Everything a source committed up to `upto` has been told to a view; so many transactions."""

    view: str
    source: str
    upto: Position
    transactions: int


@dataclass(frozen=True)
class Asked:
    view: str
    source: str
    question: str


@dataclass(frozen=True)
class Told:
    """A source's answer, computed at `at`; `newer` reports came there after the question was sent."""

    view: str
    source: str
    question: str
    at: Position
    newer: int


@dataclass(frozen=True)
class Installed:
    view: str
    vector: Mapping[str, Position]


Entry = Reported | Asked | Told | Installed


def as_document(entry: Entry) -> dict[str, Any]:
    """An entry for a log file."""
    document: dict[str, Any] = {"kind": type(entry).__name__.lower(), "view": entry.view}
    match entry:
        case Reported(_, source, upto, transactions):
            document |= {"source": source, "upto": upto.to_json(), "transactions": transactions}
        case Asked(_, source, question):
            document |= {"source": source, "question": question}
        case Told(_, source, question, at, newer):
            document |= {"source": source, "question": question, "at": at.to_json(), "newer": newer}
        case Installed(_, vector):
            document |= {"vector": {name: position.to_json() for name, position in vector.items()}}
    return document
