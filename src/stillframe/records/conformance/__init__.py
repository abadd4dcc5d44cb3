"""Checks that any `RecordStore` must pass.

`CHECKS` are independent functions of a maker: `make(epoch)` opens a handle of the view `ORDERS` that writes
at this epoch, `make(epoch, view)` one of another view. Handles of one view are of the same records, and work
at once in several threads. A check begins where nothing of any view is there, and raises AssertionError where
the store breaks a promise.
"""

from stillframe.records.conformance import concurrent, making, repeating, values, writing
from stillframe.records.conformance.world import ORDERS, Check, Maker, View

CHECKS: tuple[Check, ...] = (
    *writing.CHECKS,
    *values.CHECKS,
    *making.CHECKS,
    *concurrent.CHECKS,
    *repeating.CHECKS,
)

__all__ = ["CHECKS", "ORDERS", "Check", "Maker", "View"]
