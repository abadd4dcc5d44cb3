"""What every protocol is: a name, what it needs, what it claims, and a step."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
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


class Protocol(ABC, Generic[State]):
    """A pure state machine. `start` describes the initial state by plans over the relations themselves, read
    while nothing changes; `step` never reads a relation."""

    name: ClassVar[str]
    summary: ClassVar[str]
    needs: ClassVar[tuple[str, ...]] = ()
    parameters: ClassVar[Mapping[str, Any]] = {}
    numbered_answers: ClassVar[bool] = False

    def __init__(self, view: JoinView) -> None:
        self.view = view
        self.asked_view = view
        self.check()

    def check(self) -> None:
        """Refuses a view this protocol cannot maintain; sets `asked_view`, the view in whose columns it
        asks, where that is not the view itself."""

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

    # What several protocols need.

    def need_one_source(self) -> None:
        if len(self.view.sources) > 1:
            raise NotApplicable(
                f"{self.name} is for views over one source",
                detail=f"the view reads {', '.join(self.view.sources)}",
                hint="strobe and its kin maintain views over several sources",
                code="NEEDS_ONE_SOURCE",
            )

    def need_keys(self, *, shown: bool = False) -> None:
        for number, slot in enumerate(self.view.slots):
            if not slot.key:
                raise NotApplicable(
                    f"{self.name} needs a key of every relation",
                    detail=f"{slot.relation} has none",
                    hint="declare a key, or use eca, lca, sc or tid",
                    code="NEEDS_KEY",
                )
            if shown and self.view.key_shown(number) is None:
                raise NotApplicable(
                    f"{self.name} needs the key of every relation in the view",
                    detail=f"the view does not show the key of {slot.relation}",
                    hint="select the key, or use eca or strobe",
                    code="KEY_NOT_IN_VIEW",
                )


class OneSource(Protocol[State]):
    """The ECA family: one source; a transaction update by update, as published, or whole with `batch`."""

    needs: ClassVar[tuple[str, ...]] = ("one source", "ordered channels")
    parameters: ClassVar[Mapping[str, Any]] = {"batch": False}
    level: ClassVar[str] = "strong"

    def __init__(self, view: JoinView, batch: bool = False) -> None:
        self.batch = batch
        super().__init__(view)

    def check(self) -> None:
        self.need_one_source()

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
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
    return updates[0].id if len(updates) == 1 else transaction.id
