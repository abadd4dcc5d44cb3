"""ECA-Key (ECA paper, 5.4): deletes are applied here, by key; inserts are asked about, uncompensated.

Assumes   one source, ordered channels, a key of every relation, all shown by the view.
Promises  strong consistency for single updates; for transactions too, with `batch`; else convergence.
Invariant COLLECT, with what the pending queries will answer less what was deleted since they were sent,
          holds each row of the view of the last update received, and no other once nothing is pending.

The text takes deletes off COLLECT only. But a query carries the inserted row with it: when that very row is
deleted before its query is answered, the answer still brings what no longer is. Ours remembers, for each
pending query, what was deleted since, and takes it off the answer (as Strobe does).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stillframe.algebra import Plan
from stillframe.protocol.asking import route
from stillframe.protocol.base import Need, OneSource
from stillframe.protocol.events import Action, Answered, Ask, Install, Update
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
class Sent:
    ask: Ask
    deletes: tuple[Deleted, ...] = ()


@dataclass(frozen=True)
class EcaKeyState:
    view: Plan
    collect: Plan
    unanswered: tuple[Sent, ...] = ()
    collected: tuple[str, ...] = ()


class EcaKey(OneSource[EcaKeyState]):
    name: ClassVar[str] = "eca-key"
    summary: ClassVar[str] = "deletes by the keys in the view; asks about inserts, without compensation"
    needs: ClassVar[frozenset[Need]] = OneSource.needs | {Need.KEYS_SHOWN}
    remembers_deletes: ClassVar[bool] = True

    def start(self) -> EcaKeyState:
        return EcaKeyState(self.view.plan, self.view.plan)

    def restart(self, state: EcaKeyState) -> EcaKeyState:
        return EcaKeyState(state.view, state.view)

    def shown(self, state: EcaKeyState) -> Plan:
        return state.view

    def on_update(
        self, state: EcaKeyState, unit: tuple[Update, ...], name: str
    ) -> tuple[EcaKeyState, tuple[Action, ...]]:
        for update in unit:
            if not update.insert:
                state = self._delete(state, Deleted(update.relation, update.rows))
        terms = [
            term
            for update in surviving_inserts(unit, key_columns(self.view))
            for term in appearances(self.view, update.relation, update.rows)
        ]
        asks, local = route(self.view, f"Q[{name}]", terms)
        state, installed = self.settle(
            replace(
                state,
                collect=add_new(state.collect, local),
                unanswered=state.unanswered + tuple(map(Sent, asks)),
                collected=state.collected + tuple(update.id for update in unit),
            )
        )
        return state, asks + installed

    def _delete(self, state: EcaKeyState, deleted: Deleted) -> EcaKeyState:
        unanswered = state.unanswered
        if self.remembers_deletes:
            unanswered = tuple(replace(sent, deletes=(*sent.deletes, deleted)) for sent in unanswered)
        return replace(state, collect=key_delete(self.view, state.collect, deleted), unanswered=unanswered)

    def on_answer(self, state: EcaKeyState, event: Answered) -> tuple[EcaKeyState, tuple[Action, ...]]:
        for sent in state.unanswered:
            if sent.ask.is_answered_by(event):
                rows = tuple(key_delete_all(self.view, rows, sent.deletes) for rows in event.answers)
                rest = tuple(other for other in state.unanswered if other is not sent)
                return self.settle(replace(state, collect=add_new(state.collect, rows), unanswered=rest))
        return state, ()

    def settle(self, state: EcaKeyState) -> tuple[EcaKeyState, tuple[Action, ...]]:
        if state.unanswered:
            return state, ()
        return EcaKeyState(state.collect, state.collect), (Install(state.collect, state.collected),)


class EcaKeyPublished(EcaKey):
    name: ClassVar[str] = "eca-key-published"
    summary: ClassVar[str] = "eca-key as printed: a delete is not remembered for answers still to come"
    remembers_deletes: ClassVar[bool] = False

    def claims(self, *_: object, **__: object) -> str:
        return "none"
