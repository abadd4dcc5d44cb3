"""Protocols with one deliberate mistake each. A battery that lets one pass is too tame."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from stillframe.algebra import Moment
from stillframe.protocol import c_t_strobe, eca_key, strobe, tid
from stillframe.protocol.c_strobe import CStrobe
from stillframe.protocol.c_t_strobe import CTStrobe
from stillframe.protocol.eca import Eca
from stillframe.protocol.eca_key import EcaKey
from stillframe.protocol.eca_local import EcaLocal
from stillframe.protocol.events import Install, Notified, Update
from stillframe.protocol.g_strobe import GStrobe
from stillframe.protocol.lca import Lca
from stillframe.protocol.rv import Rv
from stillframe.protocol.sc import Sc, ScState
from stillframe.protocol.strobe import Strobe
from stillframe.protocol.t_strobe import TStrobe
from stillframe.protocol.terms import Term, total
from stillframe.protocol.tid import Tid


class EcaWithoutCompensation(Eca):
    def compensation(self, state: Any, changes: Any) -> tuple[Term, ...]:
        return ()


class EcaCompensatesTheWrongWay(Eca):
    def compensation(self, state: Any, changes: Any) -> tuple[Term, ...]:
        return tuple(term.negated() for term in super().compensation(state, changes))


class EcaCompensatesTheLastQueryOnly(Eca):
    def compensation(self, state: Any, changes: Any) -> tuple[Term, ...]:
        return super().compensation(replace(state, unanswered=state.unanswered[-1:]), changes)


class EcaInstallsEarly(Eca):
    def settle(self, state: Any) -> Any:
        view = total((state.view, *state.collect))
        return replace(state, view=view, collect=(), collected=()), (Install(view, state.collected),)


class EcaKeyForgetsDeletes(EcaKey):
    remembers_deletes = False


class EcaKeyInstallsEarly(EcaKey):
    def settle(self, state: Any) -> Any:
        return replace(state, view=state.collect, collected=()), (Install(state.collect, state.collected),)


class EcaLocalForgetsWhatTermsCarry(EcaLocal):
    def _delete(self, state: Any, deleted: Any) -> Any:
        return replace(super()._delete(state, deleted), unanswered=state.unanswered)


class LcaAppliesWhateverIsKnown(Lca):
    def settle(self, state: Any) -> Any:
        on_their_way = {owner for sent in state.unanswered for owner in sent.owners}
        ready = [e for e in reversed(state.effects) if e.owner not in on_their_way]
        actions: tuple[Any, ...] = ()
        for effect in ready:
            view = total((state.view, *effect.rows))
            state = replace(state, view=view, effects=tuple(e for e in state.effects if e is not effect))
            actions += (Install(view, effect.updates),)
        return state, actions


class StrobeForgetsPendingDeletes(Strobe):
    def _update(self, state: Any, unit: Any, name: str) -> Any:
        after, actions = super()._update(state, unit, name)
        return replace(after, pending=tuple(replace(p, deletes=()) for p in after.pending)), actions


class StrobeInstallsEarly(Strobe):
    def may_install(self, state: Any) -> bool:
        return True


class StrobeLeavesDeletesOutOfTheList(Strobe):
    def _update(self, state: Any, unit: Any, name: str) -> Any:
        after, actions = super()._update(state, unit, name)
        return (after if unit[0].insert else replace(after, working=state.working)), actions


class TStrobeKeepsWhatATransactionUndid(TStrobe):
    def step(self, state: Any, event: Any) -> Any:
        with _patched(strobe, "surviving_inserts", _every_insert):
            return super().step(state, event)


class GStrobeShowsHalves(GStrobe):
    def _may_install(self, state: Any) -> bool:
        return super()._may_install(replace(state, begun=frozenset()))


class GStrobeProcessesInAnyOrder(GStrobe):
    def _is_next(self, state: Any, transaction: Any) -> bool:
        return True


class GStrobeTrustsEveryAnswer(GStrobe):
    numbered_answers = False


class CStrobeDoesNotRestore(CStrobe):
    def deleted_since(self, queue: Any, after: int) -> Any:
        return []


class CStrobeKeepsWhatCameLater(CStrobe):
    def without_later(self, state: Any) -> Any:
        return state.current.change


class CStrobeSendsTooLate(CStrobe):
    def compensated_from(self, queue: Any) -> int:
        return sum(len(unit.updates) for unit in queue)


class CTStrobeTakesSamenessByKey(CTStrobe):
    def brought(self, state: Any, insert: Any, deletes: Any) -> Any:
        key = next(slot.key for slot in self.view.slots if slot.relation == insert.relation)
        rows = insert.rows
        for deleted in deletes:
            rows = c_t_strobe.KeyDelete(rows, deleted.rows, tuple((c, c) for c in key))
        return rows


class ScLooksAtOldCopies(Sc):
    def step(self, state: Any, event: Any) -> Any:
        after, actions = super().step(state, event)
        if isinstance(event, Notified):
            stale = super().step(ScState(state.view, after.copies), event)
            return ScState(stale[0].view, after.copies), stale[1]
        return after, actions


class RvNeverCatchesUp(Rv):
    def __init__(self, view: Any, s: int = 2) -> None:
        super().__init__(view, s)

    def unfinished(self, state: Any) -> bool:
        return False


class TidReadsEverythingAfter(Tid):
    def _terms(self, state: Any) -> Any:
        with _patched(tid, "_moment", lambda slot, changed: _after(slot == changed)):
            return super()._terms(state)


PLANTED: tuple[type[Any], ...] = (
    EcaWithoutCompensation,
    EcaCompensatesTheWrongWay,
    EcaCompensatesTheLastQueryOnly,
    EcaInstallsEarly,
    EcaKeyForgetsDeletes,
    EcaKeyInstallsEarly,
    EcaLocalForgetsWhatTermsCarry,
    LcaAppliesWhateverIsKnown,
    StrobeForgetsPendingDeletes,
    StrobeInstallsEarly,
    StrobeLeavesDeletesOutOfTheList,
    TStrobeKeepsWhatATransactionUndid,
    GStrobeShowsHalves,
    GStrobeProcessesInAnyOrder,
    GStrobeTrustsEveryAnswer,
    CStrobeDoesNotRestore,
    CStrobeKeepsWhatCameLater,
    CStrobeSendsTooLate,
    CTStrobeTakesSamenessByKey,
    ScLooksAtOldCopies,
    RvNeverCatchesUp,
    TidReadsEverythingAfter,
)


def _after(is_change: bool) -> Moment:
    return Moment.CHANGE if is_change else Moment.AFTER


def _every_insert(updates: tuple[Update, ...], keys: Any) -> tuple[Update, ...]:
    return tuple(update for update in updates if update.insert and update.relation in keys)


class WithoutDuplicateElimination:
    """Mix-in: rows that come twice stay twice."""

    module: Any

    def step(self, state: Any, event: Any) -> Any:
        with _patched(self.module, "add_new", lambda plan, rows: total((plan, *rows))):
            return super().step(state, event)  # type: ignore[misc]


class EcaKeyKeepsDuplicates(WithoutDuplicateElimination, EcaKey):
    module = eca_key


class StrobeKeepsDuplicates(WithoutDuplicateElimination, Strobe):
    module = strobe


PLANTED += (EcaKeyKeepsDuplicates, StrobeKeepsDuplicates)


class _patched:
    def __init__(self, module: Any, name: str, value: Any) -> None:
        self.module, self.name, self.value = module, name, value

    def __enter__(self) -> None:
        self.before = getattr(self.module, self.name)
        setattr(self.module, self.name, self.value)

    def __exit__(self, *_: object) -> None:
        setattr(self.module, self.name, self.before)
