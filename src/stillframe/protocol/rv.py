"""Recomputing the view (ECA paper, D.1): after every `s` updates, ask for the whole view.

Assumes   one source, ordered channels, queries evaluated atomically.
Promises  strong consistency: an answer is the view of one state of the source, and answers come in order.
Invariant the view is the answer to the last query answered.

The text counts updates and never looks at a last, incomplete group of them, so the view need not converge.
Ours also asks when time passes and some were received since the last query.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from stillframe.algebra import Plan
from stillframe.protocol.asking import Query, begin, proceed
from stillframe.protocol.base import Need, Protocol, Setting
from stillframe.protocol.events import Action, Answered, Event, Install, Notified, Tick
from stillframe.protocol.terms import Term, total
from stillframe.protocol.view import JoinView


@dataclass(frozen=True)
class RvState:
    """`counted` were received since the last query was sent; `received` are all that no answer has shown
    yet."""

    view: Plan
    counted: tuple[str, ...] = ()
    received: tuple[str, ...] = ()
    pending: tuple[Query, ...] = ()


class Rv(Protocol[RvState]):
    name: ClassVar[str] = "rv"
    summary: ClassVar[str] = "recomputes the whole view at its source after every s updates"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ONE_SOURCE, Need.ORDERED_CHANNELS})
    parameters: ClassVar[Mapping[str, Any]] = {"s": 1}

    def __init__(self, view: JoinView, s: int = 1) -> None:
        self.period = s
        super().__init__(view)

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        # What a coordinator reports is not ordered with what the source answers.
        return "none" if coordinated else "strong"

    def start(self) -> RvState:
        return RvState(self.view.plan)

    def restart(self, state: RvState) -> RvState:
        return RvState(state.view)

    def shown(self, state: RvState) -> Plan:
        return state.view

    def unfinished(self, state: RvState) -> bool:
        return bool(state.counted)

    def step(self, state: RvState, event: Event) -> tuple[RvState, tuple[Action, ...]]:
        match event:
            case Notified(transaction):
                actions: tuple[Action, ...] = ()
                for update in transaction.updates:
                    received, counted = (*state.received, update.id), (*state.counted, update.id)
                    state = replace(state, counted=counted, received=received)
                    if len(state.counted) >= self.period:
                        state, asked = self._recompute(state)
                        actions += asked
                return state, actions
            case Tick() if self.unfinished(state):
                return self._recompute(state)
            case Answered():
                return self._answer(state, event)
        return state, ()

    def _recompute(self, state: RvState) -> tuple[RvState, tuple[Action, ...]]:
        query = begin(self.view, f"Q[{state.counted[-1]}]", (Term(),))
        return replace(state, counted=(), pending=(*state.pending, query)), query.asked

    def _answer(self, state: RvState, event: Answered) -> tuple[RvState, tuple[Action, ...]]:
        """The channel is ordered: what was received before an answer, and nothing else, is in it."""
        for query in state.pending:
            if query.awaits(event):
                view = total(proceed(self.view, query, event)[0].answer)
                rest = tuple(other for other in state.pending if other is not query)
                return replace(state, view=view, received=(), pending=rest), (Install(view, state.received),)
        return state, ()


class RvPublished(Rv):
    name: ClassVar[str] = "rv-published"
    summary: ClassVar[str] = "rv as printed: a last, incomplete group of updates is never looked at"

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        return "strong" if self.period == 1 and not coordinated else "none"

    def unfinished(self, state: RvState) -> bool:
        return False
