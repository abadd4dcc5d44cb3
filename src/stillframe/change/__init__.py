"""From a plan to the plan of its change: rules, the columns they need, and what each term must read."""

from stillframe.change.columns import columns_read, merged
from stillframe.change.derive import change_of
from stillframe.change.fetches import Fetch, Link, body, driver, fetches, join_order
from stillframe.change.keywise import (
    TOUCHED,
    Keywise,
    in_touched,
    keyed_inputs,
    over,
    shown_keys,
    touched_keys,
)
from stillframe.change.linear import terms
from stillframe.change.parts import split
from stillframe.change.states import at

__all__ = [
    "TOUCHED",
    "Fetch",
    "Keywise",
    "Link",
    "at",
    "body",
    "change_of",
    "columns_read",
    "driver",
    "fetches",
    "in_touched",
    "join_order",
    "keyed_inputs",
    "merged",
    "over",
    "shown_keys",
    "split",
    "terms",
    "touched_keys",
]
