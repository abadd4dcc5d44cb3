"""What a protocol hears and what it does. No rows travel here: changes, answers and views are plans over
bags that whoever runs the protocol keeps under names.

Every plan in a state or an action may be replaced, between two steps, by a scan of a bag with its content:
the simulator does so with Python values, the runtime with tables.
"""

from __future__ import annotations

from dataclasses import dataclass

from stillframe.algebra import Plan
from stillframe.protocol.terms import Question

Place = tuple[str, int]  # a source, and the number of one of its transactions, from 1


@dataclass(frozen=True)
class Update:
    """Rows that came or went at one relation: a signed bag, negative where rows went."""

    id: str
    relation: str
    insert: bool
    rows: Plan


@dataclass(frozen=True)
class Transaction:
    """What one message reports: usually a transaction of one source. A part of a global transaction knows
    the places of all its parts; one that a coordinator reports has several places itself. `conflicts` names
    earlier transactions that touched the same rows."""

    id: str
    updates: tuple[Update, ...]
    places: tuple[Place, ...]
    parts: tuple[Place, ...] = ()
    conflicts: tuple[str, ...] = ()


@dataclass(frozen=True)
class Notified:
    transaction: Transaction


@dataclass(frozen=True)
class Answered:
    """One bag for each question of the message `id`. `seen` is the number of the last transaction the source
    had executed, where the protocol asked for numbered answers."""

    id: str
    answers: tuple[Plan, ...]
    seen: int | None = None


@dataclass(frozen=True)
class Positioned:
    """Where a source stands: a mark that names exactly its committed transactions."""

    id: str
    source: str
    mark: int


@dataclass(frozen=True)
class Tick:
    """Time has passed, and nothing is on its way."""


Event = Notified | Answered | Positioned | Tick


@dataclass(frozen=True)
class Ask:
    """One message to one source. `since` and `until` are marks of that source: the states before and after a
    session that its questions may speak of. With a `side`, "add" or "del", changes are only the rows logged
    as inserted or as deleted, and states are those before the session less what it deleted, as a source
    computes them from its log without netting it."""

    id: str
    source: str
    questions: tuple[Question, ...]
    since: int | None = None
    until: int | None = None
    side: str = ""

    def is_answered_by(self, event: Answered) -> bool:
        """A channel that repeats messages may bring answers to other questions under the same name."""
        return self.id == event.id and len(self.questions) == len(event.answers)


@dataclass(frozen=True)
class AskPosition:
    id: str
    source: str


@dataclass(frozen=True)
class Install:
    """The view readers see from now on, and what it newly reflects: updates by their ids or, of a protocol
    that goes by positions, transactions by their places."""

    view: Plan
    updates: tuple[str, ...] = ()
    places: tuple[Place, ...] = ()


Action = Ask | AskPosition | Install
