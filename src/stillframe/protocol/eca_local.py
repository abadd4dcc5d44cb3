"""ECA-Local (ECA paper, 5.5; which updates are local, and how they are ordered among the others, is left open
there and settled here).

Assumes   one source, ordered channels. No key is needed; the more keys the view shows, the more is local.
Promises  strong consistency for single updates; for transactions too, with `batch`; else convergence.

Local updates. (1) A delete from a relation whose key the view shows: the rows that leave the view are those
that show the key, whatever the other relations hold. (2) Any update that leaves no relation to read. (3) An
update of rows that the view's conditions on their relation alone reject: it changes nothing, and a question
about no rows is not sent.

Order. Let D be the key-delete of a local delete U of a row with key t, and Q a query pending when U arrives.
D is linear, and every row of Q[after U] - Q[before U] has t in U's slot, so D of it is nothing:
    D(V[before U]) = V[after U]  and  D(Q[before U]) = D(Q[after U]).
So a local delete waits for nobody and compensates nothing. It is applied to the working copy, and every term
that is pending carries it along: whatever the term answers, D is applied to that. A compensating term stands
in for a part of its parent's answer, and carries its parent's deletes; V<U'> of a later update carries none.
Answers are therefore split by the deletes they carry, one question each, in one message.

Invariant working copy + (what pending terms will answer, less their deletes) = the view of the last update
received.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stillframe.algebra import Filter, Plan
from stillframe.algebra.scalar import shift
from stillframe.protocol.base import OneSource, changes_of
from stillframe.protocol.events import Action, Answered, Ask, Install, Update
from stillframe.protocol.keyed import Deleted, key_delete, key_delete_all
from stillframe.protocol.terms import Question, Term, difference, term_plan, total


@dataclass(frozen=True)
class Sent:
    """A message on its way; each of its questions carries deletes to be applied to its answer."""

    ask: Ask
    deletes: tuple[tuple[Deleted, ...], ...]


@dataclass(frozen=True)
class EcaLocalState:
    view: Plan
    working: Plan
    unanswered: tuple[Sent, ...] = ()
    collected: tuple[str, ...] = ()


class EcaLocal(OneSource[EcaLocalState]):
    name: ClassVar[str] = "eca-local"
    summary: ClassVar[str] = "deletes by key where the view shows one, compensates for all else"

    def start(self) -> EcaLocalState:
        return EcaLocalState(self.view.plan, self.view.plan)

    def restart(self, state: EcaLocalState) -> EcaLocalState:
        return EcaLocalState(state.view, state.view)

    def shown(self, state: EcaLocalState) -> Plan:
        return state.view

    def is_local_delete(self, update: Update) -> bool:
        slots = self.view.slots_reading(update.relation)
        return not update.insert and all(self.view.key_shown(slot) is not None for slot in slots)

    def on_update(
        self, state: EcaLocalState, unit: tuple[Update, ...], name: str
    ) -> tuple[EcaLocalState, tuple[Action, ...]]:
        if all(self.is_local_delete(update) for update in unit):
            for update in unit:
                state = self._delete(state, Deleted(update.relation, update.rows))
            asks: tuple[Ask, ...] = ()
        else:
            state, asks = self._compensated(state, unit, name)
        collected = state.collected + tuple(update.id for update in unit)
        state, installed = self.settle(replace(state, collected=collected))
        return state, asks + installed

    def _delete(self, state: EcaLocalState, deleted: Deleted) -> EcaLocalState:
        unanswered = tuple(
            replace(sent, deletes=tuple((*carried, deleted) for carried in sent.deletes))
            for sent in state.unanswered
        )
        return replace(state, working=key_delete(self.view, state.working, deleted), unanswered=unanswered)

    def _compensated(
        self, state: EcaLocalState, unit: tuple[Update, ...], name: str
    ) -> tuple[EcaLocalState, tuple[Ask, ...]]:
        changes = {relation: self._relevant(relation, rows) for relation, rows in changes_of(unit).items()}
        by_deletes: dict[tuple[Deleted, ...], list[Term]] = {(): list(difference(self.view, Term(), changes))}
        for sent in state.unanswered:
            for question, carried in zip(sent.ask.questions, sent.deletes, strict=True):
                for term in question.terms:
                    by_deletes.setdefault(carried, []).extend(
                        t.negated() for t in difference(self.view, term, changes)
                    )
        everything = tuple(sorted(self.view.everything))
        working, questions, deletes = [state.working], list[Question](), list[tuple[Deleted, ...]]()
        for carried, terms in by_deletes.items():
            remote = tuple(term for term in terms if term.bound != self.view.everything)
            here = [term_plan(self.view, t, self.view.everything) for t in terms if t not in remote]
            working += [key_delete_all(self.view, plan, carried) for plan in here]
            if remote:
                questions.append(Question(everything, remote))
                deletes.append(carried)
        state = replace(state, working=total(working))
        if not questions:
            return state, ()
        ask = Ask(f"Q[{name}].{self.view.sources[0]}", self.view.sources[0], tuple(questions))
        return replace(state, unanswered=(*state.unanswered, Sent(ask, tuple(deletes)))), (ask,)

    def _relevant(self, relation: str, rows: Plan) -> Plan:
        """The rows that can be in the view at all, judged by themselves."""
        slots = self.view.slots_reading(relation)
        if len(slots) != 1:
            return rows
        for condition, read in self.view.conditions_on:
            if read == {slots[0]}:
                rows = Filter(rows, shift(condition, -self.view.offsets[slots[0]]))
        return rows

    def on_answer(self, state: EcaLocalState, event: Answered) -> tuple[EcaLocalState, tuple[Action, ...]]:
        for sent in state.unanswered:
            if sent.ask.is_answered_by(event):
                rows = [
                    key_delete_all(self.view, answer, carried)
                    for answer, carried in zip(event.answers, sent.deletes, strict=True)
                ]
                rest = tuple(other for other in state.unanswered if other is not sent)
                return self.settle(replace(state, working=total((state.working, *rows)), unanswered=rest))
        return state, ()

    def settle(self, state: EcaLocalState) -> tuple[EcaLocalState, tuple[Action, ...]]:
        if state.unanswered:
            return state, ()
        return EcaLocalState(state.working, state.working), (Install(state.working, state.collected),)
