"""Strobe (Strobe paper, 5.2, algorithm 1): deletes by key, inserts by queries that visit the sources in turn.

Assumes   ordered channels and a key of every relation. Keys the view does not show are added to it, hidden.
Promises  strong consistency for single updates at any number of sources. A transaction is processed update by
          update and may be seen half done: then only convergence.
Invariant AL applied to the view, with what pending queries will answer less what was deleted since they
          were sent, holds every row of the view of the updates received, and no other once UQS is empty.
          For a row of that view, the query of its last insert was sent after all its other rows had come,
          and nothing it carries was deleted since; an answer shows no update the warehouse has not received.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stillframe.algebra import Plan
from stillframe.protocol.asking import Query, begin, proceed
from stillframe.protocol.base import Need, Protocol, Setting, one_by_one, unit_name
from stillframe.protocol.events import Action, Answered, Event, Install, Notified, Transaction, Update
from stillframe.protocol.keyed import (
    Deleted,
    add_new,
    key_columns,
    key_delete,
    key_delete_all,
    surviving_inserts,
)
from stillframe.protocol.terms import appearances


@dataclass(frozen=True)
class Pending:
    """A query in UQS and what was deleted since it was sent."""

    query: Query
    deletes: tuple[Deleted, ...] = ()


@dataclass(frozen=True)
class StrobeState:
    """`working` is the view with the action list applied to it."""

    view: Plan
    working: Plan
    pending: tuple[Pending, ...] = ()
    received: tuple[str, ...] = ()


class Strobe(Protocol[StrobeState]):
    name: ClassVar[str] = "strobe"
    summary: ClassVar[str] = "deletes by key, asks source after source about inserts, installs when quiet"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ORDERED_CHANNELS, Need.KEYS})

    def prepare(self) -> None:
        self.keyed = self.asked_view = self.view.with_keys

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        if setting in (Setting.LOCAL_TRANSACTIONS, Setting.GLOBAL_TRANSACTIONS):
            return "none" if coordinated else "convergent"
        return "strong"

    def units(self, transaction: Transaction) -> tuple[tuple[Update, ...], ...]:
        return one_by_one(transaction)

    def start(self) -> StrobeState:
        return StrobeState(self.keyed.plan, self.keyed.plan)

    def restart(self, state: StrobeState) -> StrobeState:
        return StrobeState(state.view, state.view)

    def shown(self, state: StrobeState) -> Plan:
        return self.view.only(state.view)

    def step(self, state: StrobeState, event: Event) -> tuple[StrobeState, tuple[Action, ...]]:
        match event:
            case Notified(transaction):
                return self.process(state, transaction)
            case Answered():
                state, asks = self._answer(state, event)
                state, installed = self.settle(state)
                return state, asks + installed
        return state, ()

    def process(self, state: StrobeState, transaction: Transaction) -> tuple[StrobeState, tuple[Action, ...]]:
        actions: tuple[Action, ...] = ()
        for unit in self.units(transaction):
            state, asks = self._update(state, unit, unit_name(unit, transaction))
            state, installed = self.settle(state)
            actions += asks + installed
        return state, actions

    def _update(
        self, state: StrobeState, unit: tuple[Update, ...], name: str
    ) -> tuple[StrobeState, tuple[Action, ...]]:
        for update in unit:
            if not update.insert:
                deleted = Deleted(update.relation, update.rows)
                pending = tuple(replace(p, deletes=(*p.deletes, deleted)) for p in state.pending)
                working = key_delete(self.keyed, state.working, deleted)
                state = replace(state, pending=pending, working=working)
        terms = [
            term
            for update in surviving_inserts(unit, key_columns(self.view))
            for term in appearances(self.keyed, update.relation, update.rows)
        ]
        query = begin(self.keyed, f"Q[{name}]", terms)
        state = replace(state, received=state.received + tuple(update.id for update in unit))
        if query.done:
            return replace(state, working=add_new(state.working, query.answer)), ()
        return replace(state, pending=(*state.pending, Pending(query))), query.asked

    def _answer(self, state: StrobeState, event: Answered) -> tuple[StrobeState, tuple[Action, ...]]:
        for place, waiting in enumerate(state.pending):
            if waiting.query.awaits(event):
                query, asks = proceed(self.keyed, waiting.query, event)
                before, after = state.pending[:place], state.pending[place + 1 :]
                if not query.done:
                    kept = (*before, replace(waiting, query=query), *after)
                    return replace(state, pending=kept), asks
                rows = tuple(key_delete_all(self.keyed, rows, waiting.deletes) for rows in query.answer)
                return replace(state, pending=before + after, working=add_new(state.working, rows)), ()
        return state, ()

    def may_install(self, state: StrobeState) -> bool:
        return not state.pending

    def settle(self, state: StrobeState) -> tuple[StrobeState, tuple[Action, ...]]:
        if not state.received or not self.may_install(state):
            return state, ()
        after = replace(state, view=state.working, received=())
        return after, (Install(self.shown(after), state.received),)
