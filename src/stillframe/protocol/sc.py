"""Storing copies (ECA paper, 1.2): the warehouse keeps every relation of the view, and asks nobody.

Assumes   ordered channels.
Promises  completeness for transactions of single sources: messages arrive in some merge of the sources'
          orders, and each is applied whole. A global transaction whose parts arrive apart is split (weak).
Invariant the copies are the relations after the transactions received; the view is the view of the copies.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import ClassVar

from stillframe.algebra import Plan, Scan
from stillframe.algebra.plan import map_scans
from stillframe.protocol.base import Need, Protocol, Setting, changes_of
from stillframe.protocol.events import Action, Event, Install, Notified
from stillframe.protocol.terms import Term, difference, term_plan, total


@dataclass(frozen=True)
class ScState:
    view: Plan
    copies: tuple[tuple[str, Plan], ...]


class Sc(Protocol[ScState]):
    name: ClassVar[str] = "sc"
    summary: ClassVar[str] = "keeps copies of the relations and asks nobody"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ORDERED_CHANNELS})

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        if setting is not Setting.GLOBAL_TRANSACTIONS:
            return "complete"
        # A coordinator's message may overtake what a source reports itself: no prefix, but sums commute.
        return "convergent" if coordinated else "weak"

    def start(self) -> ScState:
        copies = {slot.relation: slot.scan for slot in self.view.slots}
        return ScState(self.view.plan, tuple(copies.items()))

    def restart(self, state: ScState) -> ScState:
        return state

    def shown(self, state: ScState) -> Plan:
        return state.view

    def step(self, state: ScState, event: Event) -> tuple[ScState, tuple[Action, ...]]:
        match event:
            case Notified(transaction):
                changes = changes_of(transaction.updates)
                copies = {
                    relation: total((copy, changes[relation])) if relation in changes else copy
                    for relation, copy in state.copies
                }
                change = [
                    map_scans(term_plan(self.view, term, self.view.everything), _reading(copies))
                    for term in difference(self.view, Term(), changes)
                ]
                view = total((state.view, *change))
                reflected = tuple(update.id for update in transaction.updates)
                return ScState(view, tuple(copies.items())), (Install(view, reflected),)
        return state, ()


def _reading(copies: dict[str, Plan]) -> Callable[[Scan, int | None], Plan]:
    return lambda scan, place: copies.get(scan.relation, scan)
