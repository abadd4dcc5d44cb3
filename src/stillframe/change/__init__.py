"""From a plan to the plan of its change: rules, the columns they need, and what each term must read."""

from stillframe.change.columns import columns_read, merged
from stillframe.change.derive import change_of
from stillframe.change.fetches import Fetch, Link, body, driver, fetches, join_order
from stillframe.change.linear import terms
from stillframe.change.states import at

__all__ = [
    "Fetch",
    "Link",
    "at",
    "body",
    "change_of",
    "columns_read",
    "driver",
    "fetches",
    "join_order",
    "merged",
    "terms",
]
