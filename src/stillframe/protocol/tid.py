"""Maintenance by transaction ids (the multi-source paper, section 5): compute with named states, not with
whatever a source holds when a query arrives.

Assumes   each source logs its changes with the ids of their transactions, so that it can evaluate a query on
          any state between the last session and now. Nothing of channels: notifications are only hints.
Promises  strong consistency for source-local transactions; a session may begin between the parts of a global
          one: then weak.
Invariant a session fixes, for every source, the states before and after it; everything it asks is answered on
          those two, however often it is asked and whatever happens meanwhile.

The change of the view between the two states is the sum, over its slots, of the term that reads slots before
this one after the session, this one's change, and slots behind it before the session (`docs/errata.md` says
why not by the text's ADD and DEL).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import ClassVar

from stillframe.algebra import Moment, Monus, Plan
from stillframe.protocol.asking import Query, begin, proceed
from stillframe.protocol.base import Need, Protocol, Setting
from stillframe.protocol.events import (
    Action,
    Answered,
    Ask,
    AskPosition,
    Event,
    Install,
    Notified,
    Place,
    Positioned,
    Tick,
)
from stillframe.protocol.terms import Term, total


@dataclass(frozen=True)
class TidState:
    """`since` is where the view stands; `until` grows as the sources tell where they stand. `asked` are the
    sources that have not told yet. (`removed` is for the printed form, which asks for deletes first.)"""

    view: Plan
    since: tuple[Place, ...]
    session: int = 0
    until: tuple[Place, ...] = ()
    asked: tuple[str, ...] = ()
    query: Query | None = None
    again: bool = False
    removed: tuple[Plan, ...] = ()

    @property
    def idle(self) -> bool:
        return not self.asked and self.query is None


class Tid(Protocol[TidState]):
    name: ClassVar[str] = "tid"
    summary: ClassVar[str] = "fixes two states of every source and computes the change between them"
    needs: ClassVar[frozenset[Need]] = frozenset({Need.TRANSACTION_LOGS})

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        return "weak" if setting is Setting.GLOBAL_TRANSACTIONS else "strong"

    def start(self) -> TidState:
        return TidState(self.view.plan, tuple((source, 0) for source in self.view.sources))

    def restart(self, state: TidState) -> TidState:
        return TidState(state.view, state.since)

    def shown(self, state: TidState) -> Plan:
        return state.view

    def step(self, state: TidState, event: Event) -> tuple[TidState, tuple[Action, ...]]:
        match event:
            case Notified():
                return self._session(state) if state.idle else (replace(state, again=True), ())
            case Tick():
                return self._session(state)
            case Positioned(id, source, mark) if source in state.asked and id == _position_id(state, source):
                until = (*state.until, (source, mark))
                asked = tuple(name for name in state.asked if name != source)
                state = replace(state, until=until, asked=asked)
                return (state, ()) if asked else self._compute(state)
            case Answered() if state.query and state.query.awaits(event):
                query, asks = proceed(self.view, state.query, event)
                if not query.done:
                    return replace(state, query=query), self._with_marks(state, asks)
                return self._install(replace(state, query=query))
        return state, ()

    def _session(self, state: TidState) -> tuple[TidState, tuple[Action, ...]]:
        """Begins a session; whatever an unfinished one still hears of is not awaited any more."""
        begun = TidState(state.view, state.since, state.session + 1, (), self.view.sources)
        asks = tuple(AskPosition(_position_id(begun, source), source) for source in begun.asked)
        return begun, asks

    def _compute(self, state: TidState) -> tuple[TidState, tuple[Action, ...]]:
        if dict(state.until) == dict(state.since):
            return self._idle(state)
        query = begin(self.view, f"S{state.session}", self._terms(state))
        if query.done:
            return self._install(replace(state, query=query))
        return replace(state, query=query), self._with_marks(state, query.asked)

    def _terms(self, state: TidState) -> tuple[Term, ...]:
        moved = {source for source, mark in state.until if mark != dict(state.since)[source]}
        slots = range(len(self.view.slots))
        return tuple(
            Term((), 1, tuple(_moment(slot, changed) for slot in slots))
            for changed in slots
            if self.view.slots[changed].source in moved
        )

    def _with_marks(self, state: TidState, asks: tuple[Ask, ...]) -> tuple[Ask, ...]:
        since, until = dict(state.since), dict(state.until)
        return tuple(replace(ask, since=since[ask.source], until=until[ask.source]) for ask in asks)

    def _install(self, state: TidState) -> tuple[TidState, tuple[Action, ...]]:
        assert state.query is not None
        return self._installed(state, total((state.view, *state.query.answer)))

    def _installed(self, state: TidState, view: Plan) -> tuple[TidState, tuple[Action, ...]]:
        reached = tuple((source, dict(state.until)[source]) for source, _ in state.since)
        reflected = tuple(
            (source, number)
            for source, before in state.since
            for number in range(before + 1, dict(reached)[source] + 1)
        )
        state, asks = self._idle(replace(state, view=view, since=reached))
        return state, (Install(view, places=reflected), *asks)

    def _idle(self, state: TidState) -> tuple[TidState, tuple[Action, ...]]:
        if state.again:
            return self._session(state)
        return TidState(state.view, state.since, state.session), ()


class TidPublished(Tid):
    """With ADD and DEL of figure 2 and the states of equations (2) and (3): a row that a session both
    inserts and deletes is in both logs, and difference cut off at zero does not undo what it never had."""

    name: ClassVar[str] = "tid-published"
    summary: ClassVar[str] = "tid as printed: inserts and deletes apart, logs not netted, plain reads"

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        return "none"

    def _compute(self, state: TidState) -> tuple[TidState, tuple[Action, ...]]:
        if dict(state.until) == dict(state.since):
            return self._idle(state)
        return self._ask_side(state, "del")

    def _ask_side(self, state: TidState, side: str) -> tuple[TidState, tuple[Action, ...]]:
        query = begin(self.view, f"S{state.session}-{side}", self._terms(state))
        if query.done:
            return self._install(replace(state, query=query))
        return replace(state, query=query), self._with_marks(state, query.asked, side)

    def _terms(self, state: TidState) -> tuple[Term, ...]:
        """One term for every set of slots that change together; the others are what neither came nor
        went."""
        moved = {source for source, mark in state.until if mark != dict(state.since)[source]}
        slots = range(len(self.view.slots))
        changing = [slot for slot in slots if self.view.slots[slot].source in moved]
        sets = chain.from_iterable(combinations(changing, n) for n in range(1, len(changing) + 1))
        kept, change = Moment.BEFORE, Moment.CHANGE
        return tuple(Term((), 1, tuple(change if s in chosen else kept for s in slots)) for chosen in sets)

    def _with_marks(self, state: TidState, asks: tuple[Ask, ...], side: str = "") -> tuple[Ask, ...]:
        side = side or ("add" if state.removed else "del")
        return tuple(replace(ask, side=side) for ask in super()._with_marks(state, asks))

    def _install(self, state: TidState) -> tuple[TidState, tuple[Action, ...]]:
        assert state.query is not None
        if not state.removed:
            removed = (total(state.query.answer),)
            return self._ask_side(replace(state, query=None, removed=removed), "add")
        view = total((Monus(state.view, state.removed[0]), *state.query.answer))
        return self._installed(replace(state, removed=()), view)


def _moment(slot: int, changed: int) -> Moment:
    if slot == changed:
        return Moment.CHANGE
    return Moment.AFTER if slot < changed else Moment.BEFORE


def _position_id(state: TidState, source: str) -> str:
    return f"P{state.session}.{source}"
