"""The ECA family without its one-source check: its queries visit the sources in turn, as Strobe's do.

This is what the Strobe paper speaks of where it says that ECA and ECA-Key do not provide consistency over
several sources. A query stays in UQS, whole, until its last answer has come.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from stillframe.algebra import Plan
from stillframe.protocol import Need
from stillframe.protocol.asking import Query, begin, proceed
from stillframe.protocol.base import changes_of
from stillframe.protocol.eca import Eca, EcaState
from stillframe.protocol.eca_key import EcaKey, EcaKeyPublished, EcaKeyState, Sent
from stillframe.protocol.events import Action, Answered
from stillframe.protocol.terms import Term, difference


@dataclass(frozen=True)
class OverSourcesState(EcaState):
    unanswered: tuple[Query, ...] = ()  # type: ignore[assignment]


class EcaOverSources(Eca):
    def check_view(self) -> None:
        pass

    def start(self) -> EcaState:
        return OverSourcesState(self.view.plan)

    def on_update(self, state: Any, unit: Any, name: str) -> tuple[Any, tuple[Action, ...]]:
        changes = changes_of(unit)
        terms = (*difference(self.view, Term(), changes), *self.compensation(state, changes))
        query = begin(self.view, f"Q[{name}]", terms)
        unanswered = state.unanswered if query.done else (*state.unanswered, query)
        collected = state.collected + tuple(update.id for update in unit)
        state = replace(state, unanswered=unanswered, collected=collected)
        done, installed = self._collect(state, query)
        return done, query.asked + installed

    def compensation(self, state: Any, changes: Mapping[str, Plan]) -> tuple[Term, ...]:
        return tuple(
            compensating.negated()
            for query in state.unanswered
            for term in query.terms
            for compensating in difference(self.view, term, changes)
        )

    def on_answer(self, state: Any, event: Answered) -> tuple[Any, tuple[Action, ...]]:
        asked = next(query for query in state.unanswered if query.awaits(event))
        query, asks = proceed(self.view, asked, event)
        if not query.done:
            kept = tuple(query if other is asked else other for other in state.unanswered)
            return replace(state, unanswered=kept), asks
        rest = tuple(other for other in state.unanswered if other is not asked)
        return self._collect(replace(state, unanswered=rest), query)

    def _collect(self, state: Any, query: Query) -> tuple[Any, tuple[Action, ...]]:
        if query.done:
            state = replace(state, collect=state.collect + query.answer)
        after, installed = self.settle(state)
        return (OverSourcesState(after.view) if installed else after), installed


class EcaKeyOverSources(EcaKeyPublished):
    needs = frozenset({Need.ORDERED_CHANNELS, Need.KEYS_SHOWN})

    def on_answer(self, state: EcaKeyState, event: Answered) -> tuple[EcaKeyState, tuple[Action, ...]]:
        sent = next(sent for sent in state.unanswered if sent.ask.id == event.id)
        query, asks = proceed(self.view, Query(event.id, (), (sent.ask,)), event)
        if query.done:
            return super().on_answer(state, Answered(event.id, query.answer))
        rest = tuple(other for other in state.unanswered if other is not sent)
        further = tuple(Sent(ask, sent.deletes) for ask in asks)
        return replace(state, unanswered=rest + further), asks


class RememberingEcaKeyOverSources(EcaKeyOverSources):
    """With what ours adds to ECA-Key: deletes are remembered for answers still to come."""

    remembers_deletes = EcaKey.remembers_deletes
