"""What was seen of single records while managers worked, judged by the level that their views claim.

A state of the base takes a prefix of each base record's life. Within one session a base record changes at
most once, so a state says of each record that changed whether it is as it was before or as it is after.

* A record of `summed` names the state it shows, in its signature: it must be the group at that state, and no
  state comes before one seen earlier.
* One of `named`, strong as well, names no state that a reader could compare: there must be states in order,
  one for each sight, of which the join is what was seen.
* One of `least` is weak: for each sight there must be a state, in whatever order.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple
from zlib import crc32

from stillframe.records.entry import STREAMS
from stillframe.records.keeping import state_of
from stillframe.records.store import Key, Record
from stillframe.runtime import Warehouse
from stillframe.runtime.serving import Place, served_view


class Order(NamedTuple):
    region: str
    customer: int
    amount: int


@dataclass(frozen=True)
class Base:
    orders: Mapping[int, Order]
    customers: Mapping[int, str]


@dataclass(frozen=True)
class Sight:
    session: int
    record: Record


class Looker(threading.Thread):
    """Reads some records of one view over and over, as its managers see them."""

    def __init__(self, wh: Warehouse, place: Place, view: str, keys: Iterable[tuple[Any, ...]]) -> None:
        super().__init__(daemon=True)
        self.view, self.place = served_view(wh.definitions(), view), place
        self.keys = [Key(values) for values in keys]
        self.session, self.stopped = 0, threading.Event()
        self.seen: dict[Key, list[Sight]] = {key: [] for key in self.keys}

    def run(self) -> None:
        with self.place.open(self.view) as store:
            while not self.stopped.wait(0.01):
                session = self.session
                for key, record in zip(self.keys, store.read(self.keys), strict=True):
                    sights = self.seen[key]
                    if not sights or sights[-1].record.version != record.version:
                        sights.append(Sight(session, record))

    def sights(self, session: int) -> dict[Key, list[Record]]:
        """Of one session: what was seen, the state that it began with first."""
        return {
            key: [one.record for one in sights if one.session == session] for key, sights in self.seen.items()
        }


def judged(view: str, seen: Mapping[Key, Sequence[Record]], before: Base, after: Base, session: int) -> int:
    """How many sights are of no state that the view's level allows there."""
    judge = {"summed": _summed, "least": _least, "named": _named}[view]
    return sum(judge(key, records, before, after, session) for key, records in seen.items())


def _summed(key: Key, records: Sequence[Record], before: Base, after: Base, session: int) -> int:
    places = _places(before, after)
    wrong, last = 0, dict[int, int]()
    for state in (state_of(record.kept) for record in records if record.kept):
        if state.signature.session != session:
            continue
        marks = dict(state.signature.marks)
        rows = dict(before.orders)
        for number, (stream, place) in places.items():
            if place <= marks.get(stream, -1):
                rows.pop(number, None)
                rows.update({number: after.orders[number]} if number in after.orders else {})
        amounts = [row.amount for row in rows.values() if row.region == key.values[0]]
        in_order = all(marks.get(stream, -1) >= mark for stream, mark in last.items())
        data: Any = state.data
        wrong += data[0] != len(amounts) or data[1][0][0] != sum(amounts) or not in_order
        last = marks
    return wrong


def _places(before: Base, after: Base) -> dict[int, tuple[int, int]]:
    """Of each order that changed: its stream, and its place there."""
    found: dict[int, tuple[int, int]] = {}
    counts: dict[int, int] = {}
    for number in sorted(before.orders.keys() | after.orders.keys()):
        if before.orders.get(number) != after.orders.get(number):
            stream = crc32(str(number).encode()) % STREAMS
            found[number] = (stream, counts.get(stream, 0))
            counts[stream] = counts.get(stream, 0) + 1
    return found


def _least(key: Key, records: Sequence[Record], before: Base, after: Base, session: int) -> int:
    lives = [
        [_amount(base.orders.get(number), key.values[0]) for base in (before, after)]
        for number in before.orders.keys() | after.orders.keys()
    ]
    wrong = 0
    for record in records:
        least = None if record.shown is None else record.shown[1]
        avoidable = all(
            any(amount is None or (least is not None and amount >= least) for amount in life)
            for life in lives
        )
        wrong += not (avoidable and (least is None or any(least in life for life in lives)))
    return wrong


def _amount(order: Order | None, region: str) -> int | None:
    return order.amount if order is not None and order.region == region else None


def _named(key: Key, records: Sequence[Record], before: Base, after: Base, session: int) -> int:
    """A state is which of the two orders there is, and which of the two names each customer has."""
    number = key.values[0]
    lives = [base.orders.get(number) for base in (before, after)]
    reached = {(0, 0)}
    wrong = 0
    for record in records:
        reached = {
            (order, names)
            for order in (0, 1)
            for names in (0, 1)
            if any(order >= earlier and names >= named for earlier, named in reached)
            and record.shown == _joined(number, lives[order], (before, after)[names].customers)
        }
        if not reached:
            return wrong + 1
    return wrong


def _joined(number: int, order: Order | None, customers: Mapping[int, str]) -> tuple[Any, ...] | None:
    return None if order is None else (number, order.amount, customers[order.customer])
