"""The eager compensating algorithm (ECA paper, 5.2).

Assumes   one source, atomic events, ordered channels. Duplicates and views without keys are fine.
Promises  strong consistency for single updates; for transactions too, with `batch`. Update by update, a
          transaction may be seen half done when no query is pending, so then only convergence.
Invariant view + COLLECT + what the pending queries will answer = the view of the last update received:
          each pending query is answered after the update now received, so its difference is taken off.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar

from stillframe.algebra import Plan
from stillframe.protocol.asking import route
from stillframe.protocol.base import OneSource, changes_of
from stillframe.protocol.events import Action, Answered, Ask, Install, Update
from stillframe.protocol.terms import Term, difference, total


@dataclass(frozen=True)
class EcaState:
    """`collect` is the sum of what has come since the view was last set; `unanswered` is UQS."""

    view: Plan
    collect: tuple[Plan, ...] = ()
    unanswered: tuple[Ask, ...] = ()
    collected: tuple[str, ...] = ()


class Eca(OneSource[EcaState]):
    name: ClassVar[str] = "eca"
    summary: ClassVar[str] = "compensates each query for the updates it will see"

    def start(self) -> EcaState:
        return EcaState(self.view.plan)

    def restart(self, state: EcaState) -> EcaState:
        return EcaState(state.view)

    def shown(self, state: EcaState) -> Plan:
        return state.view

    def on_update(
        self, state: EcaState, unit: tuple[Update, ...], name: str
    ) -> tuple[EcaState, tuple[Action, ...]]:
        changes = changes_of(unit)
        terms = (*difference(self.view, Term(), changes), *self.compensation(state, changes))
        asks, local = route(self.view, f"Q[{name}]", terms)
        state, installed = self.settle(
            replace(
                state,
                collect=_sum(state.collect + local),
                unanswered=state.unanswered + asks,
                collected=state.collected + tuple(update.id for update in unit),
            )
        )
        return state, asks + installed

    def compensation(self, state: EcaState, changes: Mapping[str, Plan]) -> tuple[Term, ...]:
        return tuple(
            compensating.negated()
            for ask in state.unanswered
            for question in ask.questions
            for term in question.terms
            for compensating in difference(self.view, term, changes)
        )

    def on_answer(self, state: EcaState, event: Answered) -> tuple[EcaState, tuple[Action, ...]]:
        unanswered = tuple(ask for ask in state.unanswered if ask.id != event.id)
        if len(unanswered) == len(state.unanswered):
            return state, ()
        collect = _sum(state.collect + event.answers)
        return self.settle(replace(state, collect=collect, unanswered=unanswered))

    def settle(self, state: EcaState) -> tuple[EcaState, tuple[Action, ...]]:
        if state.unanswered:
            return state, ()
        view = total((state.view, *state.collect))
        return EcaState(view), (Install(view, state.collected),)


def _sum(plans: tuple[Plan, ...]) -> tuple[Plan, ...]:
    return (total(plans),) if plans else ()
