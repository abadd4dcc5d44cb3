"""Complete Strobe (Strobe paper, section 6, algorithm 3).

Assumes   ordered channels and a key of every relation.
Promises  completeness for single updates; with `k` > 1, where only every k-th is installed, strong
          consistency. A transaction is processed update by update and is seen half done: then convergence.
Invariant C-T-Strobe's, with updates for transactions: this is C-T-Strobe given one update at a time.

The text takes a row to be the same when its key is, deletes from Delta by the columns the view happens to
show, and does not say that only deletes after the update in hand count. `docs/errata.md` has the cases.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stillframe.algebra import KeyDelete, Plan
from stillframe.protocol.base import Setting
from stillframe.protocol.c_t_strobe import CStrobeState, CTStrobe, Unit
from stillframe.protocol.events import Action, Event, Notified, Transaction, Update


class CStrobe(CTStrobe):
    name: ClassVar[str] = "c-strobe"
    summary: ClassVar[str] = "computes each update's own effect and installs one after the other"

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        if setting in (Setting.LOCAL_TRANSACTIONS, Setting.GLOBAL_TRANSACTIONS):
            return "none" if coordinated else "convergent"
        return "complete" if self.period == 1 else "strong"

    def units(self, transaction: Transaction) -> tuple[Unit, ...]:
        return tuple(Unit(update.id, (update,)) for update in transaction.updates)


@dataclass(frozen=True)
class Remembering(CStrobeState):
    """Also every delete ever received."""

    deletes: tuple[Update, ...] = ()


class CStrobePublished(CStrobe):
    """Algorithm 3 as printed. Each way in which it differs can be switched off alone."""

    name: ClassVar[str] = "c-strobe-published"
    summary: ClassVar[str] = "c-strobe as printed: sameness by key, Delta without the columns the view hides"
    same_by_key: ClassVar[bool] = True
    hides_columns: ClassVar[bool] = True
    any_earlier_delete: ClassVar[bool] = True

    def prepare(self) -> None:
        super().prepare()
        if self.hides_columns:
            self.gathered = self.asked_view = self.keyed

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        return "none"

    def start(self) -> CStrobeState:
        begun = super().start()
        return Remembering(begun.view, begun.working)

    def restart(self, state: CStrobeState) -> CStrobeState:
        return Remembering(state.view, state.view)

    def step(self, state: CStrobeState, event: Event) -> tuple[CStrobeState, tuple[Action, ...]]:
        if isinstance(event, Notified) and isinstance(state, Remembering):
            deletes = tuple(update for update in event.transaction.updates if not update.insert)
            state = replace(state, deletes=state.deletes + deletes)
        return super().step(state, event)

    def brought(self, state: CStrobeState, insert: Update, deletes: tuple[Update, ...]) -> Plan:
        if self.any_earlier_delete and isinstance(state, Remembering):
            waiting = [update.id for unit in state.queue for update in unit.updates]
            past = [u for u in state.deletes if u.id not in waiting and u.relation == insert.relation]
            deletes = (*past, *deletes)
        if not self.same_by_key:
            return super().brought(state, insert, deletes)
        rows, key = insert.rows, next(s.key for s in self.view.slots if s.relation == insert.relation)
        for deleted in deletes:
            rows = KeyDelete(rows, deleted.rows, tuple((column, column) for column in key))
        return rows
