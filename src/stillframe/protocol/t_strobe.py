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

from typing import ClassVar

from stillframe.protocol.base import Setting
from stillframe.protocol.events import Transaction, Update
from stillframe.protocol.strobe import Strobe


class TStrobe(Strobe):
    name: ClassVar[str] = "t-strobe"
    summary: ClassVar[str] = "strobe with each transaction taken as one"

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        if setting is Setting.GLOBAL_TRANSACTIONS:
            return "none" if coordinated else "weak"
        return "strong"

    def units(self, transaction: Transaction) -> tuple[tuple[Update, ...], ...]:
        return (transaction.updates,)
