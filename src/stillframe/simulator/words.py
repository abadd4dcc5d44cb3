"""Worlds in words: rows, what travels, what the warehouse keeps in mind. For people to read; nothing here is
read back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from typing import Any

from stillframe.algebra import Bag, Plan
from stillframe.protocol.asking import Query
from stillframe.protocol.events import Answered, Ask, AskPosition, Notified, Positioned, Transaction, Update
from stillframe.protocol.terms import Term
from stillframe.simulator.world import Simulation, World
from stillframe.simulator.yaml_text import flow

_MOST_ROWS = 8
_READERS_SEE_IT = "view"
_IN_THE_NAME = "updates "  # a query is called after the updates it is about


def rows_text(bag: Bag, most: int = _MOST_ROWS) -> str:
    """`[1, 2], [3, 4] ×2`, in a fixed order."""
    rows = [flow(row) + ("" if count == 1 else f" ×{count}") for row, count in bag.items()]
    shown = ", ".join(sorted(rows)[:most])
    return (shown or "empty") + (f" and {len(rows) - most} more" if len(rows) > most else "")


def in_flight(simulation: Simulation, world: World) -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Sender, receiver and the messages between them, the next to arrive first; empty channels left out."""
    for number, name in enumerate(simulation.sources.names):
        for sender, receiver, queue in (
            (name, "warehouse", world.up[number]),
            ("warehouse", name, world.down[number]),
        ):
            if queue:
                yield sender, receiver, tuple(_message(simulation.messages[each]) for each in queue)


def _message(message: Any) -> str:
    match message:
        case Notified(transaction):
            return str(transaction.id)
        case Answered(id) | Positioned(id):
            return f"answer to {id}"
    return str(message.id)


def state_words(simulation: Simulation, world: World) -> str:
    """What the warehouse keeps besides the view, by the names its state gives; empty parts are left out."""
    return "; ".join(_parts(simulation, simulation.states[world.state]))


def _parts(simulation: Simulation, value: Any) -> Iterator[str]:
    """The view is seen anyway; so is what equals it."""
    view = getattr(value, _READERS_SEE_IT, None)
    for field in fields(value):
        held = getattr(value, field.name)
        words = "" if held == view else _words(simulation, held)
        if words:
            own = isinstance(held, Query) and field.name == "query"
            yield words if own else field.name if held is True else f"{field.name} {words}"


def _words(simulation: Simulation, value: Any) -> str:
    match value:
        case None | False | () | "" | Term():
            return ""
        case Plan():
            bag = simulation.bags.content(value)
            return rows_text(bag) if bag else ""
        case Ask() | AskPosition() | Transaction() | Update():
            return value.id
        case Query():
            got = ", ".join(filter(None, (_words(simulation, each) for each in value.answer)))
            return value.id + (f" (so far {got})" if got else "")
        case (str(name), int(number)):
            return f"{name} {number}"
        case (str(name), Plan() as rows):
            return f"{name}: {_words(simulation, rows) or 'empty'}"
        case tuple():
            return ", ".join(filter(None, (_words(simulation, item) for item in value)))
        case frozenset():
            return ", ".join(sorted(filter(None, (_words(simulation, item) for item in value))))
        case bool() | str() | int():
            return str(value)
    if not is_dataclass(value):
        return ""
    own = getattr(value, "name", None)
    if isinstance(own, str):
        return own
    parts = [part for part in _parts(simulation, value) if not part.startswith(_IN_THE_NAME)]
    return parts[0] if len(parts) == 1 else f"({'; '.join(parts)})" if parts else ""
