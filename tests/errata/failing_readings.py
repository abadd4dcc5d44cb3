"""Readings of underspecified sentences that do not hold, each as an algorithm of its own: our algorithm with
one sentence read the other way."""

from __future__ import annotations

from typing import Any

from stillframe.algebra import KeyDelete
from stillframe.protocol import strobe
from stillframe.protocol.asking import begin
from stillframe.protocol.base import Setting
from stillframe.protocol.basic import Basic, Pending
from stillframe.protocol.c_strobe import CStrobe, CStrobePublished
from stillframe.protocol.events import Update
from stillframe.protocol.g_strobe import GStrobe, GStrobePublished
from stillframe.protocol.t_strobe import TStrobe
from stillframe.protocol.terms import appearances


class SameByKey(CStrobePublished):
    name = "c-strobe[same row: same key]"
    hides_columns = any_earlier_delete = False


class HiddenColumns(CStrobePublished):
    name = "c-strobe[Delta: the view's columns]"
    same_by_key = any_earlier_delete = False


class AnyEarlierDelete(CStrobePublished):
    name = "c-strobe[earlier delete: any]"
    same_by_key = hides_columns = False


class SinceSending(CStrobe):
    name = "c-strobe[received between: since the query was sent]"

    def compensated_from(self, queue: Any) -> int:
        return sum(len(unit.updates) for unit in queue)


class SameKeyInAnyRelation(TStrobe):
    name = "t-strobe[same tuple: same key in any relation]"

    def step(self, state: Any, event: Any) -> Any:
        before, strobe.surviving_inserts = strobe.surviving_inserts, _without_any_key
        try:
            return super().step(state, event)
        finally:
            strobe.surviving_inserts = before


def _without_any_key(updates: tuple[Update, ...], keys: dict[str, tuple[int, ...]]) -> tuple[Update, ...]:
    found = []
    for place, update in enumerate(updates):
        if update.insert and update.relation in keys:
            rows = update.rows
            for later in updates[place + 1 :]:
                if not later.insert and later.relation in keys:
                    on = tuple(zip(keys[update.relation], keys[later.relation], strict=True))
                    rows = KeyDelete(rows, later.rows, on)
            found.append(Update(update.id, update.relation, True, rows))
    return tuple(found)


class DependsOnSameRows(GStrobePublished):
    name = "g-strobe[depends: touches the same rows]"
    only_recent = False


class ProcessesAsTheyCome(GStrobe):
    name = "g-strobe[late reports: only installing waits]"

    def _is_next(self, state: Any, transaction: Any) -> bool:
        return True


class AnswersUnnumbered(GStrobe):
    name = "g-strobe[answers: without numbers]"
    numbered_answers = False


class OncePerAppearance(Basic):
    name = "basic[self-join: once for each appearance]"

    def claims(self, setting: Setting, *, coordinated: bool = False) -> str:
        return "none"

    def _update(self, state: Any, unit: Any, name: str) -> Any:
        terms = [term for u in unit for term in appearances(self.view, u.relation, u.rows)]
        query = begin(self.view, f"Q[{name}]", terms)
        pending = Pending(query, tuple(update.id for update in unit))
        if query.done:
            return self._install(state, pending)
        return type(state)(state.view, (*state.pending, pending)), query.asked


READINGS = (
    SameByKey,
    HiddenColumns,
    AnyEarlierDelete,
    SinceSending,
    SameKeyInAnyRelation,
    DependsOnSameRows,
    ProcessesAsTheyCome,
    AnswersUnnumbered,
    OncePerAppearance,
)
