"""Evaluating a query that spans sources: `next_source` and `source_evaluate` of the Strobe paper, 5.1.

A query is answered in rounds. In each, every term goes to a source that can join it with what is already
known; terms that go to the same source travel in one message, and terms that bind the same slots, and will
read the others at the same moments, come back as one bag. A term with no free slot left is no question: the
warehouse evaluates it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from stillframe.algebra import Call, Moment, Plan, Scalar
from stillframe.protocol.events import Answered, Ask
from stillframe.protocol.terms import Question, Term, answer_part, free_slots, term_plan
from stillframe.protocol.view import JoinView


@dataclass(frozen=True)
class Query:
    """`terms` is what was asked; `asked` is what is on its way; `answer` holds the rows that have come."""

    id: str
    terms: tuple[Term, ...]
    asked: tuple[Ask, ...]
    answer: tuple[Plan, ...] = ()

    @property
    def done(self) -> bool:
        return not self.asked

    def awaits(self, event: Answered) -> bool:
        return any(ask.is_answered_by(event) for ask in self.asked)


def begin(view: JoinView, id: str, terms: Iterable[Term]) -> Query:
    terms = tuple(terms)
    asks, local = route(view, id, terms)
    return Query(id, terms, asks, local)


def proceed(view: JoinView, query: Query, event: Answered) -> tuple[Query, tuple[Ask, ...]]:
    """The query after one answer, and what must be asked next."""
    answered = next(ask for ask in query.asked if ask.is_answered_by(event))
    rows, terms = list[Plan](), list[Term]()
    for question, answer in zip(answered.questions, event.answers, strict=True):
        if frozenset(question.covers) == view.everything:
            rows.append(answer)
        else:
            terms.append(Term((answer_part(view, question, answer),), 1, question.terms[0].at))
    asks, local = route(view, answered.id, terms)
    kept = tuple(ask for ask in query.asked if ask is not answered)
    return replace(query, asked=kept + asks, answer=query.answer + tuple(rows) + local), asks


def route(view: JoinView, id: str, terms: Iterable[Term]) -> tuple[tuple[Ask, ...], tuple[Plan, ...]]:
    """The messages that take terms one step further, one to a source, and the terms that need none."""
    local = list[Plan]()
    groups: dict[str, dict[tuple[tuple[int, ...], tuple[Moment, ...]], list[Term]]] = {}
    for term in terms:
        if term.bound == view.everything:
            local.append(term_plan(view, term, view.everything))
            continue
        source, covers = next_source(view, term)
        groups.setdefault(source, {}).setdefault((covers, term.at), []).append(term)
    asks = tuple(
        Ask(
            f"{id}.{source}",
            source,
            tuple(Question(covers, tuple(same)) for (covers, _), same in sorted(found.items())),
        )
        for source, found in sorted(groups.items())
    )
    return asks, tuple(local)


def next_source(view: JoinView, term: Term) -> tuple[str, tuple[int, ...]]:
    """Where a term goes next, and the slots it binds after that: a source with a relation that can be joined
    to what is known, and there all relations that can; at the last source, all that are left, so that a query
    of one source is one question. A change in a log is where a term begins."""
    free = free_slots(view, term)
    changes = [slot for slot in sorted(free) if term.at and term.at[slot] == Moment.CHANGE]
    known = term.bound
    reachable = changes or _reachable(view, free, known)
    source = view.slots[min(reachable or free)].source
    here = {slot for slot in free if view.slots[slot].source == source}
    if here == free:
        return source, tuple(sorted(view.everything))
    covered = known | ({min(reachable)} if reachable else {min(here)})
    while more := set(_reachable(view, frozenset(here - covered), covered)):
        covered |= more
    return source, tuple(sorted(covered))


def _reachable(view: JoinView, free: frozenset[int], known: frozenset[int]) -> list[int]:
    """The free slots that a condition connects with what is known; by an equality, if there are such."""
    joined = [slot for slot in sorted(free) if _joins(view, slot, known)]
    return [slot for slot in joined if _joins(view, slot, known, equality=True)] or joined


def _joins(view: JoinView, slot: int, known: frozenset[int] | set[int], *, equality: bool = False) -> bool:
    return any(
        slot in read and read & known and (not equality or _is_equality(condition))
        for condition, read in view.conditions_on
    )


def _is_equality(condition: Scalar) -> bool:
    return isinstance(condition, Call) and condition.function in ("=", "<=>")
