"""From a plan to the plan of its change: rules, the columns they need, and what each term must read."""

from stillframe.change.blocks import Block, Shape
from stillframe.change.columns import columns_read, merged
from stillframe.change.cores import Chosen, Core, Cores, Use, with_states
from stillframe.change.derive import change_of
from stillframe.change.fetches import (
    Fetch,
    Link,
    body,
    column_of,
    driver,
    fetches,
    is_driven,
    join_order,
    links,
)
from stillframe.change.first_rows import first_of_candidates, keeps_first, shown_before, unknown_partitions
from stillframe.change.invertible import (
    CHANGED,
    brought_forward,
    changed_rows,
    goes_on,
    touched_groups,
)
from stillframe.change.keywise import (
    ARRIVING,
    TOUCHED,
    Keyed,
    Keywise,
    arriving_keys,
    in_touched,
    keyed_inputs,
    over,
    shown_keys,
    touched_keys,
    untouched_change,
)
from stillframe.change.linear import terms
from stillframe.change.listing import How, how
from stillframe.change.parts import split
from stillframe.change.places import Place, Refers, numbered, places, refers_through
from stillframe.change.product import Order, in_order_written
from stillframe.change.selections import selections
from stillframe.change.states import at

__all__ = [
    "ARRIVING",
    "CHANGED",
    "TOUCHED",
    "Block",
    "Chosen",
    "Core",
    "Cores",
    "Fetch",
    "How",
    "Keyed",
    "Keywise",
    "Link",
    "Order",
    "Place",
    "Refers",
    "Shape",
    "Use",
    "arriving_keys",
    "at",
    "body",
    "brought_forward",
    "change_of",
    "changed_rows",
    "column_of",
    "columns_read",
    "driver",
    "fetches",
    "first_of_candidates",
    "goes_on",
    "how",
    "in_order_written",
    "in_touched",
    "is_driven",
    "join_order",
    "keeps_first",
    "keyed_inputs",
    "links",
    "merged",
    "numbered",
    "over",
    "places",
    "refers_through",
    "selections",
    "shown_before",
    "shown_keys",
    "split",
    "terms",
    "touched_groups",
    "touched_keys",
    "unknown_partitions",
    "untouched_change",
    "with_states",
]
