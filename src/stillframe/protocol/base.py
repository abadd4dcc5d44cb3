"""What every protocol is: a name, what it needs, what it claims, and a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping
from enum import StrEnum
from typing import Any, ClassVar, Generic, TypeVar

from stillframe.algebra import Plan
from stillframe.protocol.events import Action, Answered, Event, Notified, Transaction, Update
from stillframe.protocol.terms import total
from stillframe.protocol.view import JoinView, NotApplicable

State = TypeVar("State")


class Setting(StrEnum):
    """The columns of the consistency spectrum: who changes what, and in which units."""

    CENTRALISED = "centralised"
    ONE_SOURCE = "one source"
    SINGLE_UPDATES = "many sources, single updates"
    LOCAL_TRANSACTIONS = "source-local transactions"
    GLOBAL_TRANSACTIONS = "global transactions"


class Need(StrEnum):
    """What a protocol may ask of a view or of its sources."""

    ONE_SOURCE = "one source"
    KEYS = "a key of every relation"
    KEYS_SHOWN = "every key shown by the view"
    ORDERED_CHANNELS = "ordered channels"
    TRANSACTION_LOGS = "change logs with transaction ids"
    NAMED_PARTS = "parts of global transactions name each other"


OF_SOURCES = frozenset({Need.ORDERED_CHANNELS, Need.TRANSACTION_LOGS, Need.NAMED_PARTS})


class Protocol(ABC, Generic[State]):
    """A pure state machine. `start` describes the initial state by plans over the relations themselves, read
    while nothing changes; `step` never reads a relation."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[frozenset[Need]] = frozenset()
    parameters: ClassVar[Mapping[str, Any]] = {}
    numbered_answers: ClassVar[bool] = False

    def __init__(self, view: JoinView) -> None:
        self.view = view
        self.asked_view = view
        self.check_view()
        self.prepare()

    def prepare(self) -> None:
        """Sets `asked_view`, the view in whose columns this protocol asks, where that is not the view."""

    @abstractmethod
    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        """The level this protocol promises in a setting."""

    @abstractmethod
    def start(self) -> State: ...

    @abstractmethod
    def step(self, state: State, event: Event) -> tuple[State, tuple[Action, ...]]: ...

    @abstractmethod
    def shown(self, state: State) -> Plan:
        """The view as readers see it."""

    @abstractmethod
    def restart(self, state: State) -> State:
        """What a new process begins with, given only what was installed. Every update not reflected there
        is reported again."""

    def unfinished(self, state: State) -> bool:
        """Whether something waits for time to pass."""
        return False

    def check_view(self) -> None:
        """Refuses a view that does not offer what this protocol needs."""
        view = self.view
        if Need.ONE_SOURCE in self.needs and len(view.sources) > 1:
            raise NotApplicable(
                f"{self.name} is for views over one source",
                detail=f"the view reads {', '.join(view.sources)}",
                hint="strobe and its kin maintain views over several sources",
                code="NEEDS_ONE_SOURCE",
            )
        for number, slot in enumerate(view.slots):
            if self.needs & {Need.KEYS, Need.KEYS_SHOWN} and not slot.key:
                raise NotApplicable(
                    f"{self.name} needs a key of every relation",
                    detail=f"{slot.relation} has none",
                    hint="declare a key, or use eca, lca, sc or tid",
                    code="NEEDS_KEY",
                )
            if Need.KEYS_SHOWN in self.needs and view.key_shown(number) is None:
                raise NotApplicable(
                    f"{self.name} needs the key of every relation in the view",
                    detail=f"the view does not show the key of {slot.relation}",
                    hint="select the key, or use eca or strobe",
                    code="KEY_NOT_IN_VIEW",
                )

    @classmethod
    def check_sources(cls, offered: Collection[Need]) -> None:
        """Refuses sources that do not offer what this protocol needs."""
        lacking = sorted((cls.needs & OF_SOURCES) - set(offered))
        if lacking:
            raise NotApplicable(
                f"{cls.name} needs {lacking[0]}",
                detail=f"the sources offer {', '.join(sorted(offered)) or 'none of what it needs'}",
                hint="another algorithm may do with less: `tid` needs no ordered channels",
                code="NEEDS_MORE_OF_SOURCES",
            )


class OneSource(Protocol[State]):
    """The ECA family: one source; a transaction update by update, as published, or whole with `batch`."""

    needs: ClassVar[frozenset[Need]] = frozenset({Need.ONE_SOURCE, Need.ORDERED_CHANNELS})
    parameters: ClassVar[Mapping[str, Any]] = {"batch": False}
    level: ClassVar[str] = "strong"

    def __init__(self, view: JoinView, batch: bool = False) -> None:
        self.batch = batch
        super().__init__(view)

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        if coordinated:
            return "none"  # what a coordinator reports is not ordered with what the source answers
        split = setting in (Setting.LOCAL_TRANSACTIONS, Setting.GLOBAL_TRANSACTIONS) and not self.batch
        return "convergent" if split else self.level

    def units(self, transaction: Transaction) -> tuple[tuple[Update, ...], ...]:
        return (transaction.updates,) if self.batch else one_by_one(transaction)

    def step(self, state: State, event: Event) -> tuple[State, tuple[Action, ...]]:
        match event:
            case Notified(transaction):
                actions: tuple[Action, ...] = ()
                for unit in self.units(transaction):
                    state, done = self.on_update(state, unit, unit_name(unit, transaction))
                    actions += done
                return state, actions
            case Answered():
                return self.on_answer(state, event)
        return state, ()

    @abstractmethod
    def on_update(
        self, state: State, unit: tuple[Update, ...], name: str
    ) -> tuple[State, tuple[Action, ...]]: ...

    @abstractmethod
    def on_answer(self, state: State, event: Answered) -> tuple[State, tuple[Action, ...]]: ...


def one_by_one(transaction: Transaction) -> tuple[tuple[Update, ...], ...]:
    return tuple((update,) for update in transaction.updates)


def changes_of(updates: tuple[Update, ...]) -> dict[str, Plan]:
    """The signed change of each relation."""
    found: dict[str, list[Plan]] = {}
    for update in updates:
        found.setdefault(update.relation, []).append(update.rows)
    return {relation: total(plans) for relation, plans in found.items()}


def unit_name(updates: tuple[Update, ...], transaction: Transaction) -> str:
    """A name no other unit has: the parts of a global transaction that are reported apart share its id."""
    if len(updates) == 1:
        return updates[0].id
    apart = transaction.parts and len(transaction.places) == 1
    return f"{transaction.id}@{transaction.places[0][0]}" if apart else transaction.id
