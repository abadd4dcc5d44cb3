"""Complete Strobe (Strobe paper, section 6, algorithm 3).

Assumes   ordered channels and a key of every relation.
Promises  completeness for single updates; with `k` > 1, where only every k-th is installed, strong
          consistency. A transaction is processed update by update and is seen half done: then convergence.
Invariant C-T-Strobe's, with updates for transactions: this is C-T-Strobe given one update at a time.

The text takes a row to be the same when its key is, deletes from Delta by the columns the view happens to
show, and does not say that only deletes after the update in hand count. `docs/errata.md` has the cases.
"""

from __future__ import annotations

from typing import ClassVar

from stillframe.protocol.base import Setting
from stillframe.protocol.c_t_strobe import CTStrobe, Unit
from stillframe.protocol.events import Transaction


class CStrobe(CTStrobe):
    name: ClassVar[str] = "c-strobe"
    summary: ClassVar[str] = "computes each update's own effect and installs one after the other"

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        if setting in (Setting.LOCAL_TRANSACTIONS, Setting.GLOBAL_TRANSACTIONS):
            return "none" if coordinated else "convergent"
        return "complete" if self.period == 1 else "strong"

    def units(self, transaction: Transaction) -> tuple[Unit, ...]:
        return tuple(Unit(update.id, (update,)) for update in transaction.updates)
