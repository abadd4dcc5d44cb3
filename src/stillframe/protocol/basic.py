"""The basic algorithm (ECA paper, 5.1): ask for the effect of an update, add what comes back.

Assumes   nothing happens at a source between an update and the answer to its query.
Promises  completeness where that holds (a centralised database), nothing where it does not.
Invariant none: an answer reflects updates that come after the one it was asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stillframe.algebra import Plan
from stillframe.protocol.asking import Query, begin, proceed
from stillframe.protocol.base import Protocol, Setting, changes_of, one_by_one, unit_name
from stillframe.protocol.events import Action, Answered, Event, Install, Notified, Update
from stillframe.protocol.terms import Term, difference, total


@dataclass(frozen=True)
class Pending:
    query: Query
    updates: tuple[str, ...]


@dataclass(frozen=True)
class BasicState:
    view: Plan
    pending: tuple[Pending, ...] = ()


class Basic(Protocol[BasicState]):
    name: ClassVar[str] = "basic"
    summary: ClassVar[str] = "asks for each update's effect and adds the answer as it comes"

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        return "complete" if setting is Setting.CENTRALISED else "none"

    def start(self) -> BasicState:
        return BasicState(self.view.plan)

    def restart(self, state: BasicState) -> BasicState:
        return BasicState(state.view)

    def shown(self, state: BasicState) -> Plan:
        return state.view

    def step(self, state: BasicState, event: Event) -> tuple[BasicState, tuple[Action, ...]]:
        actions: tuple[Action, ...] = ()
        match event:
            case Notified(transaction):
                for unit in one_by_one(transaction):
                    state, done = self._update(state, unit, unit_name(unit, transaction))
                    actions += done
            case Answered():
                state, actions = self._answer(state, event)
        return state, actions

    def _update(
        self, state: BasicState, unit: tuple[Update, ...], name: str
    ) -> tuple[BasicState, tuple[Action, ...]]:
        terms = difference(self.view, Term(), changes_of(unit))
        query = begin(self.view, f"Q[{name}]", terms)
        pending = Pending(query, tuple(update.id for update in unit))
        if query.done:
            return self._install(state, pending)
        return replace(state, pending=(*state.pending, pending)), query.asked

    def _answer(self, state: BasicState, event: Answered) -> tuple[BasicState, tuple[Action, ...]]:
        for place, waiting in enumerate(state.pending):
            if not waiting.query.awaits(event):
                continue
            query, asks = proceed(self.view, waiting.query, event)
            after = replace(waiting, query=query)
            rest = state.pending[:place] + state.pending[place + 1 :]
            if query.done:
                return self._install(replace(state, pending=rest), after)
            kept = (*state.pending[:place], after, *state.pending[place + 1 :])
            return replace(state, pending=kept), asks
        return state, ()

    def _install(self, state: BasicState, pending: Pending) -> tuple[BasicState, tuple[Action, ...]]:
        view = total((state.view, *pending.query.answer))
        return replace(state, view=view), (Install(view, pending.updates),)
