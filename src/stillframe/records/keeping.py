"""How a record's state is kept in a store: as JSON, in which what JSON has no word for is spelled in one
key."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

from stillframe.algebra.types import BINARY
from stillframe.records.encoding import text_of, value_of
from stillframe.records.requests import State
from stillframe.records.signature import Signature

_DATE, _INSTANT = "date", "instant"


def bytes_of(state: State) -> bytes:
    document = [state.signature.session, state.signature.marks, state.data, state.link]
    return json.dumps(document, default=_spelled, separators=(",", ":"), ensure_ascii=False).encode()


def state_of(text: bytes) -> State:
    session, marks, data, link = json.loads(text, object_hook=_value)
    return State(Signature(session, _tuples(marks)), _tuples(data), _tuples(link))


def _spelled(value: Any) -> dict[str, str]:
    match value:
        case Decimal():
            return {"decimal": text_of(value)}
        case datetime():
            return {_INSTANT: value.astimezone(UTC).isoformat()}
        case date():
            return {_DATE: value.isoformat()}
        case bytes():
            return {"bytes": text_of(value)}
    raise TypeError(f"a record cannot hold a {type(value).__name__}")


_READ: dict[str, Callable[[str], Any]] = {
    "decimal": Decimal,
    _INSTANT: datetime.fromisoformat,
    _DATE: date.fromisoformat,
}


def _value(spelled: dict[str, str]) -> Any:
    ((kind, text),) = spelled.items()
    if kind == "bytes":
        return value_of(text, BINARY)
    return _READ[kind](text)


def _tuples(value: Any) -> Any:
    return tuple(map(_tuples, value)) if isinstance(value, list) else value
