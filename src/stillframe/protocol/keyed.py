"""Deleting by key, and adding without duplicates: what keys in the view make possible.

Law: if the view shows the key of a relation, the rows of the view that derive from one row of the relation
are exactly those that show its key. With the keys of all relations a view holds no row twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from stillframe.algebra import Distinct, KeyDelete, Plan
from stillframe.protocol.events import Update
from stillframe.protocol.terms import total
from stillframe.protocol.view import JoinView


@dataclass(frozen=True)
class Deleted:
    """Rows that went from a relation; only their keys matter."""

    relation: str
    rows: Plan


def key_delete(view: JoinView, plan: Plan, deleted: Deleted) -> Plan:
    """The rows of a plan with the view's columns, without those that derive from deleted ones."""
    for slot in view.slots_reading(deleted.relation):
        on = view.key_shown(slot)
        assert on is not None, "the protocol checked that the view shows this key"
        plan = KeyDelete(plan, deleted.rows, on)
    return plan


def key_delete_all(view: JoinView, plan: Plan, deletes: Iterable[Deleted]) -> Plan:
    for deleted in deletes:
        plan = key_delete(view, plan, deleted)
    return plan


def add_new(plan: Plan, rows: tuple[Plan, ...]) -> Plan:
    """The rows of all, each once."""
    return Distinct(total((plan, *rows))) if rows else plan


def surviving_inserts(updates: tuple[Update, ...], keys: dict[str, tuple[int, ...]]) -> tuple[Update, ...]:
    """The inserted rows of a transaction that it does not itself delete again, by key and relation."""
    found = []
    for place, update in enumerate(updates):
        if not update.insert or update.relation not in keys:
            continue
        rows = update.rows
        for later in updates[place + 1 :]:
            if not later.insert and later.relation == update.relation:
                rows = KeyDelete(rows, later.rows, tuple((k, k) for k in keys[update.relation]))
        found.append(Update(update.id, update.relation, True, rows))
    return tuple(found)


def key_columns(view: JoinView) -> dict[str, tuple[int, ...]]:
    return {slot.relation: slot.key for slot in view.slots}
