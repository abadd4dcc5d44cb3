"""Transaction-Strobe (Strobe paper, 5.3, algorithm 2): Strobe with a transaction's updates taken as one.

Assumes   what Strobe assumes, and that one message reports one transaction.
Promises  strong consistency for source-local transactions. The parts of a global transaction that arrive
          apart may be seen apart: then weak consistency.
Invariant Strobe's, with transactions for updates.

Rows that a transaction inserts and deletes again are not asked about. The text says so of equal keys; it must
mean keys of the same relation. It leaves out their deletes too; ours applies them, which costs nothing and
keeps batches of several transactions convergent.
"""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from stillframe.algebra import KeyDelete
from stillframe.protocol.base import Setting
from stillframe.protocol.events import Action, Transaction, Update
from stillframe.protocol.keyed import key_columns
from stillframe.protocol.strobe import Strobe, StrobeState


class TStrobe(Strobe):
    name: ClassVar[str] = "t-strobe"
    summary: ClassVar[str] = "strobe with each transaction taken as one"

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        if setting is Setting.GLOBAL_TRANSACTIONS:
            return "none" if coordinated else "weak"
        return "strong"

    def units(self, transaction: Transaction) -> tuple[tuple[Update, ...], ...]:
        return (transaction.updates,)


class TStrobePublished(TStrobe):
    """Algorithm 2 as printed: of a row inserted and then deleted, the delete is left out too. Within one
    transaction that changes nothing; in a batch it does."""

    name: ClassVar[str] = "t-strobe-published"
    summary: ClassVar[str] = "t-strobe as printed: a delete of what the transaction inserted is left out"

    def process(self, state: StrobeState, transaction: Transaction) -> tuple[StrobeState, tuple[Action, ...]]:
        return super().process(state, replace(transaction, updates=self._left(transaction.updates)))

    def _left(self, updates: tuple[Update, ...]) -> tuple[Update, ...]:
        left, keys = [], key_columns(self.view)
        for place, update in enumerate(updates):
            rows = update.rows
            for other in updates[:place]:
                if other.insert and not update.insert and other.relation == update.relation in keys:
                    rows = KeyDelete(rows, other.rows, tuple((k, k) for k in keys[update.relation]))
            left.append(replace(update, rows=rows))
        return tuple(left)
