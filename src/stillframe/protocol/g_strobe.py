"""Global-Strobe (Strobe paper, 5.4): T-Strobe that never shows a global transaction in part.

Assumes   what T-Strobe assumes; that a part of a global transaction names all its parts; and, where one
          source reports for others (a coordinator), that sources number their transactions and say in each
          answer which number they had reached.
Promises  strong consistency for global transactions.
Invariant what is processed is a prefix of each source's transactions, in order; the view is installed only
          when UQS is empty, every global transaction begun is processed whole, and no answer has shown a
          transaction that is not processed.

The text installs when (1) UQS is empty, (2) what the received transactions depend on is received too, and
(3) the received transactions are received whole. Three readings of it fail. If (2) speaks only of what came
since the last installation, a transaction that depends on one already shown waits for ever. If "depends"
means touching the same rows, a transaction of a source may be shown without an earlier one. And where a
coordinator's message is late, waiting with the installation is not enough: a delete that arrives after a
later insert of the same key deletes the new row, and an answer may show a transaction nobody has reported.
So ours also waits with processing: a transaction is held until its source's earlier ones are there.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

from stillframe.algebra import Plan
from stillframe.protocol.base import Need, Protocol, Setting
from stillframe.protocol.events import Action, Answered, Event, Notified, Place, Transaction
from stillframe.protocol.strobe import Strobe, StrobeState
from stillframe.protocol.t_strobe import TStrobe
from stillframe.protocol.view import JoinView


@dataclass(frozen=True)
class GStrobeState:
    """`processed` and `seen` count transactions of each source: done here, and shown by answers. `begun`
    holds the places that global transactions processed in part still lack."""

    strobe: StrobeState
    processed: tuple[Place, ...]
    seen: tuple[Place, ...]
    installed: tuple[Place, ...]
    held: tuple[Transaction, ...] = ()
    begun: frozenset[Place] = frozenset()


class _Core(TStrobe):
    """T-Strobe's processing; when to install is decided outside."""

    def may_install(self, state: StrobeState) -> bool:
        return False

    def install(self, state: StrobeState) -> tuple[StrobeState, tuple[Action, ...]]:
        return Strobe.settle(TStrobe(self.view), state)


class GStrobe(Protocol[GStrobeState]):
    name: ClassVar[str] = "g-strobe"
    summary: ClassVar[str] = "t-strobe that shows global transactions whole or not at all"
    needs: ClassVar[frozenset[Need]] = TStrobe.needs | {Need.NAMED_PARTS}
    numbered_answers: ClassVar[bool] = True

    def __init__(self, view: JoinView) -> None:
        super().__init__(view)
        self.core = _Core(view)

    def prepare(self) -> None:
        self.asked_view = self.view.with_keys

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        return "strong"

    def start(self) -> GStrobeState:
        none = tuple((source, 0) for source in self.view.sources)
        return GStrobeState(self.core.start(), none, none, none)

    def restart(self, state: GStrobeState) -> GStrobeState:
        at = state.installed
        return GStrobeState(self.core.restart(state.strobe), at, at, at)

    def shown(self, state: GStrobeState) -> Plan:
        return self.core.shown(state.strobe)

    def step(self, state: GStrobeState, event: Event) -> tuple[GStrobeState, tuple[Action, ...]]:
        actions: tuple[Action, ...] = ()
        match event:
            case Notified(transaction) if not self._known(state, transaction):
                state, actions = self._process(replace(state, held=(*state.held, transaction)))
            case Answered(id, _, seen):
                asked = [ask.source for p in state.strobe.pending for ask in p.query.asked if ask.id == id]
                if asked and seen is not None:
                    state = replace(state, seen=_at_least(state.seen, ((asked[0], seen),)))
                strobe, actions = self.core.step(state.strobe, event)
                state = replace(state, strobe=strobe)
        if self._may_install(state):
            strobe, installed = self.core.install(state.strobe)
            return replace(state, strobe=strobe, installed=state.processed), actions + installed
        return state, actions

    def _process(self, state: GStrobeState) -> tuple[GStrobeState, tuple[Action, ...]]:
        """Processes what is held, as far as each source's order allows."""
        actions: tuple[Action, ...] = ()
        while ready := [t for t in state.held if self._is_next(state, t)]:
            transaction = ready[0]
            strobe, asks = self.core.step(state.strobe, Notified(transaction))
            processed = _at_least(state.processed, transaction.places)
            begun = frozenset(
                place for place in state.begun | set(transaction.parts) if not _counted(processed, place)
            )
            held = tuple(t for t in state.held if t is not transaction)
            state = replace(state, strobe=strobe, processed=processed, begun=begun, held=held)
            actions += asks
        return state, actions

    def _known(self, state: GStrobeState, transaction: Transaction) -> bool:
        """Whether a report has come before."""
        held = {place for other in state.held for place in other.places}
        return all(_counted(state.processed, place) or place in held for place in transaction.places)

    def _is_next(self, state: GStrobeState, transaction: Transaction) -> bool:
        return all(_count(state.processed, source) == number - 1 for source, number in transaction.places)

    def _may_install(self, state: GStrobeState) -> bool:
        return (
            not state.strobe.pending
            and not state.begun
            and all(_count(state.processed, source) >= seen for source, seen in state.seen)
        )


@dataclass(frozen=True)
class PublishedState:
    """`received` are the transactions since the last installation, with what they depend on; `lacking` the
    parts they have not brought."""

    strobe: StrobeState
    received: tuple[tuple[str, tuple[str, ...]], ...] = ()
    installed: tuple[str, ...] = ()
    lacking: frozenset[Place] = frozenset()
    places: frozenset[Place] = frozenset()


class GStrobePublished(Protocol[PublishedState]):
    """The three conditions as printed. `only_recent`: what a transaction depends on must be among those
    received since the last installation, not among all."""

    name: ClassVar[str] = "g-strobe-published"
    summary: ClassVar[str] = "g-strobe as printed: three conditions on installing, none on processing"
    needs: ClassVar[frozenset[Need]] = GStrobe.needs
    only_recent: ClassVar[bool] = True

    def __init__(self, view: JoinView) -> None:
        super().__init__(view)
        self.core = _Core(view)

    def prepare(self) -> None:
        self.asked_view = self.view.with_keys

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        return "none"

    def start(self) -> PublishedState:
        return PublishedState(self.core.start())

    def restart(self, state: PublishedState) -> PublishedState:
        return PublishedState(self.core.restart(state.strobe), installed=state.installed)

    def shown(self, state: PublishedState) -> Plan:
        return self.core.shown(state.strobe)

    def step(self, state: PublishedState, event: Event) -> tuple[PublishedState, tuple[Action, ...]]:
        if isinstance(event, Notified):
            transaction = event.transaction
            places = state.places | set(transaction.places)
            state = replace(
                state,
                received=(*state.received, (transaction.id, transaction.conflicts)),
                lacking=(state.lacking | set(transaction.parts)) - places,
                places=places,
            )
        strobe, actions = self.core.step(state.strobe, event)
        state = replace(state, strobe=strobe)
        if strobe.pending or state.lacking or not self._independent(state):
            return state, actions
        strobe, installed = self.core.install(strobe)
        names = tuple(name for name, _ in state.received)
        after = replace(state, strobe=strobe, received=(), installed=state.installed + names)
        return after, actions + installed

    def _independent(self, state: PublishedState) -> bool:
        recent = {name for name, _ in state.received}
        known = recent if self.only_recent else recent | set(state.installed)
        return all(name in known for _, needed in state.received for name in needed)


def _count(counts: tuple[Place, ...], source: str) -> int:
    return next((number for name, number in counts if name == source), 0)


def _counted(counts: tuple[Place, ...], place: Place) -> bool:
    return _count(counts, place[0]) >= place[1]


def _at_least(counts: tuple[Place, ...], places: tuple[Place, ...]) -> tuple[Place, ...]:
    reached = dict(counts)
    for source, number in places:
        reached[source] = max(reached.get(source, 0), number)
    return tuple(reached.items())
