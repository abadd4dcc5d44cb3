"""The lazy compensating algorithm (sketched at the end of 5.3 of the ECA paper; worked out here).

Assumes   one source, atomic events, ordered channels.
Promises  completeness for single updates; for transactions too, with `batch`; else convergence.
Invariant every term on its way has an owner, the update whose effect it helps to compute; for each update,
          what has come for it + what its terms on their way will answer = its effect on the view, as of
          the moment it happened.

Sending is as eager as in ECA; what is lazy is applying. When update U arrives, every term T on its way will
be answered after U, so -T<U> is sent and belongs to T's owner; V<U> belongs to U. When no term of an update
is on its way, the ordered channel has brought every later update that T's answer saw, so the update's effect
is exact. Effects are applied in the order of the updates, one view state each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stillframe.algebra import Plan
from stillframe.protocol.base import OneSource, changes_of
from stillframe.protocol.events import Action, Answered, Ask, Install, Update
from stillframe.protocol.terms import Question, Term, difference, term_plan, total


@dataclass(frozen=True)
class Effect:
    """What has come of one update's effect on the view."""

    owner: str
    updates: tuple[str, ...]
    rows: tuple[Plan, ...] = ()


@dataclass(frozen=True)
class Sent:
    """A message on its way; each of its questions belongs to one owner."""

    ask: Ask
    owners: tuple[str, ...]


@dataclass(frozen=True)
class LcaState:
    view: Plan
    effects: tuple[Effect, ...] = ()
    unanswered: tuple[Sent, ...] = ()


class Lca(OneSource[LcaState]):
    name: ClassVar[str] = "lca"
    summary: ClassVar[str] = "computes each update's own effect and applies them one at a time"
    level: ClassVar[str] = "complete"

    def start(self) -> LcaState:
        return LcaState(self.view.plan)

    def restart(self, state: LcaState) -> LcaState:
        return LcaState(state.view)

    def shown(self, state: LcaState) -> Plan:
        return state.view

    def on_update(
        self, state: LcaState, unit: tuple[Update, ...], name: str
    ) -> tuple[LcaState, tuple[Action, ...]]:
        changes = changes_of(unit)
        owned: dict[str, list[Term]] = {name: list(difference(self.view, Term(), changes))}
        for sent in state.unanswered:
            for question, owner in zip(sent.ask.questions, sent.owners, strict=True):
                for term in question.terms:
                    owned.setdefault(owner, []).extend(
                        t.negated() for t in difference(self.view, term, changes)
                    )
        effects = (*state.effects, Effect(name, tuple(update.id for update in unit)))
        questions, owners = list[Question](), list[str]()
        everything = tuple(sorted(self.view.everything))
        for owner, terms in owned.items():
            remote = tuple(term for term in terms if term.bound != self.view.everything)
            local = [term_plan(self.view, t, self.view.everything) for t in terms if t not in remote]
            effects = _add(effects, owner, tuple(local))
            if remote:
                questions.append(Question(everything, remote))
                owners.append(owner)
        state = replace(state, effects=effects)
        if not questions:
            return self.settle(state)
        ask = Ask(f"Q[{name}].{self.view.sources[0]}", self.view.sources[0], tuple(questions))
        state = replace(state, unanswered=(*state.unanswered, Sent(ask, tuple(owners))))
        state, installed = self.settle(state)
        return state, (ask, *installed)

    def on_answer(self, state: LcaState, event: Answered) -> tuple[LcaState, tuple[Action, ...]]:
        for sent in state.unanswered:
            if sent.ask.is_answered_by(event):
                effects = state.effects
                for owner, rows in zip(sent.owners, event.answers, strict=True):
                    effects = _add(effects, owner, (rows,))
                rest = tuple(other for other in state.unanswered if other is not sent)
                return self.settle(replace(state, effects=effects, unanswered=rest))
        return state, ()

    def settle(self, state: LcaState) -> tuple[LcaState, tuple[Action, ...]]:
        """Applies the effects that are known, first to last, up to the first that is not."""
        on_their_way = {owner for sent in state.unanswered for owner in sent.owners}
        actions: tuple[Action, ...] = ()
        while state.effects and state.effects[0].owner not in on_their_way:
            effect, *rest = state.effects
            view = total((state.view, *effect.rows))
            state = replace(state, view=view, effects=tuple(rest))
            actions += (Install(view, effect.updates),)
        return state, actions


def _add(effects: tuple[Effect, ...], owner: str, rows: tuple[Plan, ...]) -> tuple[Effect, ...]:
    if not rows:
        return effects
    return tuple(
        replace(effect, rows=(total(effect.rows + rows),)) if effect.owner == owner else effect
        for effect in effects
    )
