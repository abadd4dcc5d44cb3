"""Queries as sums of terms. A term is the view with some slots bound to rows the warehouse holds; the other
slots are read at their sources.

Law (the difference of a term): let a transaction change relations by signed bags u. On the state after it,
    T[after] - T[before] = sum over non-empty sets S of free slots that u changes of (-1)^(|S|+1) T[S := u].
With distinct relations and a single update this is one term, written T<U> in the literature.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import chain, combinations

from stillframe.algebra import Join, Moment, Negate, Output, Plan, Project, Ref, Scan, UnionAll
from stillframe.algebra.scalar import map_refs
from stillframe.protocol.view import JoinView


@dataclass(frozen=True)
class Part:
    """Rows that stand for some slots. `columns` are the places their values come from; `checked` says that
    the conditions among these slots have been tested."""

    slots: tuple[int, ...]
    columns: tuple[int, ...]
    rows: Plan
    checked: bool = False


@dataclass(frozen=True)
class Term:
    """`at` gives for each slot the moment at which it is read, where that is not simply now."""

    parts: tuple[Part, ...] = ()
    sign: int = 1
    at: tuple[Moment, ...] = ()

    @property
    def bound(self) -> frozenset[int]:
        return frozenset(slot for part in self.parts for slot in part.slots)

    def negated(self) -> Term:
        return replace(self, sign=-self.sign)


@dataclass(frozen=True)
class Question:
    """What one source is asked: the terms' products, extended to the slots in `covers`, added up."""

    covers: tuple[int, ...]
    terms: tuple[Term, ...]


def bind(view: JoinView, term: Term, rows: Mapping[int, Plan]) -> Term:
    """The term with further slots bound to rows of their relations."""
    added = tuple(Part((slot,), view.places(slot), plan) for slot, plan in sorted(rows.items()))
    return replace(term, parts=term.parts + added)


def free_slots(view: JoinView, term: Term) -> frozenset[int]:
    return view.everything - term.bound


def difference(view: JoinView, term: Term, changes: Mapping[str, Plan]) -> tuple[Term, ...]:
    """T[after] - T[before], to be read on the state after."""
    free = [slot for slot in sorted(free_slots(view, term)) if view.slots[slot].relation in changes]
    terms = []
    for chosen in _non_empty_subsets(free):
        made = bind(view, term, {slot: changes[view.slots[slot].relation] for slot in chosen})
        terms.append(made if len(chosen) % 2 else made.negated())
    return tuple(terms)


def appearances(view: JoinView, relation: str, rows: Plan) -> tuple[Term, ...]:
    """The view with the rows in each slot of their relation, one slot at a time: every row of the view that
    such a row takes part in, if the rows are in the relation."""
    return tuple(bind(view, Term(), {slot: rows}) for slot in view.slots_reading(relation))


def restorations(view: JoinView, term: Term, relation: str, rows: Plan) -> tuple[Term, ...]:
    """The products of a term in which rows missing from their relation stand in some of its free slots."""
    free = [slot for slot in sorted(free_slots(view, term)) if view.slots[slot].relation == relation]
    return tuple(bind(view, term, dict.fromkeys(chosen, rows)) for chosen in _non_empty_subsets(free))


def _non_empty_subsets(slots: list[int]) -> Iterator[tuple[int, ...]]:
    return chain.from_iterable(combinations(slots, size) for size in range(1, len(slots) + 1))


def answer_part(view: JoinView, question: Question, rows: Plan) -> Part:
    """The answer to a question that did not cover the whole view."""
    return Part(question.covers, view.needed(frozenset(question.covers)), rows, checked=True)


def question_plan(view: JoinView, question: Question) -> Plan:
    """What a question asks for: the view's own columns if it covers every slot, else the columns that are
    still needed."""
    plans = tuple(term_plan(view, term, frozenset(question.covers)) for term in question.terms)
    return plans[0] if len(plans) == 1 else UnionAll(plans)


def term_plan(view: JoinView, term: Term, covers: frozenset[int]) -> Plan:
    free = sorted(covers - term.bound)
    inputs = [part.rows for part in term.parts] + [_scan(view, term, slot) for slot in free]
    at: dict[int, int] = {}
    width = 0
    for places in chain((part.columns for part in term.parts), map(view.places, free)):
        at |= {place: width + i for i, place in enumerate(places)}
        width += len(places)

    def moved(ref: Ref) -> Ref:
        return Ref(at[ref.position], ref.column_type, ref.name)

    tested = [frozenset(part.slots) for part in term.parts if part.checked]
    conditions = tuple(
        map_refs(condition, moved)
        for condition, read in view.conditions_on
        if read <= covers and not any(read <= slots for slots in tested)
    )
    if covers == view.everything:
        outputs = tuple(Output(o.name, map_refs(o.scalar, moved)) for o in view.outputs)
    else:
        columns = [view.columns[place] for place in view.needed(covers)]
        outputs = tuple(Output(f"{c.name}_{c.position}", moved(c)) for c in columns)
    plan: Plan = Project(Join(tuple(inputs), conditions), outputs)
    return plan if term.sign > 0 else Negate(plan)


def _scan(view: JoinView, term: Term, slot: int) -> Scan:
    scan = view.slots[slot].scan
    return replace(scan, at=term.at[slot]) if term.at else scan


def total(plans: Iterable[Plan]) -> Plan:
    """The sum of plans with the same columns."""
    every = tuple(plans)
    return every[0] if len(every) == 1 else UnionAll(every)
