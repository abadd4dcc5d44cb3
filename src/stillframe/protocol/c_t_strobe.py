"""Complete T-Strobe (named in section 6 of the Strobe paper, not described there): C-Strobe for transactions.

Assumes   ordered channels, a key of every relation, one message to a transaction.
Promises  completeness for source-local transactions; with `k` > 1, where only every k-th is installed,
          strong consistency. The parts of a global transaction are shown apart: weak.
Invariant the view is the view of the transactions processed. While T is processed, all later transactions
          wait in the queue. For each relation, the first thing the queue does to a row tells whether T's
          state had it: it did if that is a delete, it did not if it is an insert.

T's deletes are applied by key. For its inserts, the answers so far may lack rows the queue deletes and hold
rows the queue inserts. So for every query answered, what the queue has deleted since is put back by further
queries, in which those rows stand for their relation; all deletes of one relation go into one query. When
nothing is pending, rows that the queue brought in are taken out. Both look at whole rows, not at keys: one
key may stand for different rows before and after. So a change is gathered with every column of every
relation, and only then seen through the view.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from stillframe.algebra import Distinct, KeyDelete, Negate, Plan
from stillframe.protocol.asking import Query, begin, proceed
from stillframe.protocol.base import Need, Protocol, Setting, unit_name
from stillframe.protocol.events import (
    Action,
    Answered,
    Ask,
    Event,
    Install,
    Notified,
    Tick,
    Transaction,
    Update,
)
from stillframe.protocol.keyed import Deleted, key_columns, key_delete, surviving_inserts
from stillframe.protocol.terms import appearances, restorations, total
from stillframe.protocol.view import JoinView


@dataclass(frozen=True)
class Unit:
    """What is processed as one."""

    name: str
    updates: tuple[Update, ...]


@dataclass(frozen=True)
class Asked:
    """A query on its way, to be completed by what the queue deletes from its place `after` on."""

    query: Query
    after: int


@dataclass(frozen=True)
class Current:
    """The unit being processed: what is known of its change, in every column of every relation."""

    unit: Unit
    change: tuple[Plan, ...] = ()
    asked: tuple[Asked, ...] = ()


@dataclass(frozen=True)
class CStrobeState:
    """`working` is ahead of `view` by the units in `uninstalled`."""

    view: Plan
    working: Plan
    queue: tuple[Unit, ...] = ()
    current: Current | None = None
    uninstalled: tuple[Unit, ...] = ()


class CTStrobe(Protocol[CStrobeState]):
    name: ClassVar[str] = "c-t-strobe"
    summary: ClassVar[str] = "computes each transaction's own effect and installs one after the other"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.ORDERED_CHANNELS, Need.KEYS})
    parameters: ClassVar[Mapping[str, Any]] = {"k": 1}

    def __init__(self, view: JoinView, k: int = 1) -> None:
        self.period = k
        super().__init__(view)

    def prepare(self) -> None:
        self.keyed = self.view.with_keys
        self.gathered = self.asked_view = self.keyed.with_everything

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        if setting is Setting.GLOBAL_TRANSACTIONS:
            return "none" if coordinated else "weak"
        return "complete" if self.period == 1 else "strong"

    def units(self, transaction: Transaction) -> tuple[Unit, ...]:
        return (Unit(unit_name(transaction.updates, transaction), transaction.updates),)

    def start(self) -> CStrobeState:
        return CStrobeState(self.keyed.plan, self.keyed.plan)

    def restart(self, state: CStrobeState) -> CStrobeState:
        return CStrobeState(state.view, state.view)

    def shown(self, state: CStrobeState) -> Plan:
        return self.view.only(state.view)

    def unfinished(self, state: CStrobeState) -> bool:
        return bool(state.uninstalled)

    def step(self, state: CStrobeState, event: Event) -> tuple[CStrobeState, tuple[Action, ...]]:
        match event:
            case Notified(transaction):
                return self._advance(replace(state, queue=state.queue + self.units(transaction)))
            case Answered() if state.current:
                current, asks = self._answer(state.current, state.queue, event)
                state, more = self._advance(replace(state, current=current))
                return state, asks + more
            case Tick() if state.uninstalled:
                return self._install(state)
        return state, ()

    def _advance(self, state: CStrobeState) -> tuple[CStrobeState, tuple[Action, ...]]:
        """Completes the unit in hand and begins the next, until one waits for answers."""
        actions: tuple[Action, ...] = ()
        while True:
            if state.current is None:
                if not state.queue:
                    return state, actions
                state, asks = self._begin(state)
                actions += asks
            if state.current is not None and state.current.asked:
                return state, actions
            state, installed = self._complete(state)
            actions += installed

    def _begin(self, state: CStrobeState) -> tuple[CStrobeState, tuple[Action, ...]]:
        unit, queue = state.queue[0], state.queue[1:]
        working = state.working
        for update in unit.updates:
            if not update.insert:
                working = key_delete(self.keyed, working, Deleted(update.relation, update.rows))
        terms = [
            term
            for update in surviving_inserts(unit.updates, key_columns(self.view))
            for term in appearances(self.gathered, update.relation, update.rows)
        ]
        query = begin(self.gathered, f"Q[{unit.name}]", terms)
        current, asks = self._settle_query(Current(unit), queue, Asked(query, self.compensated_from(queue)))
        return replace(state, queue=queue, working=working, current=current), query.asked + asks

    def compensated_from(self, queue: tuple[Unit, ...]) -> int:
        """From which of the queue's updates on deletes are put back into a unit's own query: from the first,
        since the query is sent after all of them were received."""
        return 0

    def _answer(
        self, current: Current, queue: tuple[Unit, ...], event: Answered
    ) -> tuple[Current, tuple[Ask, ...]]:
        for place, asked in enumerate(current.asked):
            if asked.query.awaits(event):
                query, asks = proceed(self.gathered, asked.query, event)
                rest = current.asked[:place] + current.asked[place + 1 :]
                current, more = self._settle_query(
                    replace(current, asked=rest), queue, replace(asked, query=query)
                )
                return current, asks + more
        return current, ()

    def _settle_query(
        self, current: Current, queue: tuple[Unit, ...], asked: Asked
    ) -> tuple[Current, tuple[Ask, ...]]:
        """Keeps a query that waits; takes in what one that is done answered, and asks for what may lack."""
        if not asked.query.done:
            return replace(current, asked=(*current.asked, asked)), ()
        current = replace(current, change=_together(current.change + asked.query.answer))
        asks: tuple[Ask, ...] = ()
        for relation, rows, first in self.deleted_since(queue, asked.after):
            terms = [
                restored
                for term in asked.query.terms
                for restored in restorations(self.gathered, term, relation, rows)
            ]
            if not terms:
                continue
            query = begin(self.gathered, f"{asked.query.id}/{relation}", terms)
            current, more = self._settle_query(current, queue, Asked(query, first + 1))
            asks += query.asked + more
        return current, asks

    def deleted_since(self, queue: tuple[Unit, ...], after: int) -> list[tuple[str, Plan, int]]:
        """For each relation: the rows the queue deletes from a place on, and the place of the first."""
        rows: dict[str, list[Plan]] = {}
        first: dict[str, int] = {}
        for place, update in enumerate(_updates(queue)):
            if place >= after and not update.insert:
                rows.setdefault(update.relation, []).append(Negate(update.rows))
                first.setdefault(update.relation, place)
        return [(relation, total(found), first[relation]) for relation, found in rows.items()]

    def _complete(self, state: CStrobeState) -> tuple[CStrobeState, tuple[Action, ...]]:
        assert state.current is not None
        change = self.without_later(state)
        working = Distinct(total((state.working, *map(self.keyed.only, change)))) if change else state.working
        state = replace(
            state, working=working, current=None, uninstalled=(*state.uninstalled, state.current.unit)
        )
        return self._install(state) if len(state.uninstalled) >= self.period else (state, ())

    def without_later(self, state: CStrobeState) -> tuple[Plan, ...]:
        """The change in hand without rows that derive from what the queue was the first to bring."""
        assert state.current is not None
        change = state.current.change
        updates = _updates(state.queue)
        for place, update in enumerate(updates):
            if update.insert:
                deletes = [e for e in updates[:place] if not e.insert and e.relation == update.relation]
                rows = self.brought(state, update, tuple(deletes))
                for slot in self.gathered.slots_reading(update.relation):
                    change = tuple(KeyDelete(plan, rows, self.gathered.row_shown(slot)) for plan in change)
        return change

    def brought(self, state: CStrobeState, insert: Update, deletes: tuple[Update, ...]) -> Plan:
        """The rows an insert of the queue brings that were not there before the queue: not those the queue
        had deleted first."""
        rows = insert.rows
        for deleted in deletes:
            rows = KeyDelete(rows, deleted.rows, tuple((c, c) for c in range(len(rows.schema))))
        return rows

    def _install(self, state: CStrobeState) -> tuple[CStrobeState, tuple[Action, ...]]:
        reflected = tuple(update.id for unit in state.uninstalled for update in unit.updates)
        after = replace(state, view=state.working, uninstalled=())
        return after, (Install(self.shown(after), reflected),)


def _updates(queue: tuple[Unit, ...]) -> tuple[Update, ...]:
    return tuple(update for unit in queue for update in unit.updates)


def _together(plans: tuple[Plan, ...]) -> tuple[Plan, ...]:
    return (Distinct(total(plans)),) if plans else ()
